//! The codes that a frame names: how many there may be, and the work that a decoder does for them and
//! their tokens.

use crate::deflate::Code;
use crate::inside::search::plan::Described;
use crate::inside::wire::section::MAX_CODES;
use crate::inside::wire::work::{CODE, DESCRIPTION, SINGLE, STEP, TOKEN, Work};

/// The codes that the steps of a block name.
#[derive(Debug, Default)]
pub(in crate::inside) struct Names {
    named: Vec<Described>,
    /// Hashes of those that a decoder builds.
    built: Vec<u64>,
    /// Units of work that they and the runs take so far, and may take with the steps.
    work: u64,
    limit: u64,
}

/// Steps that a run may take, mostly.
const STEPS: usize = 64;

/// A number of names.
#[derive(Clone, Copy, Debug)]
pub(in crate::inside) struct Mark {
    named: usize,
    built: usize,
    work: u64,
}

impl Names {
    /// Memory in bytes, at most.
    pub(in crate::inside) const MEMORY: usize =
        2 * MAX_CODES * (size_of::<Described>() + size_of::<u64>());

    /// Memory in bytes as of now.
    pub(in crate::inside) fn memory(&self) -> usize {
        self.named.capacity() * size_of::<Described>() + self.built.capacity() * size_of::<u64>()
    }

    /// Begins with a block of this many bytes.
    pub(in crate::inside) fn begin(&mut self, block_len: usize) {
        self.restore(Mark { named: 0, built: 0, work: 0 });
        self.limit = Work::of(block_len).left();
    }

    /// Whether a frame of this many steps may name this many more codes, with a run of this many
    /// tokens and some more steps.
    pub(in crate::inside) fn may_add(&self, codes: usize, steps: usize, tokens: usize) -> bool {
        let work = self.work
            + codes as u64 * (DESCRIPTION + CODE)
            + (steps + STEPS) as u64 * STEP
            + tokens as u64 * SINGLE;
        self.named.len() + codes <= MAX_CODES && work <= self.limit
    }

    /// Whether a code is named.
    pub(in crate::inside) fn has(&self, described: Described) -> bool {
        described == Described::Fixed || self.named.iter().rev().any(|known| *known == described)
    }

    /// Counts a run of tokens and the gap before it.
    pub(in crate::inside) fn run(&mut self, tokens: usize, has_bends: bool) {
        self.work += tokens as u64 * if has_bends { SINGLE } else { TOKEN };
    }

    /// Names a code.
    pub(in crate::inside) fn add(&mut self, described: Described, code: &Code) {
        if self.has(described) {
            return;
        }
        self.named.push(described);
        self.work += DESCRIPTION;
        let hash = code.hash();
        if !self.built.contains(&hash) {
            self.built.push(hash);
            self.work += CODE;
        }
    }

    /// What [`Names::restore`] goes back to.
    pub(in crate::inside) fn mark(&self) -> Mark {
        Mark { named: self.named.len(), built: self.built.len(), work: self.work }
    }

    /// Takes back what was named since a mark.
    pub(in crate::inside) fn restore(&mut self, Mark { named, built, work }: Mark) {
        self.named.truncate(named);
        self.built.truncate(built);
        self.work = work;
    }
}
