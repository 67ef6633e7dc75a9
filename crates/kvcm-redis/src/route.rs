//! Which of several servers a call is for.

use crate::Address;

/// The number of hash slots of every Redis Cluster.
pub(crate) const SLOTS: u16 = 16384;

/// Which of the servers a call is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// The one there is: a standalone server, or the primary that the sentinels name.
    Primary,
    /// The node of a Redis Cluster that serves this hash slot.
    Slot(u16),
    /// Exactly this server.
    Node(Address),
}

/// The hash slot of a key: of the part in the first braces, if there are any.
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| {
        let (tag, _) = rest.split_once('}')?;
        (!tag.is_empty()).then_some(tag)
    });
    crc16(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // What `CLUSTER KEYSLOT` answers.
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("somekey{foo}bar{x}"), 12182);
        assert_eq!(slot("{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot("{foo"), crc16(b"{foo") % SLOTS);
    }
}
