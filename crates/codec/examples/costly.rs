//! What takes a decoder most time: frames made to be costly, and the slowest honest content.
//!
//! ```sh
//! cargo run --release -p oncewire-codec --example costly
//! ```

use cpu_time::ProcessTime;
use flate2::{Compress, Compression, FlushCompress};
use oncewire_codec::{ChecksumSeed, Decoded, Decoder, Encoder, varint};
use std::error::Error;
use std::hint::black_box;

#[path = "costly/matches.rs"]
mod matches;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:44} {:>7} {:>7} {:>10} {:>9}", "frames", "bytes", "block", "us each", "ns/byte");
    // Of 100,000 equal literals, and 5,000 sequences that take no bits.
    let source = [&[0x0d, 0x6a, 0x18, b'a', 0x93, 0x88, 0x54, 0, 0, 0], &[1][..]].concat();
    let unused = residual(&[1, 0, 1, 0, 1, 0, 0], &[], &[7; 16]);
    measure("three zstd sources, unused", &source, 3, &[], &unused, &[7; 16])?;
    let block = first_block(&text(1, 100_000))?;
    let control: Vec<u64> = (0..63).map(|_| 3).chain([0]).collect();
    let unused = residual(&control, &[], &[7; 80]);
    measure("tables of 63 zstd sources, unused", &block, 63, &[], &unused, &[7; 80])?;
    // Many blocks of as many sequences as a residual can take, and one of literals of the source.
    let sequences = [0x81, 0xe0, 0x54, 0, 0, 0];
    let source = [&[0x0d, 0x6a, 0x18, b'a'][..], &sequences, &[1]].concat();
    let mut control = vec![1, 0, 0];
    (0..240).for_each(|_| control.extend([0, 0, 0, 0, 0, 480, 0, 0]));
    control.extend([0, 0, 0, 0, 0, 1, 0, 60_000]);
    let literals = (60_000u32 << 4 | 0x0c).to_le_bytes();
    let last = [&literals[..3], &[1, 0x54, 0, 0, 0]].concat();
    let bytes = [[&[0][..], &sequences].concat().repeat(240), last.clone()].concat();
    let all = residual(&control, &vec![1; 480 * 240 + 1], &bytes);
    let small = [&[0][..], &sequences, &[1]].concat();
    let block =
        [&small.repeat(240)[..], &literals[..3], &[b'a'; 60_000], &last[3..], &[1]].concat();
    measure("240 zstd blocks of 480 sequences", &source, 1, &[], &all, &block)?;
    // Tokens of 8 bits: the letter `a` in the fixed code of deflate.
    let source = vec![(0x30 + b'a').reverse_bits(); 65_536];
    let block = &source[..];
    let operations = operations(20_000);
    let rest = &block[20_001..];
    measure("60,000 operations on 20,000 tokens", &source, 1, &operations, rest, block)?;
    matches::measure()?;

    println!(
        "\n{:44} {:>7} {:>7} {:>10} {:>9} {:>9}",
        "honest content", "bytes", "wire", "decode", "units", "ns/byte"
    );
    let first = text(2, 4_000_000);
    let second = version_of(&first);
    type Make = fn(&[u8]) -> Result<Vec<u8>, Box<dyn Error>>;
    let kinds: [(&str, Make); 8] = [
        ("gzip -6", |content| Ok(deflate(content, usize::MAX))),
        ("gzip -6, flushed every 1,000 bytes", |content| Ok(deflate(content, 1000))),
        ("gzip -6, flushed every 200 bytes", |content| Ok(deflate(content, 200))),
        ("zstd -3", |content| zstd(content, usize::MAX)),
        ("zstd -3, flushed every 10,000 bytes", |content| zstd(content, 10_000)),
        ("zstd -3, flushed every 3,000 bytes", |content| zstd(content, 3000)),
        ("zstd -3, flushed every 1,000 bytes", |content| zstd(content, 1000)),
        ("zstd -3, flushed every 200 bytes", |content| zstd(content, 200)),
    ];
    for (name, make) in kinds {
        honest(name, &[make(&first)?, make(&second)?], 65_536)?;
    }
    for size in [64, 128, 256, 1024, 65_536] {
        let name = format!("text, new, in blocks of {size} bytes");
        honest(&name, &[text(3, 100_000), text(4, 1_000_000)], size)?;
    }
    Ok(())
}

