//! Frames that are cheap to send and meant to be costly to decode: `docs/FORMAT.md`, "Work".

use crate::entropy::{CodeAt, Operation, TranscodeModels, TranscodeWriter};
use crate::format::{ChecksumSeed, varint};
use crate::inside::section;
use crate::matcher::Match;
use crate::{Decoded, Decoder, Encoder, FrameError};
use flate2::{Compress, Compression, FlushCompress};

/// What [`Decoder::decode`] says of a frame, and the work that it took.
struct Outcome {
    result: Result<(), FrameError>,
    work: u64,
    are_blocks: bool,
}

/// Decodes a frame of `block`, behind a log of `log`, whose literals are a section of `sources`:
/// where they begin, and their lengths.
/// `operations` is `plain` if the sources are zstd blocks.
fn decode(
    log: &[u8],
    sources: &[(usize, usize)],
    are_blocks: bool,
    operations: &[u8],
    residual: &[u8],
    block: &[u8],
) -> Outcome {
    let mut decoder = Decoder::builder().cache(1 << 20).build().unwrap();
    decoder.prime(log);
    let offset = decoder.acknowledged();
    assert_eq!(offset, log.len() as u64, "no padding");
    let named = |&(start, len)| Match { at: 0, len: len as u32, source: start as u64 };
    let all: Vec<Match> = sources.iter().map(named).collect();
    let mut body = Vec::new();
    varint::put(&mut body, block.len() as u64);
    let sources = section::Sources { all: &all, are_blocks, width: None };
    section::write(sources, offset, residual.len(), false, operations, &mut body);
    body.extend_from_slice(residual);
    let checksum = ChecksumSeed::default().checksum(offset, 0, block);
    body.extend_from_slice(&checksum.to_le_bytes());
    // Transcoded literals and no matches, in a fresh context.
    let mut frame = vec![0x2c];
    varint::put(&mut frame, body.len() as u64);
    frame.extend_from_slice(&body);
    let result = match decoder.decode(&frame) {
        Ok(Decoded::Block { content, .. }) => {
            assert!(content == block);
            Ok(())
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    Outcome { result, work: decoder.work(), are_blocks }
}

impl Outcome {
    /// The frame gives its block, at less than 20 times the work of honest frames.
    fn assert_cheap(self, block_len: usize) {
        assert_eq!(self.result, Ok(()));
        self.assert_bounded(block_len);
    }

    /// The frame is rejected, with no more work than 20 times that of honest frames.
    fn assert_too_much(self, block_len: usize) {
        match self.result {
            Err(FrameError::TooLarge { field: "work", limit, .. }) => {
                assert_eq!(limit, 1024 + 16 * block_len as u64);
            }
            other => panic!("{other:?} after {} units", self.work),
        }
        self.assert_bounded(block_len);
    }

    fn assert_bounded(&self, block_len: usize) {
        let [zstd, deflate] = honest_work();
        let (honest, len) = (if self.are_blocks { zstd } else { deflate }, block_len as f64);
        // A frame as such takes some time, too.
        let most = 20.0 * honest * len + 1024.0;
        assert!((self.work as f64) < most, "{} units, honest are {}", self.work, honest * len);
    }
}

/// Units for each byte of frames that an encoder writes, in blocks of 16 KiB: of zstd and deflate.
fn honest_work() -> [f64; 2] {
    static WORK: std::sync::OnceLock<[f64; 2]> = std::sync::OnceLock::new();
    *WORK.get_or_init(|| {
        let first = text(1, 300_000);
        let second = [&first[..100_000], b"an insertion", &first[100_000..]].concat();
        [
            [&first, &second].map(|text| zstd_safe_frame(text)),
            [&first, &second]
                .map(|text| [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &deflate(text)].concat()),
        ]
        .map(|contents| {
            let mut encoder = Encoder::builder().cache(1 << 20).inside(true).build().unwrap();
            let mut decoder = Decoder::builder().cache(1 << 20).build().unwrap();
            let (mut bytes, mut work) = (0, 0);
            for block in contents.iter().flat_map(|content| content.chunks(16_384)) {
                let mut frame = Vec::new();
                encoder.encode(block, &mut frame).unwrap();
                let before = decoder.work();
                assert!(matches!(decoder.decode(&frame), Ok(Decoded::Block { .. })));
                if decoder.work() > before {
                    bytes += block.len();
                    work += decoder.work() - before;
                }
            }
            assert!(bytes > contents[1].len() / 4, "{bytes} of {}", contents[1].len());
            work as f64 / bytes as f64
        })
    })
}

/// Words in an order that hardly repeats.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as usize
    };
    let mut words: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2000 {
        let word: Vec<u8> = (0..2 + next() % 7).map(|_| b"etaoinshrdlucmfw"[next() % 16]).collect();
        words.push([&word[..], b" "].concat());
    }
    let mut out = Vec::new();
    while out.len() < len {
        let nth = next() % 2000;
        out.extend_from_slice(&words[nth * nth / 2000]);
    }
    out.truncate(len);
    out
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 1000);
    let mut compress = Compress::new(Compression::new(6), false);
    compress.compress_vec(content, &mut out, FlushCompress::Finish).unwrap();
    out
}

