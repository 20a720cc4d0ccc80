//! A first look at a trace, so that what is made for the second is no larger than it needs to be.

use super::direction;
use crate::batch::{Direction, FlowKey};
use crate::prefix::Prefixes;
use oncewire_packet::{Dissector, Record};

/// How much payload a trace has in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    payload: [u64; Direction::ALL.len()],
}

impl Survey {
    /// Nothing so far.
    pub fn new() -> Survey {
        Survey::default()
    }

    /// At most so many bytes of payload in every direction.
    pub fn all(bytes: u64) -> Survey {
        Survey { payload: [bytes; Direction::ALL.len()] }
    }

    /// Counts a packet as [`super::Study::push`] would with the same networks inside. `dissector` is one for the whole trace.
    pub fn add(&mut self, dissector: &mut Dissector, record: &Record<'_>, inside: Option<&Prefixes>) {
        let Ok(found) = dissector.dissect(record) else { return };
        let (source_port, destination_port) = found.transport.ports();
        let (source, destination, protocol) = (found.source, found.destination, found.protocol);
        let flow = FlowKey { source, destination, source_port, destination_port, protocol };
        self.payload[direction(inside, &flow).index()] += found.payload.len() as u64;
    }

    /// Bytes of payload of a direction.
    pub fn payload(&self, direction: Direction) -> u64 {
        self.payload[direction.index()]
    }

    /// Bytes of payload of all directions.
    pub fn total(&self) -> u64 {
        self.payload.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Bytes of payload of the direction that has most.
    pub fn most(&self) -> u64 {
        self.payload.into_iter().max().unwrap_or(0)
    }
}
