//! What isolation domains cost and save: a file is sent twice, by one domain or by two, with every
//! way of sharing.
//!
//! ```text
//! cargo run --release -p oncewire-codec --example domains -- FILE [ROUNDS]
//! ```
//!
//! Prints medians of the CPU time of this thread, as MB/s of content, and frames as a share of it.

use oncewire_codec::{Domain, Encoder, Sharing, Stream};
use std::error::Error;

const BLOCK: usize = 64 << 10;
const WAYS: [(Sharing, &str); 3] =
    [(Sharing::All, "all"), (Sharing::Chunks, "chunks"), (Sharing::None, "none")];

/// CPU seconds and bytes of frames, for the first and the second time.
type Passes = [(f64, usize); 2];

fn send(content: &[u8], sharing: Sharing, domains: usize) -> Result<Passes, Box<dyn Error>> {
    let builder = Encoder::builder().cache(256 << 20).sharing(sharing).contexts(2);
    let mut encoder = builder.build()?;
    encoder.prefault();
    if domains > 1 {
        // Chunks are found only in what is sent after a second domain has appeared.
        for domain in [1, 2] {
            encoder.encode_stream(&mut Stream::new(Domain(domain)), &[1; 20_000], 0)?;
        }
    }
    let mut frame = Vec::with_capacity(2 * BLOCK);
    let mut passes = Passes::default();
    for (pass, (seconds, bytes)) in passes.iter_mut().enumerate() {
        let context = pass % domains;
        let mut stream = Stream::new(Domain(1 + context as u64));
        let begin = cpu_time::ThreadTime::now();
        let mut rest = content;
        while !rest.is_empty() {
            let len = match rest.len() {
                0..=BLOCK => rest.len(),
                _ => encoder.whole_chunks(&mut stream, rest, BLOCK),
            };
            frame.clear();
            encoder.encode_stream(&mut stream, &rest[..len], context)?.append_to(&mut frame);
            *bytes += frame.len();
            rest = &rest[len..];
        }
        *seconds = begin.elapsed().as_secs_f64();
    }
    Ok(passes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: domains FILE [ROUNDS]")?;
    let rounds: usize = args.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let content = std::fs::read(file)?;
    let all: Vec<(usize, Sharing, &str)> = [1, 2]
        .into_iter()
        .flat_map(|domains| WAYS.map(|(sharing, name)| (domains, sharing, name)))
        .collect();
    let mut seen: Vec<Vec<Passes>> = vec![Vec::new(); all.len()];
    for _ in 0..rounds.max(1) {
        for (&(domains, sharing, _), seen) in all.iter().zip(&mut seen) {
            seen.push(send(&content, sharing, domains)?);
        }
    }
    println!("domains  share    first: MB/s  of content   again: MB/s  of content");
    for ((domains, _, name), seen) in all.iter().zip(&mut seen) {
        let [first, again] = [0, 1].map(|pass| {
            seen.sort_by(|a, b| a[pass].0.total_cmp(&b[pass].0));
            let (seconds, bytes) = seen[seen.len() / 2][pass];
            let len = content.len() as f64;
            format!("{:>11.0}{:>10.2} %", len / seconds / 1e6, 100.0 * bytes as f64 / len)
        });
        println!("{domains:>7}  {name:<6}{first}  {again}");
    }
    Ok(())
}
