//! The file that makes a claim: `claim-<epoch>`.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kvcm_fence::Claim;

use crate::{RecordError, claim_record, frame};

const LAYOUT: u8 = 1;

/// A frame of `layout u8 | claim`.
pub(super) fn encode(claim: &Claim) -> Result<Bytes, RecordError> {
    let mut out = BytesMut::new();
    frame::put(&mut out, |out| {
        out.put_u8(LAYOUT);
        claim_record::put(out, claim);
    })?;
    Ok(out.freeze())
}

pub(super) fn decode(mut file: Bytes) -> Result<Claim, RecordError> {
    let mut body = frame::take(&mut file)?;
    match body.try_get_u8() {
        Ok(LAYOUT) => claim_record::take(&mut body),
        Ok(other) => Err(RecordError::Layout(other)),
        Err(_) => Err(RecordError::Malformed("it is empty")),
    }
}

#[cfg(test)]
mod tests {
    use kvcm_fence::{Epoch, Incarnation};
    use proptest::prelude::*;

    use super::*;

    fn claim(cluster: &str, epoch: u64, bits: u128) -> Claim {
        Claim {
            cluster: cluster.parse().unwrap(),
            epoch: Epoch::new(epoch).unwrap(),
            incarnation: Incarnation::from_bits(bits),
        }
    }

    /// The bytes of layout 1, kept for ever.
    #[test]
    fn layout_1_reads_and_writes_its_fixture() {
        let fixture = include_bytes!("../../tests/fixtures/claim-1.bin");
        let claim = claim("c-1", 7, 0x0102);
        assert_eq!(encode(&claim).unwrap(), fixture[..]);
        assert_eq!(decode(Bytes::from_static(fixture)), Ok(claim));
    }

    proptest! {
        #[test]
        fn claims_round_trip(
            cluster in "[A-Za-z0-9_.-]{1,64}", epoch in 0u64..(1 << 53), bits: u128, cut: prop::sample::Index
        ) {
            let claim = claim(&cluster, epoch, bits);
            let bytes = encode(&claim).unwrap();
            prop_assert!(decode(bytes.slice(..cut.index(bytes.len()))).is_err());
            prop_assert_eq!(decode(bytes), Ok(claim));
        }
    }
}
