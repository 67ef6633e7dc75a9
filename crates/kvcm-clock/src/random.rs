//! Randomness for jitter and ids.

/// A source of random numbers. Seeded in tests and simulations, so that a run can be replayed.
///
/// Not for secrets.
pub trait Random: Send {
    /// Any 64 bits.
    fn next_u64(&mut self) -> u64;

    /// Uniform in `[0, 1)`.
    fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Random for fastrand::Rng {
    fn next_u64(&mut self) -> u64 {
        self.u64(..)
    }
}
