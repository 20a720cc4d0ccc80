//! One direction as a model: when each packet arrives, or why it is lost.

use super::config::{DirectionConfig, bytes_in};
use super::gso::Run;
use crate::content::Rng;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Limit of the bytes held by one direction, whatever its parameters: 512 MiB.
pub const MAX_HELD_BYTES: usize = 512 << 20;
/// Limit of the packets held by one direction.
const MAX_HELD_PACKETS: usize = 1 << 20;
/// Longest run of segments that moves as one, in time at the rate.
const RUN_TIME: Duration = Duration::from_millis(1);

/// Counters of one direction. Segments of a run count as packets; bytes are those of whole IP
/// packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// Packets that entered: delivered, dropped or in flight.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that passed the queue, whether or not they were lost afterwards.
    pub wire_packets: u64,
    /// Their bytes.
    pub wire_bytes: u64,
    /// Packets delivered.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets lost at random or in a burst.
    pub dropped_loss: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets dropped because the path was cut.
    pub dropped_cut: u64,
    /// Packets held back.
    pub reordered: u64,
}

/// Counters of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// From A to B.
    pub a_to_b: DirectionStats,
    /// From B to A.
    pub b_to_a: DirectionStats,
}

/// Time that `bytes` take at a rate.
fn time_for(bytes: usize, rate_bps: u64) -> Duration {
    Duration::from_nanos((bytes as u128 * 8_000_000_000 / u128::from(rate_bps.max(1))) as u64)
}

/// A packet or a run of packets in flight.
pub(super) struct Held {
    pub(super) due: Instant,
    pub(super) buffer: Vec<u8>,
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// The model of one direction: a queue, a rate, losses and a delay. It has no clock and no device.
pub(super) struct Wire {
    pub(super) config: DirectionConfig,
    pub(super) round_trip: Duration,
    rng: Rng,
    /// Whether the Gilbert-Elliott model is in its bad state.
    bad: bool,
    pub(super) cut: bool,
    pub(super) stopping: bool,
    /// When the last accepted packet has been serialized.
    free_at: Instant,
    /// In the order of `due`.
    pub(super) held: VecDeque<Held>,
    pub(super) held_bytes: usize,
    pub(super) stats: DirectionStats,
}

impl Wire {
    pub(super) fn new(config: DirectionConfig, round_trip: Duration, seed: u64) -> Wire {
        Wire {
            config,
            round_trip,
            rng: Rng::new(seed),
            bad: false,
            cut: false,
            stopping: false,
            free_at: Instant::now(),
            held: VecDeque::new(),
            held_bytes: 0,
            stats: DirectionStats::default(),
        }
    }

    fn queue_bytes(&self, rate: u64) -> usize {
        self.config.queue_bytes.unwrap_or_else(|| {
            (bytes_in(rate, self.round_trip) as usize).clamp(64 << 10, MAX_HELD_BYTES)
        })
    }

    fn lost(&mut self) -> bool {
        let Some(bursts) = self.config.bursts else { return self.rng.chance(self.config.loss) };
        self.bad =
            if self.bad { !self.rng.chance(bursts.leave) } else { self.rng.chance(bursts.enter) };
        self.rng.chance(if self.bad { bursts.loss } else { self.config.loss })
    }

    /// Accepts a buffer that left the sender at `now`.
    pub(super) fn accept(&mut self, buffer: &[u8], now: Instant) {
        let run = Run::of(buffer);
        let count = run.segments();
        let all = run.wire_bytes(0, count);
        self.stats.sent_packets += count as u64;
        self.stats.sent_bytes += all as u64;
        if self.cut {
            self.stats.dropped_cut += count as u64;
            return;
        }
        // The first segment of the run that is being collected.
        let mut from = 0;
        for at in 0..count {
            let bytes = run.wire_bytes(at, at + 1);
            let full = match self.config.rate_bps {
                // The queue holds what has been accepted and not yet serialized.
                Some(rate) => {
                    bytes_in(rate, self.free_at.saturating_duration_since(now)) as usize + bytes
                        > self.queue_bytes(rate)
                }
                None => false,
            } || self.held_bytes + all > MAX_HELD_BYTES
                || self.held.len() >= MAX_HELD_PACKETS;
            if full {
                self.hold(buffer, &run, from, at);
                self.stats.dropped_queue += 1;
                from = at + 1;
                continue;
            }
            self.stats.wire_packets += 1;
            self.stats.wire_bytes += bytes as u64;
            let start = self.free_at.max(now);
            self.free_at = match self.config.rate_bps {
                Some(rate) => start + time_for(bytes, rate),
                None => start.max(now),
            };
            if self.lost() {
                self.hold_until(buffer, &run, from, at, start);
                self.stats.dropped_loss += 1;
                from = at + 1;
            } else if self.rng.chance(self.config.reorder) {
                self.hold_until(buffer, &run, from, at, start);
                let late = self.free_at + self.config.reorder_by;
                self.hold_until(buffer, &run, at, at + 1, late);
                self.stats.reordered += 1;
                from = at + 1;
            } else if let Some(rate) = self.config.rate_bps
                && time_for(run.wire_bytes(from, at + 1), rate) >= RUN_TIME
            {
                self.hold(buffer, &run, from, at + 1);
                from = at + 1;
            }
        }
        self.hold(buffer, &run, from, count);
    }

