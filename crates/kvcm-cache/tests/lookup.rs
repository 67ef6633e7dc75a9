//! Lookups, lengths and states.

mod common;

use std::sync::Arc;

use common::{Entry, Fixture, file, group, locate, mooncake};
use kvcm_cache::{
    Blocks, Config, ErrorKind, LocateLenRequest, LocateRequest, Mask, Meta, MetaRequest, MetaState,
    QueryType,
};
use kvcm_clock::ManualClock;

const HOLE: (i32, usize) = (0, 1);
const HIT: (i32, usize) = (4, 1);

/// Kind and number of specs of each entry.
fn shape(entries: &[Entry]) -> Vec<(i32, usize)> {
    entries
        .iter()
        .map(|(kind, specs)| (*kind, specs.len()))
        .collect()
}

#[tokio::test]
async fn prefix_match_ends_before_the_first_key_that_cannot_be_read() {
    let f = Fixture::new().await;
    let written = f.write(&[1, 2, 3, 5]).await;
    f.start(&[4]).await.unwrap();
    assert_eq!(f.prefix(&[1, 2, 3, 4, 5]), written[..3]);
    assert_eq!(f.prefix(&[9, 1]), []);
    assert_eq!(f.prefix(&[5, 1]), [written[3].clone(), written[0].clone()]);
    let uri = &written[0].1[0].1;
    let root = format!("file://nfs_01{}i1/tp0/", common::ROOT);
    assert!(uri.starts_with(&root), "{uri}");
    assert!(uri.contains("/1-"), "{uri}");
    assert!(uri.ends_with("?size=1024"), "{uri}");
}

