//! Changes while a workload runs.

use oncewire_kernels::random::normal;

use crate::{Error, Instance, NodeId};

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
    /// When it begins, in seconds from the beginning of the run.
    pub from: f64,
    /// When it ends, in seconds; may be infinite.
    pub until: f64,
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
    /// Decorrelation time in seconds; at least an epoch.
    pub time: f64,
    /// s of the volumes.
    pub volume: f64,
    /// s of the weights of matches.
    pub matches: f64,
}

impl Dynamics {
    pub(crate) fn check(&self, instance: &Instance) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::emulation(what));
        if self.crowds.len() > MAX_CROWDS {
            return wrong(format!(
                "{} flash crowds; there are at most {MAX_CROWDS}",
                self.crowds.len()
            ));
        }
        for crowd in &self.crowds {
            if let Some(node) = crowd.ingress
                && !instance.ingresses.iter().any(|ingress| ingress.node == node)
            {
                return wrong(format!("a flash crowd enters at node {node}, where nothing enters"));
            }
            let factor = |value: f64| value >= 0.0 && value.is_finite();
            if !factor(crowd.volume) || !factor(crowd.redundancy) {
                return wrong(format!(
                    "a flash crowd with {} times the volume and {} times the matches; factors are 0 or more",
                    crowd.volume, crowd.redundancy
                ));
            }
            if !(crowd.from >= 0.0 && crowd.until >= crowd.from) {
                return wrong(format!("a flash crowd from {} s to {} s", crowd.from, crowd.until));
            }
        }
        if let Some(drift) = self.drift {
            let spread = |value: f64| (0.0..=MAX_SPREAD).contains(&value);
            if !(drift.time >= instance.epoch
                && drift.time.is_finite()
                && spread(drift.volume)
                && spread(drift.matches))
            {
                return wrong(format!(
                    "a drift of {} and {} in {} s; the time is at least an epoch, {} s, the others are from 0 to {MAX_SPREAD}",
                    drift.volume, drift.matches, drift.time, instance.epoch
                ));
            }
        }
        Ok(())
    }

    /// (volume, matches per byte) of an ingress node at `time` seconds, as multiples of what the
    /// instance says; without drift.
    pub(crate) fn crowd(&self, node: NodeId, time: f64) -> (f64, f64) {
        let now = |crowd: &&Crowd| {
            crowd.ingress.is_none_or(|ingress| ingress == node)
                && crowd.from <= time
                && time < crowd.until
        };
        self.crowds.iter().filter(now).fold((1.0, 1.0), |(volume, matches), crowd| {
            (volume * crowd.volume, matches * crowd.redundancy)
        })
    }

    /// (volume, weight in matches) of a path at `time` seconds, as multiples.
    pub(crate) fn drift(&self, seed: u64, path: u32, time: f64) -> (f64, f64) {
        let Some(drift) = self.drift else { return (1.0, 1.0) };
        let at = time / drift.time;
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
