//! Packing within a CPU budget: measures time for the codec's controller.

use crate::failure::Outcome;
use crate::quantity::bytes;
use crate::setup::config_failure;
use cpu_time::ThreadTime;
use oncewire_codec::adapt::{Controller, CpuShare};
use oncewire_codec::{EncoderBuilder, Finder};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// CPU time of encoding on all threads that is not charged yet, in nanoseconds.
#[derive(Clone, Default)]
pub(crate) struct Spent(Arc<AtomicU64>);

impl Spent {
    /// Adds the CPU time of this thread since `begun`.
    pub(crate) fn add_since(&self, begun: ThreadTime) {
        let used = begun.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
        self.0.fetch_add(used, Ordering::Relaxed);
    }
}

/// A controller and its clocks.
pub(crate) struct Adapting {
    controller: Controller,
    begun: Instant,
    pub(crate) spent: Spent,
}

impl Adapting {
    pub(crate) fn new(encoder: &EncoderBuilder, budget: CpuShare) -> Outcome<Adapting> {
        let ladder = encoder.ladder().map_err(config_failure)?;
        let controller = Controller::new(ladder, budget, Duration::ZERO);
        Ok(Adapting { controller, begun: Instant::now(), spent: Spent::default() })
    }

    /// Charges the CPU time that all threads spent on encoding `bytes` bytes, and sets the effort
    /// for the next block.
    pub(crate) fn charge(&mut self, bytes: usize, finder: &mut Finder) {
        let cpu = Duration::from_nanos(self.spent.0.swap(0, Ordering::Relaxed));
        if let Some(decision) = self.controller.spent(bytes as u64, cpu, self.begun.elapsed()) {
            finder.set_effort(decision.to);
        }
    }

    pub(crate) fn report(&self) -> Report {
        let effort = |usage: &oncewire_codec::adapt::Usage| Effort {
            effort: usage.effort.to_string(),
            bytes: usage.bytes,
            seconds: usage.time.as_secs_f64(),
            cpu_seconds: usage.cpu.as_secs_f64(),
        };
        Report {
            share: self.controller.budget().as_f64(),
            changes: self.controller.changes(),
            efforts: self
                .controller
                .usage()
                .iter()
                .filter(|usage| usage.bytes > 0)
                .map(effort)
                .collect(),
        }
    }
}

/// The work done within a budget.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Budget, as a share of one core.
    share: f64,
    changes: u64,
    /// The efforts used, from most to least expensive.
    efforts: Vec<Effort>,
}

#[derive(Serialize)]
struct Effort {
    effort: String,
    bytes: u64,
    seconds: f64,
    cpu_seconds: f64,
}

impl Report {
    /// Lines for people: one for the total, and one per effort.
    pub(crate) fn lines(&self) -> Vec<String> {
        let sum = |of: fn(&Effort) -> f64| self.efforts.iter().map(of).sum::<f64>();
        let percent = |cpu: f64, time: f64| {
            if time > 0.0 { format!("{:.1} %", 100.0 * cpu / time) } else { "-".into() }
        };
        let whole = percent(sum(|effort| effort.cpu_seconds), sum(|effort| effort.seconds));
        let changes =
            if self.changes == 1 { "1 change".into() } else { format!("{} changes", self.changes) };
        let mut lines = vec![format!(
            "{whole} of a core, {:.1} % allowed, {changes} of effort:",
            100.0 * self.share
        )];
        lines.extend(self.efforts.iter().map(|effort| {
            let share = percent(effort.cpu_seconds, effort.seconds);
            format!(
                "  {:28} {:8.2} s {:>9} {share:>8}",
                effort.effort,
                effort.seconds,
                bytes(effort.bytes)
            )
        }));
        lines
    }
}
