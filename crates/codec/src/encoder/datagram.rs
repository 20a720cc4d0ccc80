//! What the encoder of datagrams needs of a [`Finder`], whose search has a log.

use super::{EncoderMemory, Finder};
use crate::domain::Domain;
use crate::format::ChecksumSeed;
use crate::log::Log;
use crate::search::{Past, SearchMemory};
use std::ops::Range;

impl Finder {
    /// The log. A builder of datagrams refuses every search that keeps content itself.
    pub(crate) fn log(&self) -> &Log {
        match &self.past {
            Past::Log { log, .. } => log,
            Past::Store(_) => unreachable!("checked when it was built"),
        }
    }

    /// As [`Finder::log`], to change it.
    pub(crate) fn log_mut(&mut self) -> &mut Log {
        match &mut self.past {
            Past::Log { log, .. } => log,
            Past::Store(_) => unreachable!("checked when it was built"),
        }
    }

    /// Indexes content of `domain` that was appended without.
    pub(crate) fn index(&mut self, range: Range<u64>, domain: Domain, dense: bool) {
        let (density, now) = (self.density(dense), self.domain);
        let Past::Log { log, matcher } = &mut self.past else { return };
        if domain != now {
            matcher.enter(domain);
        }
        matcher.note(log.read(range.clone()), range.start, density);
        if domain != now {
            matcher.enter(now);
        }
    }

    /// The domain of what comes next.
    pub(crate) fn domain(&self) -> Domain {
        self.domain
    }

    pub(crate) fn seed(&self) -> ChecksumSeed {
        self.seed
    }

    pub(crate) fn max_block(&self) -> usize {
        self.max_block
    }

    /// Memory allocated so far, as far as this knows of it.
    pub(crate) fn memory_of_runs(&self) -> EncoderMemory {
        let SearchMemory { log, table, scratch } = self.past.memory();
        EncoderMemory {
            log: log as usize,
            table: table as usize,
            domains: self.past.domains_memory(),
            contexts: 0,
            inside: 0,
            buffers: scratch as usize,
        }
    }
}
