//! Hop-by-hop elimination link by link: what each pair of encoder and decoder does, and how much a
//! selection of them saves within a budget.

use microlp::{ComparisonOp, OptimizationDirection, Problem};

use super::{Comparison, OnLink, Scheme, devices_of_links, link_by_link, matches_on_links};
use crate::{
    Error, Instance, LinkId,
    cost::{Cost, Work},
    error::SolverError,
};

/// The encoder and the decoder of hop-by-hop elimination that share a device's numbers, per epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    /// V: bytes that pass.
    pub bytes: f64,
    /// N: packets that pass.
    pub packets: f64,
    /// m: matches between paths that use the same link.
    pub matches: f64,
    /// Bytes of those matches, on links that count.
    pub matched: f64,
    /// M: memory of either end.
    pub memory: f64,
    /// Packets that the encoder can fingerprint.
    pub encodings: f64,
    /// Operations that the decoder can do.
    pub operations: f64,
}

impl Pair {
    /// e: share of the packets that the encoder fingerprints.
    pub fn encoded(&self) -> f64 {
        if self.packets > 0.0 { (self.encodings / self.packets).min(1.0) } else { 0.0 }
    }

    /// s: share of the packets that both ends store.
    pub fn stored(&self) -> f64 {
        if self.packets == 0.0 {
            return 0.0;
        }
        let encoded = self.encoded();
        // Only fingerprinted packets can be found again, so only they are stored.
        encoded
            .min(self.memory / self.bytes)
            .min(self.operations / (self.packets + encoded * self.matches))
    }

    /// Share of the matched bytes that is removed.
    pub fn removed(&self) -> f64 {
        self.encoded() * self.stored()
    }

    /// Bytes times links that it saves.
    pub fn saved(&self) -> f64 {
        self.removed() * self.matched
    }

    /// What it takes: an encoder and a decoder, the bytes that both hold, packets fingerprinted and
    /// stored, and matches decoded. Nothing where it saves nothing: there it would not be built.
    pub fn cost(&self) -> Cost {
        let (encoded, stored) = (self.encoded(), self.stored());
        if self.saved() == 0.0 {
            return Cost::default();
        }
        Cost {
            encoders: 1,
            decoders: 1,
            bought: 2.0 * self.memory,
            work: Work {
                memory: 2.0 * stored * self.bytes,
                operations: (encoded + stored) * self.packets + encoded * stored * self.matches,
            },
        }
    }

    /// The same with this many times the traffic.
    pub fn with_load(self, factor: f64) -> Self {
        Self {
            bytes: self.bytes * factor,
            packets: self.packets * factor,
            matches: self.matches * factor,
            matched: self.matched * factor,
            ..self
        }
    }
}

/// Hop-by-hop elimination on a network: a pair of encoder and decoder for each device.
#[derive(Clone, Debug, PartialEq)]
pub struct HopByHop {
    /// In the order of [`Instance::devices`].
    pub pairs: Vec<Pair>,
}

impl HopByHop {
    /// Of an instance, with the limits of its devices: an encoder at the tail of each link and a
    /// decoder at its head, both with the device's memory. A device that serves a router has one
    /// memory, one encoder's work and one decoder's for all links that enter it.
    pub fn new(instance: &Instance) -> Self {
        Self::and_comparison(instance, &matches_on_links(instance)).0
    }

    /// The same, and its outcome on each link.
    pub(super) fn and_comparison(
        instance: &Instance,
        on_links: &[Vec<OnLink>],
    ) -> (Self, Comparison) {
        let of_link = devices_of_links(instance);
        let mut pairs: Vec<Pair> = instance
            .devices
            .iter()
            .map(|device| Pair {
                memory: device.memory,
                encodings: device.encodings,
                operations: device.operations,
                ..Pair::default()
            })
            .collect();
        for (volume, device) in instance.link_volumes().into_iter().zip(&of_link) {
            if let Some(device) = device {
                pairs[device.index()].bytes += volume;
            }
        }
        for pair in &mut pairs {
            pair.packets = pair.bytes / instance.packet.0;
        }
        for on_link in on_links.iter().flatten() {
            if let Some(device) = of_link[on_link.link] {
                let pair = &mut pairs[device.index()];
                pair.matches += on_link.matches;
                pair.matched += if instance.counted[on_link.link] { on_link.bytes } else { 0.0 };
            }
        }
        let removed =
            |link: LinkId| of_link[link].map_or(0.0, |device| pairs[device.index()].removed());
        let mut comparison = link_by_link(instance, Scheme::HopByHop, on_links, removed);
        let cost = pairs.iter().map(Pair::cost).sum();
        comparison.cost = Some(cost);
        (Self { pairs }, comparison)
    }

    /// Bytes times links saved.
    pub fn saved(&self) -> f64 {
        self.pairs.iter().map(Pair::saved).sum()
    }

    /// Share of the packets, of all that pass devices, that encoders fingerprint.
    pub fn encoded(&self) -> f64 {
        let packets: f64 = self.pairs.iter().map(|pair| pair.packets).sum();
        let encoded: f64 = self.pairs.iter().map(|pair| pair.encoded() * pair.packets).sum();
        if packets > 0.0 { encoded / packets } else { 1.0 }
    }

