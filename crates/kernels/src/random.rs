//! Random numbers from a seed, the same on every machine and in every version. Not for secrets.
//!
//! Not a crate of others, because the sequences are part of published results: they decide the
//! packets of the emulator, the hosts of the arranged day, the tables of GEAR, the buffers of the
//! score. Do not change them.

/// The odd number nearest to 2^64 divided by the golden ratio: the step of splitmix64.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64: a good hash of one number (Steele, Lea and Flood, *Fast splittable
/// pseudorandom number generators*, OOPSLA 2014).
#[inline]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// A number in 0.0..1.0 from 64 random bits.
#[inline]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A number below `bound` from 64 random bits, with a bias below `bound / 2^64`; 0 if `bound` is.
#[inline]
pub fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// The generator splitmix64, of 64 bits of state, begun at its seed.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// 64 random bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        below(self.next_u64(), bound)
    }

    /// A number in 0.0..1.0.
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// `len` bytes that repeat nothing. A shorter length gives a prefix.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
        bytes
    }

    /// 256 numbers, one for each byte value: the table of GEAR.
    pub const fn table(mut self) -> [u64; 256] {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < table.len() {
            table[byte] = self.next_u64();
            byte += 1;
        }
        table
    }
}

/// The generator xoshiro256\*\*, seeded by splitmix64 (Blackman and Vigna, *Scrambled linear
/// pseudorandom number generators*, ACM TOMS 2021).
#[derive(Clone, Debug)]
pub struct Xoshiro([u64; 4]);

impl Xoshiro {
    /// The generator of `seed` and `stream`: independent for every pair.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut state = SplitMix64(mix(seed) ^ mix(stream.wrapping_add(0x5851_f42d_4c95_7f2d)));
        Self([(); 4].map(|()| state.next_u64()))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let Self(s) = self;
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

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        below(self.next_u64(), bound as u64) as usize
    }

    /// A number in 0.0..1.0.
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// True with this probability: never at 0, always at 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponentially distributed with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// `value` rounded down or up so that its mean is kept.
    pub fn round(&mut self, value: f64) -> usize {
        (value + self.unit()) as usize
    }

    /// One of these, which are not none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
    }

    /// Random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

/// A standard normal number that depends on the arguments only (Box and Muller, *A note on the
/// generation of random normal deviates*, 1958).
pub fn normal(seed: u64, stream: u64, step: u64) -> f64 {
    let mut random = Xoshiro::new(seed ^ mix(step), stream);
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the reference implementations.
    #[test]
    fn sequences_are_pinned() {
        let mut random = SplitMix64(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(SplitMix64(0).bytes(3), [0xaf, 0xcd, 0x1d]);
        let mut random = Xoshiro([1, 2, 3, 4]);
        let first = [(); 4].map(|()| random.next_u64());
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut random = Xoshiro::new(seed, stream);
            [random.next_u64(), random.next_u64(), random.next_u64()]
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
        let mut random = Xoshiro::new(1, 0);
        let (mean, variance) = moments(&mut |_| random.exponential());
        close(mean, 1.0, 1.0);
        close(variance, 1.0, 8f64.sqrt());
        let (mean, _) = moments(&mut |_| random.round(2.3) as f64);
        close(mean, 2.3, 0.5);
    }
}
