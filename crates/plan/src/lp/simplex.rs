//! The reduced program by the simplex method of the crate `microlp`: the fallback for small or odd
//! programs.

use microlp::{ComparisonOp, OptimizationDirection, Problem};

use super::presolve::Reduced;
use crate::{Error, Watch};

/// Columns, and prices of the rows. The prices are the solution of the dual program, because the
/// crate does not return them.
pub(crate) fn solve(reduced: &Reduced, watch: &dyn Watch) -> Result<(Vec<f64>, Vec<f64>), Error> {
    watch.progress("solving", 0, 2);
    watch.proceed()?;
    let columns = primal(reduced)?;
    watch.progress("solving", 1, 2);
    watch.proceed()?;
    Ok((columns, dual(reduced)?))
}

fn failed(error: impl std::fmt::Display) -> Error {
    crate::error::SolverError::Failed { method: "simplex method", reason: error.to_string() }.into()
}

fn primal(reduced: &Reduced) -> Result<Vec<f64>, Error> {
    let groups = &reduced.packing.groups;
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let variables: Vec<_> =
        groups.weights.iter().map(|&weight| problem.add_var(weight, (0.0, 1.0))).collect();
    let mut rows = vec![Vec::new(); reduced.rows.len()];
    for group in 0..groups.len() {
        let own = &groups.rows[groups.row_offsets[group] as usize..];
        let columns = groups.columns[group] as usize..groups.columns[group + 1] as usize;
        for column in columns.clone() {
            for entry in groups.entries[column] as usize..groups.entries[column + 1] as usize {
                rows[own[groups.local[entry] as usize] as usize]
                    .push((variables[column], groups.coefficients[entry]));
            }
        }
        if columns.len() > 1 {
            problem.add_constraint(
                columns.map(|column| (variables[column], 1.0)).collect::<Vec<_>>(),
                ComparisonOp::Le,
                1.0,
            );
        }
    }
    for (row, &limit) in rows.into_iter().zip(&reduced.packing.limits) {
        problem.add_constraint(row, ComparisonOp::Le, limit);
    }
    let solution = problem
        .solve()
        .map_err(failed)?
        .into_solution()
        .map_err(|_| failed("it was interrupted"))?;
    Ok(variables.iter().map(|&variable| solution.var_value(variable)).collect())
}

fn dual(reduced: &Reduced) -> Result<Vec<f64>, Error> {
    let groups = &reduced.packing.groups;
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let prices: Vec<_> = reduced
        .packing
        .limits
        .iter()
        .map(|&limit| problem.add_var(limit, (0.0, f64::INFINITY)))
        .collect();
    for group in 0..groups.len() {
        let own = &groups.rows[groups.row_offsets[group] as usize..];
        let worth = problem.add_var(1.0, (0.0, f64::INFINITY));
        for column in groups.columns[group] as usize..groups.columns[group + 1] as usize {
            let entries = groups.entries[column] as usize..groups.entries[column + 1] as usize;
            let mut terms: Vec<_> = entries
                .map(|entry| {
                    (prices[own[groups.local[entry] as usize] as usize], groups.coefficients[entry])
                })
                .collect();
            terms.push((worth, 1.0));
            problem.add_constraint(terms, ComparisonOp::Ge, groups.weights[column]);
        }
    }
    let solution = problem
        .solve()
        .map_err(failed)?
        .into_solution()
        .map_err(|_| failed("it was interrupted"))?;
    Ok(prices.iter().map(|&price| solution.var_value(price)).collect())
}
