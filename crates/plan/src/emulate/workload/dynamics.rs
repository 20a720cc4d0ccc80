//! Changes while a workload runs.

use oncewire_kernels::random::normal;

use crate::{Error, Instance, NodeId, Seconds, error::EmulationError};

/// Changes while a workload runs; none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dynamics {
    /// Sudden changes (thesis, section 3.5, "Flash-crowd scenarios").
    pub crowds: Vec<Crowd>,
    /// Slow change of volumes and profile (thesis, section 3.5, "Effect of Stale Redundancy
    /// Profiles").
    pub drift: Option<Drift>,
}

/// A flash crowd.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    /// Ingress node; `None` for all.
    pub ingress: Option<NodeId>,
    /// When it begins, from the beginning of the run.
    pub from: Seconds,
    /// When it ends; may be infinite.
    pub until: Seconds,
    /// Factor on volumes. Factors of simultaneous crowds multiply.
    pub volume: f64,
    /// Factor on matches per byte: 2 raises gamma from 25 to 50 %.
    pub redundancy: f64,
}

/// Slow random change: each path's volume and its weight as the older side of matches are
/// multiplied by exp(s z(t) - s^2/2), which has mean 1, where z(t) = cos(a) z_k + sin(a) z_(k+1)
/// moves between independent standard normal numbers from one multiple k of `time` to the next (a
/// goes from 0 to a right angle).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Decorrelation time; at least an epoch.
    pub time: Seconds,
    /// s of the volumes.
    pub volume: f64,
    /// s of the weights of matches.
    pub matches: f64,
}

impl Dynamics {
    pub(crate) fn check(&self, instance: &Instance) -> Result<(), Error> {
        let wrong =
            |what: &str, value: f64, range| Err(EmulationError::setting(what, value, range).into());
        if self.crowds.len() > MAX_CROWDS {
            return wrong("the number of flash crowds", self.crowds.len() as f64, "at most 1024");
        }
        for crowd in &self.crowds {
            if let Some(node) = crowd.ingress
                && !instance.ingresses.iter().any(|ingress| ingress.node == node)
            {
                let node = instance.network.nodes.get(node.index()).map_or("?", |node| &node.id);
                return Err(
                    EmulationError::NoIngress { what: "a flash crowd", node: node.into() }.into()
                );
            }
            for (what, factor) in [
                ("the volume of a flash crowd", crowd.volume),
                ("the redundancy of a flash crowd", crowd.redundancy),
            ] {
                if !(factor >= 0.0 && factor.is_finite()) {
                    return wrong(what, factor, "a factor of 0 or more");
                }
            }
            if crowd.from.0.is_nan() || crowd.from.0 < 0.0 {
                return wrong("the start of a flash crowd in s", crowd.from.0, "at least 0");
            }
            if crowd.until.0.is_nan() || crowd.until < crowd.from {
                return wrong(
                    "the end of a flash crowd in s",
                    crowd.until.0,
                    "not before its start",
                );
            }
        }
        if let Some(drift) = self.drift {
            if !(drift.time >= instance.epoch && drift.time.0.is_finite()) {
                return wrong("the decorrelation time in s", drift.time.0, "at least an epoch");
            }
            for (what, spread) in
                [("the spread of volumes", drift.volume), ("the spread of matches", drift.matches)]
            {
                if !(0.0..=MAX_SPREAD).contains(&spread) {
                    return wrong(what, spread, "from 0 to 3");
                }
            }
        }
        Ok(())
    }

    /// (volume, matches per byte) of an ingress node at `time` seconds, as multiples of what the
    /// instance says; without drift.
    pub(crate) fn crowd(&self, node: NodeId, time: f64) -> (f64, f64) {
        let now = |crowd: &&Crowd| {
            crowd.ingress.is_none_or(|ingress| ingress == node)
                && crowd.from.0 <= time
                && time < crowd.until.0
        };
        self.crowds.iter().filter(now).fold((1.0, 1.0), |(volume, matches), crowd| {
            (volume * crowd.volume, matches * crowd.redundancy)
        })
    }

    /// (volume, weight in matches) of a path at `time` seconds, as multiples.
    pub(crate) fn drift(&self, seed: u64, path: u32, time: f64) -> (f64, f64) {
        let Some(drift) = self.drift else { return (1.0, 1.0) };
        let at = time / drift.time.0;
        let (step, angle) = (at.floor() as u64, at.fract() * std::f64::consts::FRAC_PI_2);
        let factor = |spread: f64, stream: u64| {
            if spread == 0.0 {
                return 1.0;
            }
            let z = angle.cos() * normal(seed, stream, step)
                + angle.sin() * normal(seed, stream, step + 1);
            (spread * z - spread * spread / 2.0).exp()
        };
        (factor(drift.volume, u64::from(path) * 2), factor(drift.matches, u64::from(path) * 2 + 1))
    }
}

/// Largest s of a drift. Beyond it, the mean comes from values too rare to occur in a run.
const MAX_SPREAD: f64 = 3.0;
/// Most flash crowds. Each packet checks all of them.
const MAX_CROWDS: usize = 1024;
