//! Plans: literals as operations on tokens of the log.

use crate::deflate::{BitReader, BitWriter, copy_bits};
use crate::entropy::{CodeAt, Operation};
use crate::inside::wire::section::{ALIGNED_BITS, MAX_SOURCES};
use crate::log::Log;
use crate::matcher::Match;
use std::ops::Range;

/// Two pieces of the log with at most this many bytes between them become one source.
const SOURCE_GAP: u64 = 512;

/// A recipe for literals, from tokens of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The ranges of the log that it needs: ascending, disjoint, below the block.
    pub(crate) sources: Vec<Match>,
    /// Ends with [`Operation::End`]. Empty if there is no plan.
    pub(crate) operations: Vec<Operation>,
    /// What the log lacks.
    pub(crate) residual: Vec<u8>,
    /// The residual holds the columns for zstd blocks; there are no operations.
    pub(crate) is_sequences: bool,
    /// Literals outside of zstd blocks that are not compressed.
    pub(crate) plain: Vec<u8>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty() && !self.is_sequences
    }

    pub(crate) fn clear(&mut self) {
        self.sources.clear();
        self.operations.clear();
        self.residual.clear();
        self.is_sequences = false;
        self.plain.clear();
    }

    /// What the sources are.
    pub(in crate::inside) fn contents<'a>(&self, log: &'a Log) -> Vec<&'a [u8]> {
        let end = |source: &Match| source.source + u64::from(source.len);
        self.sources.iter().map(|source| log.read(source.source..end(source))).collect()
    }

    /// Memory in bytes as of now.
    pub(crate) fn memory(&self) -> usize {
        self.sources.capacity() * size_of::<Match>()
            + self.operations.capacity() * size_of::<Operation>()
            + self.residual.capacity()
            + self.plain.capacity()
    }
}

/// A code and where it is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inside) enum Described {
    Fixed,
    /// A range of bits of the log.
    Log(u64, u64),
    /// A bit of the literals.
    Here(u64),
}

/// An operation whose positions are not final yet.
#[derive(Clone, Copy, Debug)]
pub(in crate::inside) enum Step {
    /// Tokens of a code begin at this bit of the literals.
    Part {
        at: u64,
        code: Described,
    },
    Near {
        gap: u32,
        gap_bits: u32,
        skip: u8,
        run: u32,
        run_bits: u64,
        source_end: u64,
    },
    Jump {
        gap: u32,
        gap_bits: u32,
        code: Described,
        at: u64,
        run: u32,
        run_bits: u64,
        source_end: u64,
    },
    Moved {
        change: i32,
        run: u32,
        run_bits: u64,
        source_end: u64,
    },
    Bend {
        back: u32,
        change: i32,
        run: u32,
        run_bits: u64,
        source_end: u64,
    },
}

impl Step {
    pub(in crate::inside) fn jump(gap: u32, gap_bits: u32, code: Described, at: u64) -> Step {
        Step::Jump { gap, gap_bits, code, at, run: 0, run_bits: 0, source_end: 0 }
    }

    pub(in crate::inside) fn near(gap: u32, gap_bits: u32, skip: u8) -> Step {
        Step::Near { gap, gap_bits, skip, run: 0, run_bits: 0, source_end: 0 }
    }

    pub(in crate::inside) fn moved(change: i32) -> Step {
        Step::Moved { change, run: 0, run_bits: 0, source_end: 0 }
    }

    pub(in crate::inside) fn bend(back: u32, change: i32) -> Step {
        Step::Bend { back, change, run: 0, run_bits: 0, source_end: 0 }
    }

    /// Completes the step with its run: `tokens` tokens, `bits` bits covered in total, and the bit
    /// of the source after it.
    pub(in crate::inside) fn finish(mut self, tokens: u32, bits: u64, end: u64) -> Step {
        if let Step::Near { run, run_bits, source_end, .. }
        | Step::Jump { run, run_bits, source_end, .. }
        | Step::Moved { run, run_bits, source_end, .. }
        | Step::Bend { run, run_bits, source_end, .. } = &mut self
        {
            (*run, *run_bits, *source_end) = (tokens, bits, end);
        }
        self
    }
}

/// The pieces of the log that steps refer to, for a block at `offset` that may refer to `floor` and
/// above; none if there are too many. Pieces are joined only within content of one domain: bytes
/// between them are named, too, and shift the positions of all later pieces.
pub(in crate::inside) fn sources(
    steps: &[Step],
    log: &Log,
    offset: u64,
    floor: u64,
    out: &mut Vec<Match>,
) {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut add = |start: u64, end: u64| ranges.push(start / 8..end.div_ceil(8));
    let mut from = 0;
    for step in steps {
        match *step {
            Step::Part { code: Described::Log(start, end), .. } => add(start, end),
            Step::Part { .. } => {}
            Step::Jump { code, at, source_end, .. } => {
                if let Described::Log(start, end) = code {
                    add(start, end);
                }
                add(at, source_end.max(at + 1));
                from = source_end;
            }
            Step::Near { source_end, .. }
            | Step::Moved { source_end, .. }
            | Step::Bend { source_end, .. } => {
                add(from, source_end.max(from + 1));
                from = source_end;
            }
        }
    }
    ranges.sort_unstable_by_key(|range| range.start);
    // The limit to which the last piece may grow.
    let mut extent = 0..0;
    for range in ranges {
        let end = range.end.min(offset);
        match out.last_mut() {
            Some(last)
                if end <= extent.end
                    && range.start <= last.source + u64::from(last.len) + SOURCE_GAP =>
            {
                last.len = last.len.max((end - last.source) as u32);
            }
            _ => {
                extent = log.extent(range.start, floor).unwrap_or(0..0);
                out.push(Match { at: 0, len: (end - range.start) as u32, source: range.start });
            }
        }
    }
    if out.len() > MAX_SOURCES {
        out.clear();
    }
}

