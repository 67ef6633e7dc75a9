//! Running other programs, and telling how long it took.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// The top folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Cargo with `args`, in the workspace. The same cargo that runs us where it says so.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(args);
    // What cargo tells us about ourselves would have it build some crates again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// The version of a crate of the workspace.
pub(crate) fn version(name: &str) -> anyhow::Result<String> {
    let text = output(&mut cargo(["pkgid", "--offline", "-p", name]))?;
    let text = String::from_utf8(text)?;
    let version = text.trim().rsplit(['#', '@']).next();
    version
        .map(str::to_owned)
        .with_context(|| format!("cargo does not tell the version of {name}"))
}

/// Runs `command` without input; a status other than 0 is an error that names the command.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let text = describe(command);
    eprintln!("$ {text}");
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed ({status})");
    }
    Ok(())
}

/// Runs `command` and gives what it printed on stdout.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let text = describe(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{text}`"))?;
    if !output.status.success() {
        bail!("`{text}` failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// Does `work` and says how long it took.
pub(crate) fn timed<T>(what: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = now();
    let result = work();
    let outcome = if result.is_ok() {
        "took"
    } else {
        "failed after"
    };
    eprintln!("{what}: {outcome} {}", seconds(start.elapsed()));
    result
}

/// The file of the program `name`, looked up as a shell does.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask depends on no product crate, and the time is only shown to people"
)]
fn now() -> Instant {
    Instant::now()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.to_string().contains("sh -c exit 3"), "{error}");
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(
            error.to_string().contains("no-such-program-here"),
            "{error}"
        );
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-here"), None);
    }
}
