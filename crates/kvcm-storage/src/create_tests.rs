//! Creation on real directories, and on file systems that fail or hang.

use std::{
    fs,
    os::unix::fs::symlink,
    task::{Context, Waker},
};

use rustix::io::Errno;
use tempfile::TempDir;

use crate::{
    DataStorage, Grant, Level, MadeDirectories, Part, Reason, Settings,
    disk::Operation,
    test_support::{Fixture, GRANT, LONG, hang, heal},
};

#[tokio::test]
async fn an_engine_can_write_at_the_place_that_it_gets() {
    let fixture = Fixture::new();
    for instance in ["i1", "..", "a/b", &"ü".repeat(500)] {
        let made = MadeDirectories::default();
        fixture.create(instance, &made).await.unwrap();
        fs::write(fixture.path(&fixture.place(instance, 1)), "block").unwrap();
    }
}

#[tokio::test]
async fn a_directory_is_made_once_for_all_keys_of_a_grant() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    assert!(!fixture.storage.has_directory(&made, GRANT));
    fixture.create("i", &made).await.unwrap();
    assert!(fixture.storage.has_directory(&made, GRANT));
    let (one, other) = (fixture.place("i", 1), fixture.place("i", -9));
    let parent = |place| fixture.path(place).parent().unwrap().to_owned();
    assert_eq!(parent(&one), parent(&other));
    let elsewhere = Grant {
        epoch: 4,
        counter: 9,
    };
    assert!(!fixture.storage.has_directory(&made, elsewhere));
}

#[tokio::test]
async fn most_grants_find_a_directory_that_was_made_ahead() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    let grants = (0..200).map(|counter| Grant { epoch: 1, counter });
    for grant in grants.clone() {
        if !fixture.storage.has_directory(&made, grant) {
            fixture.create_for("i", &made, grant).await.unwrap();
        }
        assert!(fixture.storage.has_directory(&made, grant));
        let place = |template: &crate::UriTemplate| template.uri(1, grant, Part::Whole).place();
        let path = fixture.path(&place(&fixture.storage.template("i", "tp0", 1)));
        fs::write(path, "block").unwrap();
    }
    let trips = fixture.fault().count(Operation::OpenRoot);
    assert!(trips < 25, "{trips} trips to the file system");
    let directories = fs::read_dir(fixture.root.path().join("i/tp0")).unwrap();
    assert!(directories.count() <= 200 + 16);
    assert_eq!(fixture.fault().count(Operation::List), 0);
}

#[tokio::test]
async fn the_directories_of_an_earlier_leader_are_found_by_one_look() {
    let fixture = Fixture::new();
    let grants = (0..100).map(|counter| Grant { epoch: 1, counter });
    let earlier = MadeDirectories::default();
    for grant in grants.clone() {
        if !fixture.storage.has_directory(&earlier, grant) {
            fixture.create_for("i", &earlier, grant).await.unwrap();
        }
    }
    assert_eq!(fixture.fault().count(Operation::List), 0);
    let directory = fixture.root.path().join("i/tp0");
    fs::create_dir(directory.join("another")).unwrap();
    let first = Grant {
        epoch: 1,
        counter: 0,
    };
    let name = String::from_utf8(first.directory().to_vec()).unwrap();
    fs::remove_dir(directory.join(&name)).unwrap();
    fs::write(directory.join(&name), "a file").unwrap();

    let made = MadeDirectories::default();
    let is_known = |grant| fixture.storage.has_directory(&made, grant);
    for counter in [7, 1007, 8] {
        let grant = Grant { counter, ..first };
        fixture.create_for("i", &made, grant).await.unwrap();
    }
    assert!(!is_known(first), "it is a file");
    let same = |grant: &Grant| grant.directory() == first.directory();
    assert!(grants.filter(|grant| !same(grant)).all(is_known));
    assert_eq!(fixture.fault().count(Operation::List), 1);
}

#[tokio::test]
async fn what_cannot_be_made_ahead_costs_nothing_but_itself() {
    let fixture = Fixture::new();
    let (made, grant) = (MadeDirectories::default(), |counter| Grant {
        epoch: 1,
        counter,
    });
    let directory = fixture.root.path().join("i/tp0");
    fixture.create_for("i", &made, grant(0)).await.unwrap();
    // The one that would be made ahead with the next.
    let name = String::from_utf8(grant(2).directory().to_vec()).unwrap();
    fs::write(directory.join(&name), "a file").unwrap();
    fixture.create_for("i", &made, grant(1)).await.unwrap();
    assert!(!fixture.storage.has_directory(&made, grant(2)));
    let error = fixture.create_for("i", &made, grant(2)).await.unwrap_err();
    assert!(error.to_string().contains("ot a directory"), "{error}");
}

#[tokio::test]
async fn what_an_operator_has_emptied_is_made_again() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    fixture.create("i", &made).await.unwrap();
    fs::remove_dir_all(fixture.root.path().join("i")).unwrap();
    assert!(fixture.storage.has_directory(&made, GRANT), "not seen yet");
    fixture.delete(&[fixture.place("i", 1)]).await;
    assert!(!fixture.storage.has_directory(&made, GRANT));
    fixture.create("i", &made).await.unwrap();
    assert!(fixture.storage.has_directory(&made, GRANT));
}

