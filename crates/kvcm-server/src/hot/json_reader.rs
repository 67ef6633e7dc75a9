//! Reading ordinary JSON, and leaving everything else alone.

/// Goes through a text. Every method gives none when it meets something that it would have to know
/// more about: escapes, fractions, `null`, numbers that are written in an odd way. The generic
/// mapping reads those, and says what is wrong where something is.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// White space up to the end.
    pub(super) fn end(mut self) -> Option<()> {
        self.skip_white();
        self.rest.is_empty().then_some(())
    }

    /// An object; `member` reads the value of a name.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.sign(b'{')?;
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let name = self.text()?;
            self.sign(b':')?;
            member(self, name)?;
            if !self.take(b',') {
                return self.sign(b'}');
            }
        }
    }

    /// An array; `value` reads one of its values.
    pub(super) fn array(&mut self, mut value: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.sign(b'[')?;
        if self.take(b']') {
            return Some(());
        }
        loop {
            value(self)?;
            if !self.take(b',') {
                return self.sign(b']');
            }
        }
    }

    /// A text without escapes.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        self.sign(b'"')?;
        let plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
        let length = self.rest.iter().position(|byte| !plain(byte))?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest.strip_prefix(b"\"")?;
        std::str::from_utf8(text).ok()
    }

    /// Whether a text comes next.
    pub(super) fn is_text(&mut self) -> bool {
        self.skip_white();
        self.rest.first() == Some(&b'"')
    }

    pub(super) fn boolean(&mut self) -> Option<bool> {
        self.skip_white();
        for (word, value) in [(&b"true"[..], true), (b"false", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Some(value);
            }
        }
        None
    }

    /// An integer, as a number or as a text.
    #[inline]
    pub(super) fn integer(&mut self) -> Option<i64> {
        let is_text = self.take(b'"');
        let integer = self.digits()?;
        if is_text {
            self.rest = self.rest.strip_prefix(b"\"")?;
        }
        Some(integer)
    }

    /// An integer of 32 bits, as a number or as a text.
    pub(super) fn small(&mut self) -> Option<i32> {
        self.integer()?.try_into().ok()
    }

    /// An integer without fraction, exponent, plus or zeros in front.
    #[inline]
    fn digits(&mut self) -> Option<i64> {
        // Every other hash is negative, which no processor foresees: no branch depends on it.
        let is_negative = self.rest.first() == Some(&b'-');
        let mut rest = self.rest.get(usize::from(is_negative)..)?;
        let all = rest.len();
        let has_zero = rest.first() == Some(&b'0');
        let mut number = 0_u64;
        // Hashes have 19 digits, a few less: 16 at once, and the rest without a loop.
        if let Some((sixteen, others)) = rest.split_first_chunk()
            && let Some(value) = sixteen_digits(sixteen)
        {
            (number, rest) = (value, others);
            if let Some(four) = rest.first_chunk()
                && let Some((count, value)) = up_to_three_digits(*four)
            {
                number = number * [1, 10, 100, 1000][count] + value;
                rest = &rest[count..];
            }
        }
        while let [digit @ b'0'..=b'9', others @ ..] = rest {
            // Nineteen digits always fit.
            if all - rest.len() == 19 {
                return None;
            }
            number = number * 10 + u64::from(digit - b'0');
            rest = others;
        }
        let count = all - rest.len();
        // A lone zero is the only number that begins with one; -0 is not an integer to JSON.
        let is_odd = has_zero && (count > 1 || is_negative);
        if count == 0 || is_odd || matches!(rest.first(), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.rest = rest;
        let sign = u64::from(is_negative);
        let fits = number <= i64::MAX as u64 + sign;
        fits.then_some(
            (number ^ sign.wrapping_neg())
                .wrapping_add(sign)
                .cast_signed(),
        )
    }

    /// One sign after white space.
    fn sign(&mut self, sign: u8) -> Option<()> {
        self.take(sign).then_some(())
    }

    #[inline]
    fn take(&mut self, sign: u8) -> bool {
        self.skip_white();
        match self.rest.split_first() {
            Some((first, rest)) if *first == sign => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn skip_white(&mut self) {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }
}

/// The number that sixteen digits are.
#[inline]
fn sixteen_digits(text: &[u8; 16]) -> Option<u64> {
    let (first, last) = text.split_first_chunk()?;
    Some(eight_digits(*first)? * 100_000_000 + eight_digits(*last.first_chunk()?)?)
}

/// How many digits these begin with, if not all are some, and the number that those are.
#[inline]
fn up_to_three_digits(text: [u8; 4]) -> Option<(usize, u64)> {
    const HIGH: u32 = 0xf0f0_f0f0;
    const THREES: u32 = 0x3030_3030;
    let word = u32::from_le_bytes(text);
    // What carries over to a byte comes from one before it that is no digit.
    let past_nine = word.wrapping_add(0x0606_0606);
    let others = ((word & HIGH) ^ THREES) | ((past_nine & HIGH) ^ THREES);
    if others == 0 {
        return None;
    }
    let count = others.trailing_zeros() / 8;
    // Zeros in front of them make them four.
    let four = u64::from(word & 0x0f0f_0f0f) << (8 * (4 - count)) & 0xffff_ffff;
    let pairs = (four.wrapping_mul((10 << 8) + 1) >> 8) & 0x00ff_00ff;
    let all = (pairs.wrapping_mul((100 << 16) + 1) >> 16) & 0xffff;
    Some((count as usize, all))
}

/// The number that eight digits are, all at once.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const THREES: u64 = 0x3030_3030_3030_3030;
    let word = u64::from_le_bytes(text);
    let past_nine = word.wrapping_add(0x0606_0606_0606_0606);
    if word & HIGH != THREES || past_nine & HIGH != THREES {
        return None;
    }
    // Pairs, then fours, then all; the first digit is the lowest byte.
    let pairs = (word & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul((10 << 8) + 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul((100 << 16) + 1) >> 16;
    let all = (fours & 0x0000_ffff_0000_ffff).wrapping_mul((10_000 << 32) + 1) >> 32;
    Some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn integer(text: &str) -> Option<i64> {
        let mut reader = Reader::new(text.as_bytes());
        let integer = reader.integer()?;
        reader.end()?;
        Some(integer)
    }

    proptest! {
        #[test]
        fn every_integer_is_read(number: i64, shift in 0u32..64) {
            let number = number >> shift;
            prop_assert_eq!(integer(&format!(" {number}\n")), Some(number));
            prop_assert_eq!(integer(&format!("{number}\n\n\n\n")), Some(number));
            prop_assert_eq!(integer(&format!("\"{number}\"")), Some(number));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_the_standard_library_does_or_not_at_all(text in "-?[0-9:/,. -]{0,24}") {
            let oracle = text.trim_end().parse::<i64>().ok();
            let mut reader = Reader::new(text.as_bytes());
            let read = reader.integer().filter(|_| reader.end().is_some());
            prop_assert!(read.is_none() || read == text.trim().parse().ok(), "{text}: {read:?}");
            let plain = oracle.filter(|number| number.to_string() == text);
            prop_assert!(plain.is_none() || read == plain, "{text}");
        }
    }

    #[test]
    fn odd_integers_are_left_to_the_generic_mapping() {
        for text in [
            "",
            "-",
            "01",
            "-0",
            "1.0",
            "1e3",
            "+1",
            "\" 1\"",
            "\"1",
            "1x",
            "null",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(integer("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer("0"), Some(0));
    }

    #[test]
    fn texts_with_escapes_or_control_characters_are_left_alone() {
        let text = |text: &'static str| Reader::new(text.as_bytes()).text();
        assert_eq!(text(" \"aü/\""), Some("aü/"));
        for odd in ["\"a\\n\"", "\"a\u{1}\"", "\"a", "a"] {
            assert_eq!(text(odd), None, "{odd}");
        }
    }
}