fn zstd_safe_frame(content: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(content.len())];
    let len = zstd_safe::compress(&mut out[..], content, 3).unwrap();
    out.truncate(len);
    out
}

/// The content of the first block of a zstd frame, which is compressed.
fn zstd_block(content: &[u8]) -> Vec<u8> {
    let frame = zstd_safe_frame(content);
    let descriptor = frame[4];
    let size = [usize::from(descriptor >> 5 & 1), 2, 4, 8][usize::from(descriptor >> 6)];
    let at = 6 - usize::from(descriptor >> 5 & 1) + size;
    let head = u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], 0]) as usize;
    assert_eq!(head >> 1 & 3, 2, "a compressed block");
    frame[at + 3..at + 3 + (head >> 3)].to_vec()
}

/// A zstd block of repeated literals and `sequences` that take no bits, each in 12 bytes or so; the
/// head of it without what is packed.
fn small_block(literals: usize, sequences: usize) -> (Vec<u8>, Vec<u8>) {
    let first = (0x0d | (literals as u32) << 4).to_le_bytes()[..3].to_vec();
    let second = match sequences {
        0 => vec![0],
        _ => {
            assert!((1..0x7f00).contains(&sequences));
            vec![0x80 | (sequences >> 8) as u8, sequences as u8, 0x54, 0, 0, 0]
        }
    };
    let block = [&first[..], b"a", &second, if sequences > 0 { &[1][..] } else { &[] }].concat();
    (block, [first, second].concat())
}

/// A residual of zstd blocks, not compressed, of the control column, changes and bytes.
fn residual(control: &[i64], changes: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut column = Vec::new();
    control.iter().for_each(|&number| varint::put(&mut column, number as u64));
    let mut out = Vec::new();
    for len in [column.len(), 0, 0, 0, changes.len()] {
        varint::put(&mut out, len as u64);
    }
    [&out[..], &column, changes, bytes].concat()
}

#[test]
fn zstd_sources_are_read_when_they_are_used() {
    let (source, _) = small_block(2000, 20_000);
    // Three of them are all that a frame may name.
    let sources = [(0, source.len()); 3];
    for len in [10, 100, 1000] {
        let block = vec![7; len];
        let residual = residual(&[1, 0, 1, 0, 1, 0, 0], &[], &block);
        decode(&source, &sources, true, &[], &residual, &block).assert_cheap(len);
    }
}

#[test]
fn zstd_tables_are_built_when_they_are_used() {
    let source = zstd_block(&text(2, 60_000));
    let sources = [(0, source.len()); 64];
    for len in [70, 100, 1000] {
        let block = vec![7; len];
        let control: Vec<i64> = (0..64).map(|_| 3).chain([0]).collect();
        let residual = residual(&control, &[], &block);
        decode(&source, &sources, true, &[], &residual, &block).assert_cheap(len);
    }
}

#[test]
fn zstd_tables_that_are_used_count() {
    let source = zstd_block(&text(2, 60_000));
    let sources = [(0, source.len()); 64];
    // Blocks of no literals under the code of each source.
    let mut control: Vec<i64> = (0..64).map(|_| 3).chain([0]).collect();
    (1..=64).for_each(|nth| control.extend([0, nth, 0, 0, 0]));
    let head = (3 | 1u32 << 14).to_le_bytes();
    let one = [head[0], head[1], head[2], 0];
    let residual = residual(&control, &[], &one.repeat(64));
    let block = [head[0], head[1], head[2], 1, 0].repeat(64);
    decode(&source, &sources, true, &[], &residual, &block).assert_too_much(block.len());
}

#[test]
fn what_is_left_out_of_a_zstd_block_counts() {
    // A block of 100,000 literals of which one byte is left.
    let (source, head) = small_block(100_000, 128);
    let block = [&source[source.len() - 1..], &[7; 400]].concat();
    let control = [1, 0, 0, 0, 0, source.len() as i64 - 1, 0, 0, 128, 0, 100_000];
    let residual = residual(&control, &[1; 128], &[&head[..], &[7; 400]].concat());
    let sources = [(0, source.len())];
    decode(&source, &sources, true, &[], &residual, &block).assert_too_much(block.len());
}

