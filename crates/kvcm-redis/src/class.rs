//! What follows from an error of the driver.

use redis::{ErrorKind, RedisError, ServerError};

use crate::{Address, link::Place};

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A later try may succeed.
    Retryable {
        /// What is known of the call that failed.
        outcome: Outcome,
    },
    /// No try will succeed until somebody acts.
    Fatal {
        /// What to do.
        hint: &'static str,
    },
}

/// What is known of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not happen.
    NotDone,
    /// It may have happened, or may still happen: what a stopped server has received it will do
    /// when it goes on, unless the command says until when
    /// ([`Link::server_millis_at`](crate::Link::server_millis_at)).
    Unknown,
}

/// What to do with the connection that an error came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// It is well.
    Keep,
    /// Close it, and look at the server anew before the next call.
    Drop,
    /// The same, and the server may never have seen this call: repeat it if that is safe.
    Lost,
    /// The server has said that another one serves this slot: ask that one.
    Moved,
}

pub(crate) const CREDENTIALS: &str = "correct the credentials in the URI \
                                      (redis://user:password@host), or the server's users and \
                                      passwords";
const PERMISSION: &str = "allow the ACL user the keys and channels `kvcm_*` and the commands that \
                          the error names";
const CLUSTER: &str = "report this: the keys of one call must be in one hash slot";
const CONFIGURATION: &str = "correct the URI of the Redis server, or the server's configuration";
const CERTIFICATE: &str = "name the server as its certificate does, and the authority's file with \
                           tls_ca_file=";
const UNSUPPORTED: &str = "use Redis 5 or newer with scripts enabled";

const NOT_DONE: Class = Class::Retryable {
    outcome: Outcome::NotDone,
};
const UNKNOWN: Class = Class::Retryable {
    outcome: Outcome::Unknown,
};

impl Class {
    /// The class of an error that a command gave.
    ///
    /// An error that the server answered means that nothing happened: our scripts check
    /// everything before their first write, and Redis refuses a script at its first write or not
    /// at all.
    pub fn of(error: &RedisError) -> Self {
        table(error).0
    }
}

impl Connection {
    pub(crate) fn after(error: &RedisError) -> Self {
        table(error).1
    }
}

/// The one table of all errors.
fn table(error: &RedisError) -> (Class, Connection) {
    use Connection::{Drop, Keep, Lost, Moved};
    if let Some(code) = code(error) {
        return match code.as_str() {
            // The server is what we want, but not now.
            "LOADING" | "BUSY" | "OOM" | "NOREPLICAS" | "MISCONF" | "TRYAGAIN" => (NOT_DONE, Keep),
            // `Script` answers it with EVAL; seen here only when scripts are flushed all the time.
            "NOSCRIPT" => (NOT_DONE, Keep),
            // The role may have changed, or the address may lead to another server by now.
            "READONLY" | "MASTERDOWN" | "UNBLOCKED" => (NOT_DONE, Lost),
            "CLUSTERDOWN" => (NOT_DONE, Drop),
            // Our scripts': the call came after its deadline by the server's clock. When somebody
            // still hears it, that clock was set forward: a new connection looks at it anew.
            "KVCMLATE" => (NOT_DONE, Lost),
            "NOAUTH" | "WRONGPASS" => (Class::Fatal { hint: CREDENTIALS }, Drop),
            "NOPERM" => (Class::Fatal { hint: PERMISSION }, Drop),
            "MOVED" | "ASK" => (NOT_DONE, Moved),
            "CROSSSLOT" => (Class::Fatal { hint: CLUSTER }, Drop),
            // Somebody's key of another type in our place.
            "WRONGTYPE" => (NOT_DONE, Keep),
            "ERR" => (general(error), Drop),
            // Also our scripts' own codes: they come before the first write.
            _ => (NOT_DONE, Keep),
        };
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => (Class::Fatal { hint: CREDENTIALS }, Drop),
        ErrorKind::InvalidClientConfig => {
            let hint = CONFIGURATION;
            (Class::Fatal { hint }, Drop)
        }
        ErrorKind::RESP3NotSupported => (Class::Fatal { hint: UNSUPPORTED }, Drop),
        // The TLS library's words; its type is lost on the way.
        ErrorKind::Io if error.to_string().contains("invalid peer certificate") => {
            (Class::Fatal { hint: CERTIFICATE }, Drop)
        }
        ErrorKind::Io if error.is_connection_refusal() => (NOT_DONE, Lost),
        ErrorKind::Io if error.is_connection_dropped() => (UNKNOWN, Lost),
        // An answer came that is not of the type that we asked for: it may have happened.
        ErrorKind::UnexpectedReturnType => (UNKNOWN, Keep),
        _ => (UNKNOWN, Drop),
    }
}

