//! Frames with positions of a fixed width: what is forbidden, and what is just within the rules.

use super::forbidden::{AT, LEN, coded, coded_draft, literals_draft, one_coded, plain_draft};
use super::{Draft, free, second};

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

/// See [`super::forbidden::refusals`].
pub(crate) fn refusals() -> Vec<(&'static str, Draft)> {
    let raw = || Draft { block_len: LEN, literals: vec![7; LEN as usize], ..Draft::default() };
    let stated =
        |offset, padding| Draft { flags: 0x10, explicit: Some((offset, padding)), ..raw() };
    let whole = || coded_draft(one_coded(5, 99, 0));
    let mut all = vec![
        ("position width 0", Draft { flags: 0x80, width: Some(0), ..raw() }),
        ("position width 41", Draft { flags: 0x80, width: Some(41), ..raw() }),
        ("position width of another log", Draft { flags: 0x80, width: Some(9), ..raw() }),
        ("position width of a larger log", Draft { flags: 0x80, width: Some(11), ..raw() }),
        ("no position width", Draft { flags: 0x80, ..raw() }),
        ("a trailer", Draft { flags: 0xff, width: Some(10), ..raw() }),
        ("distance step 7 without a fixed width", coded_draft(one_fixed(99))),
        ("distance step 8", with_width(coded_draft(one_coded(8, 99, 0)))),
        ("fixed width, distance beyond the floor", with_width(coded_draft(one_fixed(661)))),
        ("fixed width, distance 0 first", with_width(plain_draft(&[(10, 0, 40)]))),
        ("fixed width, below the floor", with_width(plain_draft(&[(10, AT + 10 - 499, 40)]))),
        ("fixed width, distance cut", {
            let mut draft = with_width(plain_draft(&[(10, 50, 40)]));
            draft.descriptors.as_mut().unwrap().truncate(3);
            draft
        }),
        ("fixed width, hull turned", Draft { hull: Some((499, 500)), ..with_width(whole()) }),
        ("fixed width, padding", with_width(stated(AT + 10, 10))),
        ("fixed width, offset of 2^62", with_width(stated(1 << 62, 0))),
        ("fixed width, context N", {
            let draft = with_width(literals_draft());
            Draft { flags: 0xe8, context: Some(2), ..draft }
        }),
    ];
    // Frames that end within each of their fields of fixed size.
    let fixed =
        with_width(Draft { flags: 0x72, explicit: Some((AT, 0)), context: Some(1), ..whole() });
    let head = Draft { descriptors: Some(Vec::new()), literals: Vec::new(), ..fixed };
    for len in 1..head.to_bytes().len() - 2 - 8 {
        all.push(("a body that ends in its fields", Draft { cut: Some(len), ..head.clone() }));
    }
    all
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
