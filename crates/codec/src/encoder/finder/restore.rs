//! Content that was kept elsewhere goes back into the log, and into the table.

use super::{Finder, looks_compressible};
use crate::domain::{Domain, Sharing};
use crate::error::EncodeError;
use crate::format::ChecksumSeed;
use crate::limits::{DEFAULT_BLOCK, MAX_OFFSET};
use crate::policy::CachePolicy;
use crate::search::Past;
use std::ops::Range;

impl Finder {
    /// See [`Encoder::restore`](crate::Encoder::restore).
    pub(in crate::encoder) fn restore(
        &mut self,
        domain: Domain,
        offset: u64,
        content: &[u8],
    ) -> Result<(), EncodeError> {
        let not_held = EncodeError::NotHeld { offset, len: content.len() };
        let fits = |log: &crate::Log| {
            content.len() <= DEFAULT_BLOCK
                && offset < MAX_OFFSET
                && log.is_memory()
                && log.follows(offset, self.max_block)
                && log.geometry().place(offset, content.len()) == offset
        };
        if !matches!(&self.past, Past::Log { log, .. } if fits(log))
            || self.policy != CachePolicy::All
            || content.is_empty()
        {
            return Err(not_held);
        }
        if self.sharing != Sharing::All || domain == Domain::NOBODY {
            self.domain = domain;
            self.past.enter(domain);
        }
        let density = self.density(looks_compressible(content));
        let Past::Log { log, matcher } = &mut self.past else { return Err(not_held) };
        log.restore(offset, content);
        if domain != Domain::NOBODY {
            matcher.note(content, offset, density);
        } else if self.sharing == Sharing::All {
            // What comes next belongs to all again.
            self.domain = Domain::COMMON;
            self.past.enter(Domain::COMMON);
        }
        Ok(())
    }

    /// See [`Encoder::rewind_to`](crate::Encoder::rewind_to).
    pub(in crate::encoder) fn rewind_to(
        &mut self,
        offset: u64,
        seed: ChecksumSeed,
    ) -> Result<(), EncodeError> {
        let not_held = EncodeError::NotHeld { offset, len: 0 };
        let Past::Log { log, matcher } = &mut self.past else { return Err(not_held) };
        if !log.is_memory() || !log.rewind_to(offset) {
            return Err(not_held);
        }
        matcher.interrupt();
        self.rewound(offset, seed);
        Ok(())
    }

    /// See [`Encoder::give_up_below`](crate::Encoder::give_up_below).
    pub(in crate::encoder) fn give_up_below(&mut self, offset: u64) {
        if let Past::Log { log, .. } = &mut self.past {
            log.give_up_below(offset);
        }
    }

    /// See [`Encoder::owners`](crate::Encoder::owners).
    pub(in crate::encoder) fn owners(&self, range: &Range<u64>) -> Vec<(u64, Domain)> {
        match &self.past {
            Past::Log { log, .. } => log.owners(range),
            Past::Store(_) => vec![(range.start, Domain::COMMON)],
        }
    }
}
