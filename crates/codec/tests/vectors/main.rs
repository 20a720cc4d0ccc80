//! Golden vectors: good and bad files in `testdata/vectors/` that pin the format.
//!
//! Decoding uses only the manifests, as any other decoder would. Vectors must be decoded, and those
//! that our encoder wrote must be reproduced byte for byte, at every kernel level, or at the one
//! that `ONCEWIRE_KERNELS` names. `ONCEWIRE_BLESS=1 cargo test -p oncewire-codec --test vectors`
//! rewrites all of them. Use it only after an intended change of the format or of the encoder's
//! choices; a new lz4 library may require it as well.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // Of which the vectors need a part.
#[path = "../common/deflated.rs"]
mod deflated;

#[path = "../fuzz_entry/input.rs"]
mod input;

mod bad_frames;
mod columns;
mod corners;
mod fixed;
mod good_frames;
mod hand;
mod manifest;
mod markers;
mod packs;
mod payload;
mod symbols;
mod transcoded;

use common::params::Params;
use manifest::{Record, variant};
use oncewire_codec::{
    CachePolicy, ChecksumSeed, Decoded, Decoder, Encoder, FrameView, Kernels, Scan,
};
use oncewire_family::MatcherKind;
use oncewire_family::chunk::ChunkForm;
use std::collections::BTreeMap;

const FRAMES: &str = "frames.txt";
/// The index, for people.
const INDEX: &str = "INDEX.md";
/// Content larger than this is recorded as a digest only.
const MOST_CONTENT: usize = 6000;

/// A vector of frames under construction.
pub(crate) struct Vector {
    pub(crate) name: &'static str,
    pub(crate) story: &'static str,
    pub(crate) params: Params,
    pub(crate) base: Option<Vec<u8>>,
    /// In the order of arrival.
    pub(crate) frames: Vec<Vec<u8>>,
    /// Blocks by offset; they form the content.
    pub(crate) blocks: BTreeMap<u64, Vec<u8>>,
    /// Whether our encoder wrote it.
    pub(crate) pinned: bool,
    /// How the last step of a bad vector ends.
    pub(crate) error: Option<&'static str>,
}

impl Vector {
    pub(crate) fn new(name: &'static str, story: &'static str, params: Params) -> Vector {
        Vector {
            name,
            story,
            params,
            base: None,
            frames: Vec::new(),
            blocks: BTreeMap::new(),
            pinned: false,
            error: None,
        }
    }

    fn file(&self) -> String {
        format!("{}/{}.frames", if self.error.is_some() { "bad" } else { "good" }, self.name)
    }

    fn content(&self) -> Vec<u8> {
        self.blocks.values().flatten().copied().collect()
    }

    fn record(&self) -> Record {
        let Params { cache, span, max_block, contexts, seed, .. } = self.params;
        let numbers = [
            ("cache", cache),
            ("span", span),
            ("block", max_block as u64),
            ("contexts", contexts as u64),
            ("session", seed.session),
            ("epoch", seed.epoch),
        ];
        let content = self.content();
        let file = self.file();
        let beside = |extension: &str| file.replace(".frames", extension);
        let mut record = Record {
            story: self.story.into(),
            numbers: numbers
                .into_iter()
                .filter(|(_, value)| *value != 0)
                .map(|(name, value)| (name.into(), value))
                .collect(),
            policy: manifest::policy_text(self.params.policy),
            base: self.base.as_ref().map(|_| beside(".base")),
            content: (self.error.is_none() && content.len() <= MOST_CONTENT)
                .then(|| beside(".content")),
            encoder: self.pinned.then(|| self.describe_encoder()),
            file,
            ..Record::default()
        };
        record.set_content(&content);
        let (steps, decoded) =
            decode(Kernels::detect(), &record, self.base.as_deref(), &self.frames);
        record.steps = steps;
        assert!(decoded == content, "{}: the content differs", self.name);
        if let Some(error) = self.error {
            let last = &record.steps.last().unwrap().1;
            assert!(last.starts_with(error), "{}: {last} instead of {error}", self.name);
        }
        record
    }

