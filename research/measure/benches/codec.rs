//! Speed of the codec, one core, everything in memory: `cargo bench -p
//! oncewire-research-measure --bench codec`.
//!
//! Content is a release of the time zone data as a tar, the release after it, and noise. Each bench
//! first checks the size of what it makes against what it was when the bench was written, so that a
//! fast wrong answer does not pass for a fast one. Read the figures against `floor`, which copies
//! the same bytes and hashes them once: no codec with a verified log can be faster.
#![allow(missing_docs)]

mod noise;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use noise::noise;
use oncewire_codec::{
    ByteSet, DEFAULT_BLOCK, Decoded, Decoder, ENDRE_MARKER_BYTES, Encoder, Entropy, Kernels,
};
use std::hint::black_box;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_64;

/// Holds everything that a bench sends, several times over.
const CACHE: u64 = 16 << 20;

const ENTROPIES: [Entropy; 4] =
    [Entropy::None, Entropy::Lz4, Entropy::Coded { level: 1 }, Entropy::Coded { level: 3 }];

fn release(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../testdata/tz", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn encoder(entropy: Entropy) -> Encoder {
    let mut encoder = Encoder::builder().cache(CACHE).entropy(entropy).build().unwrap();
    encoder.prefault();
    encoder
}

/// An encoder that has sent `before`.
fn warm(entropy: Entropy, before: &[u8]) -> Encoder {
    let mut encoder = encoder(entropy);
    encode(&mut encoder, before, &mut Vec::new());
    encoder
}

/// Appends the frames of `content` to `wire`.
fn encode(encoder: &mut Encoder, content: &[u8], wire: &mut Vec<u8>) {
    wire.clear();
    for block in content.chunks(DEFAULT_BLOCK) {
        encoder.encode(block, wire).unwrap();
    }
}

fn decode(decoder: &mut Decoder, mut wire: &[u8]) -> usize {
    let mut total = 0;
    while !wire.is_empty() {
        let Ok(Decoded::Block { content, consumed, .. }) = decoder.decode(wire) else {
            panic!("the frames are good")
        };
        total += content.len();
        wire = &wire[consumed..];
    }
    total
}

/// Frames of `content` behind `before`, and the check that they are as small as they should be.
fn frames(
    entropy: Entropy,
    before: &[u8],
    content: &[u8],
    expected: RangeInclusive<usize>,
) -> Vec<u8> {
    let mut wire = Vec::new();
    encode(&mut warm(entropy, before), content, &mut wire);
    assert!(
        expected.contains(&wire.len()),
        "{entropy}: {} bytes became {}, expected {expected:?}",
        content.len(),
        wire.len()
    );
    wire
}

/// Five per cent more or less than it was.
fn about(size: usize) -> RangeInclusive<usize> {
    size - size / 20..=size + size / 20
}

/// A kind of traffic: what was sent before, what is sent now, and the size of its frames by entropy
/// stage.
struct Traffic {
    name: &'static str,
    before: Vec<u8>,
    content: Vec<u8>,
    sizes: [usize; 4],
}

fn traffic() -> [Traffic; 4] {
    let (first, second) = (release("tzdata-2026.3.tar"), release("tzdata-2026.4.tar"));
    let noise = noise(1 << 20);
    [
        Traffic {
            name: "cold",
            before: Vec::new(),
            content: first.clone(),
            sizes: [306_160, 168_285, 111_625, 101_821],
        },
        Traffic {
            name: "next release",
            before: first.clone(),
            content: second,
            sizes: [2804, 2227, 1746, 1315],
        },
        Traffic { name: "repeat", before: first.clone(), content: first, sizes: [319; 4] },
        Traffic { name: "noise", before: Vec::new(), content: noise, sizes: [1_048_816; 4] },
    ]
}

