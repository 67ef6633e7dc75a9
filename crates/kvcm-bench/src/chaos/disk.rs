//! A small disk that can be full.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

const MARK: &str = "KVCM_CHAOS_MOUNTS";
const SIZE: &str = "size=256m";

/// Starts this program again in a mount namespace of its own, where a small disk can be mounted
/// that goes away with the last process of the run. Returns where that cannot be: without root, or
/// without `unshare`. Disks are not filled then.
pub fn private_mounts() {
    let is_there = std::env::var_os(MARK).is_some();
    if is_there || !rustix::process::geteuid().is_root() {
        return;
    }
    let Ok(own) = std::env::current_exe() else {
        return;
    };
    let error = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .exec();
    eprintln!("unshare: {error}; going on without a disk of our own");
}

/// Where nodes keep files.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    is_small: bool,
}

impl Disk {
    /// A folder; a small disk of its own where that can be had.
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = fs::canonicalize(folder)?;
        let may_mount = std::env::var_os(MARK).is_some();
        let mounted = may_mount.then(|| {
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", SIZE, "none"]).arg(&folder);
            mount.status()
        });
        let is_small = matches!(mounted, Some(Ok(status)) if status.success());
        Ok(Self { folder, is_small })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it can be filled.
    pub(super) fn is_small(&self) -> bool {
        self.is_small
    }

    /// Leaves no byte free.
    pub(super) fn fill(&self) -> anyhow::Result<()> {
        let mut file = File::create(self.filler()).context("cannot fill the disk")?;
        let chunk = vec![0; 64 << 10];
        for size in [chunk.len(), 4096, 1] {
            // It ends with the error that is wanted: no space left.
            while file.write_all(&chunk[..size]).is_ok() {}
        }
        Ok(())
    }

    pub(super) fn free(&self) -> anyhow::Result<()> {
        fs::remove_file(self.filler()).context("cannot free the disk")
    }

    /// Whether the folder `name` is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.folder.join(name).is_dir()
    }

    /// Lets nobody write into the folder `name`, or all of them, but those who have files open: a
    /// second mount lies over it that may only be read.
    pub(super) fn protect(&self, name: &str) -> anyhow::Result<()> {
        let folder = self.folder.join(name);
        run(
            "mount",
            &["--bind".as_ref(), folder.as_ref(), folder.as_ref()],
        )?;
        let options = "remount,bind,ro";
        run("mount", &["-o".as_ref(), options.as_ref(), folder.as_ref()])
    }

    /// Takes that away.
    pub(super) fn unprotect(&self, name: &str) -> anyhow::Result<()> {
        let folder = self.folder.join(name);
        // Whoever has opened something meanwhile keeps it.
        run("umount", &["-l".as_ref(), folder.as_ref()])
    }

    /// Removes the folder `name` with all that is in it, under those who use it.
    pub(super) fn wipe(&self, name: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        // A node may write into it meanwhile.
        for _ in 0..20 {
            match fs::remove_dir_all(&path) {
                Ok(()) => break,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }
}

fn run(program: &str, words: &[&OsStr]) -> anyhow::Result<()> {
    let status = Command::new(program).args(words).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} {words:?}: {status}");
    Ok(())
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_small {
            // Otherwise it goes away with this process, and its folder cannot be removed.
            let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
        }
    }
}
