//! Finds where a match goes on after bytes were put in or taken out.

use super::{Match, PlacedBlock};
use crate::log::Log;
use oncewire_kernels::Kernels;

/// Bytes after the end of a match in which its continuation is looked for.
const REACH: usize = 512;
/// Most places that are compared, for each of [`ANCHORS`].
const PROBES: usize = 4;
/// Bytes after the end of a match whose other place is looked for. The first are where the two
/// differ; if what is there was changed, too, later ones may lead on.
const ANCHORS: [usize; 2] = [0, 64];

/// Where `last` goes on: the nearest place in the next bytes of the block, or of the source, from
/// which at least `min` bytes agree. Looks at a bounded number of bytes.
pub(super) fn realign(
    kernels: Kernels,
    log: &Log,
    block: &PlacedBlock<'_>,
    last: Match,
    min: usize,
) -> Option<Match> {
    let (at, source) = (last.end(), last.source + u64::from(last.len));
    let (_, after) = block.around(log, source)?;
    let rest = &block.bytes[at..];
    for anchor in ANCHORS {
        let (Some(here), Some(there)) = (word(rest, anchor), word(after, anchor)) else { break };
        let mut put_in = Places::new(kernels, rest, anchor, there);
        let mut taken_out = Places::new(kernels, after, anchor, here);
        for _ in 0..PROBES {
            // The nearer one.
            let (skipped, ahead) = match (put_in.next, taken_out.next) {
                (Some(place), other) if other.is_none_or(|other| place <= other) => {
                    put_in.advance();
                    (place, anchor)
                }
                (_, Some(place)) => {
                    taken_out.advance();
                    (anchor, place)
                }
                _ => break,
            };
            // A source begins before its match.
            if source + ahead as u64 >= block.offset + (at + skipped) as u64 {
                continue;
            }
            let (rest_here, after_there) = (&rest[skipped..], &after[ahead..]);
            let probe = &rest_here[..rest_here.len().min(min)];
            if kernels.common_prefix(probe, after_there) < min {
                continue;
            }
            let forward = kernels.common_prefix(rest_here, after_there);
            let back = kernels.common_suffix(&rest[..skipped], &after[..ahead]);
            return Some(Match {
                at: (at + skipped - back) as u32,
                len: (back + forward) as u32,
                source: source + (ahead - back) as u64,
            });
        }
    }
    None
}

/// The eight bytes at `at`, if there are so many.
fn word(bytes: &[u8], at: usize) -> Option<[u8; 8]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The places of eight bytes within [`REACH`] of an anchor, one after the other.
struct Places<'a> {
    kernels: Kernels,
    bytes: &'a [u8],
    word: [u8; 8],
    next: Option<usize>,
}

impl<'a> Places<'a> {
    fn new(kernels: Kernels, bytes: &'a [u8], anchor: usize, word: [u8; 8]) -> Places<'a> {
        let bytes = &bytes[..bytes.len().min(anchor + REACH)];
        let mut places = Places { kernels, bytes, word, next: Some(anchor) };
        places.advance();
        places
    }

    fn advance(&mut self) {
        self.next = self.next.and_then(|place| {
            let from = place + 1;
            self.kernels.find_word(&self.bytes[from..], self.word).map(|place| from + place)
        });
    }
}