/// Writes the operations and the residual of a plan whose sources are known. Returns the length of
/// the residual.
pub(in crate::inside) fn describe(
    steps: &[Step],
    literals: &[u8],
    plan: &mut Plan,
) -> Option<usize> {
    let mut starts = Vec::with_capacity(plan.sources.len());
    let mut sum = 0;
    for source in &plan.sources {
        starts.push(sum);
        sum += u64::from(source.len) * 8;
    }
    let sources = &plan.sources;
    let place = |bit: u64| -> Option<u64> {
        let nth = sources.partition_point(|source| source.source * 8 <= bit).checked_sub(1)?;
        Some(starts[nth] + bit - sources[nth].source * 8)
    };
    let mut named: Vec<Described> = Vec::new();
    let mut code_at = 0;
    let mut name = |code: Described, here: u64| -> Option<CodeAt> {
        if code == Described::Fixed {
            return Some(CodeAt::Fixed);
        }
        if let Some(back) = named.iter().rev().position(|known| *known == code) {
            return Some(CodeAt::Known(back as u64));
        }
        named.push(code);
        Some(match code {
            Described::Log(start, _) => {
                let at = place(start)?;
                let distance = at as i64 - code_at as i64;
                code_at = at;
                CodeAt::Source(distance)
            }
            Described::Here(at) => CodeAt::Here(here.checked_sub(at)?),
            Described::Fixed => CodeAt::Fixed,
        })
    };
    let mut reader = BitReader::new(literals, 0);
    let mut writer = BitWriter::new(&mut plan.residual);
    let mut source: Option<Described> = None;
    // Position in the source, from which the distance of a jump counts.
    let mut source_at = 0u64;
    for step in steps {
        let (gap_bits, run_bits) = match *step {
            Step::Part { at, code } => {
                let here = reader.position();
                let bits = at.checked_sub(here)?;
                pad(&mut writer, here, bits)?;
                copy_bits(&mut reader, &mut writer, bits).then_some(())?;
                plan.operations.push(Operation::Part { code: name(code, at)?, bits });
                continue;
            }
            Step::Near { gap, gap_bits, skip, run, run_bits, source_end } => {
                let run = u64::from(run);
                plan.operations.push(Operation::Near { gap: gap.into(), skip, run });
                source_at = place(source_end.checked_sub(1)?)? + 1;
                (gap_bits, run_bits)
            }
            Step::Jump { gap, gap_bits, code, at, run, run_bits, source_end } => {
                let same = source == Some(code);
                let named = if same { None } else { Some(name(code, 0)?) };
                source = Some(code);
                plan.operations.push(Operation::Jump {
                    gap: gap.into(),
                    code: named,
                    distance: place(at)? as i64 - source_at as i64,
                    run: run.into(),
                });
                source_at = place(source_end.checked_sub(1)?)? + 1;
                (gap_bits, run_bits)
            }
            Step::Moved { change, run, run_bits, source_end } => {
                plan.operations.push(Operation::Moved { change, run: run.into() });
                source_at = place(source_end.checked_sub(1)?)? + 1;
                (0, run_bits)
            }
            Step::Bend { back, change, run, run_bits, source_end } => {
                plan.operations.push(Operation::Bend { back, change, run: run.into() });
                source_at = place(source_end.checked_sub(1)?)? + 1;
                (0, run_bits)
            }
        };
        copy_bits(&mut reader, &mut writer, gap_bits.into()).then_some(())?;
        reader = BitReader::new(literals, reader.position() + run_bits);
    }
    let here = reader.position();
    let left = (literals.len() as u64 * 8).checked_sub(here)?;
    pad(&mut writer, here, left)?;
    copy_bits(&mut reader, &mut writer, left).then_some(())?;
    plan.operations.push(Operation::End);
    Some(writer.position().div_ceil(8) as usize)
}

/// Aligns the residual with the literals, if enough bits follow.
fn pad(writer: &mut BitWriter<'_>, position: u64, bits: u64) -> Option<()> {
    if bits >= ALIGNED_BITS {
        let count = (position + 8 - writer.position() % 8) % 8;
        writer.put(0, count as u32).then_some(())?;
    }
    Some(())
}
