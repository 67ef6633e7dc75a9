//! The two phases of a write.

mod common;

use std::{collections::HashSet, sync::Arc, time::Duration};

use common::{Fixture, finish, granted, group, start};
use kvcm_cache::{Blocks, Config, Error, ErrorKind, Mask, Skipped, StartRequest};
use kvcm_clock::{Clock, ManualClock};

#[tokio::test]
async fn a_finished_write_serves_the_locations_that_the_start_gave() {
    let f = Fixture::new().await;
    let started = f.start(&[1, 2, 3]).await.unwrap();
    assert_eq!(started.skipped, Skipped::Offset(0));
    assert_eq!(f.prefix(&[1, 2, 3]), []);
    assert_eq!(f.states(&[1, 4]), ["WRITING", "NOT_FOUND"]);
    f.finish(
        started.session_id.as_str(),
        Mask::Bools(&[true, true, false]),
    )
    .await
    .unwrap();
    assert_eq!(f.prefix(&[1, 2, 3]), granted(&started)[..2]);
    assert_eq!(f.states(&[1, 2, 3]), ["SERVING", "SERVING", "DELETING"]);
    assert_eq!(f.cache.activity().added, 2);
    assert_eq!(f.cache.counts().sessions, 0);
}

#[tokio::test]
async fn keys_that_are_there_or_being_written_are_skipped() {
    let f = Fixture::new().await;
    f.write(&[1, 2]).await;
    let second = f.start(&[1, 2, 3]).await.unwrap();
    assert_eq!(second.skipped, Skipped::Offset(2));
    assert_eq!(second.granted.keys(), [3]);
    let third = f.start(&[9, 3, 8, 1]).await.unwrap();
    assert_eq!(
        third.skipped,
        Skipped::Bools(vec![false, true, false, true])
    );
    assert_eq!(third.granted.keys(), [9, 8]);
    let none = f.start(&[1, 2, 3]).await.unwrap();
    assert_eq!(none.skipped, Skipped::Offset(3));
    assert!(none.granted.is_empty());
    assert_eq!(none.session_id.as_str().len(), 32);
    f.finish(none.session_id.as_str(), Mask::None)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_key_that_comes_twice_gets_one_location() {
    let f = Fixture::new().await;
    let started = f.start(&[5, 5, 6, 5]).await.unwrap();
    assert_eq!(
        started.skipped,
        Skipped::Bools(vec![false, true, false, true])
    );
    assert_eq!(started.granted.keys(), [5, 6]);
    let entries = f.write(&[7, 7]).await;
    assert_eq!(entries.len(), 1);
}

#[tokio::test]
async fn the_same_finish_again_is_answered_again_and_another_is_not() {
    let f = Fixture::new().await;
    let started = f.start(&[1, 2]).await.unwrap();
    let id = started.session_id.as_str();
    f.finish(id, Mask::Offset(1)).await.unwrap();
    f.finish(id, Mask::Offset(1)).await.unwrap();
    f.finish(id, Mask::Bools(&[true, false])).await.unwrap();
    let error = f.finish(id, Mask::Offset(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionGone);
    let text = error.to_string();
    assert!(text.contains("write_session_id has been deleted"), "{text}");
    assert_eq!(f.states(&[1, 2]), ["SERVING", "DELETING"]);
}

#[tokio::test]
async fn a_bad_finish_mask_ends_the_session_and_frees_its_keys() {
    let f = Fixture::new().await;
    for mask in [
        Mask::Bools(&[true]),
        Mask::Offset(3),
        Mask::Offset(-1),
        Mask::None,
    ] {
        let started = f.start(&[1, 2]).await.unwrap();
        let id = started.session_id.as_str();
        assert_eq!(started.granted.len(), 2, "the keys are free for {mask:?}");
        let error = f.finish(id, mask).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("success_blocks"), "{error}");
        for again in [mask, Mask::Bools(&[true, true])] {
            let error = f.finish(id, again).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SessionGone, "{error}");
        }
        assert_eq!(f.states(&[1, 2]), ["DELETING", "DELETING"]);
    }
}

