//! A batch as it stands in a store.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kvcm_fence::{ClusterId, Epoch};
use thiserror::Error;

use crate::{Batch, frame};

/// The version of the record's own layout. Stored, so it never changes its meaning.
const LAYOUT: u8 = 1;

/// A batch with its place. Encoded it is, in little-endian numbers:
///
/// `length u32 | crc32 u32 | layout u8 | cluster (length u8, text) | epoch u64 | seq u64 | kind u16
/// | version u16 | request ids (count u16, each length u16 and text) | operations`
///
/// The length counts what follows the checksum, and the checksum covers the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The cluster that wrote it.
    pub cluster: ClusterId,
    /// The reign that wrote it.
    pub epoch: Epoch,
    /// Its place: rises by one per record.
    pub seq: u64,
    /// What it holds.
    pub batch: Batch,
}

/// Bytes that are no record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The bytes end before the record does: a torn write, or more is to come.
    #[error("the record is cut off: {have} bytes of {need}")]
    Truncated {
        /// Bytes that are there.
        have: usize,
        /// Bytes that are needed at least.
        need: usize,
    },
    /// The bytes are not those that were written.
    #[error("the checksum is {found:08x} and should be {expected:08x}")]
    Checksum {
        /// What the record says.
        expected: u32,
        /// What its bytes give.
        found: u32,
    },
    /// Written by a newer program.
    #[error("layout {0} of the record is not known here, this program is older than its data")]
    Layout(u8),
    /// The checksum is right and the content is not.
    #[error("the record is malformed: {0}")]
    Malformed(&'static str),
    /// A field that does not fit its length.
    #[error("{what} has {size}, the limit is {limit}")]
    TooLong {
        /// The field.
        what: &'static str,
        /// Its size.
        size: usize,
        /// Its limit.
        limit: usize,
    },
}

// === impl Record ===

impl Record {
    /// Appends the encoded record to `out`.
    ///
    /// # Errors
    /// [`RecordError::TooLong`], with `out` unchanged.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), RecordError> {
        let Batch {
            kind,
            version,
            requests,
            operations,
        } = &self.batch;
        let count = fits_u16("the list of request ids", requests.len())?;
        for id in requests {
            fits_u16("a request id", id.len())?;
        }
        let cluster = self.cluster.as_str().as_bytes();
        let ids: usize = requests.iter().map(|id| 2 + id.len()).sum();
        out.reserve(frame::HEAD + 24 + cluster.len() + ids + operations.len());
        frame::put(out, |out| {
            out.put_u8(LAYOUT);
            // A cluster id has at most 64 bytes.
            out.put_u8(cluster.len() as u8);
            out.put_slice(cluster);
            out.put_u64_le(self.epoch.get());
            out.put_u64_le(self.seq);
            out.put_u16_le(*kind);
            out.put_u16_le(*version);
            out.put_u16_le(count);
            for id in requests {
                // Checked above.
                out.put_u16_le(id.len() as u16);
                out.put_slice(id.as_bytes());
            }
            out.put_slice(operations);
        })
    }

    /// Takes one record from the front of `input`. After an error `input` is unchanged.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn decode(input: &mut Bytes) -> Result<Self, RecordError> {
        let mut rest = input.clone();
        let record = Self::decode_body(frame::take(&mut rest)?)?;
        *input = rest;
        Ok(record)
    }

    fn decode_body(mut body: Bytes) -> Result<Self, RecordError> {
        let short = RecordError::Malformed("it ends inside a field");
        let layout = body.try_get_u8().map_err(|_| short.clone())?;
        if layout != LAYOUT {
            return Err(RecordError::Layout(layout));
        }
        let length = body.try_get_u8().map_err(|_| short.clone())?;
        let cluster = text(&mut body, usize::from(length))?
            .parse()
            .map_err(|_| RecordError::Malformed("the cluster id is none"))?;
        let epoch = Epoch::new(body.try_get_u64_le().map_err(|_| short.clone())?)
            .map_err(|_| RecordError::Malformed("the epoch is out of range"))?;
        let seq = body.try_get_u64_le().map_err(|_| short.clone())?;
        let kind = body.try_get_u16_le().map_err(|_| short.clone())?;
        let version = body.try_get_u16_le().map_err(|_| short.clone())?;
        let count = body.try_get_u16_le().map_err(|_| short.clone())?;
        let mut requests = Vec::with_capacity(usize::from(count).min(body.len()));
        for _ in 0..count {
            let length = body.try_get_u16_le().map_err(|_| short.clone())?;
            requests.push(text(&mut body, usize::from(length))?.into_boxed_str());
        }
        Ok(Self {
            cluster,
            epoch,
            seq,
            batch: Batch {
                kind,
                version,
                requests,
                operations: body,
            },
        })
    }
}