/// `ERR` says all that has no code of its own.
fn general(error: &RedisError) -> Class {
    let text = error.to_string().to_ascii_lowercase();
    let has = |part: &str| text.contains(part);
    if has("db index") || has("database") {
        let hint = CONFIGURATION;
        return Class::Fatal { hint };
    }
    // Without a password set, AUTH is an ERR.
    if has("auth") && (has("without any password") || has("no password")) {
        return Class::Fatal { hint: CREDENTIALS };
    }
    if has("unknown command") || has("unknown redis command") || has("unknown subcommand") {
        let hint = UNSUPPORTED;
        return Class::Fatal { hint };
    }
    if has("max number of clients") {
        return NOT_DONE;
    }
    UNKNOWN
}

/// The code that the server answered with: of the first failure when there are several.
fn code(error: &RedisError) -> Option<String> {
    if let Some(code) = error.code() {
        return Some(code.to_owned());
    }
    first(error).map(|first| first.code().to_owned())
}

fn first(error: &RedisError) -> Option<ServerError> {
    let errors = error.clone().into_server_errors()?;
    errors.first().map(|(_, first)| first.clone())
}

/// The words of the server, of the first failure when there are several.
pub(crate) fn said(error: &RedisError) -> Option<String> {
    let first = first(error)?;
    let details = first.details().unwrap_or_default();
    Some(format!("{} {details}", first.code()))
}

/// Where the server at `asked` sends us: `MOVED slot host:port` or `ASK slot host:port`.
pub(crate) fn redirection(error: &RedisError, asked: &Address) -> Option<Place> {
    let details = match error.detail() {
        Some(details) => details.to_owned(),
        None => first(error)?.details()?.to_owned(),
    };
    let address = details.split_ascii_whitespace().nth(1)?;
    Some(Place {
        address: Address::printed(address, asked)?,
        is_asking: code(error)? == "ASK",
    })
}

