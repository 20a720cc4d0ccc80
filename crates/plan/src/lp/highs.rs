//! The reduced program by HiGHS: the reference.

use highs::{HighsModelStatus, RowProblem, Sense};

use super::presolve::Reduced;
use crate::{Error, Watch};

/// Columns, prices of the rows, and iterations. `interior`: by the interior point method without
/// crossover instead of what HiGHS chooses, the dual simplex method.
pub(crate) fn solve(
    reduced: &Reduced,
    interior: bool,
    watch: &dyn Watch,
) -> Result<(Vec<f64>, Vec<f64>, u32), Error> {
    watch.progress("solving", 0, 0);
    watch.proceed()?;
    let groups = &reduced.packing.groups;
    let mut problem = RowProblem::default();
    let variables: Vec<_> =
        groups.weights.iter().map(|&weight| problem.add_column(weight, 0.0..=1.0)).collect();
    let mut rows = vec![Vec::new(); reduced.rows.len()];
    for group in 0..groups.len() {
        let own = &groups.rows[groups.row_offsets[group] as usize..];
        for column in groups.columns[group] as usize..groups.columns[group + 1] as usize {
            for entry in groups.entries[column] as usize..groups.entries[column + 1] as usize {
                rows[own[groups.local[entry] as usize] as usize]
                    .push((variables[column], groups.coefficients[entry]));
            }
        }
    }
    for (row, &limit) in rows.iter().zip(&reduced.packing.limits) {
        problem.add_row(..=limit, row.iter().copied());
    }
    for group in 0..groups.len() {
        let columns = groups.columns[group] as usize..groups.columns[group + 1] as usize;
        problem.add_row(..=1.0, columns.map(|column| (variables[column], 1.0)));
    }
    let mut model = problem.try_optimise(Sense::Maximise).map_err(failed)?;
    model.make_quiet();
    if interior {
        model.try_set_option("solver", "ipm").map_err(failed)?;
        model.try_set_option("run_crossover", "off").map_err(failed)?;
    }
    let solved = model.try_solve().map_err(failed)?;
    // Without crossover it does not always vouch for its precision. The gap, which is computed
    // here, tells.
    let vouched = solved.status() == HighsModelStatus::Optimal
        || (interior && solved.status() == HighsModelStatus::Unknown);
    if !vouched {
        return Err(failed(solved.status()));
    }
    let solution = solved.get_solution();
    // Duals have the sign of the objective: what one more of a row is worth.
    let prices =
        solution.dual_rows()[..reduced.rows.len()].iter().map(|price| price.max(0.0)).collect();
    let iterations =
        if interior { solved.ipm_iteration_count() } else { solved.simplex_iteration_count() };
    Ok((solution.columns().to_vec(), prices, u32::try_from(iterations).unwrap_or(0)))
}

fn failed(why: impl std::fmt::Debug) -> Error {
    crate::error::SolverError::Failed { method: "HiGHS", reason: format!("{why:?}") }.into()
}
