//! Plans for several hours.

use super::{AGREEMENT, Footprint, evaluate};
use crate::{Error, Instance, Solution, error::SolverError, lp::Aim};

/// What a plan for several hours saves in each. It keeps every limit in every hour, and is worth its
/// objective ([`crate::lp::solve_several`]) to [`AGREEMENT`].
///
/// # Errors
/// [`SolverError::Violations`] for the first hour in which a limit is exceeded; an objective that is
/// not what the hours save, or above its bound.
pub fn check_hours(
    hours: &[Instance],
    solution: &Solution,
    aim: Aim,
) -> Result<Vec<Footprint>, Error> {
    let mut each = Vec::with_capacity(hours.len());
    for hour in hours {
        let evaluation = evaluate(hour, &solution.cached)?;
        evaluation.holds(hour)?;
        each.push(evaluation.footprint);
    }
    let value = match aim {
        Aim::Mean => each.iter().map(|hour| hour.saved).sum::<f64>() / each.len() as f64,
        Aim::Worst => each.iter().map(Footprint::reduction).fold(1.0, f64::min),
    };
    let near = AGREEMENT * solution.objective.abs();
    // Written so that NaN does not agree.
    if (solution.objective - value).abs() <= near && value <= solution.bound + near {
        return Ok(each);
    }
    let first = format!("the solver says {}; the hours save {value}", solution.objective);
    Err(SolverError::Violations { count: 1, first }.into())
}
