//! How records are written: one line with kind, format and checksum, then JSON that people can
//! read when something has gone wrong.

use coordination_core::Error;
use serde::{Serialize, de::DeserializeOwned};

/// The format that this version writes and reads, of records and of the whole directory.
pub(crate) const FORMAT: u32 = 2;

/// A record that was read.
#[derive(Debug)]
pub(crate) enum Read<T> {
    /// As it was written.
    Whole(T),
    /// Torn or changed; in words, how.
    Damaged(String),
}

/// The bytes of a record.
pub(crate) fn encode<T: Serialize>(kind: &str, body: &T) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_string(body).map_err(Error::not_done)?;
    let checksum = checksum(kind, FORMAT, &json);
    Ok(format!("kvcm-{kind} {FORMAT} {checksum:08x}\n{json}\n").into_bytes())
}

/// What the bytes of a record say.
///
/// # Errors
/// `Fatal` when the record is whole but of another format: a newer version uses the directory.
pub(crate) fn decode<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<Read<T>, Error> {
    let damaged = |how: &str| Ok(Read::Damaged(how.to_owned()));
    let Some((format, expected, json)) = split(kind, bytes) else {
        return damaged("it does not look like a record");
    };
    if checksum(kind, format, json) != expected {
        return damaged("its checksum is wrong");
    }
    if format != FORMAT {
        let hint = "run the version of kvcm that wrote the directory, or use another directory";
        let source = format!("a {kind} record has format {format}, this version knows {FORMAT}");
        return Err(Error::fatal(hint, source));
    }
    match serde_json::from_str(json) {
        Ok(body) => Ok(Read::Whole(body)),
        Err(error) => Ok(Read::Damaged(error.to_string())),
    }
}

fn split<'b>(kind: &str, bytes: &'b [u8]) -> Option<(u32, u32, &'b str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, json) = text.strip_suffix('\n')?.split_once('\n')?;
    let head = head.strip_prefix("kvcm-")?.strip_prefix(kind)?;
    let (format, checksum) = head.strip_prefix(' ')?.split_once(' ')?;
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    Some((format.parse().ok()?, checksum, json))
}

fn checksum(kind: &str, format: u32, json: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(kind.as_bytes());
    hasher.update(&format.to_le_bytes());
    hasher.update(json.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips() {
        let bytes = encode("lock", &("a\n", 7)).unwrap();
        match decode::<(String, u32)>("lock", &bytes).unwrap() {
            Read::Whole(body) => assert_eq!(body, ("a\n".to_owned(), 7)),
            Read::Damaged(how) => panic!("{how}"),
        }
    }

    #[test]
    fn every_torn_or_flipped_record_is_noticed() {
        let bytes = encode("lock", &("text", 7)).unwrap();
        for end in 0..bytes.len() {
            assert!(is_damaged(&bytes[..end]), "cut at {end}");
        }
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert!(is_damaged(&changed), "flipped at {index}");
        }
        assert!(is_damaged(b"{\"value\":\"n1\",\"expire_time_ms\":1}"));
    }

    #[test]
    fn a_record_of_another_kind_is_noticed() {
        let bytes = encode("value", &("text", 7)).unwrap();
        assert!(is_damaged(&bytes));
    }

    #[test]
    fn a_newer_format_is_fatal_and_not_damage() {
        let json = "[1]";
        let bytes = format!("kvcm-lock 3 {:08x}\n{json}\n", checksum("lock", 3, json));
        let error = decode::<Vec<u32>>("lock", bytes.as_bytes()).unwrap_err();
        assert!(!error.is_retryable());
    }

    fn is_damaged(bytes: &[u8]) -> bool {
        matches!(decode::<(String, u32)>("lock", bytes), Ok(Read::Damaged(_)))
    }
}
