//! Routes in force: whether they still suit the content.

use crate::{
    Error, Watch,
    ra::{self, Objective, Outcome, Request, Routes, gap, judge},
};

/// How much the gap of routes in force may grow before an alarm.
pub const ALARM: f64 = 0.05;

/// Routes for new content, or those in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The routes to use, with value and bound for the new content.
    pub outcome: Outcome,
    /// Whether they are those in force.
    pub kept: bool,
    /// What the routes in force are worth for the new content; none if they lack a path.
    pub in_force: Option<f64>,
}

/// Computes routes, and keeps those in force if they are within the request's gap, or if no better
/// ones are found.
///
/// # Errors
/// As [`ra::run`].
pub fn keep(request: &Request<'_>, in_force: &Routes, watch: &dyn Watch) -> Result<Kept, Error> {
    let mut outcome = ra::run(request, watch)?;
    let mut ingresses = request.ingresses.clone();
    for (_, classes) in &mut ingresses {
        classes.scale(outcome.scale);
    }
    let Ok(judged) =
        judge::judge(request.network, request.cost, &ingresses, in_force, &request.eliminates)
    else {
        return Ok(Kept { outcome, kept: false, in_force: None });
    };
    let busiest = judged.busiest(&outcome.capacities).map(|busiest| busiest.1);
    let value = match request.objective {
        Objective::Load => busiest.unwrap_or(f64::INFINITY),
        Objective::Footprint | Objective::FootprintWithin(_) => judged.footprint,
    };
    // Within a limit of the load: one that the new routes keep.
    let fits = match request.objective {
        Objective::FootprintWithin(_) => {
            let new = outcome.judged.busiest(&outcome.capacities).map_or(0.0, |busiest| busiest.1);
            busiest.unwrap_or(0.0) <= new * (1.0 + 1e-9)
        }
        Objective::Footprint | Objective::Load => true,
    };
    let kept = fits && (gap(value, outcome.bound) <= request.gap || value <= outcome.value);
    if kept {
        outcome.routes = in_force.clone();
        outcome.value = value;
        for (ingress, &footprint) in outcome.ingresses.iter_mut().zip(&judged.footprints) {
            ingress.value = footprint;
        }
        if let Some(ours) = outcome.schemes.iter_mut().find(|scheme| scheme.name == "RA") {
            (ours.footprint, ours.utilization) = (judged.footprint, busiest);
        }
        outcome.judged = judged;
    }
    Ok(Kept { outcome, kept, in_force: Some(value) })
}

/// Routes in force, judged by what was counted in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minute {
    /// What they are worth; none if they lack a path for the content.
    pub value: Option<f64>,
    /// What better routes may be worth at best.
    pub bound: f64,
    /// Relative gap between both.
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
    let Kept { outcome, in_force: value, .. } = keep(request, in_force, watch)?;
    let gap = value.map_or(1.0, |value| gap(value, outcome.bound));
    Ok(Minute { value, bound: outcome.bound, gap, alarm: value.is_none() || gap > planned + ALARM })
}
