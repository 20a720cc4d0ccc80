//! Routes of each ingress at prices of links, which separate them.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::{
    Routes, Slice,
    bound::{self, Division, Effort, Solved},
    reduce::{Paths, Problem},
    tree::{self, Prices},
};
use crate::{Watch, routing::dijkstra::Search};

/// Most rounds of the ascent for one block.
const ROUNDS: u32 = 600;

/// Routes and bound of every ingress on its own, at prices.
pub(super) fn each(
    problems: &[Problem],
    prices: &Prices,
    begin: Option<&[Vec<Paths>]>,
    divisions: Option<Vec<Option<Vec<Division>>>>,
    gap: f64,
    watch: &dyn Watch,
) -> Vec<Vec<Solved>> {
    let effort = Effort { gap, rounds: ROUNDS };
    let done = AtomicU64::new(0);
    let divisions = divisions.unwrap_or_else(|| vec![None; problems.len()]);
    let of = |(at, (problem, divisions)): (usize, (&Problem, Option<Vec<Division>>))| {
        let begin = begin.map(|begin| &begin[at][..]);
        let solved = solve(problem, prices, begin, divisions, effort, watch);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        watch.progress("ingresses", done, problems.len() as u64);
        solved
    };
    problems.par_iter().zip(divisions).enumerate().map(of).collect()
}

/// Routes and bound of one ingress, block by block.
pub(super) fn solve(
    problem: &Problem,
    prices: &Prices,
    begin: Option<&[Paths]>,
    divisions: Option<Vec<Division>>,
    effort: Effort,
    watch: &dyn Watch,
) -> Vec<Solved> {
    let mut divisions = divisions.unwrap_or_default().into_iter();
    let blocks = problem.blocks.iter().enumerate();
    blocks
        .map(|(at, block)| {
            let begin = begin.map(|begin| begin[at].clone());
            let prices = prices.of(&block.links);
            bound::solve(block, &prices, begin, divisions.next(), effort, &|| watch.stopped())
        })
        .collect()
}

pub(super) fn paths(solved: &[Solved]) -> Vec<Paths> {
    solved.iter().map(|block| block.paths.clone()).collect()
}

/// Shortest paths of every ingress.
pub(super) fn shortest(problems: &[Problem], lengths: &[f64]) -> Vec<Vec<Paths>> {
    let of = |problem: &Problem| {
        let blocks = problem.blocks.iter();
        blocks
            .map(|block| {
                let lengths: Vec<f64> = block.links.iter().map(|&link| lengths[link]).collect();
                let mut search = Search::new(&block.graph);
                tree::shortest(block, &lengths, &mut search).unwrap_or_default()
            })
            .collect()
    };
    problems.par_iter().map(of).collect()
}

/// Routes of one slice per ingress.
pub(super) fn whole(problems: &[Problem], paths: &[Vec<Paths>]) -> Routes {
    let mut slices: Vec<Slice> = problems
        .iter()
        .zip(paths)
        .filter(|(problem, _)| !problem.egresses.is_empty())
        .map(|(problem, paths)| slice(problem, paths, 1.0))
        .collect();
    slices.sort_by_key(|slice| slice.ingress);
    Routes { slices }
}

pub(super) fn slice(problem: &Problem, paths: &[Paths], weight: f64) -> Slice {
    Slice {
        ingress: problem.ingress,
        weight,
        paths: problem
            .egresses
            .iter()
            .map(|&egress| (egress, problem.path(paths, egress)))
            .collect(),
        prefixes: Vec::new(),
    }
}
