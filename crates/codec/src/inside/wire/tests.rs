//! What a decoder refuses, clause by clause, at the seam to the rest of the codec.

use super::clause::Clause;
use super::columns::zigzag;
use super::section::Expander;
use super::sequences::Assembly;
use super::work::Work;
use crate::entropy::{CodeAt, Operation};
use crate::error::FrameError;
use crate::format::varint;

/// A part that takes no bits, with the fixed code.
const FIXED: Operation = Operation::Part { code: CodeAt::Fixed, bits: 0 };

fn jump(code: Option<CodeAt>, distance: i64, run: u64) -> Operation {
    Operation::Jump { gap: 0, code, distance, run }
}

/// Expands literals of deflate tokens.
fn tokens(
    operations: &[Operation],
    residual: &[u8],
    sources: &[&[u8]],
    len: usize,
) -> Result<Vec<u8>, FrameError> {
    let mut operations = operations.iter().copied();
    let mut out = Vec::new();
    let next = || Ok(operations.next().unwrap_or(Operation::End));
    let mut work = Work::of(1 << 20);
    Expander::default().expand(next, residual, sources, len, &mut work, &mut out)?;
    Ok(out)
}

#[test]
fn clauses_of_tokens() {
    use CodeAt::{Fixed, Here, Known, Source};
    assert_eq!(tokens(&[], b"abc", &[], 3), Ok(b"abc".to_vec()));
    // A copy of 3 bytes at distance 1, under the fixed code: 0000001 00000.
    let copy: &[u8] = &[0x40, 0];
    let taken = tokens(&[FIXED, jump(Some(Fixed), 0, 1)], &[0], &[copy], 2);
    assert_eq!(taken, Ok(copy.to_vec()));
    let to_copy = jump(Some(Fixed), 0, 0);
    let here = Operation::Part { code: Here(0), bits: 0 };
    let known = Operation::Part { code: Known(0), bits: 0 };
    let bits = |bits| Operation::Part { code: Fixed, bits };
    let near = |gap, skip, run| Operation::Near { gap, skip, run };
    let moved = |change| Operation::Moved { change, run: 0 };
    /// Operations, residual, source if there is one, and what is refused.
    type Case<'a> = (&'a [Operation], &'a [u8], &'a [u8], Clause);
    let cases: &[Case<'_>] = &[
        (&[FIXED, FIXED, FIXED], b"ab", &[], Clause::Idle),
        (&[bits(17)], b"abc", &[], Clause::TooLong),
        (&[], b"a", &[], Clause::ResidualEnd),
        (&[bits(16)], b"a", &[], Clause::ResidualEnd),
        (&[], b"abc", &[], Clause::ResidualLeft),
        (&[near(1, 0, 0)], b"ab", &[], Clause::NoTarget),
        (&[FIXED, near(0, 0, 1)], b"ab", &[], Clause::NoCode),
        (&[FIXED, jump(None, 0, 1)], b"ab", copy, Clause::NoCode),
        (&[FIXED, moved(1)], b"ab", copy, Clause::NoCode),
        (&[FIXED, jump(Some(Fixed), 16, 0)], b"ab", copy, Clause::SourceBit),
        (&[FIXED, jump(Some(Fixed), -1, 0)], b"ab", copy, Clause::SourceBit),
        (&[FIXED, jump(Some(Source(16)), 0, 0)], b"ab", copy, Clause::SourceBit),
        (&[FIXED, jump(Some(Here(0)), 0, 0)], b"ab", copy, Clause::CodeHere),
        (&[FIXED, jump(Some(Source(0)), 0, 0)], b"ab", &[0; 40], Clause::Description),
        (&[here], b"ab", &[], Clause::Description),
        (&[known], b"ab", &[], Clause::KnownCode),
        // The end of a block, which is no token: 0000000.
        (&[FIXED, jump(Some(Fixed), 0, 1)], b"ab", &[0, 0], Clause::Token),
        (&[FIXED, near(1, 0, 0)], &[0, 0], &[], Clause::Token),
        // A literal of 9 bits.
        (&[FIXED, jump(Some(Fixed), 0, 1)], b"ab", &[0xff], Clause::SourceEnd),
        (&[FIXED, to_copy, moved(-1)], b"ab", copy, Clause::Distance),
        (&[FIXED, to_copy, moved(1 << 20)], b"ab", copy, Clause::Distance),
    ];
    for (operations, residual, source, clause) in cases {
        let sources: &[&[u8]] = if source.is_empty() { &[] } else { &[source] };
        let refused = tokens(operations, residual, sources, 2);
        assert_eq!(refused, Err((*clause).into()), "{operations:?}");
    }
}

