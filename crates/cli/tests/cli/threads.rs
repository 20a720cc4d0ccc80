//! Several threads, and the entropy contexts that they write with.

use crate::support::{Dir, args, noise, run, same, tz};
use oncewire_codec::pack::{CONTEXTS, RUN};
use std::fs;

/// Text that repeats, words that do not, and noise: several runs of each context.
fn content(bytes: u64) -> Vec<u8> {
    let text = tz(0);
    let mut content = Vec::new();
    for nth in 0.. {
        content.extend_from_slice(&text[nth * 50_000 % (text.len() - 200_000)..][..200_000]);
        content.extend(noise(nth as u64, 120_000).iter().map(|byte| b'a' + byte % 16));
        content.extend(noise(nth as u64, 20_000));
        if content.len() as u64 >= bytes {
            break;
        }
    }
    content
}

#[test]
fn the_output_is_the_same_for_any_number_of_threads() {
    let dir = Dir::new();
    let (input, output) = (dir.join("input"), dir.join("output"));
    let content = content((CONTEXTS as u64 + 2) * RUN + 12_345);
    fs::write(&input, &content).expect("a file");
    // A cache that the content passes several times, and of no multiple of a block.
    for cache in ["256M", "7000000"] {
        let packs = ["1", "2", "3", "4", "5"].map(|threads| {
            let pack = dir.join("pack");
            run(args!["pack", input, "-o", pack, "--cache", cache, "--threads", threads], b"")
                .fine();
            fs::read(&pack).expect("a pack")
        });
        for pack in &packs[1..] {
            same(pack, &packs[0], cache);
        }
        run(args!["unpack", dir.join("pack"), "-o", output], b"").fine();
        same(&fs::read(&output).expect("the content"), &content, cache);
    }
}
