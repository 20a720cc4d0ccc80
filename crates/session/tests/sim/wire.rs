//! Finds messages in bytes, independently of the crate: to corrupt frames in flight, and to count
//! messages for a hostile peer.

use oncewire_codec::{DEFAULT_BLOCK, FrameView, Scan, varint};
use std::ops::Range;

pub(crate) const DATA: u8 = 0x01;
pub(crate) const REPORT: u8 = 0x45;

fn number(rest: &mut &[u8]) -> Option<u64> {
    varint::take(rest).ok()
}

/// The frames in `wire`, which holds whole messages: of each, the start of its message, and its own
/// range.
pub(crate) fn frames(wire: &[u8]) -> Vec<(usize, Range<usize>)> {
    let mut found = Vec::new();
    let mut rest = wire;
    while let Some(next) = message(rest) {
        let start = wire.len() - rest.len();
        if let Some(frame) = next.1 {
            found.push((start, start + frame..start + next.0));
        }
        rest = &rest[next.0..];
    }
    found
}

/// How many counted messages there are in `wire`, which holds whole messages.
pub(crate) fn counted(mut wire: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((len, _)) = message(wire) {
        count += u64::from(wire[0] < 0x40);
        wire = &wire[len..];
    }
    count
}

/// How many messages of a kind there are in `wire`, which holds whole messages.
pub(crate) fn of_kind(kind: u8, mut wire: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((len, _)) = message(wire) {
        count += u64::from(wire[0] == kind);
        wire = &wire[len..];
    }
    count
}

/// The length of the message at the front, and where its frame begins if it has one.
fn message(wire: &[u8]) -> Option<(usize, Option<usize>)> {
    let (&kind, mut rest) = wire.split_first()?;
    let mut frame = None;
    match kind {
        DATA => {
            number(&mut rest)?;
            frame = Some(wire.len() - rest.len());
            let Ok(Scan::Frame(view)) = FrameView::scan(rest, DEFAULT_BLOCK) else { return None };
            rest = &rest[view.len()..];
        }
        // OPEN has three fields of bytes, CLOSE has one.
        0x02 | 0x44 => {
            number(&mut rest)?;
            for _ in 0..if kind == 0x02 { 3 } else { 1 } {
                let len = number(&mut rest)? as usize;
                rest = rest.get(len..)?;
            }
        }
        0x05 | 0x06 => {
            number(&mut rest)?;
            number(&mut rest)?;
        }
        0x07 => {
            rest = rest.get(8..)?;
            for _ in 0..3 {
                number(&mut rest)?;
            }
        }
        // RECALL, GONE, PREPARE and PREPARED.
        0x0b => {
            number(&mut rest)?;
            rest = rest.get(32..)?;
        }
        0x0c | 0x48 => {
            number(&mut rest)?;
            number(&mut rest)?;
        }
        0x47 => {
            number(&mut rest)?;
            number(&mut rest)?;
            rest = rest.get(12..)?;
        }
        0x40 | REPORT | 0x46 => {
            let len = number(&mut rest)? as usize;
            rest = rest.get(len..)?;
        }
        0x09 => {}
        _ => {
            number(&mut rest)?;
        }
    }
    Some((wire.len() - rest.len(), frame))
}
