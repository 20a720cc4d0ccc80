//! A first pass over a trace, so that the study sizes its caches and tables to fit.

use crate::batch::Direction;
use crate::prefix::Prefixes;
use oncewire_packet::{Dissector, Record};

/// Payload bytes of a trace in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    payload: [u64; Direction::ALL.len()],
}

impl Survey {
    /// An empty survey.
    pub fn new() -> Survey {
        Survey::default()
    }

    /// A survey that allows up to `bytes` of payload in every direction.
    pub fn all(bytes: u64) -> Survey {
        Survey { payload: [bytes; Direction::ALL.len()] }
    }

    /// Counts a packet as [`crate::Study::push`] would with the same inside networks. Use one
    /// `dissector` for the whole trace.
    pub fn add(
        &mut self,
        dissector: &mut Dissector,
        record: &Record<'_>,
        inside: Option<&Prefixes>,
    ) {
        let record = record.unsliced();
        let Ok(found) = dissector.dissect(&record) else { return };
        self.payload[Direction::of_flow(&found.flow(), inside).index()] +=
            found.payload.len() as u64;
    }

    /// Payload bytes of one direction.
    pub fn payload(&self, direction: Direction) -> u64 {
        self.payload[direction.index()]
    }

    /// Payload bytes of all directions.
    pub fn total(&self) -> u64 {
        self.payload.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Payload bytes of the direction with the most.
    pub fn most(&self) -> u64 {
        self.payload.into_iter().max().unwrap_or(0)
    }
}
