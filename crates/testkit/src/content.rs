//! Random numbers, and content made from a seed.

use oncewire_kernels::random::SplitMix64;

/// Random numbers for tests, the same for the same seed and version of `fastrand`.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(fastrand::Rng::with_seed(seed))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n.max(1))
    }

    /// True with the given probability: never at 0, always at 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }
}

/// `len` incompressible bytes, the same for the same seed on every machine. A shorter length gives
/// a prefix.
pub fn incompressible(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64(seed).bytes(len)
}

/// `len` bytes of lines of words, the same for the same seed on every machine. Compresses like text
/// (about 3 to 1 by zstd -1) and has no long repeats. A shorter length gives a prefix.
pub fn text_like(seed: u64, len: usize) -> Vec<u8> {
    const SYLLABLES: [&str; 32] = [
        "ka", "lo", "men", "ti", "ra", "sel", "vo", "ne", "dur", "pi", "sha", "gor", "el", "bu",
        "tan", "wi", "os", "ter", "mi", "ful", "an", "de", "con", "pro", "ing", "er", "st", "le",
        "ous", "ri", "ya", "hum",
    ];
    let mut rng = SplitMix64(seed);
    // A vocabulary of words; the product of two numbers prefers the first ones, as a language
    // prefers some words.
    let vocabulary: Vec<String> = (0..4096)
        .map(|_| {
            (0..1 + rng.below(4))
                .map(|_| SYLLABLES[rng.below(SYLLABLES.len() as u64) as usize])
                .collect()
        })
        .collect();
    let mut bytes = Vec::with_capacity(len + 32);
    let mut column = 0;
    while bytes.len() < len {
        let (a, b) = (rng.below(4096), rng.below(4096));
        let word = &vocabulary[(a * b / 4096) as usize];
        bytes.extend_from_slice(word.as_bytes());
        column += word.len() + 1;
        if column > 72 {
            bytes.push(b'\n');
            column = 0;
        } else {
            bytes.push(b' ');
        }
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_a_function_of_the_seed() {
        assert_eq!(incompressible(1, 1000), incompressible(1, 1000));
        assert_eq!(incompressible(1, 1000)[..77], incompressible(1, 77));
        assert_ne!(incompressible(1, 1000), incompressible(2, 1000));
        assert_eq!(text_like(1, 1000)[..77], text_like(1, 77));
        assert_eq!(text_like(3, 100_000).len(), 100_000);
        // Pinned, because published figures name seeds.
        assert_eq!(incompressible(0, 8), 0xE220_A839_7B1D_CDAFu64.to_le_bytes());
    }

    #[test]
    fn chance_is_near_its_probability() {
        let mut rng = Rng::new(5);
        let hits = (0..100_000).filter(|_| rng.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|_| rng.chance(0.0)));
        assert!((0..1000).all(|_| rng.chance(1.0)));
    }
}
