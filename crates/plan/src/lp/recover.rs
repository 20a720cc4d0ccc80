//! Turns a near-optimal point into a plan that holds every limit, and near-optimal prices into a
//! bound.

use super::{
    presolve::{NONE, NOTHING, Reduced},
    program::Program,
};

use crate::DeviceId;

/// Shares below this are dropped if another hop of the path is clearly better.
const TINY: f64 = 1e-6;
/// Relative difference in value for "clearly better".
const CLEARLY: f64 = 1e-4;
/// Relative margin below each limit, for rounding of sums.
const ROUNDING: f64 = 1e-12;

/// Shares of the whole program from the columns of the reduced one.
pub(crate) fn expand(program: &Program<'_>, reduced: &Reduced, x: &[f64]) -> Vec<f64> {
    let mut cached = vec![0.0; program.weight.len()];
    for (&origin, &x) in reduced.packing.groups.origin.iter().zip(x) {
        if origin != NONE {
            cached[origin as usize] = x;
        }
    }
    for (number, path) in program.instance.paths.iter().enumerate() {
        let coded = program.coded[path.ingress as usize];
        let columns = program.instance.hop_range(number);
        let mut sum = 0.0;
        for share in &mut cached[columns] {
            *share *= coded;
            sum += *share;
        }
        let free = reduced.free[number];
        if free != NONE {
            cached[free as usize] = (coded - sum).max(0.0);
        }
    }
    cached
}

/// Prices of the whole program's rows from those of the reduced one, at least 0. A resource of
/// which there is nothing gets the least price at which none of the columns that need it is wanted:
/// what the first unit of it would be worth.
pub(crate) fn prices(program: &Program<'_>, reduced: &Reduced, of_rows: &[f64]) -> Vec<f64> {
    let mut prices = vec![0.0; program.row_count()];
    for ((&row, &price), &scale) in reduced.rows.iter().zip(of_rows).zip(&reduced.scale) {
        let price = price * reduced.unit / scale;
        prices[row] = if price.is_finite() { price.max(0.0) } else { 0.0 };
    }
    normalise(program, &mut prices);
    price_missing(program, &mut prices);
    prices
}

/// Prices of links, each times its capacity, add up to 1: what one unit of utilization is worth.
fn normalise(program: &Program<'_>, prices: &mut [f64]) {
    let Some(links) = &program.links else { return };
    let rows = program.link_rows();
    let of_links = prices[rows].iter().zip(&links.capacity).filter(|(price, _)| **price > 0.0);
    let sum: f64 = of_links.map(|(price, capacity)| price * capacity).sum();
    if sum > 0.0 && sum.is_finite() {
        prices.iter_mut().for_each(|price| *price /= sum);
    }
}

fn price_missing(program: &Program<'_>, prices: &mut [f64]) {
    let instance = program.instance;
    let nothing = |row: usize, need: f64| need > 0.0 && program.limits[row] <= need * NOTHING;
    let mut gains = Vec::new();
    for (number, path) in instance.paths.iter().enumerate() {
        if program.coded[path.ingress as usize] == 0.0 {
            continue;
        }
        program.gains(number, prices, &mut gains);
        let needs = |hop: &crate::Hop, column: usize| {
            [
                (program.memory_row(hop.device), path.volume),
                (program.operations_row(hop.device), program.operations[column]),
                (program.ingress_row(path.ingress), path.volume),
            ]
        };
        let columns = || path.hops.iter().zip(instance.hop_range(number));
        let missing = |hop: &crate::Hop, column: usize| {
            needs(hop, column).into_iter().find(|&(row, need)| nothing(row, need))
        };
        let best = columns()
            .zip(&gains)
            .filter(|((hop, column), _)| missing(hop, *column).is_none())
            .fold(0.0, |best: f64, (_, gain)| best.max(*gain));
        for ((hop, column), gain) in columns().zip(&gains) {
            if let Some((row, need)) = missing(hop, column).filter(|_| *gain > best) {
                // An earlier path, or an earlier hop, may have put the price up since.
                let known = gain_of(program, prices, number, hop, column);
                if known > best {
                    prices[row] += (known - best) / need * (1.0 + ROUNDING);
                }
            }
        }
    }
}

