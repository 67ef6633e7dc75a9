//! Deletion on real directories, and on file systems that hang.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    task::{Context, Waker},
};

use tempfile::TempDir;

use crate::{
    DataStorage, Deletion, Part, Settings,
    disk::Operation,
    test_support::{Fixture, GRANT, LONG, hang, heal},
};

fn error(outcome: &Deletion) -> &str {
    match outcome {
        Deletion::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}

fn entries(path: &Path) -> usize {
    fs::read_dir(path).unwrap().count()
}

#[tokio::test]
async fn a_uri_names_the_file_that_is_deleted() {
    let fixture = Fixture::new();
    for instance in ["i1", "../i1", ".", "..", "a/b", "ü%", &"x".repeat(1000)] {
        let template = fixture.storage.template(instance, "../tp0", 1);
        let uri = template.uri(7, GRANT, Part::Whole);
        // As engines find it: without looking into the path.
        let text = uri.to_string();
        let path = text.strip_prefix("file://s").unwrap();
        let path = Path::new(path.split_once('?').unwrap().0);
        assert!(path.starts_with(fixture.root.path()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "block").unwrap();
        assert_eq!(fixture.delete(&[uri.place()]).await, [Deletion::Deleted]);
        assert!(!path.exists(), "{instance}");
        assert_eq!(fixture.path(&uri.place()), path);
    }
}

#[tokio::test]
async fn each_outcome_stands_where_its_place_stood() {
    let fixture = Fixture::new();
    let place = |instance, key| fixture.place(instance, key);
    let places = [
        place("b", 1),
        place("a", 2),
        place("b", 3),
        place("never", 4),
        place("a", 5),
    ];
    [0, 1, 4].iter().for_each(|at| fixture.write(&places[*at]));
    let neighbour = place("a", 6);
    fixture.write(&neighbour);
    use Deletion::{Absent, Deleted};
    let outcomes = fixture.delete(&places).await;
    assert_eq!(outcomes, [Deleted, Deleted, Absent, Absent, Deleted]);
    assert_eq!(fixture.delete(&places).await, vec![Absent; 5]);
    let counts = fixture.storage.status().deletions;
    assert_eq!((counts.deleted, counts.absent), (3, 7));
    assert!(fixture.path(&neighbour).exists());
    // All share the root, and files of one directory what leads to it: three segments for each of
    // a and b, and one for what was never there.
    let fault = fixture.fault();
    assert_eq!(fault.count(Operation::OpenRoot), 2);
    assert_eq!(fault.count(Operation::OpenDirectory), 2 * (3 + 3 + 1));
}

#[tokio::test]
async fn what_cannot_be_deleted_says_why_and_does_not_stop_the_others() {
    let fixture = Fixture::new();
    let (blocked, good) = (fixture.place("i", 1), fixture.place("i", 2));
    fs::create_dir_all(fixture.path(&blocked)).unwrap();
    fixture.write(&good);
    let outcomes = fixture.delete(&[blocked.clone(), good]).await;
    let path = fixture.path(&blocked).display().to_string();
    assert!(error(&outcomes[0]).contains(&path), "{outcomes:?}");
    assert_eq!(outcomes[1], Deletion::Deleted);
}

#[tokio::test]
async fn a_root_that_is_not_there_is_a_failure_and_not_an_empty_one() {
    let fixture = Fixture::new();
    let place = fixture.place("i", 1);
    fs::remove_dir(fixture.root.path()).unwrap();
    let outcomes = fixture.delete(&[place]).await;
    assert!(error(&outcomes[0]).starts_with("the root "), "{outcomes:?}");
}

#[tokio::test]
async fn no_link_leads_out_of_the_root() {
    let (fixture, outside) = (Fixture::new(), TempDir::new().unwrap());
    let place = fixture.place("i", 1);
    fixture.write(&place);
    let directory = fixture.path(&place).parent().unwrap().to_owned();
    // The directory moves away, and a link to it takes its place.
    let moved = outside.path().join("moved");
    fs::rename(&directory, &moved).unwrap();
    symlink(&moved, &directory).unwrap();
    let outcomes = fixture.delete(std::slice::from_ref(&place)).await;
    assert!(error(&outcomes[0]).contains("cannot open"), "{outcomes:?}");
    assert_eq!(entries(&moved), 1);

    // A link in the place of a file goes, what it leads to stays.
    fs::remove_file(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    let target = moved.join(fixture.path(&place).file_name().unwrap());
    symlink(&target, fixture.path(&place)).unwrap();
    assert_eq!(fixture.delete(&[place]).await, [Deletion::Deleted]);
    assert!(target.exists());
    assert_eq!(entries(&directory), 0);
}

#[tokio::test]
async fn the_root_itself_may_be_a_link() {
    let (outside, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let link = dir.path().join("root");
    symlink(outside.path(), &link).unwrap();
    let settings = Settings::File {
        root_path: link.to_str().unwrap().to_owned(),
        key_count_per_file: 1,
    };
    let storage = DataStorage::open("s", &settings).unwrap();
    let place = storage
        .template("i", "tp0", 1)
        .uri(1, GRANT, Part::Whole)
        .place();
    let path = outside.path().join(place.as_str());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    let outcomes = storage.delete(vec![place], LONG, || true).await.unwrap();
    assert_eq!(outcomes, [Deletion::Deleted]);
}

#[tokio::test]
async fn nothing_is_begun_after_the_permission_has_ended() {
    let fixture = Fixture::new();
    let places = [1, 2, 3].map(|key| fixture.place("i", key));
    places.iter().for_each(|place| fixture.write(place));
    let left = std::sync::atomic::AtomicUsize::new(2);
    let may_go_on = move || {
        let order = std::sync::atomic::Ordering::SeqCst;
        left.fetch_update(order, order, |left| left.checked_sub(1))
            .is_ok()
    };
    let deleted = fixture.storage.delete(places.to_vec(), LONG, may_go_on);
    use Deletion::{Deleted, NotBegun};
    assert_eq!(deleted.await.unwrap(), [Deleted, Deleted, NotBegun]);
    assert!(fixture.path(&places[2]).exists());
}

#[tokio::test]
async fn a_deletion_that_hangs_is_unknown_and_the_rest_is_never_begun() {
    let fixture = Fixture::new();
    let places = [1, 2, 3].map(|key| fixture.place("i", key));
    places.iter().for_each(|place| fixture.write(place));
    let fault = fixture.fault();
    fault.hang(Operation::Remove);
    let deleted = hang(&fixture, 1, fixture.delete(&places)).await;
    use Deletion::{NotBegun, Unknown};
    assert_eq!(deleted, [Unknown, NotBegun, NotBegun]);
    assert_eq!(fixture.hung_threads(), 1);
    // When the mount comes back, the one that was begun goes, and no other.
    heal(&fixture).await;
    assert_eq!(fault.count(Operation::Remove), 1);
    let exist = places.each_ref().map(|place| fixture.path(place).exists());
    assert_eq!(exist, [false, true, true]);
}

#[tokio::test]
async fn a_storage_whose_threads_all_hang_refuses_at_once_and_no_other_storage_notices() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    fixture.fault().hang(Operation::OpenRoot);
    let places = [fixture.place("i", 1)];
    for count in 1..=3 {
        let deleted = hang(&fixture, count, fixture.delete(&places)).await;
        assert_eq!(deleted, [Deletion::Unknown]);
        assert_eq!(fixture.hung_threads(), count);
    }
    // The refusal does not wait for the deadline, which is far away.
    let refused = fixture.storage.delete(places.to_vec(), LONG, || true).await;
    let text = refused.unwrap_err().to_string();
    let expected = "storage `s` does not answer: all its threads hang";
    assert!(text.starts_with(expected), "{text}");

    let place = other.place("i", 1);
    other.write(&place);
    assert_eq!(other.delete(&[place]).await, [Deletion::Deleted]);

    heal(&fixture).await;
    assert_eq!(fixture.delete(&places).await, [Deletion::Absent]);
}

#[tokio::test]
async fn a_storage_that_is_opened_again_has_the_threads_that_it_had() {
    let fixture = Fixture::new();
    fixture.fault().hang(Operation::OpenRoot);
    let places = [fixture.place("i", 1)];
    let deleted = hang(&fixture, 1, fixture.delete(&places)).await;
    assert_eq!(deleted, [Deletion::Unknown]);
    let again = fixture.again("another name");
    assert_eq!(again.status().hung_threads, 1);
    heal(&fixture).await;
    assert_eq!(again.status().hung_threads, 0);
}

#[tokio::test]
async fn a_deletion_that_waits_is_refused_when_all_threads_hang() {
    let fixture = Fixture::new();
    fixture.fault().hang(Operation::OpenRoot);
    let delete = |within| {
        let places = vec![fixture.place("i", 1)];
        fixture.storage.delete(places, within, || true)
    };
    let calls = async { tokio::join!(delete(LONG), delete(LONG), delete(LONG), delete(LONG * 2)) };
    let (a, b, c, waiting) = hang(&fixture, 3, calls).await;
    for outcome in [a, b, c] {
        assert_eq!(outcome.unwrap(), [Deletion::Unknown]);
    }
    assert!(waiting.unwrap_err().reason.contains("hang"));
    heal(&fixture).await;
}

#[tokio::test]
async fn a_deletion_whose_caller_has_gone_begins_nothing_more() {
    let fixture = Fixture::new();
    let places = [1, 2].map(|key| fixture.place("i", key));
    places.iter().for_each(|place| fixture.write(place));
    let fault = fixture.fault();
    fault.hang(Operation::OpenRoot);
    {
        let mut call = std::pin::pin!(fixture.delete(&places));
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        fault.wait_stuck(1);
    }
    heal(&fixture).await;
    let exist = places.each_ref().map(|place| fixture.path(place).exists());
    assert_eq!(exist, [false, true], "what was begun goes on");
}

#[tokio::test]
async fn objects_are_left_to_their_storage() {
    let storage = DataStorage::open("m", &Settings::Mooncake).unwrap();
    let place = storage
        .template("i", "tp0", 1)
        .uri(1, GRANT, Part::Whole)
        .place();
    assert_eq!(place.as_str(), "i/tp0/1-3-9");
    let outcomes = storage.delete(vec![place], LONG, || true).await.unwrap();
    assert_eq!(outcomes, [Deletion::Left]);
    assert!(outcomes[0].is_done());
}
