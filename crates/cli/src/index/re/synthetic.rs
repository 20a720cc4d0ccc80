//! Objects with a given redundancy, by a seed.
//!
//! An object repeats an earlier one as a whole, or it consists of pieces, of which some are cut from
//! earlier objects. What is repeated crossed the link shortly before, or long ago: those objects are
//! not part of the trace, but the index has their names. Fresh content is random bytes.

use super::content::{SHORTEST, Trace};
use oncewire_codec::sampler::Sampler;
use oncewire_kernels::random::SplitMix64;

/// Sizes of objects in bytes: Pareto with this shape between these limits.
const SMALLEST: f64 = 4096.0;
const LARGEST: f64 = 4_194_304.0;
const SHAPE: f64 = 1.1;
/// Bytes of a piece.
const PIECE: u64 = 32_768;
/// Objects of the trace that may be repeated.
const RECENT: usize = 200;
/// How strongly the share of repeats follows what is missing.
const GAIN: f64 = 20.0;

/// A number below `limit`.
fn below(random: &mut SplitMix64, limit: usize) -> usize {
    (random.next_u64() % limit.max(1) as u64) as usize
}

/// The size of an object of `largest` bytes at most, by the inverse of the distribution.
fn object_size(random: &mut SplitMix64, largest: f64) -> usize {
    let ratio = (SMALLEST / largest).powf(SHAPE);
    (SMALLEST / (1.0 - random.unit() * (1.0 - ratio)).powf(1.0 / SHAPE)) as usize
}

/// Random bytes of a seed.
pub(super) fn content(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64(seed).bytes(len)
}

/// A trace of about `size` bytes, of which `redundancy` repeat; of these, a share of `recent` was in
/// the trace itself.
pub(super) fn trace(
    sampler: &dyn Sampler,
    size: u64,
    redundancy: f64,
    recent: f64,
    seed: u64,
) -> Trace {
    let mut trace = Trace::default();
    let mut random = SplitMix64(seed);
    // No object decides alone how much of a short trace repeats.
    let largest = (size as f64 / 64.0).clamp(2.0 * SMALLEST, LARGEST);
    let mut sources = Sources { last: Vec::new(), recent, largest };
    while trace.bytes < size {
        // Where pieces are joined, a chunk does not repeat; so look at what was achieved.
        let achieved = trace.repeated as f64 / trace.bytes.max(1) as f64;
        let wanted = (redundancy + GAIN * (redundancy - achieved)).clamp(0.0, 1.0);
        let wanted = if redundancy == 0.0 { 0.0 } else { wanted };
        // Half of the repeats are whole objects.
        let whole = wanted / 2.0;
        let object = if random.unit() < whole {
            sources.choose(&mut random, &mut trace, sampler)
        } else {
            let len = object_size(&mut random, largest);
            let pieces = (wanted / 2.0) / (1.0 - whole);
            let mut object = Vec::with_capacity(len);
            while object.len() < len {
                let piece = (len - object.len()).min(1 + below(&mut random, 2 * PIECE as usize));
                let repeat = (random.unit() < pieces)
                    .then(|| sources.choose(&mut random, &mut trace, sampler));
                match repeat {
                    // Shorter ones have no whole chunk.
                    Some(repeat) if repeat.len() > 4 * SHORTEST => {
                        let from = below(&mut random, repeat.len() - 4 * SHORTEST);
                        let piece = piece.min(repeat.len() - from);
                        object.extend_from_slice(&repeat[from..from + piece]);
                    }
                    _ => object.extend(content(random.next_u64(), piece)),
                }
            }
            object
        };
        trace.push(sampler, &object);
        if sources.last.len() < RECENT {
            sources.last.push(object);
        } else {
            sources.last[trace.objects.len() % RECENT] = object;
        }
    }
    trace
}

/// What can be repeated.
struct Sources {
    /// The last objects.
    last: Vec<Vec<u8>>,
    /// Share of repeats that are of these.
    recent: f64,
    largest: f64,
}

impl Sources {
    fn choose(&self, random: &mut SplitMix64, trace: &mut Trace, sampler: &dyn Sampler) -> Vec<u8> {
        if !self.last.is_empty() && random.unit() < self.recent {
            return self.last[below(random, self.last.len())].clone();
        }
        let len = object_size(random, self.largest);
        let object = content(random.next_u64(), len);
        trace.push_history(sampler, &object);
        object
    }
}

#[cfg(test)]
mod tests {
    use oncewire_family::SamplerKind;

    #[test]
    fn redundancy_is_as_asked_and_a_seed_repeats() {
        let sampler = SamplerKind::named("modp").expect("a name").boxed();
        for asked in [0.0, 0.15, 0.5] {
            let trace = super::trace(&*sampler, 8 << 20, asked, 0.5, 3);
            let found = trace.repeated as f64 / trace.bytes as f64;
            assert!((found - asked).abs() < 0.04, "{found} instead of {asked}");
            assert_eq!(trace.history.is_empty(), asked == 0.0);
            let again = super::trace(&*sampler, 8 << 20, asked, 0.5, 3);
            assert_eq!((again.bytes, again.repeated), (trace.bytes, trace.repeated));
        }
        let other = super::trace(&*sampler, 1 << 20, 0.5, 0.5, 4);
        assert_ne!(super::trace(&*sampler, 1 << 20, 0.5, 0.5, 3).bytes, other.bytes);
    }
}