    fn describe_encoder(&self) -> String {
        let Params {
            window,
            period,
            sampler,
            entropy,
            explicit,
            table_entries,
            key,
            matcher,
            policy,
            ..
        } = &self.params;
        let matcher = match matcher {
            MatcherKind::MaxMatch => String::new(),
            MatcherKind::Published { max_fingerprints: None } => ", matcher published".into(),
            MatcherKind::Published { max_fingerprints: Some(most) } => {
                format!(", matcher published with {most} fingerprints")
            }
            MatcherKind::ChunkMatch { form: ChunkForm::StartsAtMarker } => {
                ", matcher chunks from markers".into()
            }
            MatcherKind::ChunkMatch { form: ChunkForm::EndsWithWindow } => {
                ", matcher chunks up to windows' ends".into()
            }
        };
        let matcher = match policy {
            CachePolicy::NewRuns { straddle: true } => matcher + ", windows over joins",
            _ => matcher,
        };
        let offsets = if *explicit { ", offsets" } else { "" };
        let table =
            table_entries.map_or(String::new(), |entries| format!(", {entries} table entries"));
        format!(
            "window {window}, period {period}, sampler {}{matcher}, entropy {entropy}{offsets}{table}, key {key}",
            sampler.name()
        )
    }
}

/// Makes a vector with our encoder.
pub(crate) struct Maker {
    pub(crate) encoder: Encoder,
    pub(crate) vector: Vector,
    end: u64,
}

impl Maker {
    pub(crate) fn new(
        kernels: Kernels,
        name: &'static str,
        story: &'static str,
        params: Params,
    ) -> Maker {
        let encoder = params.encoder_at(kernels);
        Maker {
            encoder,
            vector: Vector { pinned: true, ..Vector::new(name, story, params) },
            end: 0,
        }
    }

    /// Encodes a block, and checks that its frame has these flags, so that the vector matches its
    /// description.
    pub(crate) fn block(&mut self, flags: u8, context: usize, block: &[u8]) -> &mut Maker {
        let mut frame = Vec::new();
        self.encoder.encode_frame(block, context).unwrap().append_to(&mut frame);
        let index = self.vector.frames.len();
        assert_eq!(
            frame[0], flags,
            "{}: flags of frame {index}, {:#04x} wanted",
            self.vector.name, flags
        );
        let offset = common::place(self.vector.params.cache, self.end, block.len());
        // The kept part may be smaller.
        self.end = self.encoder.end();
        self.vector.blocks.entry(offset).or_default().extend_from_slice(block);
        self.vector.frames.push(frame);
        self
    }

    pub(crate) fn prime(&mut self, base: &[u8]) -> &mut Maker {
        self.encoder.prime(base).unwrap();
        for block in base.chunks(self.vector.params.max_block) {
            self.end =
                common::place(self.vector.params.cache, self.end, block.len()) + block.len() as u64;
        }
        self.vector.base = Some(base.to_vec());
        self
    }

    /// Offset of the next block, if it fits in the generation.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }
}

/// All vectors of frames.
fn vectors(kernels: Kernels) -> Vec<Vector> {
    good_frames::all(kernels).into_iter().chain(bad_frames::all(kernels)).collect()
}

