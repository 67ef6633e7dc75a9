//! AdminService: the log level at run time.

use kvcm_proto::admin;

use super::Services;
use crate::{
    config::LogLevel,
    http::CallContext,
    reply::{CallError, Code, Header, Reply as _},
};

impl Services {
    /// Sets the level of this node's log until it restarts.
    pub(crate) fn update_logger(
        &self,
        _context: &CallContext,
        request: admin::UpdateLoggerRequest,
    ) -> admin::CommonResponse {
        let header = match self.set_level(&request.log_level) {
            Ok(()) => Header::ok(&request.trace_id),
            Err(error) => Header::refused(&request.trace_id, error),
        };
        admin::CommonResponse::only(header)
    }

    fn set_level(&self, text: &str) -> Result<(), CallError> {
        let level = match text.to_ascii_uppercase().as_str() {
            "ERROR" => LogLevel::Error,
            "WARN" => LogLevel::Warn,
            "INFO" => LogLevel::Info,
            "DEBUG" => LogLevel::Debug,
            _ => {
                let mut error = CallError::missing(&["log_level"]);
                error
                    .message
                    .push_str(": DEBUG, INFO, WARN or ERROR is needed");
                return Err(error);
            }
        };
        let Some(log) = self.log.get() else {
            let message = "this server does not own the log of its process";
            return Err(CallError::new(Code::Unsupported, message));
        };
        log.set_level(level);
        tracing::info!(?level, "log level set");
        Ok(())
    }
}
