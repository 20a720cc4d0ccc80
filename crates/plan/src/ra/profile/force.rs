//! Routes in force: whether they still suit the content.

use crate::{
    Error, Watch,
    ra::{self, Objective, Request, Routes, gap, judge},
};

/// How much the gap of routes in force may grow before an alarm.
pub const ALARM: f64 = 0.05;

/// Routes in force, judged by what was counted in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minute {
    /// What they are worth; none if they lack a path for the content.
    pub value: Option<f64>,
    /// What better routes may be worth at best.
    pub bound: f64,
    /// Relative gap between both; 1 if they lack a path.
    pub gap: f64,
    /// Whether that is more than [`ALARM`] above the gap when the routes were made.
    pub alarm: bool,
}

/// Judges routes in force by the content of an interval. `planned` is their gap when they were
/// made.
///
/// # Errors
/// As [`ra::run`].
pub fn minute(
    request: &Request<'_>,
    in_force: &Routes,
    planned: f64,
    watch: &dyn Watch,
) -> Result<Minute, Error> {
    let outcome = ra::run(request, watch)?;
    let mut ingresses = request.ingresses.clone();
    for (_, classes) in &mut ingresses {
        classes.scale(outcome.scale);
    }
    let Request { network, cost, ref eliminates, .. } = *request;
    let judged = judge::judge(network, cost, &ingresses, in_force, eliminates).ok();
    let value = judged.map(|judged| match request.objective {
        Objective::Load => judged.busiest(&outcome.capacities).map_or(0.0, |busiest| busiest.1),
        Objective::Footprint | Objective::FootprintWithin(_) => judged.footprint,
    });
    let gap = value.map_or(1.0, |value| gap(value, outcome.bound));
    Ok(Minute { value, bound: outcome.bound, gap, alarm: value.is_none() || gap > planned + ALARM })
}
