//! Packs, good and bad.

use crate::hand::{Hand, noise, run, text};
use crate::manifest::{self, Record, variant};
use oncewire_codec::pack::{Base, Header, PackError, PackReader, PackStep, pack};
use oncewire_codec::{Encoder, EncoderBuilder, Entropy, Kernels};
use oncewire_family::SamplerKind;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const MANIFEST: &str = "packs.txt";
/// Largest cache that the reader of these vectors allows, in bytes.
const LIMIT: u64 = 1 << 20;

struct Pack {
    name: &'static str,
    story: &'static str,
    bytes: Vec<u8>,
    content: Vec<u8>,
    base: Option<Vec<u8>>,
    pinned: bool,
    /// How the last step of a bad one ends.
    error: Option<&'static str>,
}

fn header(cache: u64, max_block: usize, base: Option<&[u8]>) -> Header {
    let base =
        base.map(|base| Base { len: base.len() as u64, digest: *blake3::hash(base).as_bytes() });
    Header { cache, max_block, seed: 0x1234, base }
}

/// With SAMPLEBYTE, whatever the default is, so that the packs do not change.
fn builder(entropy: Entropy, kernels: Kernels) -> EncoderBuilder {
    Encoder::builder()
        .entropy(entropy)
        .kernels(kernels)
        .window(16)
        .period(8)
        .sampler(SamplerKind::sample_byte())
}

fn all(kernels: Kernels) -> Vec<Pack> {
    let builder = |entropy| builder(entropy, kernels);
    let mut all = Vec::new();
    let content = [text(1, 3000), noise(1, 500), text(1, 2000), run(b" \n", 700)].concat();
    let large = [text(5, 4000), run(b"large ", 66_000), text(5, 4000)].concat();
    let coded = Entropy::Coded { level: 3 };
    for (name, story, cache, max_block, entropy, content) in [
        ("pack-of-nothing", "No content: header and trailer.", 1, 1, Entropy::None, &content[..0]),
        (
            "pack",
            "Blocks of 1,000 bytes as they are, in a log smaller than the content.",
            3001,
            1000,
            Entropy::None,
            &content,
        ),
        ("pack-lz4", "The same, literals by LZ4.", 3001, 1000, Entropy::Lz4, &content),
        (
            "pack-literals",
            "Blocks of 65,536 bytes at most, coded literals.",
            70_001,
            65_536,
            coded,
            &content,
        ),
        (
            "pack-large-blocks",
            "Blocks of 262,144 bytes at most, the largest there may be; coded literals.",
            300_001,
            262_144,
            coded,
            &large,
        ),
    ] {
        let bytes = pack(content, &header(cache, max_block, None), builder(entropy)).unwrap();
        all.push(Pack {
            name,
            story,
            bytes,
            content: content.to_vec(),
            base: None,
            pinned: true,
            error: None,
        });
    }
    let base = [noise(2, 900), text(3, 1300)].concat();
    let over = [&base[1000..1800], b"changed", &base[1500..2200]].concat();
    let story = "A base of 2,200 bytes, of which the log of 2,003 holds the last.";
    all.push(based(kernels, "pack-with-base", story, 2003, base, over));
    let story = "An empty base: its length and digest are those of nothing, and nothing is put into the log.";
    all.push(based(
        kernels,
        "pack-with-empty-base",
        story,
        2003,
        Vec::new(),
        content[..900].to_vec(),
    ));
    let (base, story) =
        (noise(4, 300), "A base that fits the log, and no content: header and trailer.");
    all.push(based(kernels, "pack-of-nothing-with-base", story, 2003, base, Vec::new()));
    let small = &content[..1200];
    all.extend(bad(&pack(small, &header(1501, 500, None), builder(Entropy::None)).unwrap(), small));
    all
}

/// A pack with a base. If the base is larger than the log, only its last `cache` bytes are used.
fn based(
    kernels: Kernels,
    name: &'static str,
    story: &'static str,
    cache: u64,
    base: Vec<u8>,
    content: Vec<u8>,
) -> Pack {
    let header = header(cache, 400, Some(&base));
    let builder = builder(Entropy::None, kernels);
    let mut encoder = header.configure(builder).build().unwrap();
    encoder.prime(&base[header.base_skip() as usize..]).unwrap();
    let mut bytes = header.to_bytes();
    let mut checksums = Vec::new();
    for block in content.chunks(header.max_block) {
        encoder.encode(block, &mut bytes).unwrap();
        checksums.push(*bytes.last_chunk::<8>().unwrap());
    }
    bytes.extend(trailer(content.len() as u64, &checksums));
    Pack { name, story, bytes, content, base: Some(base), pinned: true, error: None }
}