/// The section of operations.
fn section_of(operations: &[Operation]) -> Vec<u8> {
    let mut out = Vec::new();
    let all = [operations, &[Operation::End]].concat();
    let mut models = TranscodeModels::NEW;
    models.encode(&mut TranscodeWriter::default(), &all, &mut out);
    out
}

/// Deflate blocks of a log, each with a code, and where these are described, in bits.
fn codes(differ: bool) -> (Vec<u8>, Vec<i64>) {
    let (mut log, mut places) = (Vec::new(), Vec::new());
    for seed in 0..120 {
        let stream = deflate(&text(if differ { seed + 10 } else { 9 }, 3000));
        assert_eq!(stream[0] >> 1 & 3, 2, "a dynamic block");
        places.push(log.len() as i64 * 8 + 3);
        log.extend_from_slice(&stream[..400]);
    }
    (log, places)
}

fn name_codes(differ: bool, block_len: usize) -> Outcome {
    let (log, places) = codes(differ);
    let mut before = 0;
    let operations: Vec<Operation> = places
        .iter()
        .map(|&place| {
            let code = CodeAt::Source(place - std::mem::replace(&mut before, place));
            Operation::Part { code, bits: 8 }
        })
        .collect();
    let block = vec![7; block_len];
    // What follows the parts is aligned anyway.
    decode(&log, &[(0, log.len())], false, &section_of(&operations), &block, &block)
}

#[test]
fn deflate_codes_count() {
    name_codes(true, 1000).assert_too_much(1000);
}

#[test]
fn deflate_codes_with_the_same_words_are_built_once() {
    // Descriptions and operations alone are 63,360 units; codes would be 245,760 more.
    let outcome = name_codes(false, 6000);
    assert_eq!(outcome.work, 16 + 120 * (16 + 512) + 2048 + 16);
    outcome.assert_cheap(6000);
}

/// Operations on a log of tokens of 8 bits: the fixed code for the letter `a`.
fn operate(more: &[Operation], block_len: usize) -> Outcome {
    let log = vec![(0x30 + b'a').reverse_bits(); 20_000];
    let begin = [
        Operation::Part { code: CodeAt::Fixed, bits: 0 },
        Operation::Jump { gap: 0, code: Some(CodeAt::Fixed), distance: 0, run: 1 },
    ];
    let operations = [&begin[..], more].concat();
    let block = vec![log[0]; block_len];
    let written = 1 + more.iter().map(tokens).sum::<u64>() as usize;
    let residual = &block[written..];
    decode(&log, &[(0, log.len())], false, &section_of(&operations), residual, &block)
}

fn tokens(operation: &Operation) -> u64 {
    match *operation {
        Operation::Near { run, .. } | Operation::Jump { run, .. } => run,
        Operation::Bend { run, .. } | Operation::Moved { run, .. } => run,
        _ => 0,
    }
}

#[test]
fn skipped_tokens_count() {
    let skip = Operation::Near { gap: 0, skip: 15, run: 1 };
    operate(&[skip; 10], 5000).assert_cheap(5000);
    operate(&[skip; 1000], 1001).assert_too_much(1001);
}

#[test]
fn operations_count() {
    let [idle, one] = [0, 1].map(|run| Operation::Near { gap: 0, skip: 0, run });
    operate(&[idle, idle, one].repeat(1000), 1001).assert_too_much(1001);
    let jump = |distance, run| Operation::Jump { gap: 0, code: None, distance, run };
    operate(&[jump(-8, 0), idle, jump(0, 1)].repeat(1000), 1001).assert_too_much(1001);
    let bend = |run| Operation::Bend { back: 0, change: 1, run };
    operate(&[bend(0), bend(0), bend(1)].repeat(1000), 1001).assert_too_much(1001);
    // As in an honest frame: runs.
    operate(&[Operation::Near { gap: 0, skip: 1, run: 100 }; 100], 10_001).assert_cheap(10_001);
    operate(&[bend(1000); 10], 10_001).assert_cheap(10_001);
}

#[test]
fn the_length_of_a_run_is_no_reason_to_work() {
    let outcome = operate(&[], 100);
    let before = outcome.work;
    outcome.assert_cheap(100);
    // More tokens than the log or the block have.
    let log = vec![(0x30 + b'a').reverse_bits(); 2000];
    let operations = [
        Operation::Part { code: CodeAt::Fixed, bits: 0 },
        Operation::Jump { gap: 0, code: Some(CodeAt::Fixed), distance: 0, run: 1 << 61 },
    ];
    let block = vec![log[0]; 100];
    let outcome = decode(&log, &[(0, log.len())], false, &section_of(&operations), &[], &block);
    assert!(outcome.work < before);
    outcome.assert_too_much(100);
}