/// Columns of the residual of sequences.
#[derive(Default)]
struct Columns {
    control: Vec<u64>,
    counts: Vec<u64>,
    matches: Vec<u64>,
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl Columns {
    /// No shifts, and blocks with this control.
    fn blocks(control: &[u64], bytes: &[u8]) -> Columns {
        let control = [&[0], control].concat();
        Columns { control, bytes: bytes.into(), ..Columns::default() }
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut all = Vec::new();
        for column in [&self.control, &self.counts, &self.matches, &self.offsets] {
            let mut written = Vec::new();
            column.iter().for_each(|&value| varint::put(&mut written, value));
            varint::put(&mut out, written.len() as u64);
            all.extend(written);
        }
        // No changes.
        varint::put(&mut out, 0);
        [out, all, self.bytes.clone()].concat()
    }
}

/// Expands literals of zstd blocks.
fn sequences(
    columns: &Columns,
    plain: &[u8],
    sources: &[&[u8]],
    len: usize,
) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::new();
    let mut work = Work::of(1 << 20);
    Assembly::default().expand(&columns.write(), plain, sources, len, &mut work, &mut out)?;
    Ok(out)
}

#[test]
fn clauses_of_sequences() {
    let blocks = Columns::blocks;
    assert_eq!(sequences(&blocks(&[], b"abc"), b"", &[], 3), Ok(b"abc".to_vec()));
    // A block of two raw literals and no sequence: its heads, then its literals.
    let block: &[u8] = &[2 << 3, 0, b'a', b'b'];
    let whole = sequences(&blocks(&[0; 5], block), b"", &[], 4);
    assert_eq!(whole, Ok(vec![2 << 3, b'a', b'b', 0]));
    // Two blocks, a byte of each in turn, and another byte before the last.
    let mut control = [0u64, 0, 1, 1, 0, 0].repeat(2);
    control.extend([0, 1, 1, 0, 2, 1, 0, 1, 1, 1 << 1, 2, 1, 0, 1, 0, 0, 1, 0]);
    let turns = sequences(&blocks(&control, &[block, block, b"x"].concat()), b"", &[], 9);
    let [head, end] = [2 << 3, 0];
    assert_eq!(turns, Ok(vec![head, head, b'a', b'a', b'b', b'x', b'b', end, end]));
    // The same with a sequence under the predefined tables; its control column follows.
    let with_one = |control: &[u64]| {
        let control = [&[0, 0, 0, 0], control].concat();
        blocks(&control, &[2 << 3, 1, 0, b'a', b'b'])
    };
    let shifts = |control: &[u64]| Columns { control: control.into(), ..Columns::default() };
    let too_long =
        Columns { counts: vec![3], matches: vec![0], offsets: vec![4], ..with_one(&[1]) };
    let repeated = Columns::blocks(&[0, 0, 0, 0, 0], &[2 << 3, 1, 0b1111_1100, b'a', b'b']);
    let many: Vec<u64> = [0; 5 * 257].to_vec();
    let no_source: &[&[u8]] = &[];
    let step = 1 << 44;
    for (columns, plain, sources, clause) in [
        (blocks(&[], b"abc"), &b""[..], no_source, Clause::ColumnEnd),
        (blocks(&[], b"abcde"), b"", no_source, Clause::ColumnLeft),
        (blocks(&[], b""), b"abcde", no_source, Clause::Sum),
        (shifts(&[1025]), b"", no_source, Clause::Shifts),
        (shifts(&[2, 0, 0, 0, 0]), b"", no_source, Clause::ShiftOrder),
        (shifts(&[1, zigzag(step), 0]), b"", no_source, Clause::Signed),
        (shifts(&[1, zigzag(-step), 0]), b"", no_source, Clause::Signed),
        (shifts(&[5]), b"", &[&[0, 0]], Clause::Kind),
        (shifts(&[4]), b"", &[&[0, 0]], Clause::Continued),
        (shifts(&[4, 3, 0]), b"", &[&[0; 1 << 18], &[0; 1 << 18]], Clause::Block),
        (shifts(&[4, 3, 0]), b"", &[&[0; 1 << 18], &[0; (1 << 18) + 1]], Clause::Joined),
        (shifts(&[0, 0, 0]), b"", &[&[]], Clause::Block),
        (blocks(&[5 << 1], b"abcdef"), b"", no_source, Clause::Outside),
        (blocks(&[0, 1, 0], b"abcd"), b"", no_source, Clause::Missing),
        (blocks(&[0, 0, 1 << 32], b"abcd"), b"", no_source, Clause::Number),
        (blocks(&[0, 0, 0, 0], b""), b"", no_source, Clause::Block),
        (blocks(&[0, 0, 4 << 1, 0, 0], block), b"", no_source, Clause::BlockLength),
        (blocks(&[0, 0, 4 << 1 | 1, 1, 0, 0], block), b"", no_source, Clause::BlockLength),
        (
            blocks(&[1 << 1, 0, 0, 0, 0], &[b"x", block].concat()),
            b"",
            no_source,
            Clause::BlockLength,
        ),
        (blocks(&[0, 0, 1, 0, 0, 0], block), b"", no_source, Clause::Piece),
        (blocks(&[0, 0, 1, 4, 0, 0], block), b"", no_source, Clause::Piece),
        (blocks(&[0, 0, 1, 1, 0, 0, 0, 1, 3], block), b"", no_source, Clause::Piece),
        (blocks(&[0, 0, 1, 1, 0, 0, 0, 2, 0], block), b"", no_source, Clause::Missing),
        (blocks(&[0, 0, 1, 1, 0, 0, 0, 1, 2], block), b"", no_source, Clause::OpenLeft),
        (
            blocks(&[0, 0, 1, 3, 0, 0, 1 << 1, 1, 0], &[block, b"x"].concat()),
            b"",
            no_source,
            Clause::Outside,
        ),
        (blocks(&[0, 0, 0, 0, 3], block), b"", no_source, Clause::Literals),
        (blocks(&[0, 0, 0, 0, 1], block), b"", no_source, Clause::NoSequence),
        (with_one(&[2]), b"", no_source, Clause::Sequences),
        (with_one(&[0, 2]), b"", no_source, Clause::Sequences),
        (with_one(&[0, 0]), b"", no_source, Clause::Run),
        (with_one(&[0, 1, 0]), b"", no_source, Clause::Missing),
        (with_one(&[0, 1, zigzag(-1)]), b"", no_source, Clause::Missing),
        (too_long, b"", no_source, Clause::Literals),
        (repeated, b"", no_source, Clause::Table),
    ] {
        let refused = sequences(&columns, plain, sources, 4);
        assert_eq!(refused, Err(clause.into()), "{:?}", columns.control);
    }
    let all = sequences(&blocks(&many, &block.repeat(257)), b"", &[], 4 * 257);
    assert_eq!(all, Err(Clause::Blocks.into()));
    // The first byte of each.
    let open = |count| blocks(&[0, 0, 1, 1, 0, 0].repeat(count), &block.repeat(count));
    assert_eq!(sequences(&open(8), b"", &[], 36), Err(Clause::OpenLeft.into()));
    assert_eq!(sequences(&open(9), b"", &[], 36), Err(Clause::Open.into()));
}
