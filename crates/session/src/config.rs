//! What a session is made from: [`Config`], checked once to become [`Settings`].

use crate::budget::Budget;
use crate::limits::{
    EARLY_CREDIT, LARGEST_LOG, LEAST_PAD, MAX_AGENT, MAX_CONTEXTS, MAX_FLOWS, MAX_LANES, MOST_PAD,
    SMALLEST_LOG,
};
use crate::opening::Opening;
use crate::recall::StoreFor;
use crate::store::StoreKey;
use oncewire_codec::adapt::CpuShare;
use oncewire_codec::search::MaxMatchSearch;
use oncewire_codec::{CachePolicy, DEFAULT_BLOCK, Decoder, DecoderBuilder, EncoderBuilder};
use std::time::Duration;

/// Parameters of one end of a session. [`Config::build`] checks them.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest content log of each direction, in bytes, [`SMALLEST_LOG`] to [`LARGEST_LOG`]; both
    /// ends agree on the smaller of their limits. Default 128 MiB. Repeats are found as far back as
    /// the log reaches. A quarter of it may be in flight, so throughput is at most a quarter of the
    /// log per round-trip time.
    pub log: u64,
    /// Bytes that may wait for this end's applications: each flow acquires [`EARLY_CREDIT`] of this
    /// budget and is refused if that is not available. Default 32 MiB.
    pub early: Budget,
    /// Bytes that may wait for this end's applications beyond the early credit; busy flows acquire
    /// them. `early` and `delivery` together bound all the credit that is granted. Default 32 MiB.
    pub delivery: Budget,
    /// Bytes of this end's applications that may wait to be sent; each flow may queue 4 KiB beyond
    /// it. Default 32 MiB.
    pub sending: Budget,
    /// Most flows open at once, at least 1. Default 2048.
    pub max_flows: u64,
    /// Lanes wanted, 1 to [`MAX_LANES`]. Default 1.
    pub lanes: usize,
    /// Entropy contexts of each lane, 1 to [`MAX_CONTEXTS`]; both ends use the smaller of their
    /// numbers. Isolation domains do not share one, so with fewer contexts than busy domains,
    /// literals are compressed without what came before. Each takes up to 2.6 MB at the sender and
    /// 1.6 MB at the receiver once it is used. Default 4.
    pub contexts: usize,
    /// What isolation domains share, sampler, period, window, table and entropy stage. The session
    /// itself sets matcher, cache policy, sizes, offsets, seeds and contexts.
    pub encoder: EncoderBuilder,
    /// When the encoder looks inside compressed content, if it can. Default: where that is not
    /// slower than sending it as it is.
    pub opening: Opening,
    /// Whether the literal coder works at level 1, and not at that of `encoder`, while this end spends
    /// most of its time encoding, so that it does not hold content up: by itself, or with others that
    /// share its thread ([`Session::share_thread`](crate::Session::share_thread)). Default: no.
    pub hurries: bool,
    /// Everything sent at once on an established transport is padded to a power of two of bytes, at
    /// least [`LEAST_PAD`], and from this size on to a multiple of this size. 0, the default: no
    /// padding; otherwise [`LEAST_PAD`] to [`MOST_PAD`].
    pub pad: u32,
    /// CPU time that encoding may take: see [`crate::Session::spent`]. Default: no limit.
    pub cpu_budget: Option<CpuShare>,
    /// After this much silence the peer is sent a PING. More than 0 and less than `dead_after`.
    /// Default 10 s.
    pub keep_alive: Duration,
    /// After this much silence a transport is given up. Default 25 s.
    pub dead_after: Duration,
    /// How long a lane, and with it the session, survives without a transport. Default 60 s.
    pub grace: Duration,
    /// How long an acknowledgement may be delayed to save messages; the answer to a flow that brought
    /// a request, a quarter of that. Default 20 ms.
    pub ack_delay: Duration,
    /// Unpredictable, and different for each session. The first two numbers make session names, log
    /// names and nonces unpredictable to outsiders; the others are a secret that keys the
    /// fingerprints, and nothing that the peer sees depends on them.
    pub random: [u64; 4],
    /// Program and version, at most 64 bytes, for the peer's status.
    pub agent: String,
    /// Set if the driver stores the logs ([`crate::Session::unwritten`]). Default: it does not.
    pub store: Option<StoreKey>,
    /// Bytes of each log that the driver's store keeps and can read while the session lasts
    /// ([`crate::Event::Fetch`]). 0, the default: it only brings logs back after a restart.
    pub stored: u64,
    /// Whether what lies only there is read where sending it would be faster. Default: it is not.
    pub store_for: StoreFor,
}

