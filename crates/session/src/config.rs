//! What a session is made from.

use crate::budget::Budget;
use oncewire_codec::adapt::CpuShare;
use oncewire_codec::{CachePolicy, Decoder, DecoderBuilder, EncoderBuilder, MAX_BLOCK, MatcherKind};
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
    /// Unpredictable, and another for every session: the first two make names, epochs and nonces unpredictable to outsiders; the others are a secret
    /// that fingerprints are keyed with, and nothing that the peer sees depends on them.
    pub random: [u64; 4],
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
    /// The parts of `memory` bytes: an eighth for delivery, a sixteenth for sending, what lanes and flows need besides, and the rest for two
    /// content logs as large as fit ([`Config::logs_memory`]).
    ///
    /// # Errors
    /// [`TooLittleMemory`].
    pub fn for_memory(memory: u64, lanes: usize, encoder: EncoderBuilder) -> Result<Config, TooLittleMemory> {
        let (delivery, sending) = (memory / 8, memory / 16);
        let rest = memory.saturating_sub(delivery + sending + notes_memory(lanes));
        let config = Config { lanes, encoder, ..Config::default() };
        let smallest = config.logs_memory(SMALLEST_LOG);
        if rest < smallest {
            // Thirteen parts of sixteen are left.
            let least = (notes_memory(lanes) + smallest).saturating_mul(16).div_ceil(13);
            return Err(TooLittleMemory { memory, least });
        }
        Ok(Config {
            log: config.log_within(rest),
            early: Budget::new(delivery / 2),
            delivery: Budget::new(delivery / 2),
            sending: Budget::new(sending),
            max_flows: (delivery / 2 / EARLY_CREDIT).clamp(1, 65_536),
            ..config
        })
    }

    /// Bytes that a session whose logs have `log` bytes each comes to take for them: both logs, the fingerprint table, entropy contexts of all
    /// lanes, and with several lanes the frames that wait for others. The codec says how much; nothing else does.
    pub fn logs_memory(&self, log: u64) -> u64 {
        let sending = encoder_of(&self.encoder, log).contexts(self.lanes).memory();
        let receiving = decoder_of(log).contexts(self.lanes).memory();
        [sending.log, sending.table, sending.contexts, receiving.log, receiving.contexts]
            .into_iter()
            .fold(waiting_memory(log, self.lanes), |sum, part| sum.saturating_add(part as u64))
    }

    /// The least that a session which is at work takes, in bytes: the smallest logs, and buffers.
    pub fn least_memory(&self) -> u64 {
        self.logs_memory(SMALLEST_LOG).saturating_add(512 << 10)
    }

    /// The largest log, of [`SMALLEST_LOG`] to [`LARGEST_LOG`] bytes, with which a session keeps to `memory` bytes
    /// ([`Config::logs_memory`]). The smallest if none does.
    pub fn log_within(&self, memory: u64) -> u64 {
        // A larger log never takes less.
        let (mut fits, mut too_large) = (SMALLEST_LOG, LARGEST_LOG + 1);
        while too_large - fits > 1 {
            let middle = fits + (too_large - fits) / 2;
            if self.logs_memory(middle) <= memory { fits = middle } else { too_large = middle }
        }
        fits
    }
}

/// The encoder of what a session sends, with a log of `log` bytes: what both ends must agree on, and what is no choice.
pub(crate) fn encoder_of(template: &EncoderBuilder, log: u64) -> EncoderBuilder {
    template
        .clone()
        .cache(log)
        .span(log / 4)
        .max_block(MAX_BLOCK)
        .contexts(MAX_LANES)
        // The decoder of a session keeps all, and nothing tells the matcher what was acknowledged.
        .policy(CachePolicy::All)
        .matcher(MatcherKind::MaxMatch)
}

/// The decoder of what a session receives, with a log of `log` bytes.
pub(crate) fn decoder_of(log: u64) -> DecoderBuilder {
    Decoder::builder().cache(log).span(log / 4).contexts(MAX_LANES)
}

/// Most bytes of frames that wait on some of several lanes for content of others: a span of content, encoded a little longer at worst.
pub(crate) fn waiting_memory(log: u64, lanes: usize) -> u64 {
    if lanes > 1 { log / 4 + log / 32 } else { 0 }
}

/// Bytes that a session takes besides logs, tables, contexts and queues: working buffers of both directions, lanes' input, notes about
/// messages and flows.
pub(crate) fn notes_memory(lanes: usize) -> u64 {
    (lanes as u64 + 4) << 20
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
            random: [0; 4],
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
    use oncewire_codec::SamplerKind;
    use oncewire_codec::table::COMPACT_LIMIT;

    #[test]
    fn the_parts_do_not_exceed_the_whole() {
        for lanes in [1, 2, 8] {
            for (name, period) in [("samplehash", 32), ("samplehash", 4), ("samplebyte", 8), ("fastcdc", 1024), ("maxp", 64)] {
                let encoder = EncoderBuilder::default().sampler(SamplerKind::named(name).unwrap()).period(period);
                for memory in [96u64 << 20, 512 << 20, 2_300 << 20, 2_600 << 20, 8 << 30] {
                    let config = Config::for_memory(memory, lanes, encoder.clone()).unwrap();
                    // What is really allocated, which costs address space only. Of the contexts, those of the session's lanes are used.
                    let sender = encoder_of(&config.encoder, config.log).build().unwrap().memory();
                    let receiver = decoder_of(config.log).build().unwrap().memory();
                    let contexts = lanes * (config.encoder.context_memory() + DecoderBuilder::context_memory());
                    let sum = (sender.log + sender.table + receiver.log + contexts) as u64
                        + waiting_memory(config.log, lanes)
                        + config.early.left()
                        + config.delivery.left()
                        + config.sending.left()
                        + notes_memory(lanes);
                    let what = format!("{name}, period {period}, {lanes} lanes: {sum} of {memory}, logs of {}", config.log);
                    assert!(sum <= memory, "{what}");
                    // Nothing is left over, unless a log beyond 1 GiB would have a table of twice the size.
                    assert!(memory - sum < 100 || config.log == COMPACT_LIMIT, "{what}");
                }
                let config = |memory| Config::for_memory(memory, lanes, encoder.clone());
                let TooLittleMemory { least, .. } = config(1 << 20).unwrap_err();
                assert!(config(least).unwrap().log < SMALLEST_LOG + 10);
                assert_eq!(config(least - 9).unwrap_err().least, least);
            }
        }
    }

    #[test]
    fn the_largest_log_is_found_for_any_memory() {
        let config = Config { encoder: EncoderBuilder::default().period(4), ..Config::default() };
        for memory in [0, 5 << 20, 6 << 20, 100 << 20, 3 << 30, u64::MAX] {
            let log = config.log_within(memory);
            assert!((SMALLEST_LOG..=LARGEST_LOG).contains(&log));
            assert!(log == SMALLEST_LOG || config.logs_memory(log) <= memory);
            assert!(log == LARGEST_LOG || config.logs_memory(log + 1) > memory, "{log} of {memory}");
        }
    }

    #[test]
    fn what_is_set_apart_for_buffers_holds_them() {
        let (sender, receiver) = (EncoderBuilder::default().memory(), Decoder::builder().memory());
        assert!((sender.buffers + receiver.buffers) as u64 <= notes_memory(0) + (2 << 20), "{sender:?}, {receiver:?}");
    }
}
