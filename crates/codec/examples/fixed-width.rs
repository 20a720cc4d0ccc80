//! What positions of fixed width cost: an old version of something is sent, then a new one, and
//! another domain sends content of its own in between. With everything shared, positions are
//! varints, and nothing of the other domain is ever found, so the difference is that of the width.
//!
//! ```text
//! cargo run --release -p oncewire-codec --example fixed-width -- [OLD NEW]...
//! ```
//!
//! Prints the bytes of the frames of the new version, with one lane and with several (then frames
//! state their offset). Without files, only of requests.

use oncewire_codec::{Domain, Encoder, Sharing, Stream};
use oncewire_kernels::random::SplitMix64;
use std::error::Error;

const CACHE: u64 = 128 << 20;
const BLOCK: usize = 64 << 10;
/// Bytes of the other domain after each message or block.
const BETWEEN: usize = 20_000;

/// Bytes of the frames of all messages of the second list.
fn send(
    messages: [&[Vec<u8>]; 2],
    sharing: Sharing,
    explicit: bool,
) -> Result<(usize, usize), Box<dyn Error>> {
    let builder = Encoder::builder().cache(CACHE).sharing(sharing).inside(true).contexts(2);
    let mut encoder = builder.explicit_offsets(explicit).build()?;
    let mut random = SplitMix64(7);
    let (mut own, mut other) = (Stream::new(Domain(1)), Stream::new(Domain(2)));
    let (mut bytes, mut frames) = (0, 0);
    for (is_new, messages) in [false, true].into_iter().zip(messages) {
        for block in messages.iter().flat_map(|message| message.chunks(BLOCK)) {
            let frame = encoder.encode_stream(&mut own, block, 0)?.len();
            if is_new {
                bytes += frame;
                frames += 1;
            }
            encoder.encode_stream(&mut other, &random.bytes(BETWEEN), 1)?;
        }
    }
    Ok((bytes, frames))
}

fn report(name: &str, old: &[Vec<u8>], new: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let content: usize = new.iter().map(Vec::len).sum();
    for explicit in [false, true] {
        let (varints, frames) = send([old, new], Sharing::All, explicit)?;
        let (fixed, _) = send([old, new], Sharing::None, explicit)?;
        println!(
            "{name:<28} {:>7} {content:>10} {frames:>6} {varints:>10} {fixed:>10} {:>7.2} % {:>6.1}",
            if explicit { "several" } else { "one" },
            100.0 * (fixed as f64 / varints as f64 - 1.0),
            (fixed as f64 - varints as f64) / frames as f64
        );
    }
    Ok(())
}

/// Requests of a browser, in which a path and a token change.
fn requests(seed: u64) -> Vec<Vec<u8>> {
    let request = |nth: u64| {
        let token = SplitMix64(seed + nth)
            .bytes(12)
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        format!(
            "GET /api/items/{}?page={} HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: Mozilla/5.0 \
             (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\nAccept: application/json, \
             text/plain, */*\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, \
             br\r\nX-Request: {token}\r\nReferer: https://shop.example/list\r\nCookie: \
             session=0a1b2c3d4e5f60718293a4b5c6d7e8f9; theme=dark; consent=all\r\n\r\n",
            nth * 37 % 1000,
            nth % 10
        )
        .into_bytes()
    };
    (0..500).map(request).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:<28} {:>7} {:>10} {:>6} {:>10} {:>10} {:>9} {:>6}",
        "content", "lanes", "bytes", "frames", "varints", "fixed", "more", "each"
    );
    report("requests of 402 bytes", &requests(1), &requests(1000))?;
    let files: Vec<String> = std::env::args().skip(1).collect();
    for pair in files.chunks_exact(2) {
        let (old, new) = (std::fs::read(&pair[0])?, std::fs::read(&pair[1])?);
        let name = pair[1].rsplit('/').next().unwrap_or_default();
        let [old, new] = [&old, &new].map(std::slice::from_ref);
        report(name, old, new)?;
        report(&format!("{name}, again"), new, new)?;
    }
    Ok(())
}