/// A [`Config`] that was checked. A clone shares the budgets.
#[derive(Clone, Debug)]
pub struct Settings(Config);

/// Why a [`Config`] cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Too little memory for a session.
    #[error("{memory} bytes are too little for a session: at least {least}")]
    Memory {
        /// What was given, in bytes.
        memory: u64,
        /// What would do, in bytes.
        least: u64,
    },
    /// The content log is too small or too large.
    #[error("a content log of {log} bytes: {SMALLEST_LOG} to {LARGEST_LOG} are possible")]
    Log {
        /// What was given, in bytes.
        log: u64,
    },
    /// Too many lanes, or none.
    #[error("{lanes} lanes: 1 to {MAX_LANES} are possible")]
    Lanes {
        /// What was given.
        lanes: usize,
    },
    /// Too many entropy contexts, or none.
    #[error("{contexts} entropy contexts: 1 to {MAX_CONTEXTS} are possible")]
    Contexts {
        /// What was given.
        contexts: usize,
    },
    /// Padding to a size that is not possible.
    #[error("padding to {pad} bytes: {LEAST_PAD} to {MOST_PAD} are possible")]
    Pad {
        /// What was given, in bytes.
        pad: u32,
    },
    /// Too many flows, or none.
    #[error("{max_flows} flows: 1 to {most} are possible")]
    MaxFlows {
        /// What was given.
        max_flows: u64,
        /// What would do.
        most: u64,
    },
    /// The PING would not be sent in time.
    #[error(
        "a keep-alive time of {keep_alive:?}: it must be above 0 and below the dead-after time of {dead_after:?}"
    )]
    KeepAlive {
        /// [`Config::keep_alive`].
        keep_alive: Duration,
        /// [`Config::dead_after`].
        dead_after: Duration,
    },
    /// The agent text is too long.
    #[error("an agent text of {len} bytes: at most {MAX_AGENT} are possible")]
    Agent {
        /// What was given, in bytes.
        len: usize,
    },
    /// The encoder's parameters cannot work.
    #[error(transparent)]
    Encoder(#[from] oncewire_codec::ConfigError),
}

impl Settings {
    /// The same settings with another session's randomness: see [`Config::random`].
    pub fn with_random(&self, random: [u64; 4]) -> Settings {
        Settings(Config { random, ..self.0.clone() })
    }

    /// The same settings with another number of entropy contexts for each lane.
    ///
    /// # Errors
    /// [`ConfigError::Contexts`].
    pub fn with_contexts(self, contexts: usize) -> Result<Settings, ConfigError> {
        check_contexts(contexts)?;
        Ok(Settings(Config { contexts, ..self.0 }))
    }

    /// The same settings with another size of the content logs, in bytes.
    ///
    /// # Errors
    /// [`ConfigError::Log`].
    pub fn with_log(self, log: u64) -> Result<Settings, ConfigError> {
        check_log(log)?;
        Ok(Settings(Config { log, ..self.0 }))
    }
}

impl std::ops::Deref for Settings {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.0
    }
}

pub(crate) fn check_log(log: u64) -> Result<(), ConfigError> {
    if (SMALLEST_LOG..=LARGEST_LOG).contains(&log) { Ok(()) } else { Err(ConfigError::Log { log }) }
}

fn check_lanes(lanes: usize) -> Result<(), ConfigError> {
    if (1..=MAX_LANES).contains(&lanes) { Ok(()) } else { Err(ConfigError::Lanes { lanes }) }
}

fn check_contexts(contexts: usize) -> Result<(), ConfigError> {
    if (1..=MAX_CONTEXTS).contains(&contexts) {
        Ok(())
    } else {
        Err(ConfigError::Contexts { contexts })
    }
}

