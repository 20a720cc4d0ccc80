//! Frames of many matches of one byte, and of new codes.

use super::{Symbols, time};
use oncewire_codec::{ChecksumSeed, varint};
use oncewire_kernels::random::SplitMix64;
use std::error::Error;

/// Bytes of the log before the frames: more than the caches of a processor hold.
const LOG: usize = 32 << 20;

pub(super) fn measure() -> Result<(), Box<dyn Error>> {
    let mut random = SplitMix64(1);
    let log = random.bytes(LOG);
    for (len, codes) in [(128, 1), (384, 2), (1664, 7), (1664, 0)] {
        let frames = in_columns(&log, len, codes, 100);
        time(&format!("{codes} new codes, matches of a byte"), &log, &frames)?;
    }
    let same = by_models(&log, 60_000, 4, || 4096);
    time("matches of a byte, one distance, models", &log, &same)?;
    let any = by_models(&log, 19_000, 10, || 1 + random.below(LOG as u64));
    time("matches of a byte, any distance, models", &log, &any)?;

    Ok(())
}

/// What every byte of a block repeats: `distances`. Returns the block, and appends it to `content`.
fn block(content: &mut Vec<u8>, distances: &[u64]) -> Vec<u8> {
    let start = content.len();
    for &distance in distances {
        content.push(content[content.len() - distance as usize]);
    }
    content[start..].to_vec()
}

/// A frame of coded descriptors, for a block without literals.
fn frame(fresh: bool, offset: usize, block: &[u8], section: &[u8], columns: bool) -> Vec<u8> {
    let mut body = Vec::new();
    let len = 2 * section.len() as u64 + u64::from(columns);
    // The dependency range is the whole log.
    for field in [block.len() as u64, offset as u64, 0, len] {
        varint::put(&mut body, field);
    }
    body.extend_from_slice(section);
    let checksum = ChecksumSeed::default().checksum(offset as u64, 0, block);
    body.extend_from_slice(&checksum.to_le_bytes());
    let mut frame = vec![if fresh { 0x22 } else { 0x02 }];
    varint::put(&mut frame, body.len() as u64);
    frame.extend(body);
    frame
}

/// Frames whose descriptors go by models.
fn by_models(
    log: &[u8],
    len: usize,
    frames: usize,
    mut distance: impl FnMut() -> u64,
) -> Vec<(Vec<u8>, usize)> {
    let (mut content, mut symbols, mut last) = (log.to_vec(), Symbols::default(), 0);
    (0..frames)
        .map(|nth| {
            let offset = content.len();
            let distances: Vec<u64> = (0..len).map(|_| distance()).collect();
            symbols.number("count", len as u64 - 1);
            let mut kind = 0;
            for (at, &distance) in distances.iter().enumerate() {
                symbols.number(&format!("gap {kind}"), 0);
                let step = format!("step {kind}");
                if distance == last {
                    symbols.put(&step, 0);
                    kind = 0;
                } else if distance % 512 == 0 {
                    symbols.put(&step, 6);
                    symbols.number("far, aligned", distance / 512 - 1);
                    kind = 2;
                } else {
                    symbols.put(&step, 5);
                    symbols.number("far", distance - 1);
                    kind = 2;
                }
                last = distance;
                if at + 1 == len {
                    symbols.put("to end", 1);
                } else {
                    symbols.number(&format!("length {kind}"), 0);
                }
            }
            let section = symbols.finish();
            let block = block(&mut content, &distances);
            (frame(nth == 0, offset, &block, &section, false), len)
        })
        .collect()
}

/// Frames of matches at a distance of 1, whose descriptors are in columns. The first `codes` of
/// seven columns have a new code, which differs from the one before; the others have one value.
fn in_columns(log: &[u8], len: usize, codes: usize, frames: usize) -> Vec<(Vec<u8>, usize)> {
    let (mut content, mut symbols) = (log.to_vec(), Symbols::default());
    let mut known = [[0; 256]; 7];
    // No gap, a distance of five bytes and a length of one, and the five bytes of the distance.
    let values = [0, 6 * 36 + 33, 1, 0, 0, 0, 0];
    (0..frames)
        .map(|nth| {
            let mut section = Vec::new();
            varint::put(&mut section, len as u64);
            for (column, (&value, known)) in values.iter().zip(&mut known).enumerate() {
                if column < codes {
                    section.push(2);
                    state_code(&mut symbols, known, &code(value.into(), nth), &mut section);
                    streams_of_zeros(len, &mut section);
                } else {
                    section.extend([3, value]);
                }
            }
            // Lengths less 1.
            section.resize(section.len() + len, 0);
            let offset = content.len();
            let block = block(&mut content, &vec![1; len]);
            (frame(nth == 0, offset, &block, &section, true), len)
        })
        .collect()
}

/// Lengths of words: 1 for a value, 8 for another symbol, 9 for the rest.
fn code(value: usize, nth: usize) -> [u8; 256] {
    let mut lengths = [9; 256];
    lengths[value] = 1;
    lengths[(value + 1 + nth % 255) % 256] = 8;
    lengths
}

/// Section 6, "Columns": a code, after the lengths that were known.
fn state_code(symbols: &mut Symbols, known: &mut [u8; 256], code: &[u8; 256], out: &mut Vec<u8>) {
    let mut below = 0;
    for (known, &length) in known.iter_mut().zip(code) {
        let model = if *known > 0 { *known + 1 } else { u8::from(below > 0) };
        symbols.put(&format!("word {model}"), length.into());
        (*known, below) = (length, length);
    }
    let section = symbols.finish();
    varint::put(out, section.len() as u64);
    out.extend(section);
}

/// Words of one bit, all of them 0.
fn streams_of_zeros(len: usize, out: &mut Vec<u8>) {
    if len < 256 {
        out.resize(out.len() + len.div_ceil(8), 0);
        return;
    }
    let bytes = [0, 1, 2, 3].map(|nth| (len - nth).div_ceil(4).div_ceil(8));
    bytes[..3].iter().for_each(|&len| out.extend_from_slice(&(len as u16).to_le_bytes()));
    out.resize(out.len() + bytes.iter().sum::<usize>(), 0);
}
