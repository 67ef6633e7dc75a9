//! One gRPC exchange with one node, in bytes.
//!
//! Requests are encoded once and may be sent many times; replies stay bytes, of which only the
//! header is decoded here. So one function serves every call, and a reply with thousands of
//! locations is not taken apart into strings.

use std::{error::Error as StdError, time::Duration};

use bytes::{Buf, BufMut, Bytes};
use futures_util::{StreamExt, stream::BoxStream};
use http::uri::PathAndQuery;
use kvcm_proto::meta::{CommonResponseHeader, ErrorCode};
use prost::Message;
use tonic::{
    Code, Request, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::{AsciiMetadataValue, MetadataKey},
    transport::Channel,
};

use crate::{credentials::Credentials, policy::Failure};

/// The lowest epoch that the client accepts, in decimal.
const MIN_EPOCH_KEY: &str = "x-kvcm-min-epoch";
/// The id of a mutating call, the same over its retries.
const REQUEST_ID_KEY: &str = "x-kvcm-request-id";

const AUTHORIZATION_KEY: &str = "authorization";
/// When a client may try again, in milliseconds: gRPC's own push-back.
const PUSH_BACK_KEY: &str = "grpc-retry-pushback-ms";

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) path: &'static str,
    pub(crate) body: Bytes,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) min_epoch: u64,
    pub(crate) timeout: Duration,
    pub(crate) reply_bytes_max: usize,
}

/// A reply whose header says OK.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) header: CommonResponseHeader,
    pub(crate) body: Bytes,
}

/// A try that failed, before leadership is considered.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// The node's code; 0 when the node gave none.
    pub(crate) code: i32,
    /// The gRPC status, when that is what failed.
    pub(crate) status: Option<Code>,
    pub(crate) text: String,
    /// The header of an answer that refuses: hint, epoch and cluster are in it.
    pub(crate) header: Option<Box<CommonResponseHeader>>,
}

/// Any response of the protocol: the header is field 1 in all of them, and the extensions of the
/// header have the same numbers in both packages.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    header: Option<CommonResponseHeader>,
}

/// Sends and waits for the answer, at most `timeout`.
pub(crate) async fn exchange(
    channel: Channel,
    outgoing: &Outgoing<'_>,
    credentials: Option<&Credentials>,
) -> Result<Incoming, Failed> {
    let mut client = client(channel, outgoing);
    let mut request = request(outgoing, credentials);
    // The server need not work on for a client that has left.
    request.set_timeout(outgoing.timeout);
    let path = PathAndQuery::from_static(outgoing.path);
    let answer = async {
        client.ready().await.map_err(not_ready)?;
        client.unary(request, path, RawCodec).await
    };
    match tokio::time::timeout(outgoing.timeout, answer).await {
        Ok(Ok(response)) => open(response.into_inner()),
        Ok(Err(status)) => match from_status(&status) {
            // The same limit, noticed by the channel or by the server.
            failed if failed.failure == Failure::Silent => Err(Failed::silent(outgoing.timeout)),
            failed => Err(failed),
        },
        Err(_) => Err(Failed::silent(outgoing.timeout)),
    }
}

/// Subscribes to a stream, whose head comes within `timeout`.
pub(crate) async fn subscribe(
    channel: Channel,
    outgoing: &Outgoing<'_>,
    credentials: Option<&Credentials>,
) -> Result<BoxStream<'static, Result<Bytes, Failed>>, Failed> {
    let mut client = client(channel, outgoing);
    let request = request(outgoing, credentials);
    let path = PathAndQuery::from_static(outgoing.path);
    let head = async {
        client.ready().await.map_err(not_ready)?;
        client.server_streaming(request, path, RawCodec).await
    };
    match tokio::time::timeout(outgoing.timeout, head).await {
        Ok(Ok(response)) => {
            let bodies = response.into_inner();
            Ok(bodies
                .map(|body| body.map_err(|status| from_status(&status)))
                .boxed())
        }
        Ok(Err(status)) => Err(from_status(&status)),
        Err(_) => Err(Failed::silent(outgoing.timeout)),
    }
}

fn client(channel: Channel, outgoing: &Outgoing<'_>) -> tonic::client::Grpc<Channel> {
    tonic::client::Grpc::new(channel).max_decoding_message_size(outgoing.reply_bytes_max)
}

fn not_ready(error: tonic::transport::Error) -> Status {
    let mut status = Status::unavailable(error.to_string());
    status.set_source(std::sync::Arc::new(error));
    status
}

