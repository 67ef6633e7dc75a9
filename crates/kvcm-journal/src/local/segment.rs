//! The beginning of a file of the log: `log-<epoch>-<number>`. Groups follow it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kvcm_fence::{Claim, Epoch};

use super::names::SegmentId;
use crate::{RecordError, claim_record, frame};

const LAYOUT: u8 = 1;

/// Who writes a segment, and what comes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Who writes it.
    pub(super) claim: Claim,
    /// The number of the last batch before it.
    pub(super) base: u64,
    /// The segment before it; none for the first of a journal.
    pub(super) before: Option<Before>,
}

/// The segment before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) id: SegmentId,
    /// Where it is cut: later bytes do not count, whoever wrote them.
    pub(super) cut: u64,
}

impl Header {
    /// A frame of `layout u8 | claim | base u64 | has before u8 | epoch u64, number u32, cut u64 of
    /// the segment before`.
    pub(super) fn encode(&self) -> Result<Bytes, RecordError> {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| {
            out.put_u8(LAYOUT);
            claim_record::put(out, &self.claim);
            out.put_u64_le(self.base);
            out.put_u8(u8::from(self.before.is_some()));
            if let Some(before) = self.before {
                out.put_u64_le(before.id.epoch.get());
                out.put_u32_le(before.id.number);
                out.put_u64_le(before.cut);
            }
        })?;
        Ok(out.freeze())
    }

    /// Takes the header from the front of `file`.
    pub(super) fn take(file: &mut Bytes) -> Result<Self, RecordError> {
        let short = |_| RecordError::Malformed("it ends inside a field");
        let mut body = frame::take(file)?;
        let layout = body.try_get_u8().map_err(short)?;
        if layout != LAYOUT {
            return Err(RecordError::Layout(layout));
        }
        let claim = claim_record::take(&mut body)?;
        let base = body.try_get_u64_le().map_err(short)?;
        let before = match body.try_get_u8().map_err(short)? {
            0 => None,
            _ => {
                let epoch = Epoch::new(body.try_get_u64_le().map_err(short)?)
                    .map_err(|_| RecordError::Malformed("the epoch is out of range"))?;
                let number = body.try_get_u32_le().map_err(short)?;
                let cut = body.try_get_u64_le().map_err(short)?;
                let id = SegmentId { epoch, number };
                Some(Before { id, cut })
            }
        };
        Ok(Self {
            claim,
            base,
            before,
        })
    }
}

#[cfg(test)]
mod tests {
    use kvcm_fence::Incarnation;
    use proptest::prelude::*;

    use super::*;

    fn header(epoch: u64, bits: u128, base: u64, before: Option<(u64, u32, u64)>) -> Header {
        let epoch_of = |epoch| Epoch::new(epoch).unwrap();
        Header {
            claim: Claim {
                cluster: "c-1".parse().unwrap(),
                epoch: epoch_of(epoch),
                incarnation: Incarnation::from_bits(bits),
            },
            base,
            before: before.map(|(epoch, number, cut)| Before {
                id: SegmentId {
                    epoch: epoch_of(epoch),
                    number,
                },
                cut,
            }),
        }
    }

    /// The bytes of layout 1, kept for ever.
    #[test]
    fn layout_1_reads_and_writes_its_fixture() {
        let fixture = include_bytes!("../../tests/fixtures/segment-1.bin");
        let header = header(7, 0x0102, 5, Some((6, 1, 300)));
        assert_eq!(header.encode().unwrap(), fixture[..]);
        assert_eq!(Header::take(&mut Bytes::from_static(fixture)), Ok(header));
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            epoch in 0u64..(1 << 53), bits: u128, base: u64,
            before in prop::option::of((0u64..(1 << 53), any::<u32>(), any::<u64>())),
            cut: prop::sample::Index,
        ) {
            let header = header(epoch, bits, base, before);
            let bytes = header.encode().unwrap();
            prop_assert!(Header::take(&mut bytes.slice(..cut.index(bytes.len()))).is_err());
            let mut file = Bytes::from([&bytes[..], b"groups"].concat());
            prop_assert_eq!(Header::take(&mut file), Ok(header));
            prop_assert_eq!(&file[..], b"groups");
        }
    }
}
