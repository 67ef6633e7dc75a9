//! What goes when room is short, and what stays.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{BLOCK, Fixture, file, group, locate, mooncake, start};
use kvcm_cache::{Config, LocateRequest, Mask, Permit, QueryType, StartRequest, View};
use kvcm_clock::{Clock, ManualClock, TokioTimer, VirtualClock};
use kvcm_registry::{Group, StorageType, TypeQuota};

struct Bench {
    f: Fixture,
    clock: ManualClock,
}

impl std::ops::Deref for Bench {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.f
    }
}

/// The mark at a half, and room for a hundred blocks.
fn half(group: &mut Group) {
    let reclaim = &mut group.cache_config.reclaim_strategy;
    reclaim.trigger_strategy.used_percentage = 0.5;
    group.quota.capacity = 100 * BLOCK;
}

impl Bench {
    /// Two instances in a group whose only storage deletes by itself.
    async fn new(change: impl FnOnce(&mut Group)) -> Self {
        let clock = ManualClock::default();
        let f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
        f.registry.add_storage(mooncake("mc")).await.unwrap();
        let mut group = group(&["mc"]);
        change(&mut group);
        f.registry.create_group(group).await.unwrap();
        f.register("i1", &["tp0"], &[]).await;
        f.register("i2", &["tp0"], &[]).await;
        Self { f, clock }
    }

    async fn write_to(&self, instance: &str, keys: &[i64]) {
        let request = StartRequest {
            instance_id: instance,
            ..start(keys)
        };
        let started = self.cache.start_write(&request).await.unwrap();
        let finish = kvcm_cache::FinishRequest {
            instance_id: instance,
            session_id: started.session_id.as_str(),
            success_blocks: Some(Mask::Offset(keys.len() as i32)),
            request: None,
        };
        self.cache.finish_write(&finish).await.unwrap();
    }

    fn read(&self, instance: &str, keys: &[i64]) -> usize {
        let request = LocateRequest {
            instance_id: instance,
            ..locate(QueryType::PrefixMatch, keys)
        };
        let mut count = 0;
        let mut sink = |_: &View<'_>| count += 1;
        self.cache.locate(&request, &mut sink).unwrap();
        count
    }

    /// Which of these keys can be read; looking is no use of them.
    fn serving(&self, keys: std::ops::Range<i64>) -> Vec<i64> {
        let all: Vec<i64> = keys.collect();
        let states = self.states(&all);
        let there = all.iter().zip(states);
        there
            .filter(|(_, state)| *state == "SERVING")
            .map(|(key, _)| *key)
            .collect()
    }

    fn second(&self) {
        self.clock.advance(Duration::from_secs(1));
    }

    async fn reclaim(&self) -> usize {
        self.cache.reclaim().await.unwrap()
    }
}

#[tokio::test]
async fn it_stops_just_below_the_mark_and_counts_what_is_on_its_way() {
    let b = Bench::new(half).await;
    for key in 0..50 {
        b.write(&[key]).await;
        b.second();
    }
    assert_eq!(b.reclaim().await, 1, "fifty of a hundred is the mark");
    assert_eq!(b.serving(0..50), (1..50).collect::<Vec<_>>());
    assert_eq!(b.reclaim().await, 0, "it goes soon");
    // Bytes that are on their way out still count for the quota.
    b.write(&(100..150).collect::<Vec<_>>()).await;
    b.start(&[999]).await.unwrap_err();
    assert_eq!(b.reclaim().await, 50);
    assert_eq!(b.reclaim().await, 0);
    assert_eq!(b.serving(1..50), [] as [i64; 0]);
    let left = b.serving(100..150);
    assert_eq!(left.len(), 49);
    b.f.delete_all(&b.clock).await;
    assert_eq!(b.cache.counts().bytes, 49 * BLOCK as u64);
    assert_eq!(b.reclaim().await, 0);
    assert_eq!(b.cache.activity().evicted_bytes, 51);
}

#[tokio::test]
async fn a_small_instance_whose_keys_are_used_keeps_them_beside_a_big_one() {
    let b = Bench::new(half).await;
    b.write_to("i2", &[1]).await;
    b.second();
    for from in (0..90).step_by(10) {
        b.write(&(from..from + 10).collect::<Vec<_>>()).await;
        b.second();
        assert_eq!(b.read("i2", &[1]), 1);
        b.reclaim().await;
    }
    assert_eq!(b.read("i2", &[1]), 1);
    let left = b.serving(0..90);
    // Of one second the later blocks of a chain go first.
    let expected: Vec<_> = (40..48).chain(50..90).collect();
    assert_eq!(left, expected);
}

#[tokio::test]
async fn the_oldest_go_first_whichever_instance_they_are_of() {
    let b = Bench::new(half).await;
    b.write_to("i2", &[1]).await;
    b.second();
    b.write(&(0..49).collect::<Vec<_>>()).await;
    assert_eq!(b.reclaim().await, 1);
    assert_eq!(b.read("i2", &[1]), 0);
    assert_eq!(b.serving(0..49).len(), 49);
}