#[tokio::test]
async fn masked_keys_are_left_out_of_a_prefix_match() {
    let f = Fixture::new().await;
    let written = f.write(&[1, 2, 3]).await;
    let found = |mask| {
        f.locate(&LocateRequest {
            mask,
            ..locate(QueryType::PrefixMatch, &[1, 2, 3])
        })
    };
    assert_eq!(found(Mask::Offset(1)).unwrap(), written[1..]);
    assert_eq!(found(Mask::Offset(3)).unwrap(), []);
    assert_eq!(found(Mask::Offset(i32::MAX)).unwrap(), []);
    let bools = found(Mask::Bools(&[false, true])).unwrap();
    assert_eq!(bools, [written[0].clone(), written[2].clone()]);
    // Nothing checks that what is masked is there.
    let request = LocateRequest {
        mask: Mask::Offset(1),
        ..locate(QueryType::PrefixMatch, &[9, 1])
    };
    assert_eq!(f.locate(&request).unwrap(), written[..1]);
    let error = found(Mask::Offset(-1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("block_mask.offset"), "{error}");
}

#[tokio::test]
async fn batch_get_answers_each_key_and_reads_no_mask() {
    let f = Fixture::new().await;
    let written = f.write(&[1, 3]).await;
    let request = LocateRequest {
        mask: Mask::Offset(2),
        ..locate(QueryType::BatchGet, &[1, 2, 3, 1])
    };
    let found = f.locate(&request).unwrap();
    assert_eq!(shape(&found), [HIT, HOLE, HIT, HIT]);
    assert_eq!(found[1].1, [("tp0".to_owned(), String::new())]);
    assert_eq!((&found[0], &found[2]), (&written[0], &written[1]));
    assert_eq!(found[3], written[0]);
}

#[tokio::test]
async fn window_match_fills_the_rightmost_window_only() {
    let f = Fixture::new().await;
    f.write(&[1, 2, 4, 5, 7]).await;
    let found = |window| {
        let keys = [1, 2, 3, 4, 5, 6, 7];
        let request = LocateRequest {
            window,
            ..locate(QueryType::ReverseRollWindow, &keys)
        };
        f.locate(&request).map(|entries| shape(&entries))
    };
    assert_eq!(found(1).unwrap(), [HOLE, HOLE, HOLE, HOLE, HOLE, HOLE, HIT]);
    assert_eq!(found(2).unwrap(), [HOLE, HOLE, HOLE, HIT, HIT, HOLE, HOLE]);
    assert_eq!(found(3).unwrap(), [HOLE; 7]);
    for window in [0, -1, 8, i32::MIN] {
        let error = found(window).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("sw_size"), "{error}");
    }
    // Less than one block: nothing is found, as with the other query types.
    let found = |window| {
        f.locate(&LocateRequest {
            window,
            blocks: Blocks::tokens(&[1]),
            ..locate(QueryType::ReverseRollWindow, &[])
        })
    };
    assert_eq!(found(3).unwrap(), []);
    assert_eq!(found(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn spec_names_choose_what_is_shown() {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.registry.add_storage(file("nfs_01")).await.unwrap();
    f.registry.create_group(group(&["nfs_01"])).await.unwrap();
    f.register("i1", &["a", "b", "c"], &[]).await;
    f.write(&[1]).await;
    let found = |names: &[&str]| {
        let spec_names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let request = LocateRequest {
            spec_names: &spec_names,
            ..locate(QueryType::BatchGet, &[1, 2])
        };
        let found = f.locate(&request).unwrap();
        let names = |entry: &Entry| {
            let names = entry.1.iter().map(|(name, _)| name.as_str());
            names.collect::<Vec<_>>().concat()
        };
        assert_eq!((found[0].0, found[1].0), (4, 0));
        assert_eq!(names(&found[0]), names(&found[1]));
        names(&found[0])
    };
    assert_eq!(found(&[]), "abc");
    assert_eq!(found(&["c", "a"]), "ac");
    assert_eq!(found(&["x"]), "");
}

#[tokio::test]
async fn lengths_count_hits() {
    let f = Fixture::new().await;
    f.write(&[1, 2, 4]).await;
    let len = |query, window| {
        f.cache.locate_len(&LocateLenRequest {
            instance_id: "i1",
            query,
            blocks: Blocks::keys(&[1, 2, 3, 4]),
            window,
        })
    };
    assert_eq!(len(QueryType::BatchGet, 0).unwrap(), 3);
    assert_eq!(len(QueryType::PrefixMatch, 0).unwrap(), 2);
    assert_eq!(len(QueryType::ReverseRollWindow, 2).unwrap(), 2);
    assert_eq!(len(QueryType::ReverseRollWindow, 3).unwrap(), 0);
    assert!(len(QueryType::ReverseRollWindow, 0).is_err());
}

#[tokio::test]
async fn tokens_stand_for_keys_and_keys_win() {
    let f = Fixture::new().await;
    let tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let keys = kvcm_cache::block_keys(&tokens, 4);
    let written = f.write(&keys).await;
    let found = |blocks| {
        f.locate(&LocateRequest {
            blocks,
            ..locate(QueryType::PrefixMatch, &[])
        })
    };
    assert_eq!(found(Blocks::tokens(&tokens)).unwrap(), written);
    assert_eq!(found(Blocks::tokens(&tokens[..3])).unwrap(), []);
    let both = Blocks {
        keys: &keys[..1],
        tokens: &tokens,
    };
    assert_eq!(found(both).unwrap(), written[..1]);
    let error = found(Blocks::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing or invalid fields: {block_keys or token_ids}"
    );
}

#[tokio::test]
async fn a_disabled_storage_is_not_read_and_none_left_is_an_error() {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.registry.add_storage(file("nfs_01")).await.unwrap();
    f.registry.add_storage(mooncake("mc")).await.unwrap();
    f.registry
        .create_group(group(&["nfs_01", "mc"]))
        .await
        .unwrap();
    f.register("i1", &["tp0"], &[]).await;
    let written = f.write(&[1, 2]).await;
    f.registry
        .set_storage_available("nfs_01", false)
        .await
        .unwrap();
    assert_eq!(f.prefix(&[1, 2]), []);
    assert_eq!(f.states(&[1]), ["SERVING"]);
    f.registry.set_storage_available("mc", false).await.unwrap();
    let error = f.locate(&locate(QueryType::BatchGet, &[1])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("all storages are unavailable"), "{text}");
    f.registry
        .set_storage_available("nfs_01", true)
        .await
        .unwrap();
    assert_eq!(f.prefix(&[1, 2]), written);
}

#[tokio::test]
async fn keys_that_share_a_file_have_a_block_in_it_each() {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    let mut storage = file("nfs_01");
    let kvcm_registry::StorageSpec::File(spec) = &mut storage.spec else {
        panic!();
    };
    spec.key_count_per_file = 2;
    f.registry.add_storage(storage).await.unwrap();
    f.registry.create_group(group(&["nfs_01"])).await.unwrap();
    f.register("i1", &["a", "b"], &[]).await;
    let written = f.write(&[1, 2, 3]).await;
    let parts = |at: usize, spec: usize| {
        let uri = &written[at].1[spec].1;
        let (path, query) = uri.split_once('?').unwrap();
        (path.to_owned(), query.to_owned())
    };
    let (first, second, third) = (parts(0, 0), parts(1, 0), parts(2, 0));
    assert_eq!(first.0, second.0, "two keys, one file");
    assert_ne!(first.0, third.0, "the third key, the next file");
    assert_ne!(first.0, parts(0, 1).0, "a file never mixes specs");
    assert_eq!(first.1, "blkid=0&size=1024");
    assert_eq!(second.1, "blkid=1&size=1024");
    assert_eq!(third.1, "blkid=0&size=1024");
    assert_eq!(f.prefix(&[1, 2, 3]), written);
}

#[tokio::test]
async fn states_keep_their_positions_whatever_is_masked() {
    let f = Fixture::new().await;
    f.write(&[1, 3]).await;
    f.start(&[4]).await.unwrap();
    let mut answers = Vec::new();
    let request = MetaRequest {
        instance_id: "i1",
        blocks: Blocks::keys(&[1, 2, 3, 4]),
        mask: Mask::Bools(&[true]),
    };
    let show = |meta: &Meta<'_>| {
        let placeholder = meta.view.is_placeholder();
        assert_eq!(placeholder, meta.view.storage_type().is_none());
        answers.push((meta.state, placeholder, meta.to_json()));
    };
    f.cache.meta(&request, show).unwrap();
    let states: Vec<_> = answers.iter().map(|(s, p, _)| (*s, *p)).collect();
    let expected = [
        (MetaState::Masked, true),
        (MetaState::NotFound, true),
        (MetaState::Serving, false),
        (MetaState::Writing, false),
    ];
    assert_eq!(states, expected);
    // No id is carried over to a key that has none.
    assert_eq!(answers[1].2, r#"{"id":"","status":"CLS_NOT_FOUND"}"#);
    let json: serde_json::Value = serde_json::from_str(&answers[2].2).unwrap();
    assert_eq!(json["status"], "CLS_SERVING");
    assert_eq!(json["id"].as_str().unwrap().len(), 8);

    // No blocks is no error here.
    let request = MetaRequest {
        blocks: Blocks::default(),
        ..request
    };
    f.cache
        .meta(&request, |_| panic!("nothing to show"))
        .unwrap();
}

#[tokio::test]
async fn instances_do_not_see_each_other() {
    let f = Fixture::new().await;
    f.register("i2", &["tp0"], &[]).await;
    f.write(&[1]).await;
    let request = LocateRequest {
        instance_id: "i2",
        ..locate(QueryType::PrefixMatch, &[1])
    };
    assert_eq!(f.locate(&request).unwrap(), []);
    let request = LocateRequest {
        instance_id: "i3",
        ..request
    };
    let error = f.locate(&request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InstanceNotExist);
    assert_eq!((f.cache.key_count("i1"), f.cache.key_count("i2")), (1, 0));
}
