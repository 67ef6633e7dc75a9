//! The configuration reference, made from the table of keys.

use std::fmt::Write as _;

use super::{KEYS, Key, Kind, VARIABLES};

/// How to make the file again.
const COMMAND: &str = "cargo run -p kvcm-server -- --print-reference > docs/CONFIGURATION.md";

const HEAD: &str = "\
# Configuration

Every key of `kvcm-server`, made from the table that also parses them.

Sources, the later one wins: the defaults below; the file of `-c` (`key=value` lines, `#` starts a
comment); `-e key=value` (may be given many times); environment variables named like the key, with
dots or with underscores (`kvcm_service_rpc_port`; an empty one counts as unset).
`kvcm-server --print-config` shows what applies and where it comes from, `--check-config` checks it
and refuses unknown keys. Every mistake is reported at once, with exit code 2, before anything
listens.
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
