//! The error of a call that is given up.

use kvcm_proto::meta::ErrorCode;

use super::Progress;
use crate::{
    error::{Error, ErrorKind, Outcome},
    policy::{Failure, Reason},
    rpc::Failed,
};

impl Progress<'_> {
    /// What the application is told.
    pub(super) fn error(&mut self, failed: &Failed, reason: Reason) -> Error {
        let telling = self.telling.unwrap_or(failed.failure);
        let kind = match (reason, telling) {
            (Reason::Definite | Reason::Tries, _) | (Reason::Budget, Failure::Busy { .. }) => {
                kind_of(failed)
            }
            (_, Failure::NotLeader { .. } | Failure::NoLeader | Failure::StaleReply) => {
                ErrorKind::NoLeader
            }
            (_, Failure::LeaderUnreachable) => ErrorKind::LeaderUnreachable,
            (_, Failure::Unreachable | Failure::Broken | Failure::NoNode) => ErrorKind::Transport,
            (_, _) => ErrorKind::DeadlineExceeded,
        };
        let outcome = if self.may_have_happened && reason != Reason::Definite {
            Outcome::Unknown
        } else {
            Outcome::NotDone
        };
        let after = self.started.elapsed().as_millis();
        let last = self.story.last_result().to_owned();
        let message = match reason {
            Reason::Definite => last,
            Reason::Deadline => format!("gave up after {after} ms, last: {last}"),
            Reason::Tries => format!("gave up after {} tries, last: {last}", self.tries),
            Reason::Budget => {
                format!("the retry budget leaves no time for another try, last: {last}")
            }
        };
        let (attempts, total) = std::mem::take(&mut self.story).into_parts();
        Error::new(kind, outcome, self.call.name, message).with_attempts(attempts, total)
    }
}

/// The code of the protocol that the failure came with.
pub(super) fn code_of(failed: &Failed) -> ErrorCode {
    ErrorCode::try_from(failed.code).unwrap_or(ErrorCode::Unspecified)
}

/// The kind of a definite failure.
pub(crate) fn kind_of(failed: &Failed) -> ErrorKind {
    use tonic::Code;

    if let Some(status) = failed.status {
        return match status {
            Code::Unimplemented => ErrorKind::Unsupported,
            Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidArgument,
            Code::ResourceExhausted => ErrorKind::Capacity,
            Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Unauthorized,
            _ => ErrorKind::Transport,
        };
    }
    match ErrorCode::try_from(failed.code) {
        Ok(ErrorCode::InvalidArgument) => ErrorKind::InvalidArgument,
        Ok(ErrorCode::InstanceNotExist) => ErrorKind::InstanceNotExist,
        Ok(ErrorCode::DuplicateEntity) => ErrorKind::Duplicate,
        Ok(ErrorCode::ReachMaxEntityCapacity) => ErrorKind::Capacity,
        Ok(ErrorCode::ServerNotLeader) => ErrorKind::NotLeader,
        Ok(ErrorCode::Unsupported) => ErrorKind::Unsupported,
        _ if failed.code != 0 => ErrorKind::Server(failed.code),
        _ => ErrorKind::Transport,
    }
}
