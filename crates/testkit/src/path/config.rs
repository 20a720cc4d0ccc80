//! Parameters of a path and of its directions.

use super::PathError;
use std::time::Duration;

/// A direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the namespace A to B.
    AToB,
    /// From B to A.
    BToA,
}

/// Losses in bursts: the Gilbert-Elliott model. In the good state the loss of
/// [`DirectionConfig::loss`] applies, in the bad state that of `loss`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Probability per packet to enter the bad state, 0..=1.
    pub enter: f64,
    /// Probability per packet to leave it, 0..=1. A burst lasts `1 / leave` packets on average.
    pub leave: f64,
    /// Probability that a packet is lost in the bad state, 0..=1.
    pub loss: f64,
}

/// The parameters of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionConfig {
    /// Propagation delay, without queueing and serialization. At most 60 s.
    pub delay: Duration,
    /// Bits per second of IP packets, at least 1,000. `None` is unlimited.
    pub rate_bps: Option<u64>,
    /// Probability that a packet is lost, 0..=1, independent of other packets.
    pub loss: f64,
    /// Losses in bursts, in addition to `loss`.
    pub bursts: Option<Bursts>,
    /// Probability that a packet is held back for `reorder_by`, 0..=1, so that later packets
    /// overtake it.
    pub reorder: f64,
    /// How long a packet is held back. At most 60 s.
    pub reorder_by: Duration,
    /// Limit of the queue in bytes; packets beyond it are dropped (tail drop). `None` is one round
    /// trip at the rate, but at least 64 KiB. Without a rate there is no queue.
    pub queue_bytes: Option<usize>,
}

impl Default for DirectionConfig {
    fn default() -> DirectionConfig {
        DirectionConfig {
            delay: Duration::ZERO,
            rate_bps: None,
            loss: 0.0,
            bursts: None,
            reorder: 0.0,
            reorder_by: Duration::from_millis(5),
            queue_bytes: None,
        }
    }
}

impl DirectionConfig {
    pub(super) fn check(&self) -> Result<(), PathError> {
        let probability = |name, p: f64| match (0.0..=1.0).contains(&p) {
            true => Ok(()),
            false => Err(PathError::Parameter {
                name,
                value: p.to_string(),
                must: "a probability, 0 to 1",
            }),
        };
        probability("loss", self.loss)?;
        probability("reorder", self.reorder)?;
        if let Some(bursts) = self.bursts {
            probability("bursts.enter", bursts.enter)?;
            probability("bursts.leave", bursts.leave)?;
            probability("bursts.loss", bursts.loss)?;
        }
        for (name, time) in [("delay", self.delay), ("reorder_by", self.reorder_by)] {
            if time > Duration::from_secs(60) {
                return Err(PathError::Parameter {
                    name,
                    value: format!("{time:?}"),
                    must: "at most 60 s",
                });
            }
        }
        match self.rate_bps {
            Some(rate) if rate < 1000 => Err(PathError::Parameter {
                name: "rate_bps",
                value: rate.to_string(),
                must: "at least 1000",
            }),
            _ => Ok(()),
        }
    }
}

/// The parameters of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// From A to B.
    pub a_to_b: DirectionConfig,
    /// From B to A.
    pub b_to_a: DirectionConfig,
    /// Seed of losses and reordering: the same packets in the same order are lost or reordered
    /// again.
    pub seed: u64,
    /// Largest IP packet in bytes, 1,280..=65,535.
    pub mtu: u16,
    /// Whether the kernel passes runs of segments (GSO), which costs far less CPU than single
    /// packets.
    pub offload: bool,
    /// Largest TCP socket buffer in both namespaces, in bytes. `None` keeps Linux's default of 4 to
    /// 6 MB, which is too small for 200 ms at 1 Gbit/s: TCP needs twice the bandwidth-delay
    /// product.
    pub tcp_buffer_max: Option<u64>,
}

impl Default for PathConfig {
    fn default() -> PathConfig {
        PathConfig {
            a_to_b: DirectionConfig::default(),
            b_to_a: DirectionConfig::default(),
            seed: 1,
            mtu: 1500,
            offload: true,
            tcp_buffer_max: None,
        }
    }
}

impl PathConfig {
    /// The same one-way delay and rate in both directions, no loss, an MTU of 1,500, and TCP
    /// buffers large enough to fill the path.
    pub fn symmetric(delay: Duration, rate_bps: Option<u64>) -> PathConfig {
        let direction = DirectionConfig { delay, rate_bps, ..DirectionConfig::default() };
        let bdp = bytes_in(rate_bps.unwrap_or(10_000_000_000), delay * 2).min(256 << 20);
        PathConfig {
            a_to_b: direction.clone(),
            b_to_a: direction,
            tcp_buffer_max: Some((bdp * 3).max(8 << 20)),
            ..PathConfig::default()
        }
    }

    /// Sets the loss of both directions.
    pub fn loss(mut self, probability: f64) -> PathConfig {
        self.a_to_b.loss = probability;
        self.b_to_a.loss = probability;
        self
    }

    /// Sets the queue limit of both directions, in bytes.
    pub fn queue(mut self, bytes: usize) -> PathConfig {
        self.a_to_b.queue_bytes = Some(bytes);
        self.b_to_a.queue_bytes = Some(bytes);
        self
    }
}

/// Bytes that a rate carries in `time`.
pub(super) fn bytes_in(rate_bps: u64, time: Duration) -> u64 {
    (u128::from(rate_bps) * time.as_nanos() / 8_000_000_000) as u64
}
