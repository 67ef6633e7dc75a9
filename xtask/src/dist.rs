//! `cargo xtask dist`: what is shipped. A tarball and a Debian package, each tried out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

use crate::{licenses, metadata, shell, smoke};

const SERVER: &str = "kvcm-server";

/// The version that `[package.metadata.deb]` was written for.
const CARGO_DEB: &str = "3.8.0";

/// What goes from the repository into the tarball, and where.
const FILES: &[(&str, &str)] = &[
    ("LICENSE", "LICENSE"),
    ("README.md", "README.md"),
    ("docs", "docs"),
    ("deploy", "deploy"),
];

/// What only the Debian package needs.
const DEBIAN: &str = "deploy/debian";

/// Builds, packs and tries out. Says at the end what there is. `dev` packs the development build.
pub(crate) fn run(dev: bool) -> anyhow::Result<()> {
    let profile = if dev { "dev" } else { "release" };
    let workspace = metadata::load()?;
    let version = shell::version(SERVER)?;
    let platform = platform()?;
    let out = workspace.target_directory.join("dist");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    let build = || {
        let arguments = ["build", "--profile", profile, "--locked", "-p", SERVER];
        shell::run(&mut shell::cargo(arguments))
    };
    shell::timed("building", build)?;
    let folder = if dev { "debug" } else { "release" };
    let binary = workspace.target_directory.join(folder).join(SERVER);

    let name = format!("kvcm-{version}-{platform}");
    let tarball = shell::timed("tarball", || tarball(&out, &name, &platform, &binary))?;
    shell::timed("trying the tarball", || try_tarball(&tarball, &name))?;
    let package = shell::timed("Debian package", || debian(&out, profile))?;
    shell::timed("trying the Debian package", || try_debian(&package))?;
    sums(&out, &[&tarball, &package])?;
    check_deploy(&binary)?;
    for file in fs::read_dir(&out)? {
        let file = file?;
        if file.file_type()?.is_file() {
            eprintln!(
                "{} bytes  {}",
                file.metadata()?.len(),
                file.path().display()
            );
        }
    }
    Ok(())
}

/// The platform that this cargo builds for.
fn platform() -> anyhow::Result<String> {
    let text = shell::output(Command::new("rustc").args(["-vV"]))?;
    let text = String::from_utf8(text)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .context("rustc does not tell its host")
}

fn tarball(out: &Path, name: &str, platform: &str, binary: &Path) -> anyhow::Result<PathBuf> {
    let folder = out.join(name);
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    let server = bin.join(SERVER);
    fs::copy(binary, &server)?;
    shell::run(Command::new("strip").arg(&server))?;
    // Scripts of the predecessor look for its name.
    std::os::unix::fs::symlink(SERVER, bin.join("kv_cache_manager_bin"))?;
    for (from, to) in FILES {
        copy(&shell::root().join(from), &folder.join(to))?;
    }
    licenses::write(&folder, platform)?;
    let sums = shell::output(
        Command::new("sh")
            .args([
                "-c",
                "find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs -d '\\n' sha256sum",
            ])
            .current_dir(&folder),
    )?;
    fs::write(folder.join("SHA256SUMS"), sums)?;
    let tarball = out.join(format!("{name}.tar.gz"));
    // The same files make the same bytes, whoever packs them and when.
    shell::run(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
            .args(["--mtime=@0", "--use-compress-program=gzip -n", "-cf"])
            .arg(&tarball)
            .arg(name)
            .current_dir(out),
    )?;
    fs::remove_dir_all(&folder)?;
    Ok(tarball)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if from.ends_with(DEBIAN) {
        return Ok(());
    }
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

fn try_tarball(tarball: &Path, name: &str) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    shell::run(
        Command::new("tar")
            .arg("-xzf")
            .arg(tarball)
            .arg("-C")
            .arg(folder.path()),
    )?;
    let root = folder.path().join(name);
    shell::run(
        Command::new("sha256sum")
            .args(["--quiet", "-c", "SHA256SUMS"])
            .current_dir(&root),
    )?;
    let config = root.join("deploy/config/single-node.conf");
    smoke::run(&root.join("bin").join(SERVER), &config)?;
    smoke::run(&root.join("bin/kv_cache_manager_bin"), &config)
}

fn debian(out: &Path, profile: &str) -> anyhow::Result<PathBuf> {
    let known = Command::new("cargo")
        .args(["deb", "--version"])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success());
    if !known {
        eprintln!("cargo-deb is missing: installing it");
        let install = ["install", "cargo-deb", "--version", CARGO_DEB, "--locked"];
        shell::run(&mut shell::cargo(install))?;
    }
    let arguments = ["deb", "-p", SERVER, "--no-build", "--locked"];
    let arguments = arguments
        .into_iter()
        .chain(["--profile", profile, "--output"]);
    shell::run(shell::cargo(arguments).arg(out))?;
    let files = fs::read_dir(out)?.flatten().map(|entry| entry.path());
    let mut packages = files.filter(|file| file.extension().is_some_and(|end| end == "deb"));
    packages.next().context("cargo-deb has made no package")
}

/// Takes the package apart instead of installing it, which needs no root and leaves nothing.
fn try_debian(package: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    shell::run(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(package)
            .arg(folder.path()),
    )?;
    let root = folder.path();
    for file in [
        "usr/bin/kvcm-server",
        "usr/bin/kv_cache_manager_bin",
        "etc/kvcm/kvcm.conf",
        "usr/lib/systemd/system/kvcm-server.service",
    ] {
        if !root.join(file).exists() {
            bail!("{file} is not in {}", package.display());
        }
    }
    smoke::run(
        &root.join("usr/bin/kvcm-server"),
        &root.join("etc/kvcm/kvcm.conf"),
    )
}

/// Has Prometheus and systemd look at the files that are meant for them, where they are.
fn check_deploy(binary: &Path) -> anyhow::Result<()> {
    let deploy = shell::root().join("deploy");
    match shell::find_program("promtool") {
        Some(promtool) => {
            let folder = deploy.join("prometheus");
            let check = |what: [&str; 3]| {
                shell::run(Command::new(&promtool).args(what).current_dir(&folder))
            };
            check(["check", "rules", "kvcm.rules.yml"])?;
            check(["check", "config", "prometheus.yml"])?;
        }
        None => eprintln!("promtool is missing: alerts and rules were not checked"),
    }
    let Some(analyze) = shell::find_program("systemd-analyze") else {
        eprintln!("systemd-analyze is missing: the unit was not checked");
        return Ok(());
    };
    // The unit names a file that is there once the package is installed.
    let folder = tempfile::tempdir()?;
    let unit = folder.path().join("kvcm-server.service");
    let text = fs::read_to_string(deploy.join("systemd/kvcm-server.service"))?;
    let text = text.replace("/usr/bin/kvcm-server", &binary.to_string_lossy());
    fs::write(&unit, text)?;
    shell::run(Command::new(analyze).arg("verify").arg(&unit))
}

/// Writes `SHA256SUMS` beside the files.
fn sums(out: &Path, files: &[&Path]) -> anyhow::Result<()> {
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = shell::output(Command::new("sha256sum").args(names).current_dir(out))?;
    fs::write(out.join("SHA256SUMS"), sums)?;
    Ok(())
}
