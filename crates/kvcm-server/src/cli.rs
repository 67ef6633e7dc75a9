//! The command line.

use std::path::PathBuf;

use clap::{ArgAction, Parser};

use crate::config::Sources;

/// A KV-cache metadata manager for clusters of LLM inference engines.
///
/// Settings come from the defaults, the configuration file, -e, and the environment; the later
/// one wins. Without any of them a single node runs on ports 6381, 6382, 6491 and 6492.
#[derive(Debug, Clone, Parser)]
#[command(name = "kvcm-server", version, disable_version_flag = true)]
pub struct Cli {
    /// File of `key=value` lines; `#` starts a comment.
    #[arg(
        short = 'c',
        long = "config_file",
        alias = "config-file",
        value_name = "FILE"
    )]
    config_file: Option<PathBuf>,

    /// A setting; may be given many times.
    #[arg(
        short = 'e',
        long = "env",
        value_name = "KEY=VALUE",
        allow_hyphen_values = true
    )]
    env: Vec<String>,

    /// Accepted for the sake of old scripts; logging is set by kvcm.logger.* keys.
    #[arg(
        short = 'l',
        long = "log_config_file",
        alias = "log-config-file",
        value_name = "FILE"
    )]
    log_config_file: Option<PathBuf>,

    /// Run in the background: returns once the server serves its ports, or with its error.
    ///
    /// Working folder, standard output and standard error stay as they are.
    #[arg(short = 'd', long)]
    daemon: bool,

    /// Read the configuration, say what is wrong with it, unknown keys included, and end.
    #[arg(long = "check-config", alias = "check_config")]
    check_config: bool,

    /// Print the value of every key with its source, and end.
    #[arg(long = "print-config", alias = "print_config")]
    print_config: bool,

    /// Print the reference of all keys as Markdown, and end.
    #[arg(long = "print-reference", hide = true)]
    print_reference: bool,

    /// Print the version.
    #[arg(short = 'v', short_alias = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// What the process is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Serve.
    Run,
    /// Only check the configuration.
    CheckConfig,
    /// Only print the configuration.
    PrintConfig,
    /// Only print the reference of all keys.
    PrintReference,
}

impl Cli {
    /// What the process is asked to do.
    pub const fn task(&self) -> Task {
        if self.print_reference {
            return Task::PrintReference;
        }
        match (self.print_config, self.check_config) {
            (true, _) => Task::PrintConfig,
            (false, true) => Task::CheckConfig,
            (false, false) => Task::Run,
        }
    }

    /// Whether to serve in the background.
    pub fn is_daemon(&self) -> bool {
        self.daemon && self.task() == Task::Run
    }

    /// The sources of the configuration that are named here.
    pub fn sources(&self) -> Sources {
        Sources {
            file: self.config_file.clone(),
            settings: self.env.clone(),
            refuse_unknown: self.check_config,
        }
    }

    /// What to tell about options that have no effect.
    pub fn notes(&self) -> Vec<String> {
        let log_file = self.log_config_file.as_ref().map(|path| {
            format!(
                "option -l {} has no effect: logs go to standard error, set kvcm.logger.log_level \
                 and kvcm.logger.format",
                path.display()
            )
        });
        log_file.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, error::ErrorKind};

    use super::*;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["kvcm-server"], args].concat())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn both_spellings_and_repeated_settings() {
        for name in ["-c", "--config_file", "--config-file"] {
            let cli = parse(&[name, "f", "-e", "a=1", "--env", "-b=2", "--env=c="]).unwrap();
            assert_eq!(cli.sources().file, Some(PathBuf::from("f")));
            assert_eq!(cli.sources().settings, ["a=1", "-b=2", "c="]);
            assert_eq!(cli.task(), Task::Run);
        }
    }

    #[test]
    fn the_log_file_is_accepted_with_a_note() {
        assert_eq!(parse(&["-l", "x"]).unwrap().notes().len(), 1);
        assert!(parse(&[]).unwrap().notes().is_empty());
    }

    #[test]
    fn version_and_help_are_answers_and_unknown_options_end_with_2() {
        for name in ["-v", "-V", "--version"] {
            assert_eq!(
                parse(&[name]).unwrap_err().kind(),
                ErrorKind::DisplayVersion
            );
        }
        assert_eq!(parse(&["-h"]).unwrap_err().kind(), ErrorKind::DisplayHelp);
        for args in [&["--nope"][..], &["positional"], &["-c"], &["-d=x"]] {
            assert_eq!(parse(args).unwrap_err().exit_code(), 2, "{args:?}");
        }
    }

    #[test]
    fn a_daemon_serves_and_does_nothing_else() {
        assert!(parse(&["-d"]).unwrap().is_daemon());
        assert!(parse(&["--daemon", "-c", "f"]).unwrap().is_daemon());
        assert!(!parse(&["-d", "--check-config"]).unwrap().is_daemon());
        assert!(!parse(&[]).unwrap().is_daemon());
    }

    #[test]
    fn checking_refuses_unknown_keys() {
        let cli = parse(&["--check-config"]).unwrap();
        assert!(cli.sources().refuse_unknown);
        assert_eq!(cli.task(), Task::CheckConfig);
        assert_eq!(
            parse(&["--print-config"]).unwrap().task(),
            Task::PrintConfig
        );
    }
}