impl Config {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ConfigError`] for the first one that cannot work.
    pub fn build(self) -> Result<Settings, ConfigError> {
        check_log(self.log)?;
        check_lanes(self.lanes)?;
        check_contexts(self.contexts)?;
        if self.pad != 0 && !(LEAST_PAD..=MOST_PAD).contains(&self.pad) {
            return Err(ConfigError::Pad { pad: self.pad });
        }
        if self.max_flows == 0 {
            return Err(ConfigError::MaxFlows { max_flows: 0, most: u64::MAX });
        }
        let Config { keep_alive, dead_after, .. } = self;
        if keep_alive.is_zero() || keep_alive >= dead_after {
            return Err(ConfigError::KeepAlive { keep_alive, dead_after });
        }
        let len = self.agent.len();
        if len > MAX_AGENT {
            return Err(ConfigError::Agent { len });
        }
        // What does not depend on the log's size is checked with the smallest one.
        encoder_of(&self.encoder, SMALLEST_LOG, self.contexts).build()?;
        Ok(Settings(self))
    }

    /// Divides `memory` bytes: an eighth for delivery, a sixteenth for sending, at most an eighth
    /// for entropy contexts beyond the first of each lane, what lanes and flows need besides, and the
    /// rest for two content logs as large as fit ([`Config::logs_memory`]). Allows a flow for each [`EARLY_CREDIT`] of half the delivery, and
    /// at most [`MAX_FLOWS`].
    ///
    /// # Errors
    /// [`ConfigError::Lanes`], and [`ConfigError::Memory`] if the smallest logs do not fit.
    pub fn for_memory(
        memory: u64,
        lanes: usize,
        encoder: EncoderBuilder,
    ) -> Result<Config, ConfigError> {
        check_lanes(lanes)?;
        let (delivery, sending) = (memory / 8, memory / 16);
        let rest = memory.saturating_sub(delivery + sending + notes_memory(lanes));
        let most = contexts_within(memory / 8, lanes, &encoder);
        let mut config = Config { lanes, contexts: most, encoder, ..Config::default() };
        // Rather fewer contexts than no log.
        while config.contexts > 1 && rest < config.logs_memory(SMALLEST_LOG) {
            config.contexts -= 1;
        }
        let smallest = config.logs_memory(SMALLEST_LOG);
        if rest < smallest {
            // Thirteen sixteenths remain for logs and notes.
            let least = (notes_memory(lanes) + smallest).saturating_mul(16).div_ceil(13);
            return Err(ConfigError::Memory { memory, least });
        }
        Ok(Config {
            log: config.log_within(rest),
            early: Budget::new(delivery / 2),
            delivery: Budget::new(delivery / 2),
            sending: Budget::new(sending),
            max_flows: (delivery / 2 / EARLY_CREDIT).min(MAX_FLOWS),
            ..config
        })
    }

    /// Most memory, in bytes, that a session with logs of `log` bytes each comes to take for them:
    /// both logs, the fingerprint table, the entropy contexts of all lanes, and with several lanes
    /// the frames that wait for others. The codec is the only source of these numbers.
    pub fn logs_memory(&self, log: u64) -> u64 {
        let contexts = self.lanes * self.contexts;
        let sending = encoder_of(&self.encoder, log, self.contexts).contexts(contexts).memory();
        let receiving = decoder_of(log, self.contexts).contexts(contexts).memory();
        [
            sending.log,
            sending.table,
            sending.domains,
            sending.contexts,
            sending.inside,
            receiving.log,
            receiving.contexts,
            receiving.inside,
        ]
        .into_iter()
        .fold(waiting_memory(log, self.lanes), |sum, part| sum.saturating_add(part as u64))
    }

    /// Least memory of an active session, in bytes: the smallest logs, and buffers.
    pub fn least_memory(&self) -> u64 {
        self.logs_memory(SMALLEST_LOG).saturating_add(512 << 10)
    }

    /// The largest log, [`SMALLEST_LOG`] to [`LARGEST_LOG`] bytes, with which
    /// [`Config::logs_memory`] is at most `memory` bytes; [`SMALLEST_LOG`] if there is none.
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

/// The number of entropy contexts for each lane, 1 to 4, of which those beyond the first take at
/// most `memory` bytes.
fn contexts_within(memory: u64, lanes: usize, encoder: &EncoderBuilder) -> usize {
    let each = (lanes * (encoder.context_memory() + Decoder::builder().context_memory())) as u64;
    (2..=4).rev().find(|&contexts| (contexts as u64 - 1) * each <= memory).unwrap_or(1)
}

/// Smallest log, in bytes, of a session that looks inside deflate streams: it takes some megabytes
/// whatever the log's size.
const LEAST_INSIDE: u64 = 32 << 20;

/// The encoder of a session with a log of `log` bytes: the template, and what the protocol
/// prescribes.
///
/// Each lane has `contexts` entropy contexts.
pub(crate) fn encoder_of(template: &EncoderBuilder, log: u64, contexts: usize) -> EncoderBuilder {
    template
        .clone()
        .inside(template.looks_inside() && log >= LEAST_INSIDE)
        .cache(log)
        .span(log / 4)
        .max_block(DEFAULT_BLOCK)
        .contexts(MAX_LANES * contexts)
        // A session's decoder keeps everything, and the matcher does not learn what was
        // acknowledged.
        .policy(CachePolicy::All)
        .search(MaxMatchSearch)
}

/// The decoder of a session with a log of `log` bytes, with `contexts` entropy contexts for each
/// lane.
pub(crate) fn decoder_of(log: u64, contexts: usize) -> DecoderBuilder {
    Decoder::builder()
        .inside(log >= LEAST_INSIDE)
        .cache(log)
        .span(log / 4)
        .contexts(MAX_LANES * contexts)
}

/// Most bytes of frames that wait on some lanes for content of others: a span of content, which
/// encoding may enlarge a little.
pub(crate) fn waiting_memory(log: u64, lanes: usize) -> u64 {
    if lanes > 1 { log / 4 + log / 32 } else { 0 }
}

/// Bytes that a session takes besides logs, tables, contexts and queues: working buffers of both
/// directions, input of the lanes, bookkeeping of messages and flows.
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
            contexts: 4,
            pad: 0,
            opening: Opening::default(),
            hurries: false,
            encoder: EncoderBuilder::default(),
            cpu_budget: None,
            keep_alive: Duration::from_secs(10),
            dead_after: Duration::from_secs(25),
            grace: Duration::from_secs(60),
            ack_delay: Duration::from_millis(20),
            random: [0; 4],
            agent: concat!("oncewire ", env!("CARGO_PKG_VERSION")).into(),
            store: None,
            stored: 0,
            store_for: StoreFor::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_codec::Sharing;
    use oncewire_codec::table::COMPACT_LIMIT;
    use oncewire_family::SamplerKind;

    #[test]
    fn the_parts_fit_the_memory_and_use_it_up() {
        for lanes in [1, 2, 8] {
            for (name, period) in [
                ("samplehash", 32),
                ("samplehash", 4),
                ("samplebyte", 8),
                ("fastcdc", 1024),
                ("maxp", 64),
            ] {
                let sharing = if lanes == 1 { Sharing::All } else { Sharing::None };
                let encoder = EncoderBuilder::default()
                    .sampler(SamplerKind::named(name).unwrap())
                    .sharing(sharing)
                    .period(period);
                for memory in [96u64 << 20, 512 << 20, 2_300 << 20, 2_600 << 20, 8 << 30] {
                    let config = Config::for_memory(memory, lanes, encoder.clone()).unwrap();
                    // What is allocated, which costs address space only. Of the contexts, a session
                    // uses those of its lanes.
                    let sender = encoder_of(&config.encoder, config.log, config.contexts)
                        .build()
                        .unwrap()
                        .memory();
                    // Notes on domains are allocated as they grow.
                    let promised =
                        encoder_of(&config.encoder, config.log, config.contexts).memory();
                    let receiver =
                        decoder_of(config.log, config.contexts).build().unwrap().memory();
                    let receiving = decoder_of(config.log, config.contexts)
                        .contexts(lanes * config.contexts)
                        .memory();
                    let contexts = lanes
                        * config.contexts
                        * (config.encoder.context_memory() + Decoder::builder().context_memory());
                    let sum = (sender.log
                        + sender.table
                        + promised.domains
                        + promised.inside
                        + receiver.log
                        + receiving.inside
                        + contexts) as u64
                        + waiting_memory(config.log, lanes)
                        + config.early.available()
                        + config.delivery.available()
                        + config.sending.available()
                        + notes_memory(lanes);
                    let what = format!(
                        "{name}, period {period}, {lanes} lanes: {sum} of {memory}, logs of {}",
                        config.log
                    );
                    assert!(sum <= memory, "{what}");
                    // Nothing is left over, unless a log above 1 GiB would need a table of twice
                    // the size, or one that looks inside compressed content would need more.
                    let next = config.log + 1;
                    let is_at_a_step = config.log == COMPACT_LIMIT || next == LEAST_INSIDE;
                    assert!(memory - sum < 100 || is_at_a_step, "{what}");
                }
                let config = |memory| Config::for_memory(memory, lanes, encoder.clone());
                let least = |memory| match config(memory).unwrap_err() {
                    ConfigError::Memory { least, .. } => least,
                    other => panic!("{other}"),
                };
                let enough = least(1 << 20);
                assert!(config(enough).unwrap().log < SMALLEST_LOG + 10);
                assert_eq!(least(enough - 9), enough);
            }
        }
    }

    #[test]
    fn log_within_finds_the_largest_log_for_any_memory() {
        let config = Config { encoder: EncoderBuilder::default().period(4), ..Config::default() };
        for memory in [0, 5 << 20, 6 << 20, 100 << 20, 3 << 30, u64::MAX] {
            let log = config.log_within(memory);
            assert!((SMALLEST_LOG..=LARGEST_LOG).contains(&log));
            assert!(log == SMALLEST_LOG || config.logs_memory(log) <= memory);
            assert!(
                log == LARGEST_LOG || config.logs_memory(log + 1) > memory,
                "{log} of {memory}"
            );
        }
    }

    #[test]
    fn notes_memory_is_enough_for_the_buffers() {
        let (sender, receiver) = (EncoderBuilder::default().memory(), Decoder::builder().memory());
        assert!(
            (sender.buffers + receiver.buffers) as u64 <= notes_memory(0) + (2 << 20),
            "{sender:?}, {receiver:?}"
        );
    }

    #[test]
    fn defaults_fit_and_each_value_out_of_range_is_named() {
        let config = Config::default;
        config().build().unwrap();
        let seconds = Duration::from_secs;
        for (config, expected) in [
            (
                Config { log: SMALLEST_LOG - 1, ..config() },
                "a content log of 1048575 bytes: 1048576 to 68719476736 are possible",
            ),
            (
                Config { log: LARGEST_LOG + 1, ..config() },
                "a content log of 68719476737 bytes: 1048576 to 68719476736 are possible",
            ),
            (Config { lanes: 0, ..config() }, "0 lanes: 1 to 8 are possible"),
            (Config { lanes: 9, ..config() }, "9 lanes: 1 to 8 are possible"),
            (Config { contexts: 0, ..config() }, "0 entropy contexts: 1 to 32 are possible"),
            (Config { contexts: 33, ..config() }, "33 entropy contexts: 1 to 32 are possible"),
            (
                Config { max_flows: 0, ..config() },
                "0 flows: 1 to 18446744073709551615 are possible",
            ),
            (
                Config { keep_alive: seconds(25), ..config() },
                "a keep-alive time of 25s: it must be above 0 and below the dead-after time of 25s",
            ),
            (
                Config { keep_alive: seconds(0), ..config() },
                "a keep-alive time of 0ns: it must be above 0 and below the dead-after time of 25s",
            ),
            (
                Config { agent: "x".repeat(65), ..config() },
                "an agent text of 65 bytes: at most 64 are possible",
            ),
        ] {
            assert_eq!(config.build().unwrap_err().to_string(), expected);
        }
        let encoder = EncoderBuilder::default().period(3);
        assert!(matches!(Config { encoder, ..config() }.build(), Err(ConfigError::Encoder(_))));
        assert!(matches!(
            Config::for_memory(1 << 30, 9, EncoderBuilder::default()),
            Err(ConfigError::Lanes { lanes: 9 })
        ));
        let settings = config().build().unwrap().with_random([1, 2, 3, 4]);
        assert_eq!(
            (settings.random, settings.clone().with_log(SMALLEST_LOG).unwrap().log),
            ([1, 2, 3, 4], SMALLEST_LOG)
        );
        assert!(matches!(settings.with_log(0), Err(ConfigError::Log { log: 0 })));
    }
}
