//! What a plan saves where literals are compressible.
//!
//! Literals of deflate are bits, which the entropy stage leaves as they are, so a plan saves the
//! bytes that it need not carry. Streams with a flush every few bytes are not like that: their
//! literals shrink to a quarter, and those of a plan do not, since they have lost their place in a
//! byte. There the two are compressed, and compared.

use crate::entropy::Price;
use crate::inside::Place;
use crate::inside::search::plan::Plan;
use crate::log::Log;
use crate::matcher::Match;

/// Fewest bytes that may be left of a match.
pub(in crate::inside) const LEAST_LEFT: u32 = 32;

/// Bytes right before a block that its literals are compressed after.
const RECENT: u64 = 32 << 10;
/// Bytes of a match's descriptor, of an operation and of a source, about.
const DESCRIPTOR: usize = 2;
const OPERATION: usize = 2;
const SOURCE: usize = 6;

/// Both are estimates: a plan must save one byte in so many to count as shorter.
const DOUBT: usize = 12;

/// Compares a plan with what it replaces.
#[derive(Debug, Default)]
pub(in crate::inside) struct Worth {
    price: Price,
    literals: Vec<u8>,
    /// Bytes compressed to tell, so far.
    pub(in crate::inside) work: u64,
}

impl Worth {
    /// Memory in bytes as of now.
    pub(in crate::inside) fn memory(&self) -> usize {
        self.price.memory() + self.literals.capacity()
    }

    /// Upper bound of the memory in bytes for blocks of `max_block` bytes.
    pub(in crate::inside) fn most_memory(max_block: usize) -> usize {
        Price::most_memory().saturating_add(2 * max_block)
    }

    /// Gives up a plan that saves nothing of a block, and takes `whole` for its matches. Sets what it
    /// saves.
    pub(in crate::inside) fn check(
        &mut self,
        &Place { log, offset, .. }: &Place<'_>,
        block: &[u8],
        matches: &mut Vec<Match>,
        whole: &mut Vec<Match>,
        plan: &mut Plan,
        saved: &mut usize,
    ) {
        let place = (offset, log.floor(offset, block.len()));
        let contents = plan.contents(log);
        *saved = self.saved(log, block, place, [matches, whole], plan, &contents);
        if *saved == 0 {
            plan.clear();
            std::mem::swap(matches, whole);
        }
    }

    /// Bytes that `plan` with its `matches` saves of a block at `offset`, which may refer to `floor`
    /// and above, where `whole` are the matches without the plan. `contents` are the plan's sources.
    pub(in crate::inside) fn saved(
        &mut self,
        log: &Log,
        block: &[u8],
        (offset, floor): (u64, u64),
        [matches, whole]: [&[Match]; 2],
        plan: &Plan,
        contents: &[&[u8]],
    ) -> usize {
        gather(block, whole, &mut self.literals);
        // The stream of the entropy stage may know anything of the domain's content: most likely what
        // is like the block, and what came last.
        let extent = log.extent(offset.saturating_sub(1), floor).unwrap_or(offset..offset);
        let recent = log.read(extent.start.max(offset.saturating_sub(RECENT))..offset);
        let before = || contents.iter().copied().chain([recent]);
        let known: usize = before().map(<[u8]>::len).sum();
        self.work += (2 * known + self.literals.len() + plan.residual.len()) as u64;
        let bytes = self.price.of(before(), &self.literals);
        let tokens = self.price.of(before(), &plan.residual);
        let Some((bytes, tokens)) = bytes.zip(tokens) else { return 0 };
        let bytes = bytes.min(self.literals.len()) + DESCRIPTOR * whole.len();
        let tokens = tokens
            + plan.plain.len()
            + OPERATION * plan.operations.len()
            + SOURCE * plan.sources.len()
            + DESCRIPTOR * matches.len();
        bytes.saturating_sub(tokens + bytes / DOUBT)
    }
}

/// Copies what of a block is in no match to `out`.
pub(in crate::inside) fn gather(block: &[u8], matches: &[Match], out: &mut Vec<u8>) {
    out.clear();
    let mut done = 0;
    for found in matches {
        out.extend_from_slice(&block[done..found.at as usize]);
        done = found.end();
    }
    out.extend_from_slice(&block[done..]);
}

pub(in crate::inside) fn matched_bytes(matches: &[Match]) -> usize {
    matches.iter().map(|found| found.len as usize).sum()
}
