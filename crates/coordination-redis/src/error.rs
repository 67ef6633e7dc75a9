//! Failures of calls in the words of the contract.

use coordination_core::{Error, Outcome};
use kvcm_redis::{Class, Failure, Outcome as Done};

/// The one place where they are mapped; the table of the driver's errors is in `kvcm-redis`.
pub(crate) fn error(failure: Failure) -> Error {
    match failure.class {
        Class::Fatal { hint } => Error::fatal(hint, failure),
        // Our own code for an exhausted counter.
        _ if failure.reason.contains("KVCMEPOCH") => Error::fatal(
            "no epoch is left: start with an empty backend and empty stores",
            failure,
        ),
        Class::Retryable { outcome } => {
            let outcome = match outcome {
                Done::NotDone => Outcome::NotDone,
                Done::Unknown => Outcome::Unknown,
            };
            let source = failure.into();
            Error::Unavailable { outcome, source }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_error() {
        let not_done = error(Failure::not_done("x"));
        assert!(matches!(
            not_done,
            Error::Unavailable {
                outcome: Outcome::NotDone,
                ..
            }
        ));
        let unknown = error(Failure::unknown("x"));
        assert!(matches!(
            unknown,
            Error::Unavailable {
                outcome: Outcome::Unknown,
                ..
            }
        ));
        let fatal = error(Failure::new(Class::Fatal { hint: "do this" }, "x"));
        assert_eq!(fatal.to_string(), "do this: x");
        assert!(!error(Failure::not_done("KVCMEPOCH no epoch is left")).is_retryable());
    }
}
