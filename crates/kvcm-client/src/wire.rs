//! Reading protobuf in place.

/// The fields of one message, in the order of their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A fixed-width number; none of the messages read here has one.
    Fixed,
}

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed)?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type_are_read_and_truncation_is_noticed() {
        let message = [
            0x08, 0xac, 0x02, // 1: 300
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x1d, 1, 2, 3, 4, // 3: fixed32
            0x21, 1, 2, 3, 4, 5, 6, 7, 8, // 4: fixed64
        ];
        let fields: Result<Vec<_>, _> = Fields::of(&message).collect();
        let expected = vec![
            (1, Value::Varint(300)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Fixed),
            (4, Value::Fixed),
        ];
        assert_eq!(fields, Ok(expected));
        for len in [1, 2, 4, 6, 9, 13, 20] {
            let cut: Result<Vec<_>, _> = Fields::of(&message[..len]).collect();
            assert_eq!(cut, Err(Malformed), "{len} bytes");
        }
    }

    #[test]
    fn a_length_beyond_the_end_and_an_endless_varint_are_errors_not_panics() {
        for bad in [
            &[
                0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ][..],
            &[0xff; 20],
            &[0x0b],
        ] {
            let fields: Result<Vec<_>, _> = Fields::of(bad).collect();
            assert_eq!(fields, Err(Malformed));
        }
    }
}
