//! What was sent before there was an index.

use super::Stream;
use crate::log::Geometry;
use std::collections::VecDeque;
use std::ops::Range;

/// Content that one domain sent before there was another: what of it may be shared, to be indexed
/// when a second domain appears. So one domain pays nothing for chunks, and whoever comes second
/// finds what the first has fetched.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Ranges of the log and who sent them, ascending and disjoint, none across the end of the
    /// ring.
    runs: VecDeque<(Range<u64>, u64)>,
}

impl Backlog {
    /// Most ranges that are noted, the newest.
    fn most_runs(capacity: u64) -> usize {
        (capacity >> 14).clamp(16, 16 << 10) as usize
    }

    /// Notes the block that follows in a flow, which lies at `offset`.
    pub(crate) fn note(
        &mut self,
        stream: &mut Stream,
        geometry: Geometry,
        offset: u64,
        block: &[u8],
    ) {
        let len = block.len() as u64;
        let header = stream.header_end.saturating_sub(stream.position).min(len);
        stream.position += len;
        let Some(client) = stream.client else { return };
        let run = offset + header..offset + len;
        if run.is_empty() {
            return;
        }
        match self.runs.back_mut() {
            Some((last, sender))
                if *sender == client
                    && last.end == run.start
                    && geometry.generation_start(offset) != run.start =>
            {
                last.end = run.end;
            }
            _ => {
                if self.runs.len() >= Backlog::most_runs(geometry.capacity()) {
                    self.runs.pop_front();
                }
                self.runs.push_back((run, client));
            }
        }
    }

    /// The log was rewound to `offset`: what follows may be what nobody may share.
    pub(crate) fn rewind(&mut self, offset: u64) {
        while self.runs.back().is_some_and(|(last, _)| last.start >= offset) {
            self.runs.pop_back();
        }
        if let Some((last, _)) = self.runs.back_mut() {
            last.end = last.end.min(offset);
        }
    }

    pub(super) fn most_memory(capacity: u64) -> usize {
        Backlog::most_runs(capacity).next_power_of_two() * size_of::<(Range<u64>, u64)>()
    }

    /// Takes out the newest range, and who sent it.
    pub(super) fn pop(&mut self) -> Option<(Range<u64>, u64)> {
        self.runs.pop_back()
    }

    pub(crate) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<(Range<u64>, u64)>()
    }
}
