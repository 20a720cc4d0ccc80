//! The theoretical maximum of the savings.

use super::plan::Plan;
use super::{Figures, Time, timed};
use crate::args::BenchArgs;
use crate::failure::Outcome;
use crate::setup::config_failure;
use crate::{progress, stdout};
use oncewire_family::optimal::{Bias, DEFAULT_POINTER, Filter, Optimal};
use serde::Serialize;

/// Pseudo-random bytes on which the filter's false positives are measured.
const BIAS_BYTES: u64 = 4 << 20;

/// The bound for one window, block size and cache.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bound {
    pub(super) window: usize,
    pub(super) block_bytes: usize,
    pub(super) cache_bytes: u64,
    /// `bloom` or `counting`.
    pub(super) filter: &'static str,
    /// Bytes charged per run.
    pub(super) pointer_bytes: u64,
    pub(super) memory_bytes: usize,
    pub(super) passes: Vec<BoundPass>,
    /// Share of the windows of random data that the filter reports as known, after the last pass.
    pub(super) false_positives_per_window: f64,
    pub(super) expected_false_positives_per_window: f64,
    /// Apparent savings on random data.
    pub(super) apparent_savings_of_random_data: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct BoundPass {
    pub(super) wire_bytes: u64,
    pub(super) savings: f64,
    pub(super) runs: u64,
    pub(super) time: Time,
}

/// Measures the bound for every window, block size and cache among the plans.
pub(super) fn measure(plans: &[Plan], data: &mut [u8], args: &BenchArgs) -> Outcome<Vec<Bound>> {
    let mut settings: Vec<(usize, usize, u64)> = plans
        .iter()
        .filter_map(|plan| Some((plan.figures.window?, plan.block, plan.figures.cache_bytes?)))
        .collect();
    settings.sort_unstable();
    settings.dedup();
    let bar = progress::bar(Some((settings.len() * usize::from(args.passes) * data.len()) as u64));
    let mut bounds = Vec::new();
    for (window, block, cache) in settings {
        // A filter that never forgets is correct as long as nothing is evicted.
        let fits = data.len() as u64 * u64::from(args.passes) <= cache;
        let (filter, name) =
            if fits { (Filter::Bloom, "bloom") } else { (Filter::CountingBloom, "counting") };
        let mut optimal =
            Optimal::new(window, cache, DEFAULT_POINTER, filter).map_err(config_failure)?;
        let mut passes = Vec::new();
        for _ in 0..args.passes {
            let before = optimal.totals();
            let time = timed(|| {
                for block in data.chunks(block) {
                    optimal.add_block(block);
                    bar.inc(block.len() as u64);
                }
                Ok(())
            })?;
            let now = optimal.totals();
            let wire_bytes = data.len() as u64 - (now.saved_bytes - before.saved_bytes);
            let savings = stdout::savings(wire_bytes, data.len() as u64);
            data.rotate_left(super::pass_shift(data.len()));
            passes.push(BoundPass { wire_bytes, savings, runs: now.runs - before.runs, time });
        }
        let turned = super::pass_shift(data.len()) * usize::from(args.passes);
        data.rotate_right(turned % data.len().max(1));
        let Bias { expected_per_window, measured_per_window, apparent_savings, .. } =
            optimal.false_positive_bias(1, BIAS_BYTES);
        bounds.push(Bound {
            window,
            block_bytes: block,
            cache_bytes: cache,
            filter: name,
            pointer_bytes: DEFAULT_POINTER,
            memory_bytes: optimal.memory(),
            passes,
            false_positives_per_window: measured_per_window,
            expected_false_positives_per_window: expected_per_window,
            apparent_savings_of_random_data: apparent_savings,
        });
    }
    bar.finish_and_clear();
    Ok(bounds)
}

/// Computes the share of its bound that each of our settings reaches.
pub(super) fn compare(bounds: &[Bound], figures: &mut [Figures]) {
    for figure in figures {
        let setting = (figure.window, figure.block_bytes, figure.cache_bytes);
        let bound = bounds.iter().find(|bound| {
            (Some(bound.window), bound.block_bytes, Some(bound.cache_bytes)) == setting
        });
        for (number, pass) in figure.passes.iter_mut().enumerate() {
            pass.share_of_optimal = bound
                .map(|bound| bound.passes[number].savings)
                .filter(|&most| most > 0.0)
                .map(|most| pass.savings / most);
        }
    }
}