/// Times a frame of `block` whose literals are put together from `count` times `source`: by
/// operations on deflate tokens, or from zstd blocks if there are none.
fn measure(
    name: &str,
    source: &[u8],
    count: usize,
    operations: &[u8],
    residual: &[u8],
    block: &[u8],
) -> Result<(), Box<dyn Error>> {
    let mut body = Vec::new();
    varint::put(&mut body, block.len() as u64);
    varint::put(&mut body, 2 * count as u64 + u64::from(operations.is_empty()));
    for _ in 0..count {
        varint::put(&mut body, source.len() as u64);
        varint::put(&mut body, source.len() as u64);
    }
    // Coded, as a sender would.
    let packed = coded(residual);
    varint::put(&mut body, 2 * residual.len() as u64 + 1);
    varint::put(&mut body, operations.len() as u64);
    body.extend_from_slice(operations);
    body.extend_from_slice(&packed);
    let seed = ChecksumSeed::default();
    body.extend_from_slice(&seed.checksum(source.len() as u64, 0, block).to_le_bytes());
    let mut frame = vec![0x2c];
    varint::put(&mut frame, body.len() as u64);
    frame.extend_from_slice(&body);
    time(name, source, &[(frame, block.len())])
}

/// Times frames with blocks of these lengths, behind a log of `log`. The first one starts a context.
fn time(name: &str, log: &[u8], frames: &[(Vec<u8>, usize)]) -> Result<(), Box<dyn Error>> {
    let times = 200usize.div_ceil(frames.len());
    let (mut seconds, mut outcome) = (0.0, String::new());
    for _ in 0..times {
        let mut decoder = Decoder::builder().cache(64 << 20).build()?;
        log.chunks(65_536).for_each(|part| decoder.prime(part));
        // A frame of the same context, so that its memory is there. It is rejected.
        let mut other = frames[0].0.clone();
        *other.last_mut().ok_or("no frame")? ^= 1;
        let _ = black_box(decoder.decode(&other));
        let start = ProcessTime::now();
        for (frame, _) in frames {
            outcome = match black_box(decoder.decode(frame)) {
                Ok(Decoded::Block { .. }) => String::new(),
                Ok(other) => format!("{other:?}"),
                Err(error) => error.to_string(),
            };
        }
        seconds += start.elapsed().as_secs_f64();
    }
    let wire: usize = frames.iter().map(|(frame, _)| frame.len()).sum();
    let bytes: usize = frames.iter().map(|&(_, len)| len).sum();
    let each = seconds / (times * frames.len()) as f64;
    println!(
        "{name:44} {:7} {:7} {:10.1} {:9.1} {outcome}",
        wire / frames.len(),
        bytes / frames.len(),
        each * 1e6,
        each * 1e9 * frames.len() as f64 / bytes as f64
    );
    Ok(())
}

/// A section of coded literals without short matches: parts of one value, and others as they are.
fn coded(literals: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (vec![0], literals);
    while !rest.is_empty() {
        let len = if rest.len() > 32_768 { 16_384 } else { rest.len() };
        let (part, after) = rest.split_at(len);
        if len < 16 {
            out.extend_from_slice(part);
        } else if part.iter().all(|byte| *byte == part[0]) {
            out.extend([3, part[0]]);
        } else {
            out.push(0);
            out.extend_from_slice(part);
        }
        rest = after;
    }
    out
}

