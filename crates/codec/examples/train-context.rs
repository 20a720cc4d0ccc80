//! Makes a frozen context for datagrams, and the one that is built in.
//!
//! ```text
//! cargo run --release -p oncewire-codec --example train-context -- OUT [FILES]
//! ```
//!
//! OUT gets 1,152 bytes of codes and then the prefix. Without FILES, it is made as
//! `src/entropy/context-0.bin` was: of documents, sources, pages and pictures of this repository, of
//! typical messages of HTTP, mail and logs in `train-context/traffic.txt`, and of numbers in binary.
//! The bytes differ as soon as one of these files does; both ends of a link need the same, so the file
//! changes only with the version of the link's protocol.

use oncewire_codec::datagram::{FrozenContext, MAX_CODES, MAX_PREFIX, Training};
use std::error::Error;
use std::path::{Path, PathBuf};

/// Ends of names, and how many bytes of such files are taken. All together are about what training
/// looks at.
const KINDS: [(&[&str], usize); 6] = [
    (&["rs"], 400 << 10),
    (&["md"], 450 << 10),
    (&["svg"], 100 << 10),
    (&["py", "sh"], 200 << 10),
    (&["js", "css"], 200 << 10),
    (&["toml", "json"], 50 << 10),
];
/// Bytes of the typical messages, repeated.
const TRAFFIC: usize = 500 << 10;

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = !name.to_string_lossy().starts_with('.') && name != "target";
        match entry.file_type()? {
            kind if kind.is_dir() && is_ours => files_below(&entry.path(), found)?,
            kind if kind.is_file() && is_ours => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

/// Tables of small numbers, prices and measurements.
fn numbers() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(17);
    let mut out = Vec::new();
    while out.len() < 100 << 10 {
        for _ in 0..400 {
            let shift = random.u32(8..31);
            out.extend_from_slice(&(random.u32(..) >> shift).to_le_bytes());
        }
        for _ in 0..100 {
            out.extend_from_slice(&(random.u64(..) >> random.u32(30..62)).to_le_bytes());
            out.extend_from_slice(&(f64::from(random.i16(..)) / 100.0).to_le_bytes());
            out.extend_from_slice(&(f32::from(random.i16(..)) / 16.0).to_le_bytes());
        }
        for _ in 0..100 {
            out.extend_from_slice(&(random.u16(..) >> random.u32(4..14)).to_be_bytes());
        }
    }
    out
}

fn content_of_the_tree() -> std::io::Result<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    files_below(&root, &mut files)?;
    files.sort();
    let mut content = Vec::new();
    for (ends, most) in KINDS {
        let of_kind: Vec<&PathBuf> = files
            .iter()
            .filter(|file| ends.iter().any(|end| file.extension().is_some_and(|own| own == *end)))
            .collect();
        let mut all = Vec::new();
        for file in of_kind {
            all.extend(std::fs::read(file)?);
        }
        // From all of it, in runs of a few packets.
        let (runs, run) = (most >> 12, 4096);
        let step = (all.len() / runs).max(run);
        for part in all.chunks(step) {
            content.extend_from_slice(&part[..part.len().min(run)]);
        }
    }
    content.extend(numbers());
    let traffic = include_bytes!("train-context/traffic.txt");
    content.extend(traffic.iter().cycle().take(TRAFFIC));
    Ok(content)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let out = args.next().ok_or("usage: train-context OUT [FILES]")?;
    let mut content = Vec::new();
    for file in args {
        content.extend(std::fs::read(file)?);
    }
    if content.is_empty() {
        content = content_of_the_tree()?;
    }
    let context: FrozenContext = Training::new(&content, MAX_PREFIX).finish().context(&content);
    let mut bytes = context.codes();
    if bytes.len() < MAX_CODES {
        return Err("too little content for codes of all kinds".into());
    }
    bytes.extend_from_slice(context.prefix());
    std::fs::write(&out, &bytes)?;
    println!("{} bytes of content; a prefix of {} bytes", content.len(), context.prefix().len());
    Ok(())
}