#[tokio::test]
async fn keys_that_are_read_in_a_loop_stay_and_looking_for_victims_is_no_use() {
    let b = Bench::new(half).await;
    b.write(&(0..40).collect::<Vec<_>>()).await;
    for round in 0..20 {
        b.second();
        assert_eq!(b.read("i1", &[0, 1, 2]), 3);
        b.write(&[100 + round]).await;
        b.reclaim().await;
    }
    assert_eq!(b.serving(0..3), [0, 1, 2]);
    assert_eq!(b.serving(0..200).len(), 49);
    assert_eq!(b.serving(100..120).len(), 20);
}

#[tokio::test]
async fn blocks_that_are_being_written_stay() {
    let b = Bench::new(|group| {
        half(group);
        let reclaim = &mut group.cache_config.reclaim_strategy;
        reclaim.trigger_strategy.used_percentage = 0.1;
        group.cache_config.meta_indexer_config.max_key_count = 16;
    })
    .await;
    let keys: Vec<i64> = (0..16).collect();
    let open = b.start(&keys).await.unwrap();
    assert_eq!(b.reclaim().await, 0);
    b.start(&[99]).await.unwrap_err();
    b.finish(open.session_id.as_str(), Mask::Offset(16))
        .await
        .unwrap();
    // The mark is 1.6 keys.
    assert_eq!(b.reclaim().await, 15);
    assert_eq!(b.cache.activity().evicted_keys, 15);
    b.start(&[99]).await.unwrap_err();
    b.f.delete_all(&b.clock).await;
    b.start(&[99]).await.unwrap();
    assert_eq!(b.serving(0..16), [0]);
}

#[tokio::test]
async fn the_mark_of_keys_is_each_instance_s_own() {
    let b = Bench::new(|group| {
        half(group);
        group.quota.capacity = 1 << 40;
        group.cache_config.meta_indexer_config.max_key_count = 20;
    })
    .await;
    b.write_to("i2", &(0..9).collect::<Vec<_>>()).await;
    b.second();
    b.write(&(0..12).collect::<Vec<_>>()).await;
    assert_eq!(b.reclaim().await, 3);
    assert_eq!(b.read("i2", &(0..9).collect::<Vec<_>>()), 9);
    assert_eq!(b.serving(0..12).len(), 9);
}

#[tokio::test]
async fn a_full_storage_type_lets_go_of_its_own_blocks_only() {
    let b = Bench::new(|_| {}).await;
    b.registry.add_storage(file("nfs_01")).await.unwrap();
    b.write(&[1, 2]).await;
    b.change_group(|group| {
        half(group);
        group.quota.capacity = 1 << 40;
        group.storage_candidates = vec!["nfs_01".into(), "mc".into()];
        group.quota.quota_config = vec![TypeQuota {
            storage_type: StorageType::File,
            capacity: 10 * BLOCK,
        }];
    })
    .await;
    b.second();
    b.write(&[11, 12, 13]).await;
    b.second();
    b.write(&[14, 15, 16]).await;
    assert_eq!(b.reclaim().await, 2);
    assert_eq!(b.serving(0..20), [1, 2, 11, 14, 15, 16]);
    assert_eq!(b.cache.activity().evicted_type, 2);
}

#[tokio::test]
async fn above_one_or_with_another_policy_nothing_goes() {
    for (share, policy) in [(3.2, 1), (0.1, 3), (0.1, 2)] {
        let b = Bench::new(|group| {
            half(group);
            let reclaim = &mut group.cache_config.reclaim_strategy;
            reclaim.trigger_strategy.used_percentage = share;
            reclaim.reclaim_policy = policy;
        })
        .await;
        b.write(&(0..100).collect::<Vec<_>>()).await;
        assert_eq!(b.reclaim().await, 0, "{share} {policy}");
        // A change of the group counts at once.
        b.change_group(half).await;
        b.change_group(|group| group.cache_config.reclaim_strategy.reclaim_policy = 1)
            .await;
        assert_eq!(b.reclaim().await, 51);
    }
}