/// Feeds the frames to a decoder with the record's parameters. Frames with missing ranges are
/// retried after each one that decodes. Returns what happened, and the content in order of offsets.
fn decode(
    kernels: Kernels,
    record: &Record,
    base: Option<&[u8]>,
    frames: &[Vec<u8>],
) -> (Vec<(usize, String)>, Vec<u8>) {
    let number = |name: &str| {
        record.numbers.iter().find(|(found, _)| found == name).map_or(0, |&(_, value)| value)
    };
    let mut decoder: Decoder = Decoder::builder()
        .kernels(kernels)
        .cache(number("cache"))
        .span(number("span"))
        .max_block(number("block") as usize)
        .contexts(number("contexts") as usize)
        .checksum_seed(ChecksumSeed { session: number("session"), epoch: number("epoch") })
        .policy(manifest::policy_of(record.policy.as_deref()))
        .build()
        .unwrap();
    if let Some(base) = base {
        decoder.prime(base);
    }
    let (mut steps, mut blocks) = (Vec::new(), Vec::new());
    for frame in frames {
        let state = (decoder.acknowledged(), decoder.held().to_vec());
        let outcome = match decoder.decode(frame) {
            Ok(Decoded::Block { offset, content, consumed }) => {
                assert_eq!(consumed, frame.len());
                let outcome = format!("block {offset} {}", content.len());
                blocks.push((offset, content.to_vec()));
                outcome
            }
            Ok(Decoded::NeedMore(more)) => format!("need {more}"),
            Ok(Decoded::Missing(ranges)) => ranges.iter().fold("missing".into(), |line, range| {
                format!("{line} {}-{}", range.start, range.end)
            }),
            Err(error) => format!("error {}", variant(&error)),
        };
        if !outcome.starts_with("block") {
            // A block that fails may have overwritten what lies one capacity below it.
            let most = state.0 + number("span") + 2 * number("block");
            let given_up =
                if outcome.starts_with("error") { most.saturating_sub(number("cache")) } else { 0 };
            let above = |held: &[std::ops::Range<u64>]| -> Vec<_> {
                let above = held.iter().filter(|range| range.end > given_up);
                above.map(|range| range.start.max(given_up)..range.end).collect()
            };
            assert_eq!(
                (decoder.acknowledged(), above(decoder.held())),
                (state.0, above(&state.1)),
                "{}: only blocks change the log",
                record.file
            );
        }
        steps.push((frame.len(), outcome));
    }
    // A stable sort, since empty blocks share their offset with others.
    blocks.sort_by_key(|(offset, _)| *offset);
    (steps, blocks.into_iter().flat_map(|(_, block)| block).collect())
}

/// The records of all frames and packs.
fn all_records() -> Vec<Record> {
    manifest::load(FRAMES).into_iter().chain(manifest::load(packs::MANIFEST)).collect()
}

fn blessing() -> bool {
    std::env::var_os("ONCEWIRE_BLESS").is_some()
}

/// The kernel levels to test: all that this machine supports, or only the one that
/// `ONCEWIRE_KERNELS` names, if supported.
pub(crate) fn levels() -> Vec<Kernels> {
    let only = std::env::var_os("ONCEWIRE_KERNELS");
    Kernels::available()
        .filter(|kernels| only.as_ref().is_none_or(|name| name == kernels.level().name()))
        .collect()
}

fn portable() -> Kernels {
    Kernels::at(oncewire_codec::Level::Portable).unwrap()
}

/// Rewrites everything first if asked to, so that the tests then check it.
fn bless() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if !blessing() {
            return;
        }
        for folder in ["good", "bad", "markers"] {
            let _ = std::fs::remove_dir_all(manifest::folder().join(folder));
        }
        let mut records = Vec::new();
        for vector in vectors(portable()) {
            let record = vector.record();
            manifest::write(&record.file, &vector.frames.concat());
            if let Some(file) = &record.content {
                manifest::write(file, &vector.content());
            }
            if let (Some(file), Some(base)) = (&record.base, &vector.base) {
                manifest::write(file, base);
            }
            records.push(record);
        }
        manifest::store(FRAMES, &records);
        packs::bless();
        manifest::write(INDEX, manifest::index(&all_records()).as_bytes());
        markers::bless();
        payload::bless();
    });
}