/// Value of caching a whole path at one hop, at these prices.
fn gain_of(
    program: &Program<'_>,
    prices: &[f64],
    number: usize,
    hop: &crate::Hop,
    column: usize,
) -> f64 {
    let path = &program.instance.paths[number];
    let saved: f64 = match program.links {
        Some(_) => path.links[..hop.distance as usize]
            .iter()
            .map(|&link| prices[program.link_row(link)])
            .sum(),
        None => 0.0,
    };
    program.weight[column] + saved * program.bytes[column] - program.cost(path, hop, column, prices)
}

/// Makes `cached` hold every limit: removes what is worth least from rows that exceed it, then
/// assigns what paths have left where there is room, the best first. Prices say what is best;
/// without any (all 0) it is the weight.
pub(crate) fn repair(program: &Program<'_>, prices: &[f64], cached: &mut [f64]) {
    tidy(program, prices, cached);
    unload(program, prices, cached);
    fill(program, prices, cached);
}

/// Nothing negative, no path covered more than it may be, no crumbs.
fn tidy(program: &Program<'_>, prices: &[f64], cached: &mut [f64]) {
    let mut gains = Vec::new();
    for (number, path) in program.instance.paths.iter().enumerate() {
        let coded = program.coded[path.ingress as usize];
        let columns = program.instance.hop_range(number);
        let shares = &mut cached[columns.clone()];
        if shares.is_empty() {
            continue;
        }
        program.gains(number, prices, &mut gains);
        let best = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for ((share, gain), (hop, column)) in
            shares.iter_mut().zip(&gains).zip(path.hops.iter().zip(columns))
        {
            let whole = *gain + program.cost(path, hop, column, prices);
            let crumb = *share < TINY * coded && best - *gain > CLEARLY * whole;
            *share = if *share > 0.0 && !crumb { *share } else { 0.0 };
            sum += *share;
        }
        if sum > coded {
            shares.iter_mut().for_each(|share| *share *= coded / sum);
        }
    }
}

fn unload(program: &Program<'_>, prices: &[f64], cached: &mut [f64]) {
    let instance = program.instance;
    let mut loads = program.loads(cached);
    let over = |loads: &[f64], row: usize| loads[row] > program.limits[row];
    if !(0..loads.len()).any(|row| over(&loads, row)) {
        return;
    }
    let devices = instance.devices.len();
    // What each column of a row that holds too much would lose per unit of the row, if its share
    // went to the path's best other hop.
    let mut crowded: Vec<Vec<(f64, u32, u32)>> = vec![Vec::new(); loads.len()];
    let mut gains = Vec::new();
    for (number, path) in instance.paths.iter().enumerate() {
        let rows = |hop: &crate::Hop| {
            [
                program.memory_row(hop.device),
                program.operations_row(hop.device),
                program.ingress_row(path.ingress),
            ]
        };
        if !path.hops.iter().any(|hop| rows(hop).into_iter().any(|row| over(&loads, row))) {
            continue;
        }
        program.gains(number, prices, &mut gains);
        for (at, (hop, column)) in path.hops.iter().zip(instance.hop_range(number)).enumerate() {
            if cached[column] == 0.0 {
                continue;
            }
            let needs = [path.volume, program.operations[column], path.volume];
            for (row, need) in rows(hop).into_iter().zip(needs) {
                if over(&loads, row) && need > 0.0 {
                    let others = gains
                        .iter()
                        .enumerate()
                        .filter(|(other, _)| row >= 2 * devices || *other != at);
                    let other = if row >= 2 * devices {
                        0.0
                    } else {
                        others.map(|(_, gain)| *gain).fold(0.0, f64::max)
                    };
                    let loss = (gains[at] - other) / need;
                    crowded[row].push((
                        if loss.is_finite() { loss } else { 0.0 },
                        column as u32,
                        number as u32,
                    ));
                }
            }
        }
    }
    let mut device_of = vec![DeviceId(0); cached.len()];
    for (number, path) in instance.paths.iter().enumerate() {
        for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
            device_of[column] = hop.device;
        }
    }
    for (row, columns) in crowded.iter_mut().enumerate() {
        columns.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for &(_, column, number) in &*columns {
            // Sums that were taken apart again are not exact: stay a little below.
            let excess = loads[row] - program.limits[row] * (1.0 - ROUNDING);
            if excess <= 0.0 {
                break;
            }
            let path = &instance.paths[number as usize];
            let (column, device) = (column as usize, device_of[column as usize]);
            let need = if row >= devices && row < 2 * devices {
                program.operations[column]
            } else {
                path.volume
            };
            let taken = (excess / need).min(cached[column]);
            cached[column] -= taken;
            loads[program.memory_row(device)] -= taken * path.volume;
            loads[program.operations_row(device)] -= taken * program.operations[column];
            loads[program.ingress_row(path.ingress)] -= taken * path.volume;
        }
    }
    // What rounding left over.
    let loads = program.loads(cached);
    let part = |row: usize| if over(&loads, row) { program.limits[row] / loads[row] } else { 1.0 };
    for (number, path) in instance.paths.iter().enumerate() {
        let whole = part(program.ingress_row(path.ingress));
        for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
            let part = whole
                .min(part(program.memory_row(hop.device)))
                .min(part(program.operations_row(hop.device)));
            if part < 1.0 {
                cached[column] *= part;
            }
        }
    }
}

