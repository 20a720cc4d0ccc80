//! The distribution of what is popular.

use oncewire_kernels::random::Xoshiro;

/// Zipf's law: rank `k` (from 0) with a probability in proportion to `1 / (k + 1)^exponent`.
pub(crate) struct Zipf(Vec<f64>);

impl Zipf {
    /// A distribution over `ranks` ranks; `ranks` is at least 1.
    pub(crate) fn new(ranks: usize, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        Zipf(
            (1..=ranks.max(1))
                .map(|rank| {
                    sum += (rank as f64).powf(-exponent);
                    sum
                })
                .collect(),
        )
    }

    pub(crate) fn draw(&self, rng: &mut Xoshiro) -> usize {
        let value = rng.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|&sum| sum <= value).min(self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_draws_have_the_expected_shares() {
        let (zipf, mut rng) = (Zipf::new(3, 1.0), Xoshiro::new(7, 0));
        let mut counts = [0u32; 3];
        (0..11_000).for_each(|_| counts[zipf.draw(&mut rng)] += 1);
        // 6/11, 3/11, 2/11 of the draws.
        for (count, expected) in counts.into_iter().zip([6000, 3000, 2000]) {
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
    }
}
