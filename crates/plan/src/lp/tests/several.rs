//! One plan for several hours, beside the same program solved by `microlp`.

use super::*;
use crate::{evaluate, lp::program::Program};

/// The hours of a seed: the random instance with other volumes.
fn hours(seed: u64, count: usize) -> Vec<Instance> {
    let first = random_instance(seed, false);
    let random = &mut Random::with_seed(seed ^ 7);
    let mut hours = vec![first];
    for _ in 1..count {
        let volume = |path: &crate::Path| path.volume * 10f64.powf(2.0 * random.f64() - 1.0);
        let volumes: Vec<f64> = hours[0].paths.iter().map(volume).collect();
        hours.push(hours[0].clone().with_volumes(&volumes).unwrap());
    }
    hours
}

/// The optimum by another solver: each hour's rows, one after the other.
fn optimum(hours: &[Instance], aim: Aim) -> f64 {
    let programs: Vec<Program<'_>> = hours
        .iter()
        .map(|hour| Program::new(hour, &Objective::Footprint, &Unwatched).unwrap())
        .collect();
    let instance = &hours[0];
    let coded = |path: &crate::Path| {
        hours.iter().map(|hour| hour.coded(path.ingress as usize)).fold(1.0, f64::min)
    };
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let worst = problem.add_var(if aim == Aim::Worst { 1.0 } else { 0.0 }, (0.0, 1.0));
    let mut columns = Vec::new();
    for (number, path) in instance.paths.iter().enumerate() {
        for column in instance.hop_range(number) {
            let worth = |program: &Program<'_>| program.weight[column];
            let mean = programs.iter().map(worth).sum::<f64>() / hours.len() as f64;
            let most = if aim == Aim::Mean { mean } else { 0.0 };
            columns.push(problem.add_var(most / instance.footprint(), (0.0, f64::INFINITY)));
        }
        let row = instance.hop_range(number).map(|column| (columns[column], 1.0));
        problem.add_constraint(row.collect::<Vec<_>>(), ComparisonOp::Le, coded(path));
    }
    for (program, hour) in programs.iter().zip(hours) {
        let mut rows: Vec<Vec<_>> = vec![Vec::new(); program.limits.len()];
        let mut saved = vec![(worst, -1.0)];
        for (number, path) in hour.paths.iter().enumerate() {
            for (hop, column) in path.hops.iter().zip(hour.hop_range(number)) {
                rows[program.memory_row(hop.device)].push((columns[column], path.volume));
                rows[program.ingress_row(path.ingress)].push((columns[column], path.volume));
                rows[program.operations_row(hop.device)]
                    .push((columns[column], program.operations[column]));
                saved.push((columns[column], program.weight[column] / hour.footprint()));
            }
        }
        for (row, limit) in rows.into_iter().zip(&program.limits) {
            let scale = if *limit > 0.0 { *limit } else { 1.0 };
            if limit.is_finite() {
                let row = row.into_iter().map(|(column, need)| (column, need / scale));
                problem.add_constraint(row.collect::<Vec<_>>(), ComparisonOp::Le, limit / scale);
            }
        }
        problem.add_constraint(saved, ComparisonOp::Ge, 0.0);
    }
    let solved = problem.solve().unwrap().into_solution().expect("no limit is set");
    solved.objective() * if aim == Aim::Mean { instance.footprint() } else { 1.0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// It is the best of all plans that keep every limit in every hour.
    #[test]
    fn one_plan_for_several_hours(seed: u64, count in 1..4usize, worst: bool) {
        let aim = if worst { Aim::Worst } else { Aim::Mean };
        let hours = hours(seed, count);
        let solution = solve_several(&hours, aim, &Options::default(), &Unwatched).unwrap();
        let mut saved = Vec::new();
        for hour in &hours {
            let evaluation = evaluate::evaluate(hour, &solution.cached).unwrap();
            prop_assert_eq!(&evaluation.violations, &vec![]);
            saved.push(evaluation.footprint);
        }
        let value = match aim {
            Aim::Mean => saved.iter().map(|saved| saved.saved).sum::<f64>() / count as f64,
            Aim::Worst => saved.iter().map(|saved| saved.reduction()).fold(1.0, f64::min),
        };
        prop_assert!(near(value, solution.objective, 1e-9), "{value} {}", solution.objective);
        prop_assert!(solution.gap() <= 2e-6 || solution.bound <= 1e-9, "gap {:e}", solution.gap());
        let optimum = optimum(&hours, aim);
        prop_assert!(near(solution.objective, optimum, 2e-6), "{} instead of {optimum}", solution.objective);
    }
}

#[test]
fn one_hour_is_the_program() {
    for seed in 0..40 {
        let hour = hours(seed, 1);
        let one = solve(&hour[0], &Options::default(), None, &Unwatched).unwrap().0;
        let several = solve_several(&hour, Aim::Mean, &Options::default(), &Unwatched).unwrap();
        assert!(near(one.objective, several.objective, 1e-6), "{seed}");
    }
}

#[test]
fn hours_have_the_same_paths() {
    let [one, other] = [random_instance(1, false), random_instance(2, false)];
    let solve = |hours: &[Instance]| {
        let found = solve_several(hours, Aim::Mean, &Options::default(), &Unwatched);
        found.unwrap_err().to_string()
    };
    assert_eq!(solve(&[one, other]), "solver: hour 1 has other paths or devices than the first");
    assert_eq!(solve(&[]), "solver: hour 0 has other paths or devices than the first");
}