/// Times the frames of contents, one after the other.
fn honest(name: &str, contents: &[Vec<u8>; 2], size: usize) -> Result<(), Box<dyn Error>> {
    let mut encoder = Encoder::builder().inside(true).build()?;
    let mut decoder = Decoder::builder().build()?;
    decoder.prefault();
    let mut sent = (0, 0, 0.0, 0);
    for content in contents {
        let mut frames = Vec::new();
        for block in content.chunks(size) {
            encoder.encode(block, &mut frames)?;
        }
        let before = decoder.work();
        let start = ProcessTime::now();
        let mut rest = &frames[..];
        while !rest.is_empty() {
            let Decoded::Block { consumed, .. } = decoder.decode(rest)? else {
                return Err("a frame is missing".into());
            };
            rest = &rest[consumed..];
        }
        let seconds = start.elapsed().as_secs_f64();
        sent = (content.len(), frames.len(), seconds, decoder.work() - before);
    }
    let (bytes, wire, seconds, work) = sent;
    let speed = bytes as f64 / seconds / 1e6;
    let units = work as f64 / bytes as f64;
    println!("{name:44} {bytes:7} {wire:7} {speed:5.0} MB/s {units:9.1} {:9.1}", 1000.0 / speed);
    Ok(())
}

/// A residual of zstd blocks: the control column, changes and bytes.
fn residual(control: &[u64], changes: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut column = Vec::new();
    control.iter().for_each(|&number| varint::put(&mut column, number));
    let mut out = Vec::new();
    for len in [column.len(), 0, 0, 0, changes.len()] {
        varint::put(&mut out, len as u64);
    }
    [&out[..], &column, changes, bytes].concat()
}

/// Words in an order that hardly repeats.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as usize
    };
    let words: Vec<Vec<u8>> = (0..2000)
        .map(|_| (0..2 + next() % 7).map(|_| b"etaoinshrdlucmfw"[next() % 16]).collect())
        .collect();
    let mut out = Vec::new();
    while out.len() < len {
        let nth = next() % 2000;
        out.extend_from_slice(&words[nth * nth / 2000]);
        out.push(b' ');
    }
    out.truncate(len);
    out
}

/// Writes symbols whose models begin as they do in a new context: section 6 of `docs/FORMAT.md`.
#[derive(Default)]
struct Symbols {
    models: std::collections::HashMap<String, [i16; 16]>,
    /// The sum before each symbol, and its frequency.
    coded: Vec<(u32, u32)>,
    /// Even bits.
    bits: Vec<bool>,
}

impl Symbols {
    fn put(&mut self, model: &str, symbol: usize) {
        let new = std::array::from_fn(|nth| (2048 * nth) as i16);
        let sums = self.models.entry(model.to_owned()).or_insert(new);
        let end = if symbol < 15 { i32::from(sums[symbol + 1]) } else { 32_768 };
        let start = i32::from(sums[symbol]);
        self.coded.push((start as u32, (end - start) as u32));
        for (nth, sum) in sums.iter_mut().enumerate() {
            let low = 32 * nth as i32;
            let target = if nth <= symbol { low } else { 32_768 - 32 * (16 - nth as i32) };
            *sum += ((target - i32::from(*sum)) >> 5) as i16;
        }
    }

    /// A number: section 6, "Numbers".
    fn number(&mut self, model: &str, value: u64) {
        let bits = u64::BITS - value.leading_zeros();
        let (mut left, mut level) = (bits, 0);
        while left >= 15 {
            self.put(&format!("{model} length {level}"), 15);
            (left, level) = (left - 15, 2.min(level + 1));
        }
        self.put(&format!("{model} length {level}"), left as usize);
        if bits >= 2 {
            let below = bits - 1;
            let even = below - below.min(3);
            let top = (value >> even) as usize & ((1 << (below - even)) - 1);
            self.put(&format!("{model} mantissa {}", bits.min(31)), top);
            self.bits.extend((0..even).map(|nth| value >> nth & 1 == 1));
        }
    }