fn request(outgoing: &Outgoing<'_>, credentials: Option<&Credentials>) -> Request<Bytes> {
    let mut request = Request::new(outgoing.body.clone());
    let metadata = request.metadata_mut();
    if let Some(credentials) = credentials {
        metadata.insert(AUTHORIZATION_KEY, credentials.value());
    }
    if outgoing.min_epoch > 0 {
        let key = MetadataKey::from_static(MIN_EPOCH_KEY);
        metadata.insert(key, AsciiMetadataValue::from(outgoing.min_epoch));
    }
    if let Some(id) = outgoing.request_id
        && let Ok(value) = AsciiMetadataValue::try_from(id)
    {
        metadata.insert(MetadataKey::from_static(REQUEST_ID_KEY), value);
    }
    request
}

/// Reads the header of a reply.
pub(crate) fn open(body: Bytes) -> Result<Incoming, Failed> {
    let header = match Envelope::decode(&body[..]) {
        Ok(Envelope {
            header: Some(header),
        }) => header,
        Ok(Envelope { header: None }) => return Err(Failed::garbled("the reply has no header")),
        Err(error) => return Err(Failed::garbled(&error.to_string())),
    };
    let (code, message) = header
        .status
        .as_ref()
        .map_or((0, ""), |status| (status.code, status.message.as_str()));
    let known = ErrorCode::try_from(code);
    if known == Ok(ErrorCode::Ok) {
        return Ok(Incoming { header, body });
    }
    let hint = header.leader_hint.as_ref();
    let retry_after =
        Duration::from_millis(hint.map_or(0, |hint| hint.retry_after_ms.try_into().unwrap_or(0)));
    let failure = match known {
        Ok(ErrorCode::ServerNotLeader) => Failure::NotLeader { retry_after },
        Ok(ErrorCode::ServiceNotReady | ErrorCode::IoError | ErrorCode::UnknownError) => {
            Failure::Busy { retry_after }
        }
        _ => Failure::Final,
    };
    let name = known.map_or("an unknown code", |code| code.as_str_name());
    let why = hint.map(|hint| format!("{} {}", hint.reason, hint.phase));
    let why = why.as_deref().map_or("", str::trim);
    let text = match (message, why) {
        ("", "") => format!("{name} ({code})"),
        ("", why) => format!("{name} ({code}; {why})"),
        (message, "") => format!("{name} ({code}): {message}"),
        (message, why) => format!("{name} ({code}; {why}): {message}"),
    };
    Err(Failed {
        failure,
        code,
        status: None,
        text,
        header: Some(Box::new(header)),
    })
}

/// What a gRPC status means.
///
/// A dead transport shows itself as Unavailable, Unknown or Cancelled, depending on when it died;
/// a status that a server sent has no source, one that was made here has.
fn from_status(status: &Status) -> Failed {
    let local = status.source().is_some();
    let failure = if chain_has::<tonic::ConnectError>(status) {
        Failure::Unreachable
    } else if chain_has::<tonic::TimeoutExpired>(status) {
        Failure::Silent
    } else {
        match status.code() {
            Code::Unavailable => Failure::Broken,
            Code::DeadlineExceeded => Failure::Silent,
            Code::Cancelled if !local => Failure::Silent,
            Code::Unknown | Code::Cancelled | Code::Internal if local => Failure::Broken,
            Code::ResourceExhausted | Code::Aborted | Code::Unknown | Code::Internal => {
                Failure::Busy {
                    retry_after: push_back(status),
                }
            }
            _ => Failure::Final,
        }
    };
    Failed {
        failure,
        code: 0,
        status: Some(status.code()),
        text: describe(status),
        header: None,
    }
}

fn push_back(status: &Status) -> Duration {
    let value = status.metadata().get(PUSH_BACK_KEY);
    let millis = value.and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_millis(millis.unwrap_or(0))
}

fn describe(status: &Status) -> String {
    let mut text = format!("gRPC {:?}: {}", status.code(), status.message());
    // The innermost cause is what tells a refused connection from a reset one.
    let mut cause = status.source();
    while let Some(inner) = cause.and_then(StdError::source) {
        cause = Some(inner);
    }
    if let Some(cause) = cause.map(ToString::to_string)
        && !text.contains(&cause)
    {
        text.push_str(": ");
        text.push_str(&cause);
    }
    text
}

fn chain_has<E: StdError + 'static>(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<E>() {
            return true;
        }
        cause = error.source();
    }
    false
}

// === impl Failed ===

impl Failed {
    pub(crate) fn silent(limit: Duration) -> Self {
        Self {
            failure: Failure::Silent,
            code: 0,
            status: None,
            text: format!("no answer within {} ms", limit.as_millis()),
            header: None,
        }
    }

    pub(crate) fn local(failure: Failure, text: impl Into<String>) -> Self {
        Self {
            failure,
            code: 0,
            status: None,
            text: text.into(),
            header: None,
        }
    }

    pub(crate) fn garbled(why: &str) -> Self {
        Self {
            status: Some(Code::Internal),
            ..Self::local(
                Failure::Final,
                format!("a reply that cannot be read: {why}"),
            )
        }
    }
}