/// Whether a script has to be sent again with its text.
pub(crate) fn is_missing_script(error: &RedisError) -> bool {
    code(error).is_some_and(|code| code == "NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::ServerErrorKind;

    use super::*;

    fn said(code: &str, detail: &str) -> RedisError {
        let kind = match code {
            "ERR" => ServerErrorKind::ResponseError,
            "LOADING" => ServerErrorKind::BusyLoading,
            "NOSCRIPT" => ServerErrorKind::NoScript,
            "MOVED" => ServerErrorKind::Moved,
            "ASK" => ServerErrorKind::Ask,
            "CROSSSLOT" => ServerErrorKind::CrossSlot,
            "TRYAGAIN" => ServerErrorKind::TryAgain,
            "CLUSTERDOWN" => ServerErrorKind::ClusterDown,
            "MASTERDOWN" => ServerErrorKind::MasterDown,
            "READONLY" => ServerErrorKind::ReadOnly,
            "NOPERM" => ServerErrorKind::NoPerm,
            _ => return redis::make_extension_error(code.to_owned(), Some(detail.to_owned())),
        };
        RedisError::from((ErrorKind::Server(kind), "said", detail.to_owned()))
    }

    fn io(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    #[test]
    fn each_code_of_the_server_has_its_class() {
        use Connection::{Drop, Keep, Lost, Moved};
        for (code, class, connection) in [
            ("LOADING", NOT_DONE, Keep),
            ("BUSY", NOT_DONE, Keep),
            ("OOM", NOT_DONE, Keep),
            ("NOREPLICAS", NOT_DONE, Keep),
            ("MISCONF", NOT_DONE, Keep),
            ("TRYAGAIN", NOT_DONE, Keep),
            ("NOSCRIPT", NOT_DONE, Keep),
            ("WRONGTYPE", NOT_DONE, Keep),
            ("KVCMDAMAGED", NOT_DONE, Keep),
            ("KVCMLATE", NOT_DONE, Lost),
            ("READONLY", NOT_DONE, Lost),
            ("MASTERDOWN", NOT_DONE, Lost),
            ("CLUSTERDOWN", NOT_DONE, Drop),
            ("NOAUTH", Class::Fatal { hint: CREDENTIALS }, Drop),
            ("WRONGPASS", Class::Fatal { hint: CREDENTIALS }, Drop),
            ("NOPERM", Class::Fatal { hint: PERMISSION }, Drop),
            ("MOVED", NOT_DONE, Moved),
            ("ASK", NOT_DONE, Moved),
            ("CROSSSLOT", Class::Fatal { hint: CLUSTER }, Drop),
        ] {
            assert_eq!(table(&said(code, "detail")), (class, connection), "{code}");
        }
    }

    #[test]
    fn a_general_error_is_judged_by_its_words() {
        let class = |text| Class::of(&said("ERR", text));
        assert_eq!(class("max number of clients reached"), NOT_DONE);
        let hint = CONFIGURATION;
        assert_eq!(class("DB index is out of range"), Class::Fatal { hint });
        let hint = UNSUPPORTED;
        assert_eq!(class("unknown command `EVALSHA`"), Class::Fatal { hint });
        let no_password = "AUTH <password> called without any password configured";
        assert_eq!(class(no_password), Class::Fatal { hint: CREDENTIALS });
        assert_eq!(class("something new"), UNKNOWN);
    }

    #[test]
    fn a_connection_that_breaks_leaves_the_outcome_open_and_one_that_never_was_does_not() {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
        for kind in [ConnectionReset, BrokenPipe, UnexpectedEof] {
            assert_eq!(table(&io(kind)), (UNKNOWN, Connection::Lost), "{kind}");
        }
        let refused = table(&io(ConnectionRefused));
        assert_eq!(refused, (NOT_DONE, Connection::Lost));
        let timed_out = table(&io(io::ErrorKind::TimedOut));
        assert_eq!(timed_out, (UNKNOWN, Connection::Drop));
    }

    #[test]
    fn errors_of_the_driver_itself_have_their_class() {
        let of = |kind| Class::of(&RedisError::from((kind, "x")));
        let login = of(ErrorKind::AuthenticationFailed);
        assert_eq!(login, Class::Fatal { hint: CREDENTIALS });
        let hint = CONFIGURATION;
        assert_eq!(of(ErrorKind::InvalidClientConfig), Class::Fatal { hint });
        assert_eq!(of(ErrorKind::UnexpectedReturnType), UNKNOWN);
    }

    #[test]
    fn a_redirection_names_its_server() {
        let asked = Address {
            host: "asked".to_owned(),
            port: 1,
        };
        let to = |code, detail| redirection(&said(code, detail), &asked);
        let moved = to("MOVED", "12182 10.0.0.1:7").unwrap();
        assert_eq!(moved.address.to_string(), "10.0.0.1:7");
        assert!(!moved.is_asking);
        let ask = to("ASK", "12182 :7").unwrap();
        assert_eq!(ask.address.to_string(), "asked:7");
        assert!(ask.is_asking);
        assert!(to("MOVED", "nonsense").is_none());
    }

    #[test]
    fn only_noscript_asks_for_the_text_of_the_script() {
        assert!(is_missing_script(&said("NOSCRIPT", "x")));
        assert!(!is_missing_script(&said("ERR", "NOSCRIPT")));
    }
}
