//! Checks of real directories, and of file systems that fail or hang.

use std::fs;

use rustix::io::Errno;

use crate::{
    DataStorage, Level, MadeDirectories, Reason, Status,
    disk::Operation,
    probe::probe_all,
    test_support::{Fixture, GRANT, LONG, hang, heal},
};

impl Fixture {
    async fn probe(&self) -> Status {
        probe_all([&self.storage], LONG).await;
        self.storage.status()
    }
}

fn reason(status: &Status) -> Option<Reason> {
    status.problem.as_ref().map(|problem| problem.reason)
}

#[tokio::test]
async fn a_check_leaves_nothing_and_sees_the_room() {
    let fixture = Fixture::new();
    let status = fixture.probe().await;
    assert_eq!((status.level, reason(&status)), (Level::Up, None));
    assert!(status.space.unwrap().bytes > 0);
    let entries = fs::read_dir(fixture.root.path().join("=probe")).unwrap();
    assert_eq!(entries.count(), 0);
}

#[tokio::test]
async fn one_that_must_be_checked_takes_no_blocks_before() {
    let fixture = Fixture::new();
    fixture.storage.require_check();
    assert!(!fixture.storage.is_available() && fixture.storage.is_readable());
    assert_eq!(reason(&fixture.storage.status()), Some(Reason::Unproven));
    assert_eq!(fixture.probe().await.level, Level::Up);
}

#[tokio::test]
async fn each_step_of_the_check_can_fail_it() {
    use Operation::{OpenRoot, Remove, Space, Write};
    let cases = [
        (OpenRoot, Errno::NOTCONN, Reason::Missing, Level::Down),
        (OpenRoot, Errno::STALE, Reason::Missing, Level::Down),
        (Space, Errno::IO, Reason::Failing, Level::Down),
        (Write, Errno::NOSPC, Reason::Full, Level::Readable),
        (Write, Errno::ACCESS, Reason::Failing, Level::Down),
        (Remove, Errno::ROFS, Reason::ReadOnly, Level::Readable),
    ];
    for (operation, errno, expected, level) in cases {
        // Nothing was known of it: the first finding counts.
        let fixture = Fixture::new();
        fixture.fault().fail(operation, errno);
        let status = fixture.probe().await;
        assert_eq!((reason(&status), status.level), (Some(expected), level));
        let detail = &status.problem.as_ref().unwrap().detail;
        let root = fixture.root.path().to_str().unwrap();
        assert!(detail.starts_with(root), "{detail}");
    }
}

#[tokio::test]
async fn one_that_worked_is_down_after_three_failures_and_up_after_two_successes() {
    let fixture = Fixture::new();
    fixture.probe().await;
    fixture.fault().fail(Operation::Write, Errno::IO);
    assert_eq!(fixture.probe().await.level, Level::Up);
    assert_eq!(fixture.probe().await.level, Level::Up);
    assert_eq!(fixture.probe().await.level, Level::Down);
    fixture.fault().heal();
    assert_eq!(fixture.probe().await.level, Level::Down);
    let status = fixture.probe().await;
    assert_eq!((status.level, status.times_down), (Level::Up, 1));
}

#[tokio::test]
async fn a_missing_root_is_down_and_what_was_made_there_is_forgotten_when_it_is_back() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    fixture.create("i", &made).await.unwrap();
    fixture.probe().await;
    fixture.fault().fail(Operation::OpenRoot, Errno::NOENT);
    fixture.fault().fail(Operation::MakeDirectory, Errno::NOENT);
    for _ in 0..3 {
        fixture.probe().await;
    }
    assert_eq!(fixture.storage.status().level, Level::Down);
    fixture.fault().heal();
    fixture.probe().await;
    fixture.probe().await;
    assert!(fixture.storage.is_available());
    assert!(!fixture.storage.has_directory(&made, GRANT));
}

#[tokio::test]
async fn a_root_that_was_emptied_is_noticed() {
    let fixture = Fixture::new();
    let made = MadeDirectories::default();
    fixture.probe().await;
    fixture.create("i", &made).await.unwrap();
    fixture.probe().await;
    assert!(fixture.storage.has_directory(&made, GRANT));
    for entry in fs::read_dir(fixture.root.path()).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    assert_eq!(fixture.probe().await.level, Level::Up);
    assert!(!fixture.storage.has_directory(&made, GRANT));
}

#[tokio::test]
async fn a_hung_root_takes_one_thread_and_no_other_storage_waits_for_it() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    fixture.probe().await;
    fixture.fault().hang(Operation::Space);
    let both = || probe_all([&fixture.storage, &other.storage], LONG);
    hang(&fixture, 1, fixture.probe()).await;
    assert_eq!(fixture.storage.status().level, Level::Up);
    for _ in 0..2 {
        // Those after it see that it has not returned, and do not wait.
        both().await;
    }
    let status = fixture.storage.status();
    assert_eq!(
        (status.level, reason(&status)),
        (Level::Down, Some(Reason::Hung))
    );
    assert_eq!(status.hung_threads, 1);
    assert!(other.storage.is_available());

    heal(&fixture).await;
    both().await;
    both().await;
    assert!(fixture.storage.is_available());
}

#[tokio::test]
async fn storages_of_one_root_are_checked_once_and_know_the_same() {
    let fixture = Fixture::new();
    let again: Vec<DataStorage> = ["s", "t"].map(|name| fixture.again(name)).into();
    probe_all([&fixture.storage, &again[0], &again[1]], LONG).await;
    assert_eq!(fixture.fault().count(Operation::Write), 1);
    fixture.fault().fail(Operation::Write, Errno::NOSPC);
    probe_all(&again, LONG).await;
    assert_eq!(reason(&fixture.storage.status()), Some(Reason::Full));
}
