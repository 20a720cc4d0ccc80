//! Zstd files of ours beside zstd's own: bytes, and CPU time of encoding and decoding.
//!
//! `cargo run --release -p oncewire-codec --example zstd-frames -- [--rounds N] FILES`
//!
//! For each file, in turns, in memory and on one thread: `zstd -1` and `zstd -3` with long-distance
//! matches and a window as large as the file needs, and ours at levels 1 to 3 with the same window.
//! All with a checksum. The least of the rounds counts (3 unless told otherwise).

use cpu_time::ThreadTime;
use oncewire_codec::pack::{CONTEXTS, context_of};
use oncewire_codec::zstd_frames::{ContentChecksum, MAX_WINDOW, ZstdWriter, end, header, window};
use oncewire_codec::{Encoder, Entropy, Tokens};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

const BLOCK: usize = 64 << 10;
/// Blocks that are found before they are written, as `oncewire pack` does.
const BATCH: usize = 16;

fn ours(content: &[u8], level: i32, out: &mut Vec<u8>) {
    let entropy = Entropy::Coded { level };
    let len = content.len() as u64;
    let cache = window(len);
    let builder = Encoder::builder().cache(cache).entropy(entropy).growing_table(true);
    let mut finder = builder.build_halves().expect("parameters are valid").0;
    let mut writers: Vec<ZstdWriter> = (0..CONTEXTS)
        .map(|_| ZstdWriter::new(entropy).expect("a stage of zstd").expect("memory"))
        .collect();
    let mut checksum = ContentChecksum::default();
    out.extend_from_slice(&header(cache, Some(len)));
    let mut tokens = vec![Tokens::default(); BATCH];
    for (nth, batch) in content.chunks(BATCH * BLOCK).enumerate() {
        let position = (nth * BATCH * BLOCK) as u64;
        let mut count = 0;
        for (block, tokens) in batch.chunks(BLOCK).zip(&mut tokens) {
            finder.find(block, tokens).expect("a block");
            checksum.update(block);
            count += 1;
        }
        writers[context_of(position)]
            .write(&tokens[..count], batch, position, out)
            .expect("zstd has memory");
    }
    out.extend_from_slice(&end(&checksum));
}

fn theirs(content: &[u8], level: i32, out: &mut Vec<u8>) {
    let mut context = CCtx::create();
    let log = window(content.len() as u64).next_power_of_two().ilog2().max(27);
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::EnableLongDistanceMatching(true),
        CParameter::WindowLog(log),
        CParameter::ChecksumFlag(true),
    ] {
        context.set_parameter(parameter).expect("a parameter of zstd");
    }
    // In parts, as from a file.
    let mut buffer = vec![0; CCtx::out_size()];
    for part in content.chunks(2 * BLOCK) {
        let mut input = InBuffer::around(part);
        while input.pos() < part.len() {
            let mut output = OutBuffer::around(&mut buffer[..]);
            context.compress_stream(&mut output, &mut input).expect("zstd compresses");
            out.extend_from_slice(output.as_slice());
        }
    }
    loop {
        let mut output = OutBuffer::around(&mut buffer[..]);
        let left = context.end_stream(&mut output).expect("zstd ends");
        out.extend_from_slice(output.as_slice());
        if left == 0 {
            return;
        }
    }
}

/// Decodes `frame` and compares it with `content`. Returns the time in seconds, with the comparison.
fn decode(frame: &[u8], content: &[u8]) -> f64 {
    let begun = ThreadTime::now();
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(31)).expect("a parameter of zstd");
    let mut buffer = vec![0; DCtx::out_size()];
    let mut input = InBuffer::around(frame);
    let mut at = 0;
    loop {
        let mut output = OutBuffer::around(&mut buffer[..]);
        let left = context.decompress_stream(&mut output, &mut input).expect("a valid frame");
        let part = output.as_slice();
        assert!(content[at..].starts_with(part), "differs after {at} bytes");
        at += part.len();
        if left == 0 {
            assert_eq!(at, content.len());
            return begun.elapsed().as_secs_f64();
        }
    }
}

struct Row {
    bytes: f64,
    encode: f64,
    decode: f64,
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut rounds = 3;
    if args.first().is_some_and(|first| first == "--rounds") {
        rounds = args[1].parse().expect("--rounds N");
        args.drain(..2);
    }
    type Candidate = (&'static str, fn(&[u8], i32, &mut Vec<u8>), i32);
    let candidates: [Candidate; 5] = [
        ("zstd -1", theirs, 1),
        ("zstd -3", theirs, 3),
        ("level 1", ours, 1),
        ("level 2", ours, 2),
        ("level 3", ours, 3),
    ];
    // Each against what it is compared with: bytes as a part of its, and speeds as multiples.
    let pairs = [(1, 0), (2, 0), (3, 0), (4, 0), (4, 1)];
    println!("bytes, encoding, decoding of:");
    let name =
        |(one, other): (usize, usize)| format!("{}/{}", candidates[one].0, candidates[other].0);
    println!("| kind | MB | {} |", pairs.map(name).join(" | "));
    let mut sums = [[0.0; 3]; 5];
    for path in &args {
        let content = std::fs::read(path).expect("a file");
        assert!((content.len() as u64) < MAX_WINDOW, "{path} is too long");
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..candidates.len() {
            rows.push(Row { bytes: 0.0, encode: f64::MAX, decode: f64::MAX });
        }
        for _ in 0..rounds {
            for (row, (_, encode, level)) in rows.iter_mut().zip(candidates) {
                let mut out = Vec::with_capacity(content.len() + (1 << 20));
                let begun = ThreadTime::now();
                encode(&content, level, &mut out);
                row.encode = row.encode.min(begun.elapsed().as_secs_f64());
                row.decode = row.decode.min(decode(&out, &content));
                row.bytes = out.len() as f64;
            }
        }
        let ratios = pairs.map(|(one, other)| {
            let (one, other) = (&rows[one], &rows[other]);
            [one.bytes / other.bytes, other.encode / one.encode, other.decode / one.decode]
        });
        for (sums, ratios) in sums.iter_mut().zip(&ratios) {
            sums.iter_mut().zip(ratios).for_each(|(sum, ratio)| *sum += ratio.ln());
        }
        print(path.rsplit('/').next().unwrap_or(path), content.len() / 1_000_000, &ratios);
    }
    let means = sums.map(|sums| sums.map(|sum: f64| (sum / args.len() as f64).exp()));
    print("geometric mean", 0, &means);
}

fn print(kind: &str, megabytes: usize, ratios: &[[f64; 3]]) {
    let cell = |&[bytes, encode, decode]: &[f64; 3]| format!("{bytes:.3} {encode:.2} {decode:.2}");
    let cells: Vec<String> = ratios.iter().map(cell).collect();
    println!("| {kind} | {megabytes} | {} |", cells.join(" | "));
}
