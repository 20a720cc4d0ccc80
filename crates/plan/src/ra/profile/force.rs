//! Routes in force: whether they still suit the content.

use crate::{
    Error, Seconds, Watch,
    error::TopologyError,
    ra::{self, LoadLimit, Objective, Request, Routes, file::Goal, gap, judge},
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

/// Judges routes in force by the content of an interval, as to what they were made for: their
/// load, or their footprint; within a load, beside routes that load no link more than these do.
/// `planned` is their gap when they were made. The request's objective, scaling and number of
/// slices do not matter.
///
/// # Errors
/// As [`ra::run`], and [`Error::Stopped`].
pub fn minute(
    request: &Request<'_>,
    goal: Goal,
    in_force: &Routes,
    planned: f64,
    watch: &dyn Watch,
) -> Result<Minute, Error> {
    let Request {
        network, cost, ref ingresses, ref eliminates, interval: Seconds(interval), ..
    } = *request;
    let judged = judge::judge(network, cost, ingresses, in_force, eliminates).ok();
    let capacity =
        |link: &crate::network::Link| Some(link.capacity.or(request.capacity)?.0 * interval / 8.0);
    let capacities: Vec<Option<f64>> = network.links.iter().map(capacity).collect();
    let busiest = judged.as_ref().and_then(|judged| judged.busiest(&capacities));
    let objective = match (goal, busiest) {
        (Goal::Footprint, _) => Objective::Footprint,
        (Goal::Load, _) => Objective::Load,
        (Goal::FootprintWithin, Some((_, load))) if load > 0.0 => {
            Objective::FootprintWithin(LoadLimit::Given(load * (1.0 + 1e-6)))
        }
        (Goal::FootprintWithin, None) if judged.is_some() => {
            return Err(TopologyError::NoCapacities.into());
        }
        (Goal::FootprintWithin, _) => Objective::Footprint,
    };
    let request = Request {
        objective,
        plain_load: None,
        compare: false,
        // As many as may be: only the bound counts.
        slices: usize::MAX,
        against: judged.is_some().then(|| in_force.clone()),
        ..request.clone()
    };
    let outcome = ra::run(&request, watch)?;
    if outcome.stopped {
        // A bound that is not finished would raise an alarm.
        return Err(Error::Stopped);
    }
    let value = judged.map(|judged| match goal {
        Goal::Load => busiest.map_or(0.0, |busiest| busiest.1),
        Goal::Footprint | Goal::FootprintWithin => judged.footprint,
    });
    let gap = value.map_or(1.0, |value| gap(value, outcome.bound));
    Ok(Minute { value, bound: outcome.bound, gap, alarm: value.is_none() || gap > planned + ALARM })
}
