//! The configuration reference, made from the table of keys.

use std::fmt::Write as _;

use super::{KEYS, Key, Kind, VARIABLES};

/// How to make the file again.
const COMMAND: &str = "cargo run -p kvcm-server -- --print-reference > docs/CONFIGURATION.md";

const HEAD: &str = "\
# Configuration

Every key of `kvcm-server`, made from the table that also parses them.

## Command line

| option | what it does |
|---|---|
| `-c`, `--config_file FILE` | reads a file of `key=value` lines; `#` starts a comment anywhere in a line |
| `-e`, `--env KEY=VALUE` | sets one key; may be given many times, the first value of a key counts |
| `-d`, `--daemon` | serves in the background: returns 0 once the ports are served, else the error's code; working folder, stdout and stderr stay, stdin is empty, `ps` shows the arguments |
| `-l`, `--log_config_file FILE` | accepted for old scripts, has no effect |
| `--check-config` | checks the configuration, refuses unknown keys as well, and ends |
| `--print-config` | prints the value of every key and where it comes from, and ends |
| `-h`, `--help`, `-v`, `--version` | print on stdout, end with 0 |

The predecessor's `-h` and `-v` end with 1, it goes on after an unknown option, and its `-d` returns
before a port is open; here an unknown option or an option without its value ends with 2. A link
named `kv_cache_manager_bin` works as the program's name. SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 stop
the server in good order, a second one ends it at once; SIGHUP has the files of TLS read again;
SIGPIPE is ignored.

## Sources

The later one wins: the defaults below; the file of `-c`; `-e`; environment variables named like the
key, with dots or with underscores (`kvcm_service_rpc_port`; an empty one counts as unset). An
unknown key gets a warning with the nearest known one. Every mistake is reported at once, with exit
code 2, before anything listens.

## Keys
";

/// The reference as Markdown.
pub fn reference() -> String {
    let mut out = HEAD.to_owned();
    out += "\n| key | default | meaning |\n|---|---|---|\n";
    for key in KEYS.iter().filter(|key| key.is_used()) {
        // Writing to a text cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            key.name,
            default(key),
            cell(&meaning(key))
        );
    }
    out += "\n## Environment variables of their own\n\n";
    for variable in VARIABLES.iter().filter(|variable| variable.used) {
        let _ = writeln!(out, "- `{}`: {}", variable.name, variable.doc);
    }
    out += "\n## Keys of the predecessor that have no effect here\n\n";
    out += "Accepted with a note, so that its configuration files can be used as they are.\n\n";
    for key in KEYS.iter().filter(|key| !key.is_used()) {
        let _ = writeln!(out, "- `{}`: {}", key.name, key.doc);
    }
    let _ = write!(out, "\nThis file is made by `{COMMAND}`.\n");
    out
}

fn default(key: &Key) -> String {
    match key.default {
        "" => "empty".to_owned(),
        text => format!("`{text}`"),
    }
}

fn meaning(key: &Key) -> String {
    let mut text = key.doc.to_owned();
    if let Kind::Number { min, max, .. } = key.kind {
        let _ = write!(text, "; {min} to {max}");
    }
    if let Some(alias) = key.alias {
        let _ = write!(text, "; older name `{alias}`, used while this one is empty");
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CONFIGURATION.md");
        let file = std::fs::read_to_string(path).unwrap();
        assert!(
            file == reference(),
            "docs/CONFIGURATION.md is stale, run: {COMMAND}"
        );
    }
}
