//! Records that enter a store together: all of them or none.
//!
//! `magic "kvg" and layout u8 | length u32 | crc32 u32 | records`. A store acknowledges a group
//! before the next one is written. So a group that is broken is the torn end of the last write,
//! unless another group follows: then it was whole once, and what is left of it is saved.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Record, RecordError, frame};

/// Begins every group. The last byte is the layout.
const MAGIC: [u8; 4] = *b"kvg\x01";

/// Records with consecutive numbers, on their way to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The number of the first record.
    pub(crate) first: u64,
    /// The number of the last record.
    pub(crate) last: u64,
    /// Payload in bytes.
    pub(crate) payload: u64,
    /// The group as it is stored.
    pub(crate) bytes: Bytes,
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A whole group: its records, one after another.
    Whole(Bytes),
    /// Bytes that once were one group or more.
    Damaged {
        /// The bytes, from the beginning of a group.
        bytes: Bytes,
        /// What is wrong.
        reason: RecordError,
    },
}

impl Piece {
    /// Bytes that it has.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) | Self::Damaged { bytes, .. } => bytes.len(),
        }
    }
}

/// What stands in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The parts in order, each with where it begins.
    pub(crate) pieces: Vec<(usize, Piece)>,
    /// Where the last whole group ends.
    pub(crate) end: usize,
}

/// Puts encoded records into a group.
pub(crate) fn encode(records: &[u8]) -> Result<Bytes, RecordError> {
    let mut out = BytesMut::with_capacity(MAGIC.len() + frame::HEAD + records.len());
    out.put_slice(&MAGIC);
    frame::put(&mut out, |out| out.put_slice(records))?;
    Ok(out.freeze())
}

/// Cuts a log into its groups. What follows the last whole group is left out.
pub(crate) fn cut(log: &Bytes) -> Pieces {
    let mut found = Pieces::default();
    let mut at = 0;
    while at < log.len() {
        match decode(log.slice(at..)) {
            Ok((records, length)) => {
                found.pieces.push((at, Piece::Whole(records)));
                at += length;
                found.end = at;
            }
            Err(reason) => {
                let Some(next) = next_whole(log, at + 1) else {
                    break;
                };
                let bytes = log.slice(at..next);
                found.pieces.push((at, Piece::Damaged { bytes, reason }));
                at = next;
            }
        }
    }
    found
}

/// The records of a piece that can be read, and what is wrong with the rest.
pub(crate) fn records(piece: &Piece) -> (Vec<Record>, Option<RecordError>) {
    let (mut input, mut wrong) = match piece {
        Piece::Whole(records) => (records.clone(), None),
        Piece::Damaged { bytes, reason } => {
            let start = bytes.len().min(MAGIC.len() + frame::HEAD);
            (bytes.slice(start..), Some(reason.clone()))
        }
    };
    let mut records = Vec::new();
    while !input.is_empty() {
        match Record::decode(&mut input) {
            Ok(record) => records.push(record),
            Err(error) => {
                wrong.get_or_insert(error);
                // The next record stands where the length says, when that is whole.
                let length = input.get(..4).map(|l| [l[0], l[1], l[2], l[3]]);
                let length = length.map_or(0, u32::from_le_bytes) as usize;
                let next = length.saturating_add(frame::HEAD).min(input.len());
                input = input.slice(next..);
            }
        }
    }
    (records, wrong)
}

fn decode(input: Bytes) -> Result<(Bytes, usize), RecordError> {
    let need = MAGIC.len();
    let have = input.len();
    match input.get(..need) {
        None => return Err(RecordError::Truncated { have, need }),
        Some(magic) if magic[..3] != MAGIC[..3] => {
            return Err(RecordError::Malformed("no group begins here"));
        }
        Some(magic) if magic[3] != MAGIC[3] => return Err(RecordError::Layout(magic[3])),
        Some(_) => {}
    }
    let mut rest = input.slice(need..);
    let records = frame::take(&mut rest)?;
    Ok((records, have - rest.len()))
}

/// Where the next whole group begins, at or after `from`.
fn next_whole(log: &Bytes, from: usize) -> Option<usize> {
    let last = log.len().checked_sub(MAGIC.len())?;
    (from..=last)
        .filter(|at| log[*at..].starts_with(&MAGIC))
        .find(|at| decode(log.slice(*at..)).is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Batch;

    fn record(seq: u64) -> Record {
        Record {
            cluster: "c".parse().unwrap(),
            epoch: kvcm_fence::Epoch::new(4).unwrap(),
            seq,
            batch: Batch::new(1, 1, Bytes::from(format!("operation {seq}"))),
        }
    }

    fn group(seqs: std::ops::RangeInclusive<u64>) -> Bytes {
        let mut out = BytesMut::new();
        for seq in seqs {
            record(seq).encode(&mut out).unwrap();
        }
        encode(&out).unwrap()
    }

    fn seqs(found: &Pieces) -> Vec<u64> {
        let pieces = found.pieces.iter();
        pieces
            .flat_map(|(_, piece)| records(piece).0)
            .map(|record| record.seq)
            .collect()
    }

    /// The bytes of layout 1, kept for ever.
    #[test]
    fn layout_1_reads_and_writes_its_fixture() {
        let fixture = include_bytes!("../tests/fixtures/group-1.bin");
        assert_eq!(group(7..=8), fixture[..]);
        assert_eq!(seqs(&cut(&Bytes::from_static(fixture))), [7, 8]);
    }

    #[test]
    fn a_torn_group_at_the_end_goes_as_a_whole() {
        let whole = group(1..=2);
        for cut_at in 0..group(3..=5).len() {
            let log = Bytes::from([&whole[..], &group(3..=5)[..cut_at]].concat());
            let found = cut(&log);
            assert_eq!((found.end, seqs(&found)), (whole.len(), vec![1, 2]));
        }
    }

    #[test]
    fn a_broken_group_that_others_follow_loses_only_what_is_broken() {
        let mut log = BytesMut::from(&[&group(1..=3)[..], &group(4..=4)].concat()[..]);
        let second = MAGIC.len() + frame::HEAD + (group(1..=1).len() - MAGIC.len() - frame::HEAD);
        log[second + 20] ^= 1;
        let found = cut(&log.clone().freeze());
        assert_eq!((found.end, seqs(&found)), (log.len(), vec![1, 3, 4]));
        assert!(records(&found.pieces[0].1).1.is_some());
    }

    #[test]
    fn another_layout_is_named() {
        let mut log = BytesMut::from(&[&group(1..=1)[..], &group(2..=2)].concat()[..]);
        log[3] = 9;
        let found = cut(&log.freeze());
        let (_, reason) = records(&found.pieces[0].1);
        assert_eq!(reason, Some(RecordError::Layout(9)));
    }

    proptest! {
        #[test]
        fn one_flipped_bit_costs_at_most_one_record(bit in any::<prop::sample::Index>()) {
            let log = [&group(1..=2)[..], &group(3..=4), &group(5..=5)].concat();
            let bit = bit.index((log.len() - group(5..=5).len()) * 8);
            let mut log = BytesMut::from(&log[..]);
            log[bit / 8] ^= 1 << (bit % 8);
            let found = seqs(&cut(&log.freeze()));
            let lost: Vec<u64> = (1..=5).filter(|seq| !found.contains(seq)).collect();
            // A length that is wrong takes the rest of its group along.
            prop_assert!(lost.len() <= 2 && found.contains(&5), "{:?}", found);
        }

        #[test]
        fn cutting_garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let found = cut(&Bytes::from([&MAGIC[..], &bytes].concat()));
            let _ = seqs(&found);
        }
    }
}
