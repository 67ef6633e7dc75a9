//! Block keys from token ids.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The keys of the full blocks of `block_size` tokens; the rest of the tokens is dropped. Each key
/// depends on all tokens before it. No keys when `block_size` is 0.
pub fn block_keys(tokens: &[i64], block_size: usize) -> Vec<i64> {
    if block_size == 0 {
        return Vec::new();
    }
    let mut hash = 0i64;
    tokens
        .chunks_exact(block_size)
        .map(|block| {
            hash = block.iter().fold(hash, |hash, token| mix(hash, *token));
            hash
        })
        .collect()
}

fn mix(hash: i64, token: i64) -> i64 {
    // The right shift keeps the sign, the sums wrap.
    let sum = (token as u64)
        .wrapping_add(GOLDEN)
        .wrapping_add((hash as u64) << 12)
        .wrapping_add((hash >> 32) as u64);
    hash ^ sum as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_equal_those_of_the_protocol_s_public_servers() {
        let edge = [-1, -2, -3, i64::MAX, i64::MIN, 0];
        let prompt = [
            151_644, 8948, 198, 2610, 525, 264, 10950, 17847, 13, 151_645, 198,
        ];
        let wide: Vec<i64> = (0..64).map(|n| n * 113_841 % 151_936).collect();
        let vectors: [(usize, &[i64], &[i64]); 6] = [
            (
                4,
                &[1, 2, 3, 4, 5, 6, 7, 8],
                &[455_111_481_605_203_084, 6_902_853_672_176_602_142],
            ),
            (1, &[0], &[-7_046_029_254_386_353_131]),
            (
                2,
                &edge,
                &[
                    -8_366_447_769_517_733_416,
                    -8_768_260_691_850_025_825,
                    -3_369_797_161_567_890_604,
                ],
            ),
            (8, &prompt, &[4_238_552_174_745_683_209]),
            (8, &[456], &[]),
            (
                16,
                &wide,
                &[
                    5_229_981_405_331_788_997,
                    -7_992_390_367_742_243_762,
                    1_537_742_529_412_250_862,
                    3_118_162_379_357_334_736,
                ],
            ),
        ];
        for (block_size, tokens, keys) in vectors {
            assert_eq!(block_keys(tokens, block_size), keys, "{block_size}");
        }
    }

    #[test]
    fn a_key_depends_on_all_tokens_before_it() {
        let keys = block_keys(&[1, 2, 3, 4], 2);
        let other = block_keys(&[9, 2, 3, 4], 2);
        assert_ne!(keys[1], other[1]);
        assert!(block_keys(&[1, 2, 3], 0).is_empty());
    }
}