fn text(body: &mut Bytes, length: usize) -> Result<String, RecordError> {
    if body.len() < length {
        return Err(RecordError::Malformed("it ends inside a text"));
    }
    String::from_utf8(body.split_to(length).to_vec())
        .map_err(|_| RecordError::Malformed("a text is not UTF-8"))
}

fn fits_u16(what: &'static str, size: usize) -> Result<u16, RecordError> {
    u16::try_from(size).map_err(|_| RecordError::TooLong {
        what,
        size,
        limit: usize::from(u16::MAX),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Record {
        Record {
            cluster: "c-1".parse().unwrap(),
            epoch: Epoch::new(7).unwrap(),
            seq: 3,
            batch: Batch {
                kind: 1,
                version: 2,
                requests: vec!["r1".into()],
                operations: Bytes::from_static(b"op"),
            },
        }
    }

    fn encoded(record: &Record) -> Bytes {
        let mut out = BytesMut::new();
        record.encode(&mut out).unwrap();
        out.freeze()
    }

    /// The bytes of layout 1, kept for ever: data written by an old program must stay readable.
    #[test]
    fn layout_1_reads_and_writes_its_fixture() {
        let fixture: &[u8] = &[
            0x21, 0, 0, 0, 0xec, 0x9c, 0x22, 0x5a, // length, checksum
            1, 3, b'c', b'-', b'1', // layout, cluster
            7, 0, 0, 0, 0, 0, 0, 0, // epoch
            3, 0, 0, 0, 0, 0, 0, 0, // seq
            1, 0, 2, 0, // kind, version
            1, 0, 2, 0, b'r', b'1', // request ids
            b'o', b'p', // operations
        ];
        assert_eq!(encoded(&sample()), fixture);
        assert_eq!(
            Record::decode(&mut Bytes::from_static(fixture)),
            Ok(sample())
        );
    }

    #[test]
    fn another_layout_is_named() {
        let mut bytes = BytesMut::from(&encoded(&sample())[..]);
        bytes[frame::HEAD] = 9;
        let checksum = crc32fast::hash(&bytes[frame::HEAD..]);
        bytes[4..frame::HEAD].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(
            Record::decode(&mut bytes.freeze()),
            Err(RecordError::Layout(9))
        );
    }

    #[test]
    fn a_request_id_that_does_not_fit_leaves_the_buffer_alone() {
        let mut record = sample();
        record.batch.requests = vec!["x".repeat(65_536).into()];
        let mut out = BytesMut::new();
        let error = record.encode(&mut out).unwrap_err();
        assert!(matches!(error, RecordError::TooLong { .. }), "{error}");
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn records_round_trip_one_after_another(
            epoch in 0u64..(1 << 53), seq: u64, kind: u16, version: u16,
            requests in prop::collection::vec(".{0,20}", 0..4),
            operations in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let record = Record {
                cluster: "cluster".parse().unwrap(),
                epoch: Epoch::new(epoch).unwrap(),
                seq,
                batch: Batch {
                    kind,
                    version,
                    requests: requests.into_iter().map(String::into_boxed_str).collect(),
                    operations: operations.into(),
                },
            };
            let mut out = BytesMut::new();
            record.encode(&mut out).unwrap();
            sample().encode(&mut out).unwrap();
            let mut input = out.freeze();
            prop_assert_eq!(Record::decode(&mut input), Ok(record));
            prop_assert_eq!(Record::decode(&mut input), Ok(sample()));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn a_flipped_bit_or_a_cut_is_noticed(bit in 0usize..41 * 8, cut in 0usize..41) {
            let whole = encoded(&sample());
            prop_assert_eq!(whole.len(), 41);
            let mut flipped = BytesMut::from(&whole[..]);
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Record::decode(&mut flipped.freeze()).is_err());
            let mut torn = whole.slice(..cut);
            let error = Record::decode(&mut torn).unwrap_err();
            prop_assert!(matches!(error, RecordError::Truncated { .. }), "{}", error);
            prop_assert_eq!(torn.len(), cut);
        }

        #[test]
        fn decoding_garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Record::decode(&mut Bytes::from(bytes.clone()));
            let _ = Record::decode_body(Bytes::from(bytes));
        }
    }
}