#[tokio::test]
async fn the_root_is_made_and_the_directory_that_it_is_in_is_not() {
    let dir = TempDir::new().unwrap();
    let open = |path: &str| {
        let settings = Settings::File {
            root_path: dir.path().join(path).to_str().unwrap().to_owned(),
            key_count_per_file: 1,
        };
        DataStorage::open("s", &settings).unwrap()
    };
    let create = async |storage: &DataStorage| {
        let (template, made) = (storage.template("i", "tp0", 1), MadeDirectories::default());
        storage
            .create([(&template, &made)], Vec::new(), GRANT, LONG)
            .await
    };
    create(&open("root")).await.unwrap();
    assert!(dir.path().join("root/i/tp0").is_dir());
    let error = create(&open("mount/root")).await.unwrap_err();
    assert_eq!(error.problem.reason, Reason::Missing);
    let text = error.to_string();
    assert!(
        text.starts_with("storage `s` takes no new blocks (missing: "),
        "{text}"
    );
    assert!(text.contains("mount what belongs there"), "{text}");
    assert!(!dir.path().join("mount").exists());
}

#[tokio::test]
async fn no_link_leads_a_new_directory_out_of_the_root() {
    let (fixture, outside) = (Fixture::new(), TempDir::new().unwrap());
    symlink(outside.path(), fixture.root.path().join("i")).unwrap();
    let made = MadeDirectories::default();
    fixture.create("i", &made).await.unwrap_err();
    assert!(!fixture.storage.has_directory(&made, GRANT));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn files_are_made_where_that_is_asked_for_and_those_of_a_failed_call_go_again() {
    let dir = TempDir::new().unwrap();
    let settings = Settings::Hf3fs {
        mountpoint: dir.path().to_str().unwrap().to_owned(),
        root_dir: "a/b".to_owned(),
        key_count_per_file: 1,
        touch_file_when_create: true,
    };
    let storage = DataStorage::open("s", &settings).unwrap();
    assert!(storage.creates_files());
    let template = storage.template("i", "tp0", 1);
    let place = |key| template.uri(key, GRANT, Part::Whole).place();
    let path = |key| dir.path().join("a/b").join(place(key).as_str());
    let create = |keys: &[i64]| {
        let places = keys.iter().map(|key| place(*key)).collect();
        storage.create([], places, GRANT, LONG)
    };
    create(&[1, 2]).await.unwrap();
    assert!(path(1).is_file() && path(2).is_file());
    fs::write(path(1), "block").unwrap();
    create(&[1]).await.unwrap();
    assert_eq!(fs::read_to_string(path(1)).unwrap(), "block");

    fs::create_dir(path(4)).unwrap();
    create(&[3, 4]).await.unwrap_err();
    assert!(!path(3).exists());
}

#[tokio::test]
async fn a_full_storage_takes_no_more_blocks_at_once() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    fixture.fault().fail(Operation::MakeDirectory, Errno::NOSPC);
    let error = fixture.create("i", &made).await.unwrap_err();
    assert_eq!(error.problem.reason, Reason::Full);
    assert!(!fixture.storage.is_available());
    assert!(fixture.storage.is_readable());
}

#[tokio::test]
async fn a_creation_that_hangs_fails_by_its_deadline() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    fixture.fault().hang(Operation::MakeDirectory);
    let error = hang(&fixture, 1, fixture.create("i", &made)).await;
    assert_eq!(error.unwrap_err().problem.reason, Reason::Hung);
    assert!(!fixture.storage.has_directory(&made, GRANT));
    heal(&fixture).await;
}

#[tokio::test]
async fn threads_that_are_busy_with_others_say_nothing_of_the_storage() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    fixture.fault().hang(Operation::OpenRoot);
    let others = [(); 4].map(|()| fixture.create("i", &made));
    let mut others = others.map(Box::pin);
    let mut context = Context::from_waker(Waker::noop());
    for other in &mut others {
        assert!(other.as_mut().poll(&mut context).is_pending());
    }
    fixture.fault().wait_stuck(4);
    // The fifth finds no thread, and its time is up while the others still have some.
    tokio::time::pause();
    let error = fixture.create("i", &made).await.unwrap_err();
    tokio::time::resume();
    let detail = error.problem.detail;
    assert!(detail.contains("busy until the deadline"), "{detail}");
    assert_eq!(fixture.storage.status().level, Level::Up);
    drop(others);
    heal(&fixture).await;
}

#[tokio::test]
async fn deletions_that_hang_leave_a_thread_to_creation_and_when_that_hangs_too_it_is_down() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    fixture.fault().hang(Operation::Remove);
    for stuck in 1..=3 {
        let place = fixture.place("i", stuck as i64);
        fixture.write(&place);
        hang(&fixture, stuck, fixture.delete(&[place])).await;
    }
    fixture.create("i", &made).await.unwrap();
    assert_eq!(fixture.storage.status().level, Level::Up);
    fixture.fault().hang(Operation::OpenRoot);
    let error = hang(&fixture, 4, fixture.create("j", &made)).await;
    assert_eq!(error.unwrap_err().problem.reason, Reason::Hung);
    let error = fixture.create("j", &made).await.unwrap_err();
    assert!(
        error.problem.detail.contains("all its threads hang"),
        "{error}"
    );
    assert_eq!(fixture.storage.status().level, Level::Down);
    heal(&fixture).await;
}
