//! What is drawn at random in tests that disturb processes.

/// A sequence without a seed of its own, so that a failure can be run again.
pub struct Draws(pub u64);

impl Draws {
    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}