#[tokio::test]
async fn missing_fields_are_named_all_at_once() {
    let f = Fixture::new().await;
    let mut request = finish("", Mask::None);
    request.success_blocks = None;
    let error = f.cache.finish_write(&request).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing or invalid fields: {write_session_id, success_blocks}"
    );
    let mut request = start(&[]);
    request.instance_id = "";
    let error = f.cache.start_write(&request).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing or invalid fields: {instance_id, block_keys or token_ids}"
    );
}

#[tokio::test]
async fn an_unknown_instance_or_session_is_told() {
    let f = Fixture::new().await;
    let mut request = start(&[1]);
    request.instance_id = "other";
    let error = f.cache.start_write(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InstanceNotExist);
    assert!(error.to_string().contains("other"), "{error}");
    for id in ["nonsense", "abcdefghijklmnopqrstuvwxyz012345"] {
        let error = f.finish(id, Mask::Offset(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionGone);
    }
}

#[tokio::test]
async fn a_finish_by_another_instance_is_refused_and_harms_nothing() {
    let f = Fixture::new().await;
    f.register("i2", &["tp0"], &[]).await;
    let started = f.start(&[1]).await.unwrap();
    let id = started.session_id.as_str();
    let mut request = finish(id, Mask::Offset(1));
    request.instance_id = "i2";
    let error = f.cache.finish_write(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("instance_id"), "{error}");
    f.finish(id, Mask::Offset(1)).await.unwrap();
    assert_eq!(f.states(&[1]), ["SERVING"]);
}

#[tokio::test]
async fn a_key_removed_during_its_write_stays_removed() {
    let f = Fixture::new().await;
    let started = f.start(&[1, 2]).await.unwrap();
    assert_eq!(f.remove(&[1, 77]).await.unwrap(), 1);
    let rewritten = f.start(&[1]).await.unwrap();
    assert_ne!(granted(&rewritten)[0], granted(&started)[0]);
    f.finish(started.session_id.as_str(), Mask::Offset(2))
        .await
        .unwrap();
    assert_eq!(f.states(&[1, 2]), ["WRITING", "SERVING"]);
}

#[tokio::test]
async fn no_path_is_ever_granted_twice() {
    let mut f = Fixture::new().await;
    let mut seen = HashSet::new();
    for round in 0..20 {
        for (_, specs) in f.write(&[1, 2]).await {
            assert!(seen.insert(specs[0].1.clone()), "{specs:?} again");
        }
        match round % 4 {
            0 => f.remove(&[1, 2]).await.map(drop).unwrap(),
            1 => f.trim().await.map(drop).unwrap(),
            _ => {
                f.remove(&[1, 2]).await.unwrap();
                f.fail_over().await;
            }
        }
    }
    assert_eq!(seen.len(), 40);
}

#[tokio::test]
async fn too_many_keys_are_refused_as_a_whole_with_the_numbers() {
    let f = Fixture::new().await;
    f.change_group(|group| group.cache_config.meta_indexer_config.max_key_count = 16)
        .await;
    f.write(&(0..10).collect::<Vec<_>>()).await;
    let error = f.start(&(5..18).collect::<Vec<_>>()).await.unwrap_err();
    let Error::Capacity(capacity) = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (capacity.used, capacity.requested, capacity.capacity),
        (10, 8, 16)
    );
    assert!(error.to_string().contains("max_key_count"), "{error}");
    let started = f.start(&(10..16).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(started.granted.len(), 6);
    assert_eq!(f.cache.counts().bytes, 16 * 1024);
}

#[tokio::test]
async fn a_full_group_is_refused_and_names_the_quota() {
    let clock = ManualClock::default();
    let f = Fixture::objects(Arc::new(clock.clone())).await;
    f.change_group(|group| group.quota.capacity = 3 * 1024)
        .await;
    f.write(&[1, 2]).await;
    let error = f.start(&[3, 4]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Capacity);
    assert!(error.to_string().contains("quota.capacity"), "{error}");
    assert_eq!(f.states(&[3]), ["NOT_FOUND"]);
    // What is there already needs no room, and room that is freed can be used: once the bytes are
    // really gone.
    assert!(f.start(&[1, 2]).await.unwrap().granted.is_empty());
    f.remove(&[1]).await.unwrap();
    let error = f.start(&[3, 4]).await.unwrap_err();
    assert!(error.to_string().contains("2048 of 3072 bytes"), "{error}");
    f.delete_all(&clock).await;
    assert_eq!(f.write(&[3, 4]).await.len(), 2);
    f.change_group(|group| group.quota.capacity = 0).await;
    let error = f.start(&[5]).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("of 0 bytes") && text.contains("set it above 0"),
        "{text}"
    );
}