#[test]
fn frames_decode_as_the_manifest_says() {
    bless();
    let records = manifest::load(FRAMES);
    assert!(records.len() > 60);
    for record in &records {
        let bytes = record.bytes();
        let mut rest = &bytes[..];
        let frames: Vec<Vec<u8>> = record
            .steps
            .iter()
            .map(|(len, _)| {
                let (frame, behind) = rest.split_at(*len);
                rest = behind;
                frame.to_vec()
            })
            .collect();
        assert!(rest.is_empty(), "{}: bytes left over", record.file);
        for ((_, outcome), frame) in record.steps.iter().zip(&frames) {
            if outcome.starts_with("block") {
                let whole = matches!(FrameView::scan(frame, record.number("block") as usize), Ok(Scan::Frame(view)) if view.len() == frame.len());
                assert!(whole, "{}: the manifest cuts frames wrongly", record.file);
            }
        }
        let base = record.base.as_deref().map(manifest::read);
        for kernels in levels() {
            let (steps, content) = decode(kernels, record, base.as_deref(), &frames);
            let level = kernels.level();
            assert_eq!(steps, record.steps, "{}, {level}: {}", record.file, record.story);
            assert!(record.is_content(&content), "{}, {level}", record.file);
            if let Some(file) = &record.content {
                assert!(content == manifest::read(file), "{}, {level}: content", record.file);
            }
        }
    }
}

#[test]
fn every_frame_of_the_table_is_refused_as_it_says() {
    bless();
    let records = manifest::load(FRAMES);
    let before = records.iter().find(|record| record.file == manifest::REFUSED_AFTER).unwrap();
    let bytes = before.bytes();
    let (mut named, mut wrong) = (Vec::new(), Vec::new());
    for line in manifest::refused() {
        let Some(frame) = line.frame else {
            let record = records.iter().find(|record| record.file == line.subject);
            let steps = &record.unwrap_or_else(|| panic!("no file {}", line.subject)).steps;
            assert_eq!(steps.last().unwrap().1, line.verdict, "{}", line.subject);
            named.push(line.subject);
            continue;
        };
        for kernels in levels() {
            let mut rest = &bytes[..];
            let mut frames: Vec<Vec<u8>> = Vec::new();
            for (len, _) in &before.steps {
                frames.push(rest.split_off(..*len).unwrap().to_vec());
            }
            frames.push(frame.clone());
            let (steps, _) = decode(kernels, before, None, &frames);
            let outcome = &steps.last().unwrap().1;
            if *outcome != line.verdict {
                wrong.push(format!(
                    "{}, {}: {outcome} instead of {}",
                    line.clause, line.subject, line.verdict
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // What only waits for more bytes is not refused.
    let refused = |record: &&Record| record.steps.last().unwrap().1.starts_with("error");
    let bad = records.iter().filter(|record| record.file.starts_with("bad/"));
    for record in bad.filter(refused) {
        assert!(named.contains(&record.file), "refused.txt has no {}", record.file);
    }
}

#[test]
fn the_encoder_writes_the_same_frames_at_every_level() {
    bless();
    let records = manifest::load(FRAMES);
    for kernels in levels() {
        let vectors = vectors(kernels);
        assert_eq!(vectors.len(), records.len());
        for (vector, record) in vectors.iter().zip(&records) {
            assert_eq!(vector.file(), record.file);
            let same = vector.frames.concat() == record.bytes();
            assert!(
                same,
                "{} at level {}: {}",
                record.file,
                kernels.level(),
                record.encoder.as_deref().unwrap_or("made by hand")
            );
        }
    }
}

#[test]
fn the_index_lists_what_the_manifests_have() {
    bless();
    assert!(
        manifest::read(INDEX) == manifest::index(&all_records()).into_bytes(),
        "ONCEWIRE_BLESS=1 rewrites it"
    );
}

#[test]
fn the_folder_holds_what_the_manifests_name_and_stays_small() {
    bless();
    let mut named: Vec<String> = Vec::new();
    for record in all_records() {
        named.push(record.file);
        named.extend(record.base);
        named.extend(record.content);
    }
    named.extend(markers::files());
    named.sort();
    named.dedup();
    let (mut found, mut size) = (Vec::new(), 0);
    for kind in ["good", "bad", "markers"] {
        for entry in std::fs::read_dir(manifest::folder().join(kind)).unwrap() {
            let entry = entry.unwrap();
            size += entry.metadata().unwrap().len();
            found.push(format!("{kind}/{}", entry.file_name().to_string_lossy()));
        }
    }
    found.sort();
    assert_eq!(found, named);
    // A fifth of it is the one content that has blocks of more than 64 KiB.
    assert!(size < 450_000, "{size} bytes");
}
