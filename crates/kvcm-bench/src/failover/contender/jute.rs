//! As much of ZooKeeper's serialization as an election needs.

use anyhow::{Context, ensure};

/// No text of ours is longer.
const LENGTH_MAX: usize = 1 << 16;

/// Bytes in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    pub(super) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    /// Bytes and texts alike.
    pub(super) fn buffer(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        // Ours are short.
        self = self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.0.extend(bytes);
        self
    }

    pub(super) fn append(mut self, other: &Self) -> Self {
        self.0.extend(&other.0);
        self
    }

    /// With its length before it, as it goes over the wire.
    pub(super) fn framed(&self) -> Vec<u8> {
        Self::default().buffer(&self.0).0
    }
}

/// Bytes that are taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder<'a>(pub(super) &'a [u8]);

impl<'a> Decoder<'a> {
    pub(super) fn int(&mut self) -> anyhow::Result<i32> {
        let (first, rest) = self
            .0
            .split_first_chunk()
            .context("an answer is too short")?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*first))
    }

    pub(super) fn long(&mut self) -> anyhow::Result<i64> {
        let (first, rest) = self
            .0
            .split_first_chunk()
            .context("an answer is too short")?;
        self.0 = rest;
        Ok(i64::from_be_bytes(*first))
    }

    fn buffer(&mut self) -> anyhow::Result<&'a [u8]> {
        // No bytes at all have the length -1.
        let length = usize::try_from(self.int()?).unwrap_or(0);
        ensure!(length <= LENGTH_MAX, "a text of {length} bytes");
        let (first, rest) = self
            .0
            .split_at_checked(length)
            .context("an answer is too short")?;
        self.0 = rest;
        Ok(first)
    }

    pub(super) fn text(&mut self) -> anyhow::Result<String> {
        Ok(std::str::from_utf8(self.buffer()?)?.to_owned())
    }

    pub(super) fn texts(&mut self) -> anyhow::Result<Vec<String>> {
        let count = self.int()?;
        (0..count).map(|_| self.text()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let part = Encoder::default().int(-1).long(1 << 40).buffer("a/b");
        let all = Encoder::default().bool(true).append(&part).framed();
        assert_eq!(all[..5], [0, 0, 0, 20, 1]);
        let mut rest = Decoder(&all[5..]);
        assert_eq!((rest.int().unwrap(), rest.long().unwrap()), (-1, 1 << 40));
        assert_eq!(rest.text().unwrap(), "a/b");
        assert!(rest.int().is_err());
    }

    #[test]
    fn lists_are_read_and_short_answers_are_errors() {
        let list = Encoder::default().int(2).buffer("x").buffer("").framed();
        assert_eq!(Decoder(&list[4..]).texts().unwrap(), ["x", ""]);
        assert!(Decoder(&list[4..9]).texts().is_err());
        let huge = Encoder::default().int(i32::MAX).framed();
        assert!(Decoder(&huge[4..]).text().is_err());
        let none = Encoder::default().int(-1).framed();
        assert_eq!(Decoder(&none[4..]).text().unwrap(), "");
    }
}
