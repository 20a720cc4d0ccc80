//! What is left of a program once it is clear which limits cannot bind and which columns nobody
//! would choose.

use super::{
    packing::{Groups, Packing},
    program::Program,
};

use crate::DeviceId;

/// No column, no row.
pub(crate) const NONE: u32 = u32::MAX;

/// The program for a solver: rows and columns scaled, paths in groups. Maximise the weights of the
/// columns, each group's adding up to at most 1, each row's to at most its limit.
pub(crate) struct Reduced {
    /// Row of the program, per row.
    pub rows: Vec<usize>,
    /// Value in units of the objective of 1 in these.
    pub unit: f64,
    /// By what a row of the program was divided.
    pub scale: Vec<f64>,
    /// Limits of the rows, 1 but for links, and the columns.
    pub packing: Packing,
    /// Per path, the hop that costs nothing and takes what others leave, or [`NONE`].
    pub free: Vec<u32>,
    /// How much of the objective (of the bound, in these units) does not depend on the columns.
    pub constant: f64,
}

/// A limit below this share of a path counts as 0.
pub(crate) const NOTHING: f64 = 1e-15;

/// Rounds of presolve. Each helps the next; the first two find nearly everything.
const ROUNDS: usize = 6;

/// Drops columns that save nothing or need a resource of zero capacity; rows that can never bind;
/// of a device's memory and operations, the one that the other implies; on a path with an unlimited
/// device, columns worth no more than that device.
pub(crate) fn reduce(program: &Program<'_>) -> Reduced {
    let instance = program.instance;
    let devices = instance.devices.len();
    let mut alive = alive(program);
    let mut kept: Vec<bool> = program.limits.iter().map(|limit| limit.is_finite()).collect();
    kept.resize(program.row_count(), false);
    let mut free = vec![NONE; instance.paths.len()];

    for _ in 0..ROUNDS {
        let mut changed = false;
        let mut most = vec![0.0; program.limits.len()];
        // Of each device, whether every column takes a larger part of the one than of the other.
        let mut memory_implied = vec![true; devices];
        let mut operations_implied = vec![true; devices];
        for (number, path) in instance.paths.iter().enumerate() {
            let coded = program.coded[path.ingress as usize];
            let mut any = false;
            for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
                if !alive[column] {
                    continue;
                }
                any = true;
                let (memory, operations) =
                    (program.memory_row(hop.device), program.operations_row(hop.device));
                most[memory] += coded * path.volume;
                most[operations] += coded * program.operations[column];
                let parts = (
                    path.volume / program.limits[memory],
                    program.operations[column] / program.limits[operations],
                );
                memory_implied[hop.device] &= parts.0 <= parts.1;
                operations_implied[hop.device] &= parts.1 <= parts.0;
            }
            if any {
                most[program.ingress_row(path.ingress)] += coded * path.volume;
            }
        }
        for (row, most) in most.iter().enumerate() {
            if kept[row] && *most <= program.limits[row] {
                kept[row] = false;
                changed = true;
            }
        }
        for device in DeviceId::first(devices) {
            let (memory, operations) = (program.memory_row(device), program.operations_row(device));
            if kept[memory] && kept[operations] {
                let drop = if memory_implied[device] {
                    memory
                } else if operations_implied[device] {
                    operations
                } else {
                    continue;
                };
                kept[drop] = false;
                changed = true;
            }
        }
        if program.links.is_none() {
            for (number, path) in instance.paths.iter().enumerate() {
                if kept[program.ingress_row(path.ingress)] {
                    continue;
                }
                let columns = instance.hop_range(number);
                let unlimited = |hop: &crate::Hop| {
                    !kept[program.memory_row(hop.device)]
                        && !kept[program.operations_row(hop.device)]
                };
                // Of several as good, the first.
                let best = path
                    .hops
                    .iter()
                    .zip(columns.clone())
                    .filter(|(hop, column)| {
                        (alive[*column] || free[number] == *column as u32) && unlimited(hop)
                    })
                    .fold(None, |best: Option<usize>, (_, column)| match best {
                        Some(known) if program.weight[known] >= program.weight[column] => {
                            Some(known)
                        }
                        _ => Some(column),
                    });
                let Some(best) = best else { continue };
                free[number] = best as u32;
                for column in columns {
                    if alive[column]
                        && (column == best || program.weight[column] <= program.weight[best])
                    {
                        alive[column] = false;
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    keep_links(program, &alive, &mut kept);
    pack(program, &alive, &kept, free)
}

/// Columns that can have a benefit.
fn alive(program: &Program<'_>) -> Vec<bool> {
    let instance = program.instance;
    let mut alive = vec![false; program.weight.len()];
    for (number, path) in instance.paths.iter().enumerate() {
        let coded = program.coded[path.ingress as usize];
        let missing = |row: usize, need: f64| program.limits[row] <= need * NOTHING && need > 0.0;
        for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
            alive[column] = coded > 0.0
                && program.bytes[column] > 0.0
                && (program.weight[column] > 0.0 || program.links.is_some())
                && !missing(program.memory_row(hop.device), path.volume)
                && !missing(program.operations_row(hop.device), program.operations[column])
                && !missing(program.ingress_row(path.ingress), path.volume);
        }
    }
    alive
}

/// Links that can be the busiest.
fn keep_links(program: &Program<'_>, alive: &[bool], kept: &mut [bool]) {
    let Some(links) = &program.links else { return };
    let mut most = vec![0.0; program.weight.len()];
    for (number, path) in program.instance.paths.iter().enumerate() {
        let coded = program.coded[path.ingress as usize];
        for column in program.instance.hop_range(number) {
            most[column] = if alive[column] { coded } else { 0.0 };
        }
        // Not a plan: every hop caches everything, for an upper bound on what a link saves.
        let columns = program.instance.hop_range(number);
        let mut largest: f64 = 0.0;
        for column in columns.rev() {
            let value = most[column] * program.bytes[column];
            most[column] = if value > largest && program.bytes[column] > 0.0 {
                (value - largest) / program.bytes[column]
            } else {
                0.0
            };
            largest = largest.max(value);
        }
    }
    let saved = program.saved(&most);
    let least = (0..saved.len())
        .map(|link| (links.load[link] - saved[link]) / links.capacity[link])
        .fold(0.0, f64::max);
    for (link, row) in program.link_rows().enumerate() {
        // A hair below, for the rounding of the sums.
        kept[row] = links.load[link] / links.capacity[link] > least * (1.0 - 1e-9);
    }
}

fn pack(program: &Program<'_>, alive: &[bool], kept: &[bool], free: Vec<u32>) -> Reduced {
    let instance = program.instance;
    let (unit, highest) = match &program.links {
        Some(links) => (links.highest, links.highest),
        None => {
            let mut most: f64 = 0.0;
            for (number, path) in instance.paths.iter().enumerate() {
                for column in instance.hop_range(number).filter(|&column| alive[column]) {
                    most = most.max(program.weight[column] * program.coded[path.ingress as usize]);
                }
            }
            (if most > 0.0 { most } else { 1.0 }, 0.0)
        }
    };
    let rows: Vec<usize> = (0..program.row_count()).filter(|&row| kept[row]).collect();
    let mut number_of = vec![NONE; program.row_count()];
    let mut limits = Vec::with_capacity(rows.len());
    let mut scale = Vec::with_capacity(rows.len());
    for (number, &row) in rows.iter().enumerate() {
        number_of[row] = number as u32;
        match &program.links {
            Some(links) if row >= program.limits.len() => {
                let link = row - program.limits.len();
                scale.push(highest * links.capacity[link]);
                limits.push(1.0 - links.load[link] / (highest * links.capacity[link]));
            }
            _ => {
                scale.push(program.limits[row]);
                limits.push(1.0);
            }
        }
    }
    let mut groups = Groups::new();
    let mut constant = 0.0;
    let mut entries: Vec<(u32, f64)> = Vec::new();
    for (number, path) in instance.paths.iter().enumerate() {
        let coded = program.coded[path.ingress as usize];
        let base = if free[number] == NONE { 0.0 } else { program.weight[free[number] as usize] };
        constant += base * coded / unit;
        let mut any = false;
        for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
            if !alive[column] {
                continue;
            }
            entries.clear();
            let mut entry = |row: usize, coefficient: f64| {
                let place = number_of[row];
                if place != NONE && coefficient != 0.0 {
                    entries.push((place, coefficient * coded / scale[place as usize]));
                }
            };
            entry(program.memory_row(hop.device), path.volume);
            entry(program.operations_row(hop.device), program.operations[column]);
            entry(program.ingress_row(path.ingress), path.volume);
            if program.links.is_some() {
                for &link in &path.links[..hop.distance as usize] {
                    entry(program.link_row(link), -program.bytes[column]);
                }
                if entries.iter().all(|entry| entry.1 > 0.0) {
                    continue;
                }
            }
            groups.column(
                column as u32,
                (program.weight[column] - base) * coded / unit,
                entries.iter().copied(),
            );
            any = true;
        }
        if any {
            groups.close();
        }
    }
    if program.links.is_some() {
        let links =
            (0..rows.len() as u32).filter(|&row| rows[row as usize] >= program.limits.len());
        groups.column(NONE, 1.0, links.map(|row| (row, 1.0)));
        groups.close();
    }
    Reduced { rows, unit, scale, packing: Packing { limits, groups }, free, constant }
}
