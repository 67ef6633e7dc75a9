//! The pieces that records are made of: little-endian numbers, texts and lists with a length.

use thiserror::Error;

/// Bytes that are no operation of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DecodeError {
    #[error("the operation ends inside a field")]
    Short,
    #[error("a text is not UTF-8")]
    Text,
    #[error("operation number {0} is not known here, this program is older than its data")]
    UnknownOperation(u8),
    #[error("{0}")]
    Malformed(&'static str),
}

pub(crate) type Decoded<T> = Result<T, DecodeError>;

/// Appends pieces to a buffer.
pub(crate) struct Put<'a>(pub(crate) &'a mut Vec<u8>);

impl Put<'_> {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.len(value.len());
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(crate) fn keys(&mut self, keys: &[i64]) {
        self.len(keys.len());
        self.0.reserve(keys.len() * 8);
        for key in keys {
            self.0.extend_from_slice(&key.to_le_bytes());
        }
    }

    pub(crate) fn u64s(&mut self, values: &[u64]) {
        self.len(values.len());
        values.iter().for_each(|value| self.u64(*value));
    }

    pub(crate) fn u16s(&mut self, values: &[u16]) {
        self.len(values.len());
        values.iter().for_each(|value| self.u16(*value));
    }

    pub(crate) fn len(&mut self, len: usize) {
        // Requests are limited far below 2^32 keys and bytes; a longer list would fail to decode.
        self.u32(u32::try_from(len).unwrap_or(u32::MAX));
    }
}

/// Takes pieces from the front of its bytes.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn raw(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let len = self.len(1)?;
        self.raw(len)
    }

    pub(crate) fn text(&mut self) -> Decoded<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Text)
    }

    pub(crate) fn keys(&mut self) -> Decoded<Vec<i64>> {
        let len = self.len(8)?;
        let (keys, _) = self.raw(len * 8)?.as_chunks();
        Ok(keys.iter().map(|key| i64::from_le_bytes(*key)).collect())
    }

    pub(crate) fn u64s(&mut self) -> Decoded<Vec<u64>> {
        self.list(Self::u64, 8)
    }

    pub(crate) fn u32s(&mut self) -> Decoded<Vec<u32>> {
        self.list(Self::u32, 4)
    }

    pub(crate) fn u16s(&mut self) -> Decoded<Vec<u16>> {
        self.list(Self::u16, 2)
    }

    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Decoded<T>,
        item_bytes: usize,
    ) -> Decoded<Vec<T>> {
        let len = self.len(item_bytes)?;
        (0..len).map(|_| item(self)).collect()
    }

    /// A length that the bytes left can hold, so that a damaged one allocates nothing.
    fn len(&mut self, item_bytes: usize) -> Decoded<usize> {
        let len = self.u32()? as usize;
        if len.saturating_mul(item_bytes) > self.0.len() {
            return Err(DecodeError::Short);
        }
        Ok(len)
    }

    pub(crate) fn end(&self) -> Decoded<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Malformed(
                "bytes are left after the last field",
            ))
        }
    }
}
