//! Random numbers from a seed, the same on every machine and in every version: xoshiro256** seeded
//! by splitmix64 (Blackman and Vigna, *Scrambled linear pseudorandom number generators*, ACM TOMS
//! 2021).
//!
//! Not a crate, because the sequence is part of published results: it decides every synthetic
//! packet, and the figures in `docs/PLANNERS.md` and `docs/SMARTRE.md` come from those. Do not
//! change it.

/// A generator. Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Random([u64; 4]);

impl Random {
    /// The generator of `seed` and `stream`: independent for every pair.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut state = mix(seed) ^ mix(stream.wrapping_add(0x5851_f42d_4c95_7f2d));
        Random([(); 4].map(|()| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        }))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let Random(s) = self;
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

    /// Below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// In 0.0..1.0.
    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.next())
    }

    /// Exponentially distributed with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// `value` rounded down or up so that its mean is kept.
    pub(crate) fn round(&mut self, value: f64) -> usize {
        (value + self.unit()) as usize
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let value = self.next().to_le_bytes();
            part.copy_from_slice(&value[..part.len()]);
        }
    }
}

/// The finaliser of splitmix64: a good hash of one number.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A number in 0.0..1.0 from 64 random bits.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A standard normal number that depends on the arguments only (Box and Muller, *A note on the
/// generation of random normal deviates*, 1958).
pub(crate) fn normal(seed: u64, stream: u64, step: u64) -> f64 {
    let mut random = Random::new(seed ^ mix(step), stream);
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(2, 1));
        assert_ne!(take(1, 2), take(1, 3));
    }

    /// Mean and variance, each within five of its standard deviations.
    #[test]
    fn numbers_have_their_moments() {
        let count = 20_000;
        let moments = |draw: &mut dyn FnMut(u64) -> f64| {
            let numbers: Vec<f64> = (0..count).map(draw).collect();
            let mean = numbers.iter().sum::<f64>() / count as f64;
            (mean, numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / count as f64)
        };
        let close = |value: f64, expected: f64, deviation: f64| {
            assert!(
                (value - expected).abs() < 5.0 * deviation / (count as f64).sqrt(),
                "{value} for {expected}"
            );
        };
        let (mean, variance) = moments(&mut |step| normal(3, 4, step));
        close(mean, 0.0, 1.0);
        close(variance, 1.0, 2f64.sqrt());
        let mut random = Random::new(1, 0);
        let (mean, variance) = moments(&mut |_| random.exponential());
        close(mean, 1.0, 1.0);
        close(variance, 1.0, 8f64.sqrt());
        let (mean, _) = moments(&mut |_| random.round(2.3) as f64);
        close(mean, 2.3, 0.5);
    }
}