    /// The section of what was put since the last one.
    fn finish(&mut self) -> Vec<u8> {
        let (mut state, mut words) = (1u32 << 16, Vec::new());
        for &(start, frequency) in self.coded.iter().rev() {
            if u64::from(state) >= u64::from(frequency) << 17 {
                words.push(state as u16);
                state >>= 16;
            }
            state = ((state / frequency) << 15) + state % frequency + start;
        }
        let words = words.iter().rev().flat_map(|word| word.to_le_bytes());
        let mut out: Vec<u8> = state.to_le_bytes().into_iter().chain(words).collect();
        let byte =
            |bits: &[bool]| (0..).zip(bits).fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i);
        out.extend(self.bits.chunks(8).rev().map(byte));
        self.coded.clear();
        self.bits.clear();
        out
    }
}

/// Operations that write so many tokens from the beginning of a source, and one more. Before each
/// token, two write none, and all of them bend distances.
fn operations(tokens: usize) -> Vec<u8> {
    let mut symbols = Symbols::default();
    // A part in the fixed code, and a jump to the beginning of the source.
    for (model, symbol) in [("after part", 4), ("code of part", 0), ("copied", 0)] {
        symbols.put(model, symbol);
    }
    for (model, symbol) in [
        ("after part", 2),
        ("before jump", 0),
        ("code of jump", 0),
        ("back", 0),
        ("forward", 0),
        ("run of jump", 1),
    ] {
        symbols.put(model, symbol);
    }
    for nth in 0..3 * tokens {
        symbols.put(if nth == 0 { "after jump" } else { "after bend" }, 3);
        let run = usize::from(nth % 3 == 2);
        for (model, symbol) in [("bend", 0), ("farther", 0), ("behind", 0), ("run of bend", run)] {
            symbols.put(model, symbol);
        }
    }
    symbols.put("after bend", 5);
    symbols.finish()
}

/// The same with a change in every 10,000 bytes, of equal length, so that flushes stay where they
/// are.
fn version_of(content: &[u8]) -> Vec<u8> {
    let mut version = content.to_vec();
    version
        .chunks_exact_mut(10_000)
        .for_each(|piece| piece[5000..5008].copy_from_slice(b"changed "));
    version
}

fn deflate(content: &[u8], flush: usize) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(6), false);
    let mut out = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    for piece in content.chunks(flush) {
        out.reserve(piece.len() + 1000);
        // The buffer has room for all of it.
        let _ = compress.compress_vec(piece, &mut out, FlushCompress::Sync);
    }
    out.reserve(1000);
    let _ = compress.compress_vec(b"", &mut out, FlushCompress::Finish);
    out.extend_from_slice(&[0; 8]);
    out
}

fn zstd(content: &[u8], flush: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut stream = zstd_safe::CCtx::create();
    let pieces = content.len() / flush + 2;
    let mut out = vec![0; zstd_safe::compress_bound(content.len()) + 30 * pieces];
    let mut output = zstd_safe::OutBuffer::around(&mut out[..]);
    for piece in content.chunks(flush) {
        let mut input = zstd_safe::InBuffer::around(piece);
        while input.pos() < piece.len() {
            stream.compress_stream(&mut output, &mut input).map_err(zstd_safe::get_error_name)?;
        }
        while stream.flush_stream(&mut output).map_err(zstd_safe::get_error_name)? > 0 {}
    }
    while stream.end_stream(&mut output).map_err(zstd_safe::get_error_name)? > 0 {}
    let len = output.pos();
    out.truncate(len);
    Ok(out)
}

/// The content of the first block of a zstd frame, which is compressed.
fn first_block(content: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let frame = zstd(content, usize::MAX)?;
    // Magic, descriptor without sizes, window.
    let head = u32::from_le_bytes([frame[6], frame[7], frame[8], 0]) as usize;
    if frame[4] != 0 || head >> 1 & 3 != 2 {
        return Err("another frame than expected".into());
    }
    Ok(frame[9..9 + (head >> 3)].to_vec())
}