    /// The same with this many times the traffic.
    pub fn with_load(&self, factor: f64) -> Self {
        Self { pairs: self.pairs.iter().map(|pair| pair.with_load(factor)).collect() }
    }

    /// The most that a selection of the pairs saves within a budget. A pair may store less than it
    /// could: what it saves and takes then falls in proportion.
    ///
    /// This is a knapsack with a row per limit. Its relaxation gives the bound and, as a vertex has
    /// no more fractions than rows, all pairs but a few; those get what is left.
    ///
    /// # Errors
    /// The solver fails.
    pub fn within(&self, budget: &Budget) -> Result<Within, Error> {
        let useful: Vec<(f64, Cost)> = self
            .pairs
            .iter()
            .map(|pair| (pair.saved(), pair.cost()))
            .filter(|(saved, _)| *saved > 0.0)
            .collect();
        let rows: Vec<(f64, Vec<f64>)> = [
            (budget.devices.map(|limit| limit as f64), 0),
            (budget.memory, 1),
            (budget.operations, 2),
        ]
        .into_iter()
        .filter_map(|(limit, which)| {
            let uses = useful.iter().map(|(_, cost)| measures(cost)[which]).collect();
            Some((limit?, uses))
        })
        .filter(|(limit, uses): &(f64, Vec<f64>)| uses.iter().sum::<f64>() > *limit)
        .collect();
        if rows.is_empty() {
            let saved = useful.iter().map(|(saved, _)| saved).sum();
            let cost = useful.iter().map(|(_, cost)| *cost).sum();
            return Ok(Within { saved, bound: saved, cost });
        }
        let largest = useful.iter().map(|(saved, _)| *saved).fold(0.0, f64::max);
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let chosen: Vec<_> =
            useful.iter().map(|(saved, _)| problem.add_var(saved / largest, (0.0, 1.0))).collect();
        for (limit, uses) in &rows {
            // Scaled to right-hand sides of 1; a limit of 0 leaves nothing.
            if *limit <= 0.0 {
                return Ok(Within::default());
            }
            let terms = chosen.iter().zip(uses).map(|(&variable, used)| (variable, used / limit));
            problem.add_constraint(terms, ComparisonOp::Le, 1.0);
        }
        let failed = |reason: String| {
            Error::from(SolverError::Failed { method: "hop-by-hop within a budget", reason })
        };
        let solution = problem
            .solve()
            .map_err(|error| failed(error.to_string()))?
            .into_solution()
            .map_err(|error| failed(format!("{error:?}")))?;
        let bound = solution.objective() * largest;
        let mut left: Vec<f64> = rows.iter().map(|(limit, _)| *limit).collect();
        let devices = budget.devices.map(|limit| limit as f64);
        let mut pairs_left = devices.map_or(f64::INFINITY, |devices| (devices / 2.0).floor());
        let mut order: Vec<usize> = (0..useful.len()).collect();
        // Whole pairs first, then fractions, then the rest, each by what it saves.
        let key = |at: usize| {
            let share = solution.var_value(chosen[at]);
            if share > 1.0 - 1e-9 { 2 } else { u8::from(share > 1e-9) }
        };
        order.sort_by(|&a, &b| {
            key(b).cmp(&key(a)).then(useful[b].0.total_cmp(&useful[a].0)).then(a.cmp(&b))
        });
        let (mut saved, mut cost) = (0.0, Cost::default());
        for at in order {
            if pairs_left < 1.0 {
                break;
            }
            // A pair takes two devices whole, whatever it stores.
            let share = rows
                .iter()
                .zip(&left)
                .filter(|((_, uses), _)| !is_devices(uses))
                .map(|((_, uses), left)| left.max(0.0) / uses[at])
                .fold(1.0, f64::min);
            if share <= 1e-9 {
                continue;
            }
            for ((_, uses), left) in rows.iter().zip(&mut left) {
                *left -= share * uses[at];
            }
            pairs_left -= 1.0;
            saved += share * useful[at].0;
            cost = cost + useful[at].1.with_work(share);
        }
        Ok(Within { saved: saved.min(bound), bound, cost })
    }
}

/// Devices, memory and operations.
fn measures(cost: &Cost) -> [f64; 3] {
    [cost.devices() as f64, cost.work.memory, cost.work.operations]
}

/// Whether a row counts devices: a pair has two.
fn is_devices(uses: &[f64]) -> bool {
    uses.iter().all(|&used| used == 2.0)
}

/// Limits on what a scheme may take; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Encoders and decoders.
    pub devices: Option<usize>,
    /// Bytes that they hold.
    pub memory: Option<f64>,
    /// Operations per epoch: packets fingerprinted and cached, matches decoded.
    pub operations: Option<f64>,
}

/// The most that is saved within a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Within {
    /// By the selection that was found, in bytes times links per epoch.
    pub saved: f64,
    /// No selection saves more.
    pub bound: f64,
    /// What that selection takes.
    pub cost: Cost,
}
