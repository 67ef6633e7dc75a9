//! What makes each granted place unique.

/// One grant of places. An epoch has one leader and a leader counts, so no grant comes twice; a
/// grant may cover many keys, because the key (or its file and block) is in the path as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grant {
    /// The epoch of the reign that granted.
    pub epoch: u64,
    /// Its number within the epoch.
    pub counter: u64,
}

impl Grant {
    /// The number of the directory that its files lie in, below 4096.
    ///
    /// It depends on the grant alone, so that one write needs one directory for each spec, however
    /// many keys it has, and it is mixed, so that no rhythm of several writers fills some
    /// directories and leaves others empty.
    pub(crate) const fn directory_number(self) -> usize {
        // The finish of SplitMix64: each bit of the input moves each bit of the output. Files are
        // found by it, so it never changes.
        let mut mixed = self.counter ^ self.epoch.rotate_left(32);
        mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 52) as usize
    }

    /// The name of that directory.
    pub(crate) const fn directory(self) -> [u8; 3] {
        directory_name(self.directory_number())
    }
}

/// The name of a directory of that number: three hex digits.
pub(crate) const fn directory_name(number: usize) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [
        DIGITS[(number >> 8) & 15],
        DIGITS[(number >> 4) & 15],
        DIGITS[number & 15],
    ]
}

/// The number of the directory of that name, if it is one.
pub(crate) fn directory_of_name(name: &[u8]) -> Option<usize> {
    let name: [u8; 3] = name.try_into().ok()?;
    let number = usize::from_str_radix(std::str::from_utf8(&name).ok()?, 16).ok()?;
    // Upper case and signs are others' names.
    (directory_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORIES: usize = 1 << 12;

    fn grant(epoch: u64, counter: u64) -> Grant {
        Grant { epoch, counter }
    }

    #[test]
    fn files_are_found_again_so_the_directory_of_a_grant_never_changes() {
        let name = |grant: Grant| String::from_utf8(grant.directory().to_vec()).unwrap();
        let names = [grant(1, 0), grant(1, 1), grant(2, 0), grant(0x1f, 2)].map(name);
        assert_eq!(names, NAMES);
    }

    const NAMES: [&str; 4] = ["c42", "204", "e7b", "cd7"];

    #[test]
    fn numbers_and_names_of_directories_are_one_to_one() {
        for number in 0..DIRECTORIES {
            assert_eq!(directory_of_name(&directory_name(number)), Some(number));
        }
        for name in ["", "c4", "C42", "+42", "c422", "xyz", "=probe"] {
            assert_eq!(directory_of_name(name.as_bytes()), None, "{name}");
        }
    }

    /// The most files in one directory when `grants` writes of `keys` keys each are there.
    fn fullest(grants: impl Iterator<Item = Grant>, keys: usize) -> usize {
        let mut writes = vec![0; DIRECTORIES];
        grants.for_each(|grant| writes[grant.directory_number()] += 1);
        writes.into_iter().max().unwrap_or_default() * keys
    }

    #[test]
    fn a_million_files_are_at_most_a_thousand_or_two_per_directory() {
        let writes = 1_000_000 / 128;
        // One leader, and one that serves 16 instances in turn.
        for step in [1, 16] {
            let grants = (0..writes).map(|at| grant(7, at * step));
            assert!(fullest(grants, 128) < 2_000, "every {step}th");
        }
        // A new leader for every tenth write, whose counts all begin at the same number.
        let grants = (0..writes).map(|at| grant(at / 10, at % 10));
        assert!(fullest(grants, 128) < 2_000);
        // Writes of one key each: nearly as even as can be (244 on average).
        assert!(fullest((0..1_000_000).map(|at| grant(7, at)), 1) < 350);
    }
}