/// The trailer, computed from the format: a mark, the content's length, and a chain of XXH3-64 over
/// the checksums.
fn trailer(total: u64, checksums: &[[u8; 8]]) -> Vec<u8> {
    let chain = checksums
        .iter()
        .fold(0u64, |chain, checksum| xxh3_64(&[chain.to_le_bytes(), *checksum].concat()));
    [&[0xff][..], &total.to_le_bytes(), &chain.to_le_bytes()].concat()
}

/// Length of a header without a base, in bytes.
const HEADER_LEN: usize = 38;

// More than 100 lines: a table of cases.
fn bad(good: &[u8], content: &[u8]) -> Vec<Pack> {
    let mut all = Vec::new();
    // `content` is what is delivered before the corruption is detected.
    let mut add = |name, error, story, len: usize, bytes: Vec<u8>| {
        all.push(Pack {
            name,
            story,
            bytes,
            content: content[..len].to_vec(),
            base: None,
            pinned: false,
            error: Some(error),
        });
    };
    let changed = |at: usize, value: u8| {
        let mut bytes = good.to_vec();
        bytes[at] ^= value;
        bytes
    };
    // A header with other fields and a correct checksum.
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut fields = good[..HEADER_LEN - 8].to_vec();
        change(&mut fields);
        let checksum = xxh3_64(&fields).to_le_bytes();
        [&fields[..], &checksum, &good[HEADER_LEN..]].concat()
    };
    add("pack-text-mode", "error NotAPack", "Line ends were changed on the way.", 0, {
        let mut bytes = good.to_vec();
        bytes.remove(5);
        bytes
    });
    add(
        "pack-other-file",
        "error NotAPack",
        "Something else altogether.",
        0,
        b"PK\x03\x04 and so on".to_vec(),
    );
    add(
        "pack-version-2",
        "error Version",
        "A version that does not exist yet.",
        0,
        with(&|fields| fields[8] = 2),
    );
    add(
        "pack-flags",
        "error Header",
        "A flag that does not exist yet.",
        0,
        with(&|fields| fields[9] = 2),
    );
    add("pack-header-bit", "error Header", "One bit of the header is wrong.", 0, changed(22, 1));
    add(
        "pack-block-of-none",
        "error Header",
        "A block limit of 0.",
        0,
        with(&|fields| fields[18..22].fill(0)),
    );
    add(
        "pack-block-too-large",
        "error Header",
        "A block limit of 262,145.",
        0,
        with(&|fields| {
            fields[18..22].copy_from_slice(&262_145u32.to_le_bytes());
        }),
    );
    add(
        "pack-cache-too-small",
        "error Header",
        "A cache smaller than a block.",
        0,
        with(&|fields| {
            fields[10..18].copy_from_slice(&499u64.to_le_bytes());
        }),
    );
    add(
        "pack-cache-too-large",
        "error Header",
        "A cache beyond 2^40 bytes.",
        0,
        with(&|fields| fields[16] = 0xff),
    );
    add(
        "pack-cache-over-the-limit",
        "error CacheTooLarge",
        "A cache of one byte more than the reader allows.",
        0,
        with(&|fields| {
            fields[10..18].copy_from_slice(&(LIMIT + 1).to_le_bytes());
        }),
    );
    add(
        "pack-frame-bit",
        "error Frame Checksum",
        "One bit of the first block is wrong.",
        0,
        changed(HEADER_LEN + 100, 0x20),
    );
    add(
        "pack-frame-with-fixed-width",
        "error Frame Field",
        "Frames of a pack have no positions of a fixed width, not even the right one.",
        0,
        [&good[..HEADER_LEN], &crate::fixed::in_a_pack(b"aab", 0x1234)].concat(),
    );
    add(
        "pack-frame-with-offset",
        "error Frame Field",
        "Frames of a pack follow each other and state no offset.",
        0,
        {
            let block = &content[..10];
            [&good[..HEADER_LEN], &Hand::raw(0, block).at(0, 0, block).write()].concat()
        },
    );
    let len = good.len();
    add(
        "pack-total",
        "error Trailer",
        "The trailer counts other content.",
        content.len(),
        changed(len - 16, 1),
    );
    add(
        "pack-chain",
        "error Trailer",
        "The trailer's chain is another.",
        content.len(),
        changed(len - 1, 1),
    );
    add(
        "pack-without-trailer",
        "need",
        "The trailer has not come.",
        content.len(),
        good[..len - 17].to_vec(),
    );
    add(
        "pack-cut-trailer",
        "need",
        "The trailer's last byte has not come.",
        content.len(),
        good[..len - 1].to_vec(),
    );
    add("pack-cut-header", "need", "Half of the header has not come.", 0, good[..20].to_vec());
    add("pack-of-no-byte", "need", "Nothing has come.", 0, Vec::new());
    add("pack-frame-missing", "error Frame Checksum", "The first frame was left out.", 0, {
        // Flags, two bytes of body length, and the body.
        let first =
            3 + (usize::from(good[HEADER_LEN + 1] & 0x7f) | usize::from(good[HEADER_LEN + 2]) << 7);
        [&good[..HEADER_LEN], &good[HEADER_LEN + first..]].concat()
    });
    all
}

