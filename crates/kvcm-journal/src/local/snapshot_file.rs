//! A snapshot: `snapshot-<through>-<epoch>`. A frame for the header, then one for each chunk.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kvcm_fence::Claim;

use crate::{RecordError, claim_record, frame};

const LAYOUT: u8 = 1;

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Who wrote it.
    pub(super) claim: Claim,
    /// The last batch whose effect is in it.
    pub(super) through: u64,
    /// Version of the encoding of the chunks.
    pub(super) version: u16,
    /// How many chunks there are.
    pub(super) chunks: u32,
}

impl Header {
    /// A frame of `layout u8 | claim | through u64 | version u16 | chunks u32`.
    pub(super) fn encode(&self) -> Result<Bytes, RecordError> {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| {
            out.put_u8(LAYOUT);
            claim_record::put(out, &self.claim);
            out.put_u64_le(self.through);
            out.put_u16_le(self.version);
            out.put_u32_le(self.chunks);
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
        Ok(Self {
            claim: claim_record::take(&mut body)?,
            through: body.try_get_u64_le().map_err(short)?,
            version: body.try_get_u16_le().map_err(short)?,
            chunks: body.try_get_u32_le().map_err(short)?,
        })
    }
}

/// A frame of the chunk as it is.
pub(super) fn encode_chunk(chunk: &[u8]) -> Result<Bytes, RecordError> {
    let mut out = BytesMut::with_capacity(chunk.len() + frame::HEAD);
    frame::put(&mut out, |out| out.put_slice(chunk))?;
    Ok(out.freeze())
}

/// Takes the next chunk. One that is damaged is passed over where its length says that it ends.
pub(super) fn take_chunk(file: &mut Bytes) -> Result<Bytes, RecordError> {
    let before = file.clone();
    let taken = frame::take(file);
    if let Err(RecordError::Checksum { .. }) = &taken {
        let mut length = before.clone();
        let end = length.get_u32_le() as usize + frame::HEAD;
        *file = before.slice(end.min(before.len())..);
    }
    taken
}

#[cfg(test)]
mod tests {
    use kvcm_fence::{Epoch, Incarnation};

    use super::*;

    fn header() -> Header {
        Header {
            claim: Claim {
                cluster: "c-1".parse().unwrap(),
                epoch: Epoch::new(7).unwrap(),
                incarnation: Incarnation::from_bits(0x0102),
            },
            through: 5,
            version: 3,
            chunks: 2,
        }
    }

    fn file() -> Bytes {
        let chunks = [&b"first"[..], b"second"].map(|chunk| encode_chunk(chunk).unwrap());
        Bytes::from([&header().encode().unwrap()[..], &chunks[0], &chunks[1]].concat())
    }

    /// The bytes of layout 1, kept for ever.
    #[test]
    fn layout_1_reads_and_writes_its_fixture() {
        let fixture = include_bytes!("../../tests/fixtures/snapshot-1.bin");
        assert_eq!(file(), fixture[..]);
        let mut file = Bytes::from_static(fixture);
        assert_eq!(Header::take(&mut file), Ok(header()));
        assert_eq!(take_chunk(&mut file).unwrap(), &b"first"[..]);
        assert_eq!(take_chunk(&mut file).unwrap(), &b"second"[..]);
        assert!(file.is_empty());
    }

    #[test]
    fn a_damaged_chunk_costs_itself_only() {
        let mut bytes = BytesMut::from(&file()[..]);
        let first = header().encode().unwrap().len() + frame::HEAD;
        bytes[first] ^= 1;
        let mut file = bytes.freeze();
        Header::take(&mut file).unwrap();
        assert!(take_chunk(&mut file).is_err());
        assert_eq!(take_chunk(&mut file).unwrap(), &b"second"[..]);
        // And a file that ends early ends.
        assert!(take_chunk(&mut file).is_err());
    }
}
