//! Bytes as a pack: as they are, after a valid header, or changed after packing.

use super::input::{Input, noise, text};
use oncewire_codec::pack::{Base, Header, PackError, PackReader, PackStep, pack};
use oncewire_codec::{Encoder, Entropy};

/// Largest cache that a pack may request, in bytes.
const MAX_CACHE: u64 = 1 << 20;

/// Content of a base of the length in the header, up to a limit.
fn base_content(len: u64) -> Vec<u8> {
    text(99, len.min(100_000) as usize)
}

/// Reads `bytes` as a pack until the end or an error. If `expected` is set, no other content may
/// result. Returns whether the pack was complete.
fn read(bytes: &[u8], expected: Option<&[u8]>) -> bool {
    let mut reader = PackReader::new(MAX_CACHE);
    let (mut rest, mut total) = (bytes, 0usize);
    loop {
        let step = match reader.step(rest) {
            Ok(step) => step,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                if let PackError::Frame { at, .. } = error {
                    assert_eq!(at, total as u64);
                }
                return false;
            }
        };
        let consumed = match step {
            PackStep::NeedMore(more) => {
                assert!(more > 0 && more < (1 << 16) + 400);
                return false;
            }
            PackStep::Header { consumed } => {
                let header = *reader.header().expect("it was read just now");
                assert!(header.cache <= MAX_CACHE && header.max_block as u64 <= header.cache);
                if let Some(base) = header.base {
                    let content = base_content(base.len);
                    let skip = (header.base_skip().min(content.len() as u64)) as usize;
                    reader.prime(&content[skip..]);
                }
                consumed
            }
            PackStep::Block { content, consumed } => {
                if let Some(expected) = expected {
                    assert!(
                        expected[total..].starts_with(content),
                        "wrong content after {total} bytes"
                    );
                }
                total += content.len();
                consumed
            }
            PackStep::End { consumed } => {
                assert!(
                    expected.is_none_or(|expected| expected.len() == total),
                    "the end after {total} bytes"
                );
                assert!(consumed <= rest.len() && reader.total() == total as u64);
                return true;
            }
        };
        rest = &rest[consumed..];
        assert_eq!(reader.total(), total as u64);
    }
}

fn entropy(byte: u8) -> Entropy {
    match byte % 5 {
        0 => Entropy::None,
        1 => Entropy::Lz4,
        level => Entropy::Coded { level: i32::from(level) - 1 },
    }
}

/// The first byte selects the case.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    match input.u8() % 3 {
        0 => {
            read(input.0, None);
        }
        1 => {
            let base = (input.u8() & 1 == 1)
                .then(|| Base { len: input.u16() as u64, digest: [input.u8(); 32] });
            let header = Header {
                cache: input.u64(),
                max_block: input.u16() + 1,
                seed: input.u8().into(),
                base,
            };
            let mut bytes = header.to_bytes();
            bytes.extend_from_slice(input.0);
            read(&bytes, None);
        }
        _ => {
            let (kind, seed) = (input.u8(), input.u8().into());
            let mut content = text(seed, input.u16() % 4000);
            content.extend_from_slice(&noise(seed, input.u16() % 500));
            content.extend_from_within(content.len() / 4..content.len() / 2);
            let max_block = 1 + input.u16() % 3000;
            let cache = max_block as u64 + input.u16() as u64;
            let header = Header { cache, max_block, seed, base: None };
            let mut bytes =
                pack(&content, &header, Encoder::builder().entropy(entropy(kind))).unwrap();
            assert!(read(&bytes, Some(&content)), "a good pack is read to its end");
            let mut changed = false;
            while !input.is_empty() {
                let (at, value) = (input.u16() % bytes.len(), input.u8());
                match value {
                    // Truncate, remove a part, or change a byte.
                    0 => bytes.truncate(at),
                    1 => _ = bytes.drain(at..(at + 1 + input.u16()).min(bytes.len())),
                    _ => bytes[at] ^= value,
                }
                changed = true;
                if bytes.is_empty() {
                    break;
                }
            }
            if changed {
                read(&bytes, Some(&content));
            }
        }
    }
}

/// Initial inputs.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let content = [text(1, 500), noise(1, 80), text(1, 500), b" ".repeat(300)].concat();
    let mut seeds = Vec::new();
    for (i, (cache, max_block)) in
        [(2000u64, 400usize), (70_000, 1 << 16), (301, 300), (1 << 21, 1000)]
            .into_iter()
            .enumerate()
    {
        let header = Header { cache, max_block, seed: 5, base: None };
        let packed =
            pack(&content, &header, Encoder::builder().entropy(entropy(i as u8 + 1))).unwrap();
        seeds.push([&[0u8][..], &packed].concat());
        // Frames after a header made from the input.
        let fields = [
            &[1u8, 0][..],
            &cache.to_le_bytes(),
            &(max_block as u16).wrapping_sub(1).to_le_bytes(),
            &[5],
        ]
        .concat();
        seeds.push([&fields[..], &packed[header.to_bytes().len()..]].concat());
        let numbers = [900u16, 100, 300 + i as u16, 1500];
        let made = [&[2u8, i as u8, 3][..], &numbers.map(u16::to_le_bytes).concat()].concat();
        seeds.push(made.clone());
        seeds.push([&made[..], &[60, 0, 4], &[0, 2, 0]].concat());
        seeds.push([&made[..], &[40, 0, 1, 9, 0]].concat());
    }
    // With a base, and empty.
    let based = Header {
        cache: 4000,
        max_block: 500,
        seed: 0,
        base: Some(Base { len: 9000, digest: [7; 32] }),
    };
    let empty = Header { cache: 1, max_block: 1, seed: 0, base: None };
    seeds.push([&[0u8][..], &based.to_bytes(), &[0xff; 17]].concat());
    seeds.push([&[0u8][..], &pack(&[], &empty, Encoder::builder()).unwrap()].concat());
    seeds
}