// === impl RawCodec ===

/// Bytes in, bytes out; the reply is the received buffer itself.
#[derive(Clone, Copy, Debug)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.reserve(item.len());
        dst.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(src.copy_to_bytes(src.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use kvcm_proto::meta::{CommonResponse, LeaderHint, Status as WireStatus};

    use super::*;

    fn reply(code: i32, hint: Option<LeaderHint>) -> Result<Incoming, Failed> {
        let status = Some(WireStatus {
            code,
            message: "told".to_owned(),
        });
        let header = Some(CommonResponseHeader {
            status,
            leader_hint: hint,
            ..CommonResponseHeader::default()
        });
        open(CommonResponse { header }.encode_to_vec().into())
    }

    #[test]
    fn protocol_codes_fall_into_their_classes() {
        let class = |code| {
            reply(code, None)
                .map(|_| ())
                .map_err(|failed| failed.failure)
        };
        let zero = Duration::ZERO;
        assert_eq!(class(1), Ok(()));
        assert_eq!(class(9), Err(Failure::NotLeader { retry_after: zero }));
        for code in [4, 20, 100] {
            assert_eq!(
                class(code),
                Err(Failure::Busy { retry_after: zero }),
                "{code}"
            );
        }
        for code in [0, 2, 3, 5, 6, 7, 8, 10, 12345, -1] {
            assert_eq!(class(code), Err(Failure::Final), "{code}");
        }
    }

    #[test]
    fn push_back_and_reason_come_from_the_hint() {
        let hint = LeaderHint {
            retry_after_ms: 40,
            reason: "recovering".to_owned(),
            ..LeaderHint::default()
        };
        let failed = reply(9, Some(hint)).unwrap_err();
        let retry_after = Duration::from_millis(40);
        assert_eq!(failed.failure, Failure::NotLeader { retry_after });
        assert_eq!(failed.text, "SERVER_NOT_LEADER (9; recovering): told");
        let negative = LeaderHint {
            retry_after_ms: -1,
            ..LeaderHint::default()
        };
        let failed = reply(9, Some(negative)).unwrap_err();
        let retry_after = Duration::ZERO;
        assert_eq!(failed.failure, Failure::NotLeader { retry_after });
    }

    #[test]
    fn replies_that_cannot_be_read_are_final() {
        assert_eq!(open(Bytes::new()).unwrap_err().failure, Failure::Final);
        let garbage = Bytes::from_static(&[0x0a, 0xff]);
        assert_eq!(open(garbage).unwrap_err().failure, Failure::Final);
    }

    #[test]
    fn a_status_made_by_the_transport_is_told_from_one_that_a_server_sent() {
        let local = |code| {
            let mut status = Status::new(code, "gone");
            status.set_source(std::sync::Arc::new(std::io::Error::other("reset")));
            from_status(&status).failure
        };
        let sent = |code| from_status(&Status::new(code, "sent")).failure;
        for code in [
            Code::Unavailable,
            Code::Unknown,
            Code::Cancelled,
            Code::Internal,
        ] {
            assert_eq!(local(code), Failure::Broken, "{code:?}");
        }
        assert_eq!(
            sent(Code::Unavailable),
            Failure::Broken,
            "a server on its way out"
        );
        assert_eq!(
            sent(Code::Cancelled),
            Failure::Silent,
            "the server's own time-out"
        );
        assert_eq!(sent(Code::DeadlineExceeded), Failure::Silent);
        assert!(matches!(
            sent(Code::ResourceExhausted),
            Failure::Busy { .. }
        ));
        for code in [
            Code::Unimplemented,
            Code::InvalidArgument,
            Code::PermissionDenied,
        ] {
            assert_eq!(sent(code), Failure::Final, "{code:?}");
        }
    }

    #[test]
    fn grpcs_own_push_back_is_heard() {
        let mut status = Status::resource_exhausted("too many");
        let wait = |status: &Status| from_status(status).failure;
        let busy = |ms| Failure::Busy {
            retry_after: Duration::from_millis(ms),
        };
        assert_eq!(wait(&status), busy(0));
        let value = "250".parse().unwrap();
        status.metadata_mut().insert(PUSH_BACK_KEY, value);
        assert_eq!(wait(&status), busy(250));
        let value = "-1".parse().unwrap();
        status.metadata_mut().insert(PUSH_BACK_KEY, value);
        assert_eq!(wait(&status), busy(0));
    }

    #[test]
    fn a_failed_connect_proves_that_nothing_was_executed() {
        let mut status = Status::unavailable("tcp connect error");
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        status.set_source(std::sync::Arc::new(tonic::ConnectError(refused.into())));
        assert_eq!(from_status(&status).failure, Failure::Unreachable);
    }
}