#[tokio::test]
async fn many_victims_go_in_one_look() {
    let b = Bench::new(|group| {
        half(group);
        group.quota.capacity = 20_000 * BLOCK;
    })
    .await;
    b.write(&(0..20_000).collect::<Vec<_>>()).await;
    assert_eq!(b.reclaim().await, 10_001);
    assert_eq!(b.serving(0..20_000), (0..9_999).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_evicted_is_not_served_by_the_next_leader() {
    let mut b = Bench::new(half).await;
    b.write(&(0..60).collect::<Vec<_>>()).await;
    assert_eq!(b.reclaim().await, 11);
    let left = b.serving(0..60);
    b.f.fail_over().await;
    assert_eq!(b.serving(0..60), left);
    assert_eq!(b.reclaim().await, 0, "what is on its way counts there too");
}

#[tokio::test]
async fn an_eviction_that_the_journal_refuses_has_not_happened() {
    let b = Bench::new(half).await;
    b.write(&(0..60).collect::<Vec<_>>()).await;
    b.journal.faults().refuse_submits(true);
    b.cache.reclaim().await.unwrap_err();
    assert_eq!(b.serving(0..60).len(), 60);
    b.journal.faults().heal();
    assert_eq!(b.reclaim().await, 11);
}

/// The whole background beside a test.
fn background(f: &Fixture, clock: VirtualClock) -> tokio::task::JoinHandle<kvcm_cache::Error> {
    let cache = Arc::clone(&f.cache);
    let permit: Permit = Arc::new(|| true);
    tokio::spawn(async move { cache.run(&TokioTimer::new(clock), &permit).await })
}

#[tokio::test(start_paused = true)]
async fn room_is_made_within_two_seconds_but_not_while_all_is_being_written() {
    let clock = VirtualClock::new();
    let f = Fixture::empty(Arc::new(clock), Config::default()).await;
    f.registry.add_storage(mooncake("mc")).await.unwrap();
    let mut group = group(&["mc"]);
    group.cache_config.meta_indexer_config.max_key_count = 16;
    let reclaim = &mut group.cache_config.reclaim_strategy;
    reclaim.trigger_strategy.used_percentage = 0.1;
    f.registry.create_group(group).await.unwrap();
    f.register("i1", &["tp0"], &[]).await;
    let background = background(&f, clock);
    let open = f.start(&(0..16).collect::<Vec<_>>()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    f.start(&[99]).await.unwrap_err();
    f.finish(open.session_id.as_str(), Mask::Offset(16))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    f.start(&[99]).await.unwrap();
    background.abort();
}

#[tokio::test(start_paused = true)]
async fn the_background_ends_when_another_leads() {
    let clock = VirtualClock::new();
    let mut f = Fixture::empty(Arc::new(clock), Config::default()).await;
    f.registry.add_storage(mooncake("mc")).await.unwrap();
    let mut group = group(&["mc"]);
    half(&mut group);
    f.registry.create_group(group).await.unwrap();
    f.register("i1", &["tp0"], &[]).await;
    f.write(&(0..60).collect::<Vec<_>>()).await;
    let background = background(&f, clock);
    f.fail_over().await;
    assert!(background.await.unwrap().is_fenced());
    assert!(clock.now() > kvcm_clock::Moment::ZERO);
}

#[tokio::test]
async fn files_that_blocks_share_go_as_a_whole_and_it_stops_at_the_mark() {
    let clock = ManualClock::default();
    let f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    let root = tempfile::TempDir::new().unwrap();
    let spec = kvcm_registry::FileSpec {
        root_path: root.path().to_str().unwrap().to_owned(),
        key_count_per_file: 4,
    };
    let storage = common::storage("nfs_01", kvcm_registry::StorageSpec::File(spec));
    f.registry.add_storage(storage).await.unwrap();
    let mut group = group(&["nfs_01"]);
    half(&mut group);
    f.registry.create_group(group).await.unwrap();
    f.register("i1", &["tp0"], &[]).await;
    let b = Bench { f, clock };
    // 15 files of four blocks each; the first block of each is used again later.
    for file in 0..15 {
        let keys: Vec<i64> = (4 * file..4 * file + 4).collect();
        b.write_to("i1", &keys).await;
        b.clock.advance(Duration::from_secs(10));
    }
    for file in 0..15 {
        assert_eq!(b.prefix(&[4 * file]).len(), 1);
        b.clock.advance(Duration::from_secs(10));
    }
    // 60 blocks, and 49 are below the mark: 11 more of single blocks, three files.
    let left = |b: &Bench| b.prefix(&(12..60).collect::<Vec<i64>>()).len();
    assert_eq!(b.cache.reclaim().await.unwrap(), 12);
    assert_eq!(b.cache.reclaim().await.unwrap(), 0, "it is on its way");
    assert_eq!(left(&b), 48);
    b.delete_all(&b.clock).await;
    assert_eq!(b.cache.counts().bytes, 48 * BLOCK as u64);
    assert_eq!(b.cache.reclaim().await.unwrap(), 0);
    // A caller removes one block of each file: nothing is free, so eviction goes on with files.
    let removed: Vec<i64> = (3..15).map(|file| 4 * file + 1).collect();
    assert_eq!(b.remove(&removed).await.unwrap(), 12);
    b.delete_all(&b.clock).await;
    assert_eq!(b.cache.counts().bytes, 48 * BLOCK as u64);
    b.write_to("i1", &[100, 101, 102, 103]).await;
    assert_eq!(b.cache.reclaim().await.unwrap(), 3, "the rest of one file");
    assert_eq!(b.cache.reclaim().await.unwrap(), 0);
    b.delete_all(&b.clock).await;
    assert_eq!(b.cache.counts().bytes, 48 * BLOCK as u64);
}
