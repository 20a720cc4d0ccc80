//! Seeded random numbers, the same on every machine: xoshiro256** seeded by splitmix64 (Blackman
//! and Vigna, *Scrambled linear pseudorandom number generators*, ACM TOMS 2021).
//!
//! This program keeps its own generator because published captures depend on it: another one would
//! change `docs/examples/site.pcap.zst` and the studies in `docs/STUDY.md`.

/// A random number generator. Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    /// A generator for `seed` and `stream`; every pair gives an independent sequence.
    pub(crate) fn new(seed: u64, stream: u64) -> Rng {
        let mut state = mix(seed) ^ mix(stream.wrapping_add(0x5851_f42d_4c95_7f2d));
        Rng([(); 4].map(|()| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        }))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let Rng(s) = self;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number in 0.0..1.0.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let value = self.next().to_le_bytes();
            part.copy_from_slice(&value[..part.len()]);
        }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

/// The finalizer of splitmix64: a good hash of one number.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

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

    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let value = rng.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|&sum| sum <= value).min(self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(2, 1));
        assert_ne!(take(1, 2), take(1, 3));
    }

    #[test]
    fn zipf_draws_have_the_expected_shares() {
        let (zipf, mut rng) = (Zipf::new(3, 1.0), Rng::new(7, 0));
        let mut counts = [0u32; 3];
        (0..11_000).for_each(|_| counts[zipf.draw(&mut rng)] += 1);
        // 6/11, 3/11, 2/11 of the draws.
        for (count, expected) in counts.into_iter().zip([6000, 3000, 2000]) {
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
    }
}
