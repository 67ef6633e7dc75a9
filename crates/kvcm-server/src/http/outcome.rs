//! How a call was answered, told to whoever observes calls from outside.

/// How a call was answered; lies in the extensions of its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The code of the answer's header.
    pub code: i32,
    /// The request id of the answer's header.
    pub request_id: String,
    /// What the call was to change, when it is one for the audit log.
    pub subject: Option<String>,
}

/// An answer of the protocol: each has a header.
pub trait Answer {
    /// Code and request id of its header.
    fn header(&self) -> (i32, &str);

    /// How the call went.
    fn outcome(&self, subject: Option<String>) -> Outcome {
        let (code, request_id) = self.header();
        Outcome {
            code,
            request_id: request_id.to_owned(),
            subject,
        }
    }
}