    fn hold(&mut self, buffer: &[u8], run: &Run, from: usize, to: usize) {
        self.hold_until(buffer, run, from, to, self.free_at);
    }

    /// Holds segments `from..to`, whose last bit leaves at `sent`, until the delay has passed.
    fn hold_until(&mut self, buffer: &[u8], run: &Run, from: usize, to: usize, sent: Instant) {
        if from >= to {
            return;
        }
        let cut = run.cut(buffer, from, to);
        let due = sent + self.config.delay;
        self.held_bytes += cut.len();
        let held = Held {
            due,
            buffer: cut,
            packets: (to - from) as u64,
            bytes: run.wire_bytes(from, to) as u64,
        };
        // Almost always at the end.
        let mut at = self.held.len();
        while at > 0 && self.held[at - 1].due > due {
            at -= 1;
        }
        self.held.insert(at, held);
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Bursts;
    use super::super::gso;
    use super::*;

    fn wire(config: DirectionConfig) -> Wire {
        Wire::new(config, Duration::from_millis(100), 1)
    }

    fn packet(len: usize) -> Vec<u8> {
        vec![0; gso::HEADER + len]
    }

    #[test]
    fn a_packet_leaves_when_the_one_before_has_been_serialized() {
        let delay = Duration::from_millis(50);
        let mut wire = wire(DirectionConfig {
            delay,
            rate_bps: Some(8_000_000),
            ..DirectionConfig::default()
        });
        let now = wire.free_at;
        wire.accept(&packet(1000), now);
        wire.accept(&packet(500), now);
        let due: Vec<Duration> = wire.held.iter().map(|held| held.due - now).collect();
        assert_eq!(due, [delay + Duration::from_millis(1), delay + Duration::from_micros(1500)]);
    }

    #[test]
    fn a_full_queue_drops_at_the_tail() {
        let config = DirectionConfig {
            rate_bps: Some(8_000_000),
            queue_bytes: Some(10_000),
            ..DirectionConfig::default()
        };
        let mut wire = wire(config);
        let now = wire.free_at;
        for _ in 0..15 {
            wire.accept(&packet(1000), now);
        }
        assert_eq!((wire.stats.wire_packets, wire.stats.dropped_queue), (10, 5));
        wire.accept(&packet(1000), now + Duration::from_millis(1));
        assert_eq!(wire.stats.wire_packets, 11);
    }

    #[test]
    fn bursts_lose_what_their_chain_says() {
        let bursts = Bursts { enter: 0.01, leave: 0.1, loss: 1.0 };
        let mut wire = wire(DirectionConfig { bursts: Some(bursts), ..DirectionConfig::default() });
        let now = wire.free_at;
        for _ in 0..100_000 {
            wire.accept(&packet(1), now);
        }
        // 0.01 / (0.01 + 0.1) of the time in the bad state.
        assert!((7_500..10_800).contains(&wire.stats.dropped_loss), "{:?}", wire.stats);
    }

    #[test]
    fn a_packet_held_back_is_overtaken() {
        let mut wire = wire(DirectionConfig { reorder: 0.5, ..DirectionConfig::default() });
        let now = wire.free_at;
        for len in 1..100 {
            wire.accept(&packet(len), now + Duration::from_micros(len as u64));
        }
        let order: Vec<u64> = wire.held.iter().map(|held| held.bytes).collect();
        assert!(!order.is_sorted());
        assert!(wire.held.iter().map(|held| held.due).is_sorted());
        assert_eq!(order.len(), 99);
        assert!((30..70).contains(&wire.stats.reordered));
    }
}
