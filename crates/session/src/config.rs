//! What a session is made from.

use crate::budget::Budget;
use oncewire_codec::adapt::CpuShare;
use oncewire_codec::{EncoderBuilder, MAX_BLOCK};
use std::time::Duration;

/// Most lanes of a session.
pub const MAX_LANES: usize = 8;
/// Bytes of a flow that may always be on their way, whatever the budget: as much as TCP's initial window, and a page more.
pub const EARLY_CREDIT: u64 = 16 << 10;
/// Smallest content log, in bytes: a span of it holds several blocks.
pub const SMALLEST_LOG: u64 = 1 << 20;
/// Largest content log that a session takes, in bytes.
pub const LARGEST_LOG: u64 = 64 << 30;

/// Parameters of one end of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// Content log of each direction, in bytes, if the peer agrees; the smaller of both ends' wishes is taken. Repeats are found
    /// as far back as it reaches, and a quarter of it may be on its way at once: a quarter of the log divided by the round-trip time bounds throughput.
    pub log: u64,
    /// Bytes that may wait for this end's applications: every flow takes [`EARLY_CREDIT`] of it. A flow for which nothing is left is
    /// refused.
    pub early: Budget,
    /// Bytes that may wait for this end's applications beyond that: flows take of it as they need more. With `early` it is the sum of
    /// all credit.
    pub delivery: Budget,
    /// Bytes of applications that may wait for the lanes; a flow may always queue a little.
    pub sending: Budget,
    /// Flows open at once.
    pub max_flows: u64,
    /// Lanes wanted, 1..=8. Default 1.
    pub lanes: usize,
    /// Sampler, period, window, table, entropy stage. Matcher, cache policy, sizes, offsets, seeds and contexts are set by the session.
    pub encoder: EncoderBuilder,
    /// CPU time that encoding may take: see [`crate::Session::spent`]. Default: as much as it wants.
    pub cpu_budget: Option<CpuShare>,
    /// Silence after which the peer is asked for a sign of life. Default 10 s.
    pub keep_alive: Duration,
    /// Silence after which a transport is given up. Default 25 s.
    pub dead_after: Duration,
    /// How long flows survive without a transport. Default 60 s.
    pub grace: Duration,
    /// How long an acknowledgement may wait for company. Default 20 ms.
    pub ack_delay: Duration,
    /// Unpredictable, and another for every session: makes names, epochs and fingerprints unpredictable to outsiders.
    pub random: [u64; 3],
    /// Program and version, for the peer's status.
    pub agent: String,
}

/// Memory too small for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{memory} bytes are too little for a session: at least {least}")]
pub struct TooLittleMemory {
    /// What was given.
    pub memory: u64,
    /// What would do.
    pub least: u64,
}

impl Config {
    /// The parts of `memory` bytes: an eighth for delivery, a sixteenth for sending, fixed costs, and the rest for two content logs, the
    /// fingerprint table of one, and what waits on a lane for another.
    ///
    /// # Errors
    /// [`TooLittleMemory`].
    pub fn for_memory(memory: u64, lanes: usize) -> Result<Config, TooLittleMemory> {
        let fixed = fixed_memory(lanes);
        let (delivery, sending) = (memory / 8, memory / 16);
        let rest = memory.saturating_sub(delivery + sending + fixed);
        // Two logs, a table of 4 bytes per 19, and with several lanes a span of frames that wait for others.
        let log = if lanes > 1 { rest * 100 / 247 } else { rest * 100 / 222 };
        // Logs beyond 1 GiB have tables of twice the size.
        let log = if log > oncewire_codec::table::COMPACT_LIMIT { log * 222 / 243 } else { log };
        if log < SMALLEST_LOG {
            let least = (fixed + SMALLEST_LOG * 5 / 2) * 16 / 13 + 1;
            return Err(TooLittleMemory { memory, least });
        }
        Ok(Config {
            log: log.min(LARGEST_LOG),
            early: Budget::new(delivery / 2),
            delivery: Budget::new(delivery / 2),
            sending: Budget::new(sending),
            max_flows: (delivery / 2 / EARLY_CREDIT).clamp(1, 65_536),
            lanes,
            ..Config::default()
        })
    }
}

/// The least that a session which is at work takes, in bytes: the smallest logs, and entropy contexts of one lane.
pub const LEAST_SESSION: u64 = 2 * SMALLEST_LOG + (4 << 20);

/// Bytes that a session takes besides logs, tables and queues: entropy contexts of both directions, buffers, notes about messages.
pub(crate) fn fixed_memory(lanes: usize) -> u64 {
    (lanes as u64 * 6 + 2) << 20
}

impl Default for Config {
    fn default() -> Config {
        Config {
            log: 128 << 20,
            early: Budget::new(32 << 20),
            delivery: Budget::new(32 << 20),
            sending: Budget::new(32 << 20),
            max_flows: 2048,
            lanes: 1,
            encoder: EncoderBuilder::default(),
            cpu_budget: None,
            keep_alive: Duration::from_secs(10),
            dead_after: Duration::from_secs(25),
            grace: Duration::from_secs(60),
            ack_delay: Duration::from_millis(20),
            random: [0; 3],
            agent: concat!("oncewire ", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}

/// Bytes of one flow that may wait for its lane.
pub(crate) const SEND_QUEUE: usize = 4 * MAX_BLOCK;
/// Bytes of one flow that may wait for its lane even when all others have used up the budget.
pub(crate) const SEND_QUEUE_MIN: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_exceed_the_whole() {
        for lanes in [1, 2, 8] {
            for memory in [96u64 << 20, 512 << 20, 8 << 30] {
                let config = Config::for_memory(memory, lanes).unwrap();
                let waiting = if lanes > 1 { config.log / 4 } else { 0 };
                let slot = if config.log > 1 << 30 { 8 } else { 4 };
                let sum = 2 * config.log
                    + config.log * slot / 19
                    + waiting
                    + config.early.left()
                    + config.delivery.left()
                    + config.sending.left()
                    + fixed_memory(lanes);
                assert!(sum <= memory, "{lanes} lanes: {sum} of {memory}");
                assert!(sum * 10 >= memory * 9, "{lanes} lanes: only {sum} of {memory}");
            }
        }
        let TooLittleMemory { least, .. } = Config::for_memory(1 << 20, 1).unwrap_err();
        assert!(Config::for_memory(least, 1).is_ok());
    }
}
