//! What looking inside deflate streams saves, and how long it takes: bytes and CPU time of the
//! files given, one after the other through one encoder, without and with it; beside zlib inflating
//! those that are gzip. Give versions of the same content: all after the first are found in the log.
//!
//! ```sh
//! cargo run --release -p oncewire-codec --example inside -- FILE...
//! ```

use cpu_time::ProcessTime;
use flate2::bufread::MultiGzDecoder;
use oncewire_codec::{Decoded, Decoder, Encoder};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for name in std::env::args().skip(1) {
        let content = std::fs::read(&name)?;
        files.push((name, content));
    }
    let total: usize = files.iter().map(|(_, content)| content.len()).sum();
    println!("inside    bytes      wire  share  encode    decode   opened     found");
    for inside in [false, true] {
        let mut encoder = Encoder::builder().inside(inside).build()?;
        encoder.prefault();
        let mut frames = Vec::new();
        // Of each file: bytes of frames, and seconds to encode and to decode.
        let mut costs = Vec::new();
        for (_, content) in &files {
            let (before, start) = (frames.len(), ProcessTime::now());
            for block in content.chunks(65536) {
                encoder.encode(block, &mut frames)?;
            }
            costs.push((frames.len() - before, start.elapsed().as_secs_f64(), 0.0));
        }
        let encode: f64 = costs.iter().map(|cost| cost.1).sum();
        let stats = encoder.stats().inside;
        let mut decoder = Decoder::builder().build()?;
        decoder.prefault();
        let mut start = ProcessTime::now();
        let (mut rest, mut at, mut nth) = (&frames[..], 0, 0);
        while !rest.is_empty() {
            let Decoded::Block { content, consumed, .. } = decoder.decode(rest)? else {
                return Err("a frame is missing".into());
            };
            while at == files[nth].1.len() {
                (nth, at) = (nth + 1, 0);
            }
            if files[nth].1[at..at + content.len()] != *content {
                return Err("other content".into());
            }
            at += content.len();
            rest = &rest[consumed..];
            if at == files[nth].1.len() {
                costs[nth].2 = start.elapsed().as_secs_f64();
                start = ProcessTime::now();
            }
        }
        let decode: f64 = costs.iter().map(|cost| cost.2).sum();
        let speed = |seconds: f64| total as f64 / seconds / 1e6;
        println!(
            "{:6} {total:9} {:9} {:5.1}% {:5.0} MB/s {:5.0} MB/s {:8} {:9}",
            if inside { "on" } else { "off" },
            frames.len(),
            100.0 * frames.len() as f64 / total as f64,
            speed(encode),
            speed(decode),
            stats.opened_bytes,
            stats.found_bytes
        );
        if stats.refused > 0 {
            println!("       {} plans refused", stats.refused);
        }
        for ((name, content), (size, encode, decode)) in files.iter().zip(costs).take(20) {
            let share = 100.0 * size as f64 / content.len() as f64;
            let speed = |seconds: f64| content.len() as f64 / seconds / 1e6;
            println!(
                "       {:9} {size:9} {share:5.1}% {:5.0} MB/s {:5.0} MB/s {name}",
                content.len(),
                speed(encode),
                speed(decode)
            );
        }
    }
    for (name, content) in files.iter().filter(|(_, content)| content.starts_with(b"\x1f\x8b")) {
        let start = ProcessTime::now();
        let bytes = std::io::copy(&mut MultiGzDecoder::new(&content[..]), &mut std::io::sink())?;
        let speed = content.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!(
            "zlib   {:9} {bytes:9} inflated at {speed:.0} MB/s of compressed {name}",
            content.len()
        );
    }
    Ok(())
}
