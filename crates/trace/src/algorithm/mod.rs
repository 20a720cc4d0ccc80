//! The algorithms that figures 1, 2, 3, 5 and 12 compare, each run over the whole trace.
//!
//! All see the same packets in the same order. Algorithms that keep content share one log per
//! direction and differ in how far they look back in it. The others have their own caches.

mod bound;
mod carrier;
mod catalog;
mod link;
mod max_match;
mod names;
mod oncewire;
mod pairs;
mod timed;
mod windows;

pub(crate) use bound::Bound;
pub use catalog::Algorithm;
pub(crate) use link::LinkRun;
pub(crate) use max_match::{MaxMatchParams, MaxMatchRun};
pub(crate) use names::{ChunkRun, PayloadRun};
pub(crate) use oncewire::{TunnelContent, TunnelRun};
pub(crate) use pairs::{HTTP_LIMIT, PairLimits, PairParams, PairRun, service_limit};
pub(crate) use windows::{Coder, Deflate, Grouping, Source, WindowRun};

use crate::batch::{Direction, Packet, View};
use crate::figures::temporal::SavingsOverTime;
use crate::survey::Survey;
use oncewire_codec::ConfigError;
use std::collections::HashMap;

/// Cache sizes by direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    cache: u64,
    survey: Option<Survey>,
}

impl Sizes {
    pub(crate) fn new(cache: u64, survey: Option<Survey>) -> Sizes {
        Sizes { cache, survey }
    }

    /// The requested size in bytes.
    pub(crate) fn asked(&self) -> u64 {
        self.cache
    }

    /// The size for a direction: no larger than its payload.
    pub(crate) fn of(&self, direction: Direction) -> u64 {
        let payload = self.survey.map_or(u64::MAX, |survey| survey.payload(direction));
        self.cache.min(payload.max(oncewire_codec::DEFAULT_BLOCK as u64))
    }

    /// Whether all payload of a direction fits its cache.
    pub(crate) fn holds_all(&self, direction: Direction) -> bool {
        self.survey.is_some_and(|survey| survey.payload(direction) <= self.cache)
    }
}

/// A running algorithm with its parameters.
pub(crate) trait Run: Send {
    /// Processes the next batch.
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError>;

    /// Finishes held content at the end of the trace.
    fn finish(&mut self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Bytes saved so far.
    fn tally(&self) -> &Tally;

    /// What it carried, if it counts that.
    fn content(&self) -> Option<TunnelContent> {
        None
    }

    /// What it saved over time, if it counts that. Known once it has finished.
    fn over_time(&self) -> Option<SavingsOverTime> {
        None
    }

    /// Peak memory in bytes, without the shared logs.
    fn memory(&self) -> u64;

    /// Bytes per fingerprint that its sampler achieved, if it has one.
    fn bytes_per_fingerprint(&self) -> Option<f64> {
        None
    }

    /// Notes about limits of the result.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) content: Option<TunnelContent>,
    pub(crate) over_time: Option<SavingsOverTime>,
    pub(crate) memory: u64,
    pub(crate) bytes_per_fingerprint: Option<f64>,
    pub(crate) notes: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(run: &dyn Run) -> Outcome {
        Outcome {
            tally: run.tally().clone(),
            content: run.content(),
            over_time: run.over_time(),
            memory: run.memory(),
            bytes_per_fingerprint: run.bytes_per_fingerprint(),
            notes: run.notes(),
        }
    }
}

/// Bytes saved on the wire, net of all charges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    saved: [u64; Direction::ALL.len()],
    /// By protocol and service, if requested.
    services: Option<HashMap<(u8, u16), u64>>,
}

/// Most services counted separately. Others count under port 0 of their protocol.
pub(crate) const MAX_SERVICES: usize = 1 << 14;

impl Tally {
    /// A tally that also counts by service.
    pub(crate) fn by_service() -> Tally {
        Tally { services: Some(HashMap::new()), ..Tally::default() }
    }

    pub(crate) fn add(&mut self, packet: &Packet, saved: u64) {
        self.saved[packet.direction.index()] += saved;
        if let (Some(services), Some(flow)) = (&mut self.services, &packet.flow)
            && saved > 0
        {
            let mut key = (flow.protocol, packet.service);
            if services.len() >= MAX_SERVICES && !services.contains_key(&key) {
                key.1 = 0;
            }
            *services.entry(key).or_default() += saved;
        }
    }

    /// Adds bytes saved by a window of several packets.
    pub(crate) fn add_to(&mut self, direction: Direction, saved: u64) {
        self.saved[direction.index()] += saved;
    }

    /// Replaces the bytes saved in a direction.
    pub(crate) fn set(&mut self, direction: Direction, saved: u64) {
        self.saved[direction.index()] = saved;
    }

    /// Bytes saved in one direction.
    pub(crate) fn of(&self, direction: Direction) -> u64 {
        self.saved[direction.index()]
    }

    /// Bytes saved in all directions.
    pub(crate) fn total(&self) -> u64 {
        self.saved.iter().sum()
    }

    /// Bytes saved of one IP protocol.
    pub(crate) fn of_protocol(&self, protocol: u8) -> u64 {
        let services = self.services.iter().flatten();
        services.filter(|((of, _), _)| *of == protocol).map(|(_, saved)| saved).sum()
    }

    /// Bytes saved of one service.
    pub(crate) fn of_service(&self, service: (u8, u16)) -> u64 {
        self.services.as_ref().and_then(|services| services.get(&service)).copied().unwrap_or(0)
    }
}
