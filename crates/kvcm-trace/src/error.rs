//! What can be wrong with a trace file.

use std::io;

use thiserror::Error;

/// Why a line of a trace could not be read. Lines are counted from 1.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file itself could not be read any further.
    #[error("line {line}: cannot be read: {source}")]
    Io {
        /// The line that was being read.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The line is longer than a request can be; probably the file is something else.
    #[error("line {line}: longer than {limit} bytes; is this a file of JSON lines?")]
    TooLong {
        /// The line that was being read.
        line: u64,
        /// The longest line that is read, in bytes.
        limit: usize,
    },
    /// The line is not a JSON object.
    #[error("line {line}: not a JSON object: {reason}")]
    NotAnObject {
        /// The line.
        line: u64,
        /// What is there instead.
        reason: String,
    },
    /// A field is missing or has a value that it cannot have.
    #[error("line {line}: field `{field}`: {reason}")]
    Field {
        /// The line.
        line: u64,
        /// The field's name in the file.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}
