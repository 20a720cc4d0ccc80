//! Does the time to encode a guess show whether another isolation domain has sent what was guessed?
//!
//! ```text
//! cargo run --release -p oncewire-codec --example domain-timing -- [GUESSES]
//! ```
//!
//! Again and again, a victim sends a page with a new secret token; then an attacker sends the page
//! in a new domain, with 15 of 16 digits of that token or of another one. Two encoders, whose
//! victims have the one token and the other, encode the same guess in turns. If time tells nothing,
//! their difference does not depend on which token was guessed. Prints by how much it does, in
//! nanoseconds per guess, and that in standard errors: from about 4 on, it is no chance.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the codec owns no clock, its measurements do"
)]

use oncewire_codec::{Domain, Encoder, Sharing, Stream};
use std::error::Error;
use std::time::Instant;

/// The same pseudo-random numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }

    fn token(&mut self) -> String {
        (0..16).map(|_| format!("{:x}", self.below(16))).collect()
    }
}

fn page(words: &str, token: &str) -> Vec<u8> {
    let (before, after) = words.split_at(words.len() / 2);
    format!("{before}<input name=csrf value={token}>{after}").into_bytes()
}

/// Nanoseconds to encode what a new flow of a domain sends first.
fn encode(encoder: &mut Encoder, domain: u64, content: &[u8]) -> Result<f64, Box<dyn Error>> {
    let mut stream = Stream::new(Domain(domain));
    encoder.reset_context(0)?;
    let begin = Instant::now();
    encoder.encode_stream(&mut stream, content, 0)?;
    Ok(begin.elapsed().as_nanos() as f64)
}

/// Mean difference of the classes, and its standard error.
fn compare(classes: &mut [Vec<f64>; 2]) -> (f64, f64) {
    let mut mean = [0.0; 2];
    let mut variance = [0.0; 2];
    for (class, values) in classes.iter_mut().enumerate() {
        // Interrupts are not part of it.
        values.sort_by(f64::total_cmp);
        let middle = &values[values.len() / 20..values.len() - values.len() / 20];
        let count = middle.len() as f64;
        mean[class] = middle.iter().sum::<f64>() / count;
        variance[class] =
            middle.iter().map(|value| (value - mean[class]).powi(2)).sum::<f64>() / count / count;
    }
    (mean[0] - mean[1], (variance[0] + variance[1]).sqrt())
}

fn main() -> Result<(), Box<dyn Error>> {
    let guesses: u64 = std::env::args().nth(1).map_or(Ok(200_000), |count| count.parse())?;
    let mut random = Random(1);
    let words: String = (0..2_500).map(|_| format!("{:x} ", random.below(50_000))).collect();
    println!("{} bytes, {guesses} guesses: nanoseconds, standard errors", words.len());
    for (sharing, name) in
        [(Sharing::All, "all"), (Sharing::Chunks, "chunks"), (Sharing::None, "none")]
    {
        let mut ends = Vec::new();
        for _ in 0..2 {
            let builder = Encoder::builder().cache(64 << 20).sharing(sharing);
            let mut encoder = builder.fingerprint_key(7).build()?;
            encoder.prefault();
            ends.push(encoder);
        }
        let mut classes = [Vec::new(), Vec::new()];
        for at in 0..guesses {
            let tokens = [(); 2].map(|()| random.token());
            for (encoder, token) in ends.iter_mut().zip(&tokens) {
                encode(encoder, 1, &page(&words, token))?;
            }
            let class = random.below(2) as usize;
            // The last digit is wrong.
            let guess = page(&words, &format!("{}.", &tokens[class][..15]));
            let mut time = [0.0; 2];
            // Neither is always first.
            for end in [at % 2, 1 - at % 2] {
                time[end as usize] = encode(&mut ends[end as usize], 2 + at, &guess)?;
            }
            classes[class].push(time[0] - time[1]);
        }
        let (difference, error) = compare(&mut classes);
        println!("{name:<7} {difference:>8.1} {:>6.1}", difference / error);
    }
    Ok(())
}