fn encoding(c: &mut Criterion) {
    for Traffic { name, before, content, sizes } in traffic() {
        let mut group = c.benchmark_group(format!("encode, {name}"));
        group.throughput(Throughput::Bytes(content.len() as u64));
        for (entropy, size) in ENTROPIES.into_iter().zip(sizes) {
            let mut wire = frames(entropy, &before, &content, about(size));
            group.bench_function(entropy.to_string(), |b| {
                b.iter_batched_ref(
                    || warm(entropy, &before),
                    |encoder| {
                        encode(encoder, &content, &mut wire);
                        wire.len()
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

fn decoding(c: &mut Criterion) {
    for Traffic { name, before, content, sizes } in traffic() {
        let mut group = c.benchmark_group(format!("decode, {name}"));
        group.throughput(Throughput::Bytes(content.len() as u64));
        for (entropy, size) in ENTROPIES.into_iter().zip(sizes) {
            let mut encoder = encoder(entropy);
            let mut earlier = Vec::new();
            encode(&mut encoder, &before, &mut earlier);
            let wire = frames(entropy, &before, &content, about(size));
            group.bench_function(entropy.to_string(), |b| {
                b.iter_batched_ref(
                    || {
                        let mut decoder = Decoder::builder().cache(CACHE).build().unwrap();
                        decoder.prefault();
                        decode(&mut decoder, &earlier);
                        decoder
                    },
                    |decoder| assert_eq!(decode(decoder, &wire), content.len()),
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

/// Letters and spaces about as frequent as in English, in no order: what a branch predictor cannot
/// learn, and so fair to all levels.
fn letters(len: usize) -> Vec<u8> {
    let pick = |pair: &[u8]| match pair[0] {
        0..43 => b' ',
        a => b"etaoinshrdlcumwfgypbvkjxqz"[usize::from((a % 26).min(pair[1] % 26))],
    };
    noise(2 * len).chunks(2).map(pick).collect()
}

/// The search for markers alone, at each level that this machine has.
fn markers(c: &mut Criterion) {
    let content = letters(1 << 20);
    let set: ByteSet = ENDRE_MARKER_BYTES.into_iter().collect();
    let mut found = vec![0; DEFAULT_BLOCK];
    let mut all = |search: &dyn Fn(&[u8], &mut [u32]) -> usize| {
        content.chunks(DEFAULT_BLOCK).map(|block| search(block, &mut found)).sum()
    };
    let mut group = c.benchmark_group("markers");
    group.throughput(Throughput::Bytes(content.len() as u64));
    for kernels in Kernels::available() {
        let level = kernels.level();
        let bytes = |block: &[u8], found: &mut [u32]| {
            kernels.sample_byte(&set, block, 32, 16, usize::MAX, 0, found).count
        };
        let pairs =
            |block: &[u8], found: &mut [u32]| kernels.sample_pair(block, 32, 0, found).count;
        let (in_bytes, in_pairs): (usize, usize) = (all(&bytes), all(&pairs));
        assert_eq!((in_bytes, in_pairs), MARKERS, "{level}");
        group.bench_function(format!("samplebyte, {level}"), |b| {
            b.iter(|| -> usize { all(&bytes) })
        });
        group.bench_function(format!("pairs, {level}"), |b| b.iter(|| -> usize { all(&pairs) }));
    }
}

/// Markers of both kinds in these letters, cut into blocks.
const MARKERS: (usize, usize) = (56_493, 23_703);

/// A copy and a hash of the same bytes: what a log with checksums costs without any codec.
fn floor(c: &mut Criterion) {
    let content = release("tzdata-2026.3.tar");
    let mut copy = vec![0; content.len()];
    let mut group = c.benchmark_group("floor");
    group.throughput(Throughput::Bytes(content.len() as u64));
    group.bench_function("copy and xxh3", |b| {
        b.iter(|| {
            for (to, from) in
                copy.chunks_mut(DEFAULT_BLOCK).zip(black_box(&content).chunks(DEFAULT_BLOCK))
            {
                to.copy_from_slice(from);
                black_box(xxh3_64(to));
            }
        });
    });
}

criterion_group!(benches, encoding, decoding, markers, floor);
criterion_main!(benches);
