//! Speed of the search for markers, one core: `cargo bench -p oncewire-research-measure
//! --bench samplers`.
//!
//! Each bench first checks how many markers it finds, so that a fast wrong answer does not pass for
//! a fast one.
#![allow(missing_docs)]

mod noise;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use noise::noise;
use oncewire_codec::sampler::{Sampler, Sampling};
use oncewire_codec::{DEFAULT_BLOCK, Kernels};
use oncewire_family::SamplerKind;

/// Letters and spaces about as frequent as in English, in no order: what a branch predictor cannot
/// learn, and so fair to all levels.
fn letters(len: usize) -> Vec<u8> {
    let pick = |pair: &[u8]| match pair[0] {
        0..43 => b' ',
        a => b"etaoinshrdlcumwfgypbvkjxqz"[usize::from((a % 26).min(pair[1] % 26))],
    };
    noise(2 * len).chunks(2).map(pick).collect()
}

/// Each sampler, asked for 64 markers at a time as max-match does, at the best level.
fn samplers(c: &mut Criterion) {
    let content = letters(1 << 20);
    let kernels = Kernels::detect();
    let names = ["samplebyte", "fixed", "modp", "maxp", "gear", "fastcdc", "samplehash", "peaks"];
    let mut group = c.benchmark_group("samplers");
    group.throughput(Throughput::Bytes(content.len() as u64));
    for (name, expected) in names.into_iter().zip(SAMPLED) {
        let sampler = SamplerKind::named(name).unwrap().boxed();
        let all = || -> usize {
            content.chunks(DEFAULT_BLOCK).map(|block| count(&*sampler, kernels, block)).sum()
        };
        assert_eq!(all(), expected, "{name}");
        group.bench_function(name, |b| b.iter(all));
    }
}

fn count(sampler: &dyn Sampler, kernels: Kernels, block: &[u8]) -> usize {
    let (mut total, mut from, mut markers) = (0, 0, [0; 64]);
    loop {
        let sampling = Sampling { kernels, block, window: 32, period: 32, from };
        let found = sampler.sample(sampling, &mut markers);
        total += found.count;
        from = found.resume;
        if found.count < markers.len() {
            return total;
        }
    }
}

/// Markers of each sampler at p = 32 in these letters.
const SAMPLED: [usize; 8] = [56_493, 32_768, 32_726, 31_608, 32_864, 29_473, 32_925, 31_914];

criterion_group!(benches, samplers);
criterion_main!(benches);