impl Pack {
    fn record(&self) -> Record {
        let file =
            format!("{}/{}.ow", if self.error.is_some() { "bad" } else { "good" }, self.name);
        let beside = |extension: &str| file.replace(".ow", extension);
        let good = self.error.is_none();
        let mut record = Record {
            story: self.story.into(),
            numbers: vec![("limit".into(), LIMIT)],
            policy: None,
            base: self.base.as_ref().map(|_| beside(".base")),
            content: good.then(|| {
                if self.name.starts_with("pack-lz") || self.name == "pack-literals" {
                    "good/pack.content".into()
                } else {
                    beside(".content")
                }
            }),
            encoder: self.pinned.then(|| "window 16, period 8, sampler samplebyte".into()),
            file,
            ..Record::default()
        };
        record.set_content(&self.content);
        let (steps, content) = read(&record, self.base.as_deref(), &self.bytes);
        assert!(content == self.content, "{}: the content differs: {steps:?}", self.name);
        let last = &steps.last().unwrap().1;
        assert!(
            last.starts_with(self.error.unwrap_or("end")),
            "{}: {last} instead of {:?}",
            self.name,
            self.error
        );
        record.steps = steps;
        record
    }
}

/// Reads a pack: what happened, and the content.
fn read(record: &Record, base: Option<&[u8]>, bytes: &[u8]) -> (Vec<(usize, String)>, Vec<u8>) {
    let mut reader = PackReader::new(record.number("limit"));
    let (mut steps, mut content, mut rest) = (Vec::new(), Vec::new(), bytes);
    loop {
        let (consumed, outcome) = match reader.step(rest) {
            Ok(PackStep::NeedMore(more)) => (rest.len(), format!("need {more}")),
            Ok(PackStep::Header { consumed }) => {
                if let (Some(base), Some(header)) = (base, reader.header()) {
                    // As required of a reader before it uses any of it.
                    let found =
                        Base { len: base.len() as u64, digest: *blake3::hash(base).as_bytes() };
                    assert_eq!(header.base, Some(found), "{}", record.file);
                    let skip = header.base_skip() as usize;
                    reader.prime(&base[skip..]);
                }
                (consumed, "header".into())
            }
            Ok(PackStep::Block { content: block, consumed }) => {
                content.extend_from_slice(block);
                (consumed, format!("block {}", block.len()))
            }
            Ok(PackStep::End { consumed }) => (consumed, "end".into()),
            Err(PackError::Frame { source, .. }) => {
                (rest.len(), format!("error Frame {}", variant(&source)))
            }
            Err(error) => (rest.len(), format!("error {}", variant(&error))),
        };
        let goes_on = outcome == "header" || outcome.starts_with("block");
        steps.push((consumed, outcome));
        rest = &rest[consumed..];
        if !goes_on {
            return (steps, content);
        }
    }
}

pub(crate) fn bless() {
    let mut records = Vec::new();
    for pack in all(crate::portable()) {
        let record = pack.record();
        manifest::write(&record.file, &pack.bytes);
        if let Some(file) = &record.content {
            manifest::write(file, &pack.content);
        }
        if let (Some(file), Some(base)) = (&record.base, &pack.base) {
            manifest::write(file, base);
        }
        records.push(record);
    }
    manifest::store(MANIFEST, &records);
}

#[test]
fn packs_are_read_as_the_manifest_says() {
    crate::bless();
    let records = manifest::load(MANIFEST);
    assert!(records.len() > 20);
    for record in &records {
        let base = record.base.as_deref().map(manifest::read);
        let (steps, content) = read(record, base.as_deref(), &record.bytes());
        assert_eq!(steps, record.steps, "{}: {}", record.file, record.story);
        assert!(record.is_content(&content), "{}", record.file);
        if let Some(file) = &record.content {
            assert!(content == manifest::read(file), "{}: the content differs", record.file);
        }
    }
}

#[test]
fn packs_are_written_the_same_at_every_level() {
    crate::bless();
    let records = manifest::load(MANIFEST);
    for kernels in crate::levels() {
        let packs = all(kernels);
        assert_eq!(packs.len(), records.len());
        for (pack, record) in packs.iter().zip(&records) {
            assert!(record.file.ends_with(&format!("/{}.ow", pack.name)));
            assert!(pack.bytes == record.bytes(), "{} at level {}", record.file, kernels.level());
        }
    }
}