fn fill(program: &Program<'_>, prices: &[f64], cached: &mut [f64]) {
    let instance = program.instance;
    let loads = program.loads(cached);
    let mut left: Vec<f64> = loads
        .iter()
        .zip(&program.limits)
        .map(|(load, limit)| limit * (1.0 - ROUNDING) - load)
        .collect();
    // Paths with the most to win first, as far as that is known: by the gain of what they have
    // left.
    let mut gains = Vec::new();
    let mut order: Vec<(f64, u32)> = Vec::new();
    for (number, path) in instance.paths.iter().enumerate() {
        let columns = instance.hop_range(number);
        let covered: f64 = cached[columns].iter().sum();
        if covered < program.coded[path.ingress as usize] * (1.0 - ROUNDING) {
            program.gains(number, prices, &mut gains);
            order.push((gains.iter().copied().fold(0.0, f64::max), number as u32));
        }
    }
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut hops: Vec<usize> = Vec::new();
    for (_, number) in order {
        let number = number as usize;
        let path = &instance.paths[number];
        let first = instance.hop_range(number).start;
        let columns = instance.hop_range(number);
        let covered: f64 = cached[columns.clone()].iter().sum();
        let mut rest = program.coded[path.ingress as usize] - covered;
        program.gains(number, prices, &mut gains);
        hops.clear();
        // Savings on links that do not count are not worth a cache.
        let saves = |column: usize| {
            program.bytes[column] > 0.0 && (program.weight[column] > 0.0 || program.links.is_some())
        };
        hops.extend((0..path.hops.len()).filter(|&hop| saves(first + hop)));
        hops.sort_by(|&a, &b| gains[b].total_cmp(&gains[a]).then(b.cmp(&a)));
        for &hop in &hops {
            let (column, device) = (first + hop, path.hops[hop].device);
            let uses = [
                (program.memory_row(device), path.volume),
                (program.operations_row(device), program.operations[column]),
                (program.ingress_row(path.ingress), path.volume),
            ];
            let mut more = rest;
            for (row, need) in uses {
                if need > 0.0 {
                    more = more.min(left[row] / need);
                }
            }
            if more > 0.0 {
                cached[column] += more;
                rest -= more;
                uses.iter().for_each(|&(row, need)| left[row] -= more * need);
            }
        }
    }
}
