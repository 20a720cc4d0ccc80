//! The markers that samplers find. If they change, matches between old and new content are lost;
//! this test shows that. Decoders do not depend on markers.

use crate::hand::{digits, noise, run, text};
use crate::manifest::{self, hex, unhex};
use oncewire_codec::Kernels;
use oncewire_codec::sampler::Sampling;
use oncewire_family::SamplerKind;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

const MANIFEST: &str = "markers.txt";
/// The manifest lists this many markers of each search, and a digest of all.
const MOST_LISTED: usize = 60;

/// Window and sampling period: the defaults, the smallest, the largest, and odd combinations.
const SIZES: [(usize, usize); 5] = [(32, 32), (12, 4), (64, 1024), (17, 101), (61, 70)];

fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let runs = [
        run(b"\0", 700),
        text(111, 300),
        run(b"ab", 500),
        run(b"\xff", 90),
        digits(112, 400),
        run(b"a", 610),
    ];
    vec![
        ("markers/text.content", text(113, 2600)),
        ("markers/noise.content", noise(114, 2600)),
        ("markers/runs.content", runs.concat()),
        (
            "markers/ascending.content",
            (0..1300u32).flat_map(|i| [(i >> 8) as u8, i as u8]).collect(),
        ),
    ]
}

/// What the manifest names.
pub(crate) fn files() -> impl Iterator<Item = String> {
    manifest::lines(MANIFEST)
        .into_iter()
        .flatten()
        .filter(|(key, _)| key == "content")
        .map(|(_, file)| file)
}

/// The samplers whose markers must not change.
fn samplers() -> Vec<SamplerKind> {
    let names = [
        "samplebyte",
        "samplehash",
        "fixed",
        "modp",
        "modp-published",
        "maxp",
        "peaks",
        "gear",
        "fastcdc",
    ];
    let mut samplers: Vec<_> = names
        .iter()
        .map(|name| SamplerKind::named(name).expect("a sampler of that name"))
        .collect();
    samplers.push(SamplerKind::SampleByte([b'\n', b'/', 7].into_iter().collect()));
    samplers
}

/// All markers of `content`, `batch` at a time.
fn markers(
    kernels: Kernels,
    sampler: &SamplerKind,
    content: &[u8],
    (window, period): (usize, usize),
    batch: usize,
) -> Vec<u32> {
    let sampler = sampler.boxed();
    let (mut all, mut at, mut some) = (Vec::new(), 0, vec![0; batch]);
    loop {
        let sampling = Sampling { kernels, block: content, window, period, from: at };
        let found = sampler.sample(sampling, &mut some);
        all.extend_from_slice(&some[..found.count]);
        at = found.resume;
        if found.count < batch {
            return all;
        }
    }
}

fn digest(markers: &[u32]) -> String {
    let bytes: Vec<u8> = markers.iter().flat_map(|marker| marker.to_le_bytes()).collect();
    format!("{:016x} {}", xxh3_64(&bytes), markers.len())
}

fn listed(markers: &[u32]) -> String {
    markers.iter().take(MOST_LISTED).map(u32::to_string).collect::<Vec<_>>().join(" ")
}

pub(crate) fn bless() {
    let mut text = String::new();
    for (file, content) in contents() {
        manifest::write(file, &content);
        for sampler in samplers() {
            for size in SIZES {
                let markers = markers(crate::portable(), &sampler, &content, size, content.len());
                writeln!(text, "content {file}\nsampler {}", sampler.name()).unwrap();
                if let SamplerKind::SampleByte(set) = sampler {
                    writeln!(text, "bytes {}", hex(&set.iter().collect::<Vec<u8>>())).unwrap();
                }
                writeln!(text, "window {}\nperiod {}", size.0, size.1).unwrap();
                writeln!(text, "digest {}\nmarkers {}\n", digest(&markers), listed(&markers))
                    .unwrap();
            }
        }
    }
    manifest::write(MANIFEST, text.as_bytes());
}

#[test]
fn samplers_match_the_manifest_at_every_level() {
    crate::bless();
    let records = manifest::lines(MANIFEST);
    assert_eq!(records.len(), contents().len() * samplers().len() * SIZES.len());
    for record in &records {
        let value = |key: &str| {
            record.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
        };
        let number = |key| value(key).unwrap().parse::<usize>().unwrap();
        let content = manifest::read(value("content").unwrap());
        let sampler = match value("bytes") {
            Some(bytes) => SamplerKind::SampleByte(unhex(bytes).into_iter().collect()),
            None => SamplerKind::named(value("sampler").unwrap()).unwrap(),
        };
        let size = (number("window"), number("period"));
        for kernels in crate::levels() {
            for batch in [content.len(), 7] {
                let markers = markers(kernels, &sampler, &content, size, batch);
                let what = format!(
                    "{} at {size:?} in {:?} at level {}",
                    sampler.name(),
                    value("content"),
                    kernels.level()
                );
                assert_eq!(listed(&markers), value("markers").unwrap(), "{what}");
                assert_eq!(digest(&markers), value("digest").unwrap(), "{what}");
            }
        }
    }
}
