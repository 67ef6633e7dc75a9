//! File systems that are full, read-only or gone, in a mount namespace of their own.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::{
    env, fs,
    io::{ErrorKind, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kvcm_storage::{
    DataStorage, Deletion, Grant, Level, MadeDirectories, Part, Place, Reason, Settings, probe_all,
};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);
const GRANT: Grant = Grant {
    epoch: 1,
    counter: 1,
};
/// Tells a child where its mount point is.
const POINT: &str = "KVCM_TEST_MOUNT_POINT";

#[test]
fn a_full_a_read_only_and_a_missing_file_system_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let mount = r#"mount -t tmpfs -o size=64k,nr_inodes=64 tmpfs "$0" && exec "$@""#;
    let in_namespace = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", mount])
            .args([dir.path(), program])
            .args(arguments)
            .env(POINT, dir.path());
        command.output()
    };
    let allowed = in_namespace(Path::new("true"), &[]);
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("NOT ALLOWED to mount a tmpfs, so none was filled: {allowed:?}");
        return;
    }
    let child = ["--exact", "child", "--nocapture"];
    let output = in_namespace(&env::current_exe().unwrap(), &child).unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Not a test: what the child does.
#[tokio::test]
async fn child() {
    let Some(point) = env::var_os(POINT).map(PathBuf::from) else {
        return;
    };
    let storage = open(&point.join("kv"));
    assert_eq!(probe(&storage).await, (Level::Up, None));
    create(&storage).await;

    for fill in [with_bytes, with_files] {
        let filled = fill(&point);
        assert!(!filled.is_empty());
        assert_eq!(probe(&storage).await, (Level::Readable, Some(Reason::Full)));
        filled
            .iter()
            .for_each(|path| fs::remove_file(path).unwrap());
        assert_eq!(probe(&storage).await.0, Level::Readable);
        assert_eq!(probe(&storage).await, (Level::Up, None));
    }

    remount(&point, "ro");
    let read_only = (Level::Readable, Some(Reason::ReadOnly));
    assert_eq!(probe(&storage).await, read_only);
    remount(&point, "rw");
    probe(&storage).await;
    assert_eq!(probe(&storage).await, (Level::Up, None));

    if fs::metadata(point.parent().unwrap()).unwrap().dev() != fs::metadata("/").unwrap().dev() {
        eprintln!("the mount point is not on the file system of `/`, so nothing was unmounted");
        return;
    }
    run(Command::new("umount").arg(&point));
    for _ in 0..3 {
        probe(&storage).await;
    }
    assert_eq!(probe(&storage).await, (Level::Down, Some(Reason::Missing)));
    let entries = fs::read_dir(&point).unwrap();
    assert_eq!(entries.count(), 0, "nothing is made below the mount point");
    // A file on a file system that is missing is not a file that has gone.
    let deleted = storage.delete(vec![place(&storage)], LONG, || true).await;
    assert!(matches!(deleted.unwrap()[..], [Deletion::Failed { .. }]));
}

fn open(root: &Path) -> DataStorage {
    let settings = Settings::File {
        root_path: root.to_str().unwrap().to_owned(),
        key_count_per_file: 1,
    };
    DataStorage::open("s", &settings).unwrap()
}

fn place(storage: &DataStorage) -> Place {
    let template = storage.template("i", "tp0", 1);
    template.uri(1, GRANT, Part::Whole).place()
}

async fn create(storage: &DataStorage) {
    let made = MadeDirectories::default();
    let template = storage.template("i", "tp0", 1);
    let created = storage.create([(&template, &made)], Vec::new(), GRANT, LONG);
    created.await.unwrap();
}

async fn probe(storage: &DataStorage) -> (Level, Option<Reason>) {
    probe_all([storage], LONG).await;
    let status = storage.status();
    (status.level, status.problem.map(|problem| problem.reason))
}

/// Fills the disk with one file.
fn with_bytes(point: &Path) -> Vec<PathBuf> {
    let path = point.join("filler");
    let mut file = fs::File::create(&path).unwrap();
    while let Ok(written) = file.write(&[0; 4096]) {
        assert!(written > 0);
    }
    vec![path]
}

/// Uses up the files.
fn with_files(point: &Path) -> Vec<PathBuf> {
    let mut made = Vec::new();
    loop {
        let path = point.join(format!("filler{}", made.len()));
        match fs::File::create(&path) {
            Ok(_) => made.push(path),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull);
                return made;
            }
        }
    }
}

fn remount(point: &Path, how: &str) {
    let options = format!("remount,{how}");
    run(Command::new("mount").args(["-o", &options]).arg(point));
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}
