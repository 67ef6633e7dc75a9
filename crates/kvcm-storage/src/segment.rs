//! Names as segments of a path.

use xxhash_rust::xxh3::xxh3_128;

/// Longest segment: file systems take 255 bytes.
const BYTES_MAX: usize = 200;
/// What stays readable of a longer one.
const BYTES_KEPT: usize = 150;

/// Appends `name` to `out` as one segment that breaks neither a URI nor a file system, and that
/// no other name has.
///
/// - Bytes other than `A-Z a-z 0-9 - _ . :` are percent-encoded: also `/`, so that no two pairs of
///   names share a path, and `~`, which marks shortened names.
/// - `.` and `..`, in which URI parsers see directories even when they are encoded, get a `=` in
///   front.
/// - What is longer than 200 bytes then is cut and gets `~` and a hash of the whole name.
pub(crate) fn push(out: &mut String, name: &str) {
    if name == "." || name == ".." {
        out.push('=');
    }
    let start = out.len();
    let mut kept = start;
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
        if out.len() - start <= BYTES_KEPT {
            kept = out.len();
        }
    }
    if out.len() - start > BYTES_MAX {
        out.truncate(kept);
        out.push_str(&format!("~{:032x}", xxh3_128(name.as_bytes())));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(name: &str) -> String {
        let mut out = String::new();
        push(&mut out, name);
        out
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for name in ["i1", "qwen-3_fp8.v2", "host:6381", "..."] {
            assert_eq!(segment(name), name);
        }
    }

    #[test]
    fn what_would_break_a_uri_or_leave_the_directory_is_encoded() {
        assert_eq!(segment("a?b&c=d#e/f g%"), "a%3Fb%26c%3Dd%23e%2Ff%20g%25");
        assert_eq!(segment(".."), "=..");
        assert_eq!(segment("~"), "%7E");
        assert_eq!(segment("ü"), "%C3%BC");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (a, b) = (segment(&"ü".repeat(127)), segment(&"ü".repeat(128)));
        assert_ne!(a, b);
        assert_eq!(a.len(), 150 + 33);
        assert_eq!(segment(&"x".repeat(200)), "x".repeat(200));
    }

    proptest! {
        #[test]
        fn two_names_never_share_a_segment(a in "[./=~%a]{0,4}", b in "[./=~%a]{0,4}") {
            prop_assert_eq!(a == b, segment(&a) == segment(&b));
        }

        #[test]
        fn a_segment_is_safe(name in ".{1,300}") {
            let segment = segment(&name);
            prop_assert!(segment.len() <= 201);
            prop_assert!(segment != "." && segment != "..");
            let safe = |b: u8| b.is_ascii_alphanumeric() || b"-_.:%~=".contains(&b);
            prop_assert!(segment.bytes().all(safe), "{}", segment);
        }
    }
}
