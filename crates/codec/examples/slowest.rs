//! What looking inside compressed content costs an encoder: work, CPU time and bytes. The content is
//! a file, or without one made to be slow: gzip streams of deflate blocks that have no tokens and a
//! new code each. `versions` is a table of content that is slow and saves much: twelve versions of
//! a text in zstd frames, flushed every so many bytes, and changed at one in so many. Count instructions with `perf stat` or `valgrind`.
//!
//! ```sh
//! cargo run --release -p oncewire-codec --example slowest -- on|off [FILE]
//! cargo run --release -p oncewire-codec --example slowest -- versions [LEVEL FLUSH EDITS]
//! ```

use cpu_time::ProcessTime;
use oncewire_codec::{Encoder, InsideStats};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let inside = match arguments.next().as_deref() {
        Some("on") => true,
        Some("off") => false,
        Some("versions") => return versions(&arguments.collect::<Vec<_>>()),
        _ => return Err("usage: slowest on|off [FILE], or slowest versions".into()),
    };
    let content = match arguments.next() {
        Some(name) => std::fs::read(name)?,
        None => empty_blocks(16 << 20),
    };
    let Cost { seconds, sent, stats } = encode(&content, inside)?;
    println!(
        "{} bytes, {sent} sent, {:.0} MB/s, {} units of work, {} bytes saved, {} declined",
        content.len(),
        content.len() as f64 / seconds / 1e6,
        stats.work,
        stats.saved_bytes,
        stats.declined_bytes
    );
    Ok(())
}

/// What encoding took.
struct Cost {
    /// Of CPU time.
    seconds: f64,
    /// Bytes.
    sent: usize,
    stats: InsideStats,
}

fn encode(content: &[u8], inside: bool) -> Result<Cost, Box<dyn Error>> {
    let mut encoder = Encoder::builder().inside(inside).build()?;
    encoder.prefault();
    let (mut frame, mut sent) = (Vec::new(), 0);
    let start = ProcessTime::now();
    for block in content.chunks(65536) {
        frame.clear();
        encoder.encode(block, &mut frame)?;
        sent += frame.len();
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Cost { seconds, sent, stats: encoder.stats().inside })
}

/// Prints what versions in zstd frames cost, of all kinds or of this one.
fn versions(only: &[String]) -> Result<(), Box<dyn Error>> {
    println!(
        "{:>5} {:>6} {:>6} {:>8} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7} {:>8}",
        "level",
        "flush",
        "edits",
        "bytes",
        "on",
        "off",
        "sent",
        "off",
        "units/B",
        "ns/unit",
        "declined"
    );
    let kinds = match only {
        [] => [1, 3, 19]
            .into_iter()
            .flat_map(|level| [200, 500, 1000, 3000, 10_000, 1 << 20].map(|flush| (level, flush)))
            .flat_map(|(level, flush)| [300, 10_000].map(|edits| (level, flush, edits)))
            .collect(),
        [level, flush, edits] => vec![(level.parse()?, flush.parse()?, edits.parse()?)],
        _ => return Err("usage: slowest versions [LEVEL FLUSH EDITS]".into()),
    };
    for (level, flush, edits) in kinds {
        let mut random = 1;
        let mut text = text(&mut random, 1_500_000);
        let mut content = Vec::new();
        for _ in 0..12 {
            content.extend(zstd(&text, level, flush)?);
            for _ in 0..text.len() / edits {
                let at = next(&mut random) % text.len();
                text[at] = b'a' + (next(&mut random) % 26) as u8;
            }
        }
        let [on, off] = [encode(&content, true)?, encode(&content, false)?];
        let len = content.len() as f64;
        println!(
            "{level:>5} {flush:>6} {edits:>6} {:>8} {:>6.1} {:>6.1} {:>6.3} {:>6.3} {:>7.1} {:>7.2} \
             {:>8.3}",
            content.len(),
            len / on.seconds / 1e6,
            len / off.seconds / 1e6,
            on.sent as f64 / len,
            off.sent as f64 / len,
            on.stats.work as f64 / len,
            (on.seconds - off.seconds) * 1e9 / on.stats.work as f64,
            on.stats.declined_bytes as f64 / len,
        );
    }
    Ok(())
}

fn next(random: &mut u64) -> usize {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*random >> 40) as usize
}

/// Words in an order that hardly repeats.
fn text(random: &mut u64, len: usize) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..2000)
        .map(|_| {
            (0..2 + next(random) % 7).map(|_| b"etaoinshrdlucmfw"[next(random) % 16]).collect()
        })
        .collect();
    let mut out = Vec::new();
    while out.len() < len {
        let nth = next(random) % 2000;
        out.extend_from_slice(&words[nth * nth / 2000]);
        out.push(b' ');
    }
    out.truncate(len);
    out
}

/// A zstd frame of this level, flushed after every `flush` bytes.
fn zstd(content: &[u8], level: i32, flush: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, compress_bound, get_error_name};
    let mut stream = CCtx::create();
    stream.set_parameter(CParameter::CompressionLevel(level)).map_err(get_error_name)?;
    let pieces = content.len() / flush + 1;
    let mut out = vec![0; compress_bound(content.len()) + 30 * pieces];
    let mut output = OutBuffer::around(&mut out[..]);
    for piece in content.chunks(flush) {
        let mut input = InBuffer::around(piece);
        while input.pos() < piece.len() {
            stream.compress_stream(&mut output, &mut input).map_err(get_error_name)?;
        }
        while stream.flush_stream(&mut output).map_err(get_error_name)? > 0 {}
    }
    while stream.end_stream(&mut output).map_err(get_error_name)? > 0 {}
    let len = output.pos();
    out.truncate(len);
    Ok(out)
}

/// A gzip stream in each 64 KiB: deflate blocks (RFC 1951, section 3.2.7) of nothing but their end,
/// with codes at random.
fn empty_blocks(len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 64);
    let mut random = 1u64;
    while out.len() < len {
        let end = out.len() + (1 << 16) - 16;
        out.extend_from_slice(b"\x1f\x8b\x08\0\0\0\0\0\0\x03");
        let (mut bits, mut count) = (0u64, 0u32);
        while out.len() < end {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = 11 + (random >> 33) % 100;
            let mut fields = vec![(0, 1), (2, 2), (0, 5), (0, 5), (14, 4)];
            for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1] {
                fields.push((u64::from(matches!(symbol, 1 | 18)), 3));
            }
            // Code lengths: a one is the bit 0; a run of zeros is the bit 1 and its length.
            let (first, second) = ((255 - at) / 2, (255 - at) - (255 - at) / 2);
            let zeros = |run: u64| [(1, 1), (run - 11, 7)];
            fields.extend(zeros(at));
            fields.push((0, 1));
            fields.extend([zeros(first), zeros(second)].concat());
            // The codes of the block's end and of a distance, and the end.
            fields.extend([(0, 1), (0, 1), (1, 1)]);
            for (value, width) in fields {
                bits |= value << count;
                count += width;
                while count >= 8 {
                    out.push(bits as u8);
                    (bits, count) = (bits >> 8, count - 8);
                }
            }
        }
        out.resize(end + 16, 0);
    }
    out.truncate(len);
    out
}
