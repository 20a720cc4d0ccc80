//! Frames with positions of a fixed width: what is forbidden, and what is just within the rules.

use super::forbidden::{AT, coded, coded_draft, one_coded, plain_draft};
use super::{Draft, free};
use oncewire_second::format as second;

/// One match of 40 bytes after 10 literals, at a distance of fixed width.
pub(crate) fn one_fixed(distance: u64) -> Vec<u8> {
    coded(|section, models| {
        section.number(&mut models.count, 0);
        section.number(&mut models.gap[0], 10);
        section.symbol(&mut models.step[0], 7);
        section.bits(distance - 1, WIDTH.into());
        section.symbol(&mut models.to_end, 0);
        section.number(&mut models.len[2], 39);
    })
}

/// Bits of positions in logs of 1000 bytes.
const WIDTH: u8 = 10;

/// The same, with positions of fixed width. Plain descriptors have one match.
pub(crate) fn with_width(draft: Draft) -> Draft {
    let descriptors = draft.descriptors.map(|section| {
        if draft.flags & 3 != 1 {
            return section;
        }
        let mut rest = &section[..];
        let mut next = || second::varint(&mut rest).unwrap();
        let [count, gap, distance, len] = [next(), next(), next(), next()];
        let mut out = Vec::new();
        for (value, bytes) in [(count, 0), (gap, 0), (distance, 2), (len, 0)] {
            free::put_position(&mut out, value, bytes);
        }
        out
    });
    Draft { flags: draft.flags | 0x80, width: Some(WIDTH), descriptors, ..draft }
}

/// Frames that decoders accept, with one match after ten literals.
pub(crate) fn acceptable() -> Vec<Draft> {
    vec![
        with_width(plain_draft(&[(10, 50, 40)])),
        with_width(plain_draft(&[(10, AT + 10 - 500, 40)])),
        with_width(coded_draft(one_fixed(660))),
        with_width(coded_draft(one_fixed(1))),
        with_width(coded_draft(one_coded(5, 99, 0))),
        with_width(Draft { hull: Some((65_535, 0)), ..coded_draft(one_fixed(100)) }),
        with_width(Draft { flags: 0x11, explicit: Some((AT, 0)), ..plain_draft(&[(10, 50, 40)]) }),
        Draft { flags: 0xe2, context: Some(0), ..with_width(coded_draft(one_fixed(100))) },
    ]
}
