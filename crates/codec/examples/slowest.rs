//! What looking inside compressed content costs an encoder: work, CPU time and bytes for a file, or
//! without one for content made to be slow, gzip streams of deflate blocks that
//! have no tokens and a new code each. Count instructions with `perf stat` or `valgrind`.
//!
//! ```sh
//! cargo run --release -p oncewire-codec --example slowest -- on|off [FILE]
//! ```

use cpu_time::ProcessTime;
use oncewire_codec::Encoder;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let inside = match arguments.next().as_deref() {
        Some("on") => true,
        Some("off") => false,
        _ => return Err("usage: slowest on|off [FILE]".into()),
    };
    let content = match arguments.next() {
        Some(name) => std::fs::read(name)?,
        None => empty_blocks(16 << 20),
    };
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
    let stats = encoder.stats().inside;
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