#[tokio::test]
async fn a_failed_finish_gives_its_bytes_back_when_they_are_deleted() {
    let clock = ManualClock::default();
    let f = Fixture::objects(Arc::new(clock.clone())).await;
    f.change_group(|group| group.quota.capacity = 2 * 1024)
        .await;
    for _ in 0..5 {
        let started = f.start(&[1, 2]).await.unwrap();
        f.finish(started.session_id.as_str(), Mask::Offset(0))
            .await
            .unwrap();
        f.start(&[1, 2]).await.unwrap_err();
        f.delete_all(&clock).await;
    }
    assert_eq!(f.cache.counts().bytes, 0);
}

#[tokio::test]
async fn a_group_that_is_written_does_not_stand_for_another() {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.registry
        .add_storage(common::file("nfs_01"))
        .await
        .unwrap();
    f.registry.create_group(group(&["nfs_01"])).await.unwrap();
    f.register("i1", &["a", "b"], &[("A", &["a"]), ("B", &["b"])])
        .await;
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let write = async |keys: &[i64], groups: &[&str]| {
        let groups = names(groups);
        let request = StartRequest {
            spec_group_names: &groups,
            ..start(keys)
        };
        let started = f.cache.start_write(&request).await?;
        let mask = Mask::Offset(started.granted.len() as i32);
        f.finish(started.session_id.as_str(), mask).await?;
        Ok::<_, Error>(granted(&started))
    };
    let spec_names = |entry: &common::Entry| -> Vec<String> {
        entry.1.iter().map(|(name, _)| name.clone()).collect()
    };
    let first = write(&[1, 2], &["A", "B"]).await.unwrap();
    assert_eq!(spec_names(&first[0]), ["a"]);
    assert_eq!(spec_names(&first[1]), ["b"]);
    assert_eq!(f.cache.counts().bytes, 2048);
    // The complement gets a location, the same again does not, all specs need a third one.
    assert_eq!(write(&[1], &["B"]).await.unwrap().len(), 1);
    assert_eq!(write(&[1], &["A"]).await.unwrap().len(), 0);
    assert_eq!(write(&[1], &[""]).await.unwrap().len(), 1);
    assert_eq!(write(&[1, 1], &["A", "B"]).await.unwrap().len(), 0);
    // A reader gets the location with the most of what it wants.
    for _ in 0..20 {
        assert_eq!(spec_names(&f.prefix(&[1])[0]), ["a", "b"]);
    }

    let error = write(&[1, 2], &["A"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error.to_string().contains("location_spec_group_names"),
        "{error}"
    );
    let error = write(&[1], &["C"]).await.unwrap_err();
    assert!(error.to_string().contains("`C`"), "{error}");
}

#[tokio::test]
async fn replicas_are_written_until_there_are_enough() {
    let clock = ManualClock::default();
    let f = Fixture::objects(Arc::new(clock.clone())).await;
    f.write(&[1]).await;
    let request = StartRequest {
        min_replica_count: 2,
        ..start(&[1])
    };
    let second = f.cache.start_write(&request).await.unwrap();
    assert_eq!(second.granted.len(), 1);
    let third = f.cache.start_write(&request).await.unwrap();
    assert_eq!(third.granted.len(), 0, "the one being written counts");
    f.finish(second.session_id.as_str(), Mask::Offset(1))
        .await
        .unwrap();
    let read: HashSet<_> = (0..200).map(|_| f.prefix(&[1])[0].1[0].1.clone()).collect();
    assert_eq!(read.len(), 2, "both are read");
    assert_eq!(f.cache.counts().bytes, 2048);
    assert_eq!(f.remove(&[1]).await.unwrap(), 2);
    f.delete_all(&clock).await;
    assert_eq!(f.cache.counts().bytes, 0);
}

#[tokio::test]
async fn a_location_on_a_disabled_storage_never_counts() {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.registry
        .add_storage(common::file("nfs_01"))
        .await
        .unwrap();
    f.registry
        .add_storage(common::mooncake("mc"))
        .await
        .unwrap();
    f.registry
        .create_group(group(&["nfs_01", "mc"]))
        .await
        .unwrap();
    f.register("i1", &["tp0"], &[]).await;
    f.write(&[2]).await;
    f.registry
        .set_storage_available("nfs_01", false)
        .await
        .unwrap();
    for keys in [&[1, 2, 3][..], &[2, 3]] {
        let started = f.start(keys).await.unwrap();
        assert!(started.granted.keys().contains(&2), "{keys:?}");
        assert!(granted(&started).iter().all(|(kind, _)| *kind == 2));
        f.finish(started.session_id.as_str(), Mask::Offset(0))
            .await
            .unwrap();
    }
    f.registry.set_storage_available("mc", false).await.unwrap();
    let error = f.start(&[4]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    let text = error.to_string();
    assert!(text.contains("all storages are unavailable"), "{text}");
    f.registry
        .set_storage_available("nfs_01", true)
        .await
        .unwrap();
    assert_eq!(f.prefix(&[2]).len(), 1);
}

#[tokio::test]
async fn a_reconfigured_storage_leaves_old_locations_where_they_are() {
    let mut f = Fixture::new().await;
    let old = f.write(&[1]).await;
    let mut moved = common::file("nfs_01");
    let kvcm_registry::StorageSpec::File(spec) = &mut moved.spec else {
        panic!();
    };
    spec.root_path = format!("{}other", common::ROOT);
    f.registry.update_storage(moved).await.unwrap();
    let new = f.write(&[2]).await;
    assert_eq!(f.prefix(&[1, 2]), [old.clone(), new.clone()].concat());
    f.fail_over().await;
    assert_eq!(f.prefix(&[1, 2]), [old, new].concat());
}

#[tokio::test]
async fn the_preferred_storage_type_comes_first_and_always_means_always() {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.registry
        .add_storage(common::file("nfs_01"))
        .await
        .unwrap();
    f.registry
        .add_storage(common::mooncake("mc"))
        .await
        .unwrap();
    f.registry
        .create_group(group(&["nfs_01", "mc"]))
        .await
        .unwrap();
    f.register("i1", &["tp0"], &[]).await;
    let mut key = 0;
    // Prefer 3FS: none there, so the first; prefer Mooncake; always Mooncake.
    for (strategy, kind) in [(2, 4), (4, 2), (3, 2)] {
        f.change_group(|group| group.cache_config.cache_prefer_strategy = strategy)
            .await;
        key += 1;
        assert_eq!(f.write(&[key]).await[0].0, kind, "strategy {strategy}");
    }
    f.change_group(|group| group.cache_config.cache_prefer_strategy = 1)
        .await;
    let error = f.start(&[9]).await.unwrap_err();
    assert!(error.to_string().contains("hf3fs"), "{error}");
}

#[tokio::test]
async fn a_full_storage_type_is_passed_over() {
    let clock = ManualClock::default();
    let f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    f.registry
        .add_storage(common::file("nfs_01"))
        .await
        .unwrap();
    f.registry
        .add_storage(common::mooncake("mc"))
        .await
        .unwrap();
    let mut group = group(&["mc", "nfs_01"]);
    group.quota.quota_config = vec![kvcm_registry::TypeQuota {
        storage_type: kvcm_registry::StorageType::Mooncake,
        capacity: 2 * 1024,
    }];
    f.registry.create_group(group).await.unwrap();
    f.register("i1", &["tp0"], &[]).await;
    assert_eq!(f.write(&[1, 2]).await[0].0, 2);
    assert_eq!(f.write(&[3]).await[0].0, 4);
    f.remove(&[1]).await.unwrap();
    f.delete_all(&clock).await;
    assert_eq!(f.write(&[4]).await[0].0, 2);
}

#[tokio::test]
async fn a_request_with_too_many_keys_names_the_limit() {
    let config = Config {
        keys_per_request_max: 3,
        ..Config::default()
    };
    let f = Fixture::empty(Arc::new(ManualClock::default()), config).await;
    f.simple().await;
    let error = f.start(&[1, 2, 3, 4]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(
        text.contains("block_keys has 4 blocks, more than the 3 that kvcm.service.max_keys"),
        "{text}"
    );
    // The limit counts blocks, not tokens.
    let tokens: Vec<i64> = (0..15).collect();
    let request = StartRequest {
        blocks: Blocks::tokens(&tokens),
        ..start(&[])
    };
    assert_eq!(
        f.cache.start_write(&request).await.unwrap().granted.len(),
        3
    );
    f.start(&[1, 2, 3]).await.unwrap();
}

#[tokio::test]
async fn tokens_of_two_blocks_go_with_two_group_names() {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.registry
        .add_storage(common::file("nfs_01"))
        .await
        .unwrap();
    f.registry.create_group(group(&["nfs_01"])).await.unwrap();
    f.register("i1", &["a", "b"], &[("A", &["a"])]).await;
    let names = ["A".to_owned(), String::new()];
    let request = StartRequest {
        blocks: Blocks::tokens(&[1, 2, 3, 4, 5, 6, 7, 8]),
        spec_group_names: &names,
        ..start(&[])
    };
    let started = f.cache.start_write(&request).await.unwrap();
    let expected = [455_111_481_605_203_084, 6_902_853_672_176_602_142];
    assert_eq!(started.granted.keys(), expected);
    let entries = granted(&started);
    assert_eq!((entries[0].1.len(), entries[1].1.len()), (1, 2));
    // Fewer tokens than a block: nothing to write, no error.
    let request = StartRequest {
        blocks: Blocks::tokens(&[1]),
        ..start(&[])
    };
    let none = f.cache.start_write(&request).await.unwrap();
    assert_eq!(none.skipped, Skipped::Offset(0));
}

#[tokio::test]
async fn too_many_sessions_are_refused() {
    let config = Config {
        sessions_max: 2,
        ..Config::default()
    };
    let f = Fixture::empty(Arc::new(ManualClock::default()), config).await;
    f.simple().await;
    f.start(&[1]).await.unwrap();
    f.start(&[2]).await.unwrap();
    let error = f.start(&[3]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Capacity);
    assert!(error.to_string().contains("sessions_max"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_starts_of_the_same_keys_share_them_out() {
    let f = Fixture::new().await;
    let keys: Arc<Vec<i64>> = Arc::new((0..500).collect());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (cache, keys) = (Arc::clone(&f.cache), Arc::clone(&keys));
            tokio::spawn(async move {
                let started = cache.start_write(&start(&keys)).await.unwrap();
                let mask = Mask::Offset(started.granted.len() as i32);
                let request = finish(started.session_id.as_str(), mask);
                cache.finish_write(&request).await.unwrap();
                started.granted.keys().to_vec()
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, *keys);
    assert_eq!(f.prefix(&keys).len(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_finishes_count_once_and_identical_ones_agree() {
    let f = Fixture::new().await;
    for round in 0..50 {
        let keys = [round * 2, round * 2 + 1];
        let started = f.start(&keys).await.unwrap();
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                let (cache, id) = (Arc::clone(&f.cache), started.session_id);
                let mask = Mask::Offset(1 + number % 2);
                tokio::spawn(
                    async move { cache.finish_write(&finish(id.as_str(), mask)).await.is_ok() },
                )
            })
            .collect();
        let mut ok = Vec::new();
        for task in tasks {
            ok.push(task.await.unwrap());
        }
        let one = ok == [true, false, true, false];
        assert!(one || ok == [false, true, false, true], "{ok:?}");
        assert_eq!(f.prefix(&keys).len(), if one { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_session_without_new_keys_lives_ten_seconds() {
    let clock = ManualClock::default();
    let f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    f.simple().await;
    f.write(&[1]).await;
    let first = f.start(&[1]).await.unwrap();
    let second = f.start(&[1]).await.unwrap();
    clock.advance(Duration::from_secs(9));
    f.finish(first.session_id.as_str(), Mask::Offset(0))
        .await
        .unwrap();
    clock.advance(Duration::from_secs(1));
    let late = f.finish(second.session_id.as_str(), Mask::Offset(0)).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::SessionGone);
    assert_eq!(f.cache.expire(clock.now()).await.unwrap(), 1);
}
