//! Frames that put zstd blocks together, by hand, at the limits of what their columns may say.

use crate::Vector;
use crate::common::params::Params;
use crate::hand::{FRESH, Hand, TRANSCODED, noise, varints};
use oncewire_codec::Entropy;

/// A zstd block of four literals and a sequence that takes two of them. Each of its three tables has
/// one symbol.
const SEQUENCE: [u8; 11] = [4 << 3, b'a', b'b', b'c', b'd', 1, 0x54, 2, 0, 0, 1];

/// A block that has tables only: its literals have the code of a block before it, and so do the
/// lengths of its matches. It describes numbers of literals, always 1, and offsets, always 1.
const TABLES: [u8; 9] = [0x13, 0x40, 0, 1, 1, 0x5c, 1, 0, 1];

/// The columns that write two blocks of two raw literals.
fn in_turn(control: &[u8]) -> [&[u8]; 6] {
    [control, &[], &[], &[], &[], &[16, 0, b'a', b'b', 16, 0, b'a', b'b', b'x']]
}

/// Sources, shifts, tables and counts; good ones have no error.
// More than 100 lines: a table of cases.
pub(crate) fn corners() -> Vec<Vector> {
    let params =
        Params { cache: 1000, max_block: 300, entropy: Entropy::None, ..Params::default() };
    // The log begins with both blocks.
    let first = [&SEQUENCE[..], &TABLES, &noise(71, 280)].concat();
    let (sequence, tables) = ((300, 11), (289, 9));
    let rest = noise(72, 40);
    let make = |name,
                story,
                is_good: bool,
                sources: &[(u64, u64)],
                written: &[u8],
                columns: [&[u8]; 6]| {
        let mut vector = Vector::new(name, story, params.clone());
        vector.frames.push(Hand::raw(0, &first).write());
        vector.blocks.insert(0, first.clone());
        let block = [written, &rest].concat();
        let lens: Vec<u64> = columns[..5].iter().map(|column| column.len() as u64).collect();
        let residual = [&varints(&lens)[..], &columns.concat(), &rest].concat();
        let mut head = vec![sources.len() as u64 * 2 + 1];
        head.extend(sources.iter().flat_map(|&(distance, len)| [distance, len]));
        head.extend([residual.len() as u64 * 2, 0]);
        let literals = [varints(&head), residual].concat();
        let hand = Hand { flags: TRANSCODED | FRESH, literals, ..Hand::raw(300, &block) };
        vector.frames.push(hand.write());
        if is_good {
            vector.blocks.insert(300, block);
        } else {
            vector.error = Some("error Literals");
        }
        vector
    };
    // A literal and a sequence that takes it, in the tables of blocks before.
    let repeated: &[u8] = &[1 << 3, b'x', 1, 0xfc, 1];
    let repeated_bytes: &[u8] = &[1 << 3, 1, 0xfc, b'x'];
    // The same, describing the lengths of matches.
    let described: &[u8] = &[1 << 3, b'x', 1, 0xf4, 0, 1];
    let described_bytes: &[u8] = &[1 << 3, 1, 0xf4, 0, b'x'];
    let sequence_heads = [4 << 3, 1, 0x54, 2, 0, 0];
    // The first bytes of two blocks, then these by their numbers.
    let first_byte = [0, 0, 1, 1, 0, 0];
    let turns = [
        &[0][..],
        &first_byte,
        &first_byte,
        &[0, 1, 1, 0, 2, 1, 0, 1, 1, 2, 2, 1],
        &[0, 1, 0, 0, 1, 0],
    ]
    .concat();
    let nine = [&[0, 60, 0, 1, 1, 0, 0][..], &first_byte.repeat(8)].concat();
    vec![
        make(
            "zstd-blocks-no-source",
            "No source: a block from the residual alone.",
            true,
            &[],
            &SEQUENCE,
            [
                &[0, 0, 0, 0, 0, 1, 0],
                &[2],
                &[0],
                &[1],
                &[],
                &[4 << 3, 1, 0x54, 2, 0, 0, 97, 98, 99, 100],
            ],
        ),
        make(
            "zstd-blocks-pieces",
            "A source in two pieces.",
            true,
            &[(300, 5), (295, 6)],
            &SEQUENCE,
            [&[4, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2], &[], &[], &[], &[1], &sequence_heads],
        ),
        make(
            "zstd-blocks-pieces-last",
            "The last source is one that the next would continue.",
            false,
            &[(300, 5), (295, 6)],
            &SEQUENCE,
            [&[4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2], &[], &[], &[], &[1], &sequence_heads],
        ),
        make(
            "zstd-blocks-in-turn",
            "Two blocks of two raw literals, bytes of each in turn, and another byte between them.",
            true,
            &[],
            &[16, 16, b'a', b'a', b'b', b'x', b'b', 0, 0],
            in_turn(&turns),
        ),
        make(
            "zstd-blocks-in-turn-open",
            "As before, without the last byte of the second block.",
            false,
            &[],
            &[16, 16, b'a', b'a', b'b', b'x', b'b', 0],
            in_turn(&turns[..turns.len() - 3]),
        ),
        make(
            "zstd-blocks-in-turn-no-block",
            "As before, but of a third block.",
            false,
            &[],
            &[16, 16, b'a', b'a', b'b', b'x', b'b', 0, 0],
            in_turn(&[&turns[..turns.len() - 2], &[2, 0]].concat()),
        ),
        make(
            "zstd-blocks-in-turn-all",
            "As before, but the length of a piece is that of all that is left.",
            false,
            &[],
            &[16, 16, b'a', b'a', b'b', b'x', b'b', 0, 0],
            in_turn(&[&turns[..turns.len() - 1], &[1]].concat()),
        ),
        make(
            "zstd-blocks-in-turn-none",
            "A block of which a first piece of no bytes is written.",
            false,
            &[],
            &[16, b'a', b'b', 0],
            [&[0, 0, 0, 1, 0, 0, 0], &[], &[], &[], &[], &[16, 0, b'a', b'b']],
        ),
        make(
            "zstd-blocks-open-too-many",
            "Nine blocks of which a piece is still to come, and bytes before them.",
            false,
            &[],
            &[&[b'x'; 30][..], &[8; 9]].concat(),
            [&nine, &[], &[], &[], &[], &[&[b'x'; 30][..], &[8, 0, b'a'].repeat(9)].concat()],
        ),
        make(
            "zstd-blocks-tables-only",
            "A source of tables only that itself uses a code that is missing, and a table of the \
             source before it, which is passed on.",
            true,
            &[sequence, tables],
            repeated,
            [&[1, 0, 2, 0, 0, 2, 0, 0, 1, 0], &[1], &[0], &[1], &[], repeated_bytes],
        ),
        make(
            "zstd-blocks-tables-missing",
            "A source of tables only that itself uses a code and a table that are missing; the block \
             describes that table.",
            true,
            &[sequence, tables],
            described,
            [&[1, 0, 3, 0, 0, 2, 0, 0, 1, 0], &[1], &[0], &[1], &[], described_bytes],
        ),
        make(
            "zstd-blocks-tables-missing-used",
            "As before, but the block uses the table that is missing.",
            false,
            &[sequence, tables],
            repeated,
            [&[1, 0, 3, 0, 0, 2, 0, 0, 1, 0], &[1], &[0], &[1], &[], repeated_bytes],
        ),
        make(
            "zstd-blocks-tables-later",
            "The second block uses a table that the first describes, the third again those after \
             the first source.",
            true,
            &[sequence],
            &[
                &[1 << 3, b'a', 1, 0x54, 1, 0, 7, 1][..],
                &[1 << 3, b'b', 1, 0xfc, 1],
                &[2 << 3, b'c', b'c', 1, 0xfc, 1],
            ]
            .concat(),
            [
                &[
                    // The first block, of no source's tables; then the others.
                    &[1, 0, 0, 0, 0, 0, 0, 1, 0][..],
                    &[0, 0, 0, 0, 1, 0],
                    &[0, 1, 0, 0, 1, 0],
                ]
                .concat(),
                &[1, 1, 2],
                &[7, 7, 0],
                &[1, 1, 1],
                &[],
                &[
                    1 << 3,
                    1,
                    0x54,
                    1,
                    0,
                    7,
                    b'a',
                    1 << 3,
                    1,
                    0xfc,
                    b'b',
                    2 << 3,
                    1,
                    0xfc,
                    b'c',
                    b'c',
                ],
            ],
        ),
        make(
            "zstd-blocks-shifts-first",
            "The first shift is below 0, and the second at 0.",
            true,
            &[sequence],
            &SEQUENCE,
            [
                &[1, 0, 2, 9, 2, 10, 2, 0, 0, 0, 0, 0, 1, 0, 2],
                &[],
                &[],
                &[],
                &[1],
                &[4 << 3, 1, 0x54, 2, 0, 0],
            ],
        ),
        make(
            "zstd-blocks-literals-first",
            "Literals after the sequence before the first: those that a source begins with.",
            false,
            &[sequence],
            &[2 << 3, b'a', b'b', 0],
            [&[1, 0, 0, 0, 0, 0, 0, 2], &[], &[], &[], &[], &[2 << 3, 0]],
        ),
        make(
            "zstd-blocks-sequences",
            "Two new sequences, where the head says one.",
            false,
            &[sequence],
            &SEQUENCE,
            [
                &[1, 0, 0, 0, 0, 0, 0, 2, 0],
                &[2, 2],
                &[0, 0],
                &[1, 1],
                &[],
                &[4 << 3, 1, 0x54, 2, 0, 0, 97, 98, 99, 100],
            ],
        ),
        make(
            "zstd-blocks-run",
            "A run of two sequences, where the head says one.",
            false,
            &[sequence, sequence],
            &SEQUENCE,
            [
                &[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0],
                &[],
                &[],
                &[],
                &[1, 1],
                &[4 << 3, 1, 0x54, 2, 0, 0],
            ],
        ),
    ]
}
