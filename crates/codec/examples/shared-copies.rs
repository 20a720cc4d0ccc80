//! What it costs that chunks are shared only after several clients have sent them: clients in
//! different isolation domains send the same file, one after the other.
//!
//! ```sh
//! cargo run --release -p oncewire-codec --example shared-copies -- FILE...
//! ```
//!
//! Prints what each client's copy takes on the link, in parts of the first, and the copies that six
//! clients take together: with `--share all` about 1, with `none` 6.

use oncewire_codec::{DEFAULT_BLOCK, Domain, Encoder, Sharing, Stream};
use std::error::Error;

const CLIENTS: usize = 8;

fn copies(content: &[u8], sharing: Sharing) -> Result<Vec<f64>, Box<dyn Error>> {
    let cache = (16 * content.len() as u64).max(64 << 20);
    let mut encoder = Encoder::builder().cache(cache).sharing(sharing).contexts(CLIENTS).build()?;
    let (mut sizes, mut frame) = (Vec::new(), Vec::new());
    for client in 0..CLIENTS {
        let mut stream = Stream::new(Domain(1 + client as u64));
        let (mut rest, mut size) = (content, 0);
        while !rest.is_empty() {
            let ahead = &rest[..rest.len().min(DEFAULT_BLOCK + Stream::AHEAD)];
            let len = match rest.len() {
                0..=DEFAULT_BLOCK => rest.len(),
                _ => encoder.whole_chunks(&mut stream, ahead, DEFAULT_BLOCK),
            };
            frame.clear();
            encoder.encode_ahead(&mut stream, ahead, len, client)?.append_to(&mut frame);
            size += frame.len();
            rest = &rest[len..];
        }
        sizes.push(size as f64);
    }
    Ok(sizes.iter().map(|size| size / sizes[0]).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    for file in std::env::args().skip(1) {
        let content = std::fs::read(&file)?;
        println!("{file}, {:.1} MB", content.len() as f64 / 1e6);
        for (name, sharing) in
            [("all", Sharing::All), ("chunks", Sharing::Chunks), ("none", Sharing::None)]
        {
            let each = copies(&content, sharing)?;
            let text: Vec<String> = each.iter().map(|copy| format!("{copy:.2}")).collect();
            let six: f64 = each[..6].iter().sum();
            println!("  {name:<6}  six clients: {six:.2} copies; each: {}", text.join(" "));
        }
    }
    Ok(())
}
