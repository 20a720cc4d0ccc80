//! One plan for several hours: the same paths and devices, but other volumes and another profile in
//! each. It keeps every limit in every hour.
//!
//! The columns are those of the program; each hour has rows for all limits. For the best worst hour,
//! each hour has one row more: what it saves, as a share of its footprint, is at least t.

use super::{
    Aim, Objective, Options,
    packing::{Groups, Packing},
    presolve::NOTHING,
    program::{Program, Sum},
};
use crate::{
    DeviceId, Error, Hop, Instance, Prices, Solution, SolvedBy, Watch, error::SolverError,
};

/// Most coefficients of the program: 16 bytes each.
const MOST_ENTRIES: usize = 100_000_000;
/// Most rows, as for one hour.
const MOST_ROWS: usize = 8000;
/// Relative margin below each limit, for rounding of sums.
const ROUNDING: f64 = 1e-12;

/// A plan for all of these instances. [`Solution::objective`] is for [`Aim::Mean`] the mean of what
/// is saved per epoch, in bytes times links; for [`Aim::Worst`] the smallest share of an hour's
/// footprint that is saved. [`Solution::bound`] is at least that of any plan that keeps every limit
/// in every hour. Prices are sums over the hours.
///
/// # Errors
/// No instance, or instances whose paths or devices differ; more hours than this solver takes;
/// otherwise as [`super::solve`] for each.
pub fn solve_several(
    instances: &[Instance],
    aim: Aim,
    options: &Options,
    watch: &dyn Watch,
) -> Result<Solution, Error> {
    watch.progress("building the program", 0, 0);
    check_alike(instances)?;
    instances[0].check_trees()?;
    let programs = instances
        .iter()
        .map(|hour| Program::new(hour, &Objective::Footprint, watch))
        .collect::<Result<Vec<_>, Error>>()?;
    let several = Several::new(&programs, aim);
    let rows = several.rows();
    if rows.len() + programs.len() > MOST_ROWS || several.entries(&rows) > MOST_ENTRIES {
        return Err(SolverError::TooLarge {
            what: "limits of devices that may bind, over all hours",
            size: rows.len() + programs.len(),
            most: MOST_ROWS,
            remedy: "plan for fewer hours, or for a smaller network",
        }
        .into());
    }
    watch.proceed()?;
    let packed = several.pack(&rows);
    let (x, prices, iterations) = if packed.packing.limits.is_empty() {
        (several.unlimited(&packed.packing.groups), Vec::new(), 0)
    } else {
        let found = super::packing::solve(&packed.packing, 0.0, options.tolerance, None, watch)?;
        (found.x, found.prices, found.iterations)
    };
    Ok(several.finish(&packed, &rows, &x, &prices, iterations))
}

/// Refuses instances whose paths or devices differ.
fn check_alike(instances: &[Instance]) -> Result<(), Error> {
    let Some(first) = instances.first() else {
        return Err(SolverError::Hours { hour: 0 }.into());
    };
    let differs = |other: &Instance| {
        first.paths.len() != other.paths.len()
            || first.devices != other.devices
            || first.ingresses.len() != other.ingresses.len()
            || first
                .paths
                .iter()
                .zip(&other.paths)
                .any(|(a, b)| (a.ingress, a.egress, &a.hops) != (b.ingress, b.egress, &b.hops))
    };
    match instances.iter().position(differs) {
        Some(hour) => Err(SolverError::Hours { hour }.into()),
        None => Ok(()),
    }
}

struct Several<'a> {
    programs: &'a [Program<'a>],
    aim: Aim,
    /// Of each hour, what its savings count in the objective for [`Aim::Mean`], and in the row of the
    /// hour for [`Aim::Worst`].
    parts: Vec<f64>,
    /// Of each ingress, the share of its packets that it encodes in every hour: c.
    coded: Vec<f64>,
    /// Columns that may be above 0.
    alive: Vec<bool>,
}

struct Packed {
    packing: Packing,
    /// Value of 1 in the packing, in units of the objective.
    unit: f64,
}

/// Number of an hour, and of the row in its program.
type Row = (usize, usize);

/// What a column uses of a row.
struct Need {
    row: usize,
    need: f64,
}

impl<'a> Several<'a> {
    fn new(programs: &'a [Program<'a>], aim: Aim) -> Self {
        let parts = programs.iter().map(|program| match aim {
            Aim::Mean => 1.0 / programs.len() as f64,
            Aim::Worst => 1.0 / program.instance.footprint().max(f64::MIN_POSITIVE),
        });
        let parts = parts.collect();
        let coded = |ingress: usize| {
            programs.iter().map(|program| program.coded[ingress]).fold(1.0, f64::min)
        };
        let coded = (0..programs[0].coded.len()).map(coded).collect();
        let mut several = Self { programs, aim, parts, coded, alive: Vec::new() };
        several.alive = vec![false; programs[0].weight.len()];
        let instance = programs[0].instance;
        for (number, path) in instance.paths.iter().enumerate() {
            let coded = several.coded[path.ingress as usize];
            for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
                let saves = programs.iter().any(|program| program.weight[column] > 0.0);
                let possible = |program: &Program<'_>| {
                    needs(program, number, hop, column).iter().all(|need| {
                        program.limits[need.row] > need.need * NOTHING || need.need == 0.0
                    })
                };
                several.alive[column] = coded > 0.0 && saves && programs.iter().all(possible);
            }
        }
        several
    }

    /// Alive columns: path, hop and number.
    fn columns(&self) -> impl Iterator<Item = (usize, &'a Hop, usize)> + '_ {
        let instance = self.programs[0].instance;
        instance.paths.iter().enumerate().flat_map(move |(number, path)| {
            path.hops
                .iter()
                .zip(instance.hop_range(number))
                .filter(|(_, column)| self.alive[*column])
                .map(move |(hop, column)| (number, hop, column))
        })
    }

    /// Rows that may bind: not those that all columns together cannot fill, nor those of a device
    /// whose every column takes a larger part of another row of it.
    fn rows(&self) -> Vec<Row> {
        let instance = self.programs[0].instance;
        let count = self.programs[0].limits.len();
        let mut most = vec![vec![0.0; count]; self.programs.len()];
        let mut of_ingress: Vec<u32> = vec![u32::MAX; self.programs.len()];
        for (path, hop, column) in self.columns() {
            let coded = self.coded[instance.paths[path].ingress as usize];
            for (hour, program) in self.programs.iter().enumerate() {
                let [memory, operations, store] = needs(program, path, hop, column);
                most[hour][memory.row] += coded * memory.need;
                most[hour][operations.row] += coded * operations.need;
                // Once for each path, however many columns it has.
                if std::mem::replace(&mut of_ingress[hour], path as u32) != path as u32 {
                    most[hour][store.row] += coded * store.need;
                }
            }
        }
        let binds = |&(hour, row): &Row| most[hour][row] > self.programs[hour].limits[row];
        let devices = instance.devices.len();
        let mut of_device: Vec<Vec<Row>> = vec![Vec::new(); devices];
        let all = (0..self.programs.len()).flat_map(|hour| (0..count).map(move |row| (hour, row)));
        let (devices_rows, mut rows): (Vec<Row>, Vec<Row>) =
            all.filter(binds).partition(|(_, row)| *row < 2 * devices);
        for row in devices_rows {
            of_device[row.1 % devices].push(row);
        }
        // Of each device, which rows are implied by which, as far as columns say so far.
        let mut implied: Vec<Vec<bool>> =
            of_device.iter().map(|rows| vec![true; rows.len() * rows.len()]).collect();
        for (path, hop, column) in self.columns() {
            let (rows, implied) =
                (&of_device[hop.device.index()], &mut implied[hop.device.index()]);
            let part = |&(hour, row): &Row| {
                let need = needs(&self.programs[hour], path, hop, column);
                need[usize::from(row >= devices)].need / self.programs[hour].limits[row]
            };
            let parts: Vec<f64> = rows.iter().map(part).collect();
            for (a, of_a) in parts.iter().enumerate() {
                for (b, of_b) in parts.iter().enumerate() {
                    implied[a * rows.len() + b] &= of_a <= of_b;
                }
            }
        }
        for (of_device, implied) in of_device.iter().zip(&implied) {
            let count = of_device.len();
            let mut kept = vec![true; count];
            for a in 0..count {
                kept[a] = !(0..count).any(|b| a != b && kept[b] && implied[a * count + b]);
            }
            rows.extend(of_device.iter().zip(kept).filter(|(_, kept)| *kept).map(|(row, _)| *row));
        }
        rows.sort_unstable();
        rows
    }

    /// Coefficients of the program with these rows.
    fn entries(&self, rows: &[Row]) -> usize {
        let mut of_row = vec![0usize; self.programs[0].limits.len()];
        rows.iter().for_each(|(_, row)| of_row[*row] += 1);
        let more = if self.aim == Aim::Worst { self.programs.len() } else { 0 };
        self.columns()
            .map(|(path, hop, column)| {
                let needs = needs(&self.programs[0], path, hop, column);
                needs.iter().map(|need| of_row[need.row]).sum::<usize>() + more
            })
            .sum()
    }

    fn pack(&self, rows: &[Row]) -> Packed {
        let instance = self.programs[0].instance;
        let mut number_of =
            vec![vec![u32::MAX; self.programs[0].limits.len()]; self.programs.len()];
        for (number, &(hour, row)) in (0..).zip(rows) {
            number_of[hour][row] = number;
        }
        let mut limits = vec![1.0; rows.len()];
        let unit = self.unit();
        let mut groups = Groups::new();
        let mut entries: Vec<(u32, f64)> = Vec::new();
        let mut columns = self.columns().peekable();
        for (number, path) in instance.paths.iter().enumerate() {
            let coded = self.coded[path.ingress as usize];
            let mut any = false;
            while let Some((_, hop, column)) = columns.next_if(|column| column.0 == number) {
                entries.clear();
                let mut value = 0.0;
                for (hour, program) in self.programs.iter().enumerate() {
                    for Need { row, need } in needs(program, number, hop, column) {
                        let place = number_of[hour][row];
                        if place != u32::MAX && need != 0.0 {
                            entries.push((place, need * coded / program.limits[row]));
                        }
                    }
                    let worth = program.weight[column] * self.parts[hour] * coded / unit;
                    match self.aim {
                        Aim::Mean => value += worth,
                        Aim::Worst => entries.push(((rows.len() + hour) as u32, -worth)),
                    }
                }
                groups.column(column as u32, value, entries.iter().copied());
                any = true;
            }
            if any {
                groups.close();
            }
        }
        if self.aim == Aim::Worst {
            let hours = rows.len() as u32..(rows.len() + self.programs.len()) as u32;
            limits.extend(hours.clone().map(|_| 0.0));
            groups.column(u32::MAX, 1.0, hours.map(|row| (row, 1.0)));
            groups.close();
        }
        Packed { packing: Packing { limits, groups }, unit }
    }

    /// A scale for the objective: the largest weight, or no less than the worst hour can save.
    fn unit(&self) -> f64 {
        let instance = self.programs[0].instance;
        let coded = |path: usize| self.coded[instance.paths[path].ingress as usize];
        let unit = match self.aim {
            Aim::Mean => self
                .columns()
                .map(|(path, _, column)| coded(path) * self.worth(column, &self.parts))
                .fold(0.0, f64::max),
            Aim::Worst => {
                let mut most = vec![0.0; self.programs.len()];
                for (number, path) in instance.paths.iter().enumerate() {
                    let columns =
                        || instance.hop_range(number).filter(|&column| self.alive[column]);
                    for (most, program) in most.iter_mut().zip(self.programs) {
                        let best = columns().map(|column| program.weight[column]);
                        *most += best.fold(0.0, f64::max) * self.coded[path.ingress as usize];
                    }
                }
                most.iter().zip(&self.parts).map(|(most, part)| most * part).fold(1.0, f64::min)
            }
        };
        if unit > 0.0 { unit } else { 1.0 }
    }

    /// Worth of a column, with this worth of a byte times links saved in each hour.
    fn worth(&self, column: usize, parts: &[f64]) -> f64 {
        self.programs.iter().zip(parts).map(|(program, part)| program.weight[column] * part).sum()
    }

    /// The best column of each group.
    fn unlimited(&self, groups: &Groups) -> Vec<f64> {
        let mut x = vec![0.0; groups.column_count()];
        for group in groups.columns.windows(2) {
            let columns = group[0] as usize..group[1] as usize;
            let best = columns.max_by(|&a, &b| groups.weights[a].total_cmp(&groups.weights[b]));
            best.into_iter().for_each(|best| x[best] = 1.0);
        }
        x
    }

    fn finish(
        &self,
        packed: &Packed,
        rows: &[Row],
        x: &[f64],
        of_rows: &[f64],
        iterations: u32,
    ) -> Solution {
        let instance = self.programs[0].instance;
        let mut cached = vec![0.0; self.programs[0].weight.len()];
        for (&origin, &x) in packed.packing.groups.origin.iter().zip(x) {
            if origin != u32::MAX {
                cached[origin as usize] = x.max(0.0);
            }
        }
        for (number, path) in instance.paths.iter().enumerate() {
            let shares = &mut cached[instance.hop_range(number)];
            let sum: f64 = shares.iter().sum();
            let coded = self.coded[path.ingress as usize] / sum.max(1.0);
            shares.iter_mut().for_each(|share| *share *= coded);
        }
        let mut prices = vec![vec![0.0; self.programs[0].limits.len()]; self.programs.len()];
        for (&(hour, row), price) in rows.iter().zip(of_rows) {
            prices[hour][row] = price.max(0.0) * packed.unit / self.programs[hour].limits[row];
        }
        let mut parts = self.parts.clone();
        if self.aim == Aim::Worst {
            let of_hours: Vec<f64> =
                of_rows.iter().skip(rows.len()).map(|price| price.max(0.0)).collect();
            let sum: f64 = of_hours.iter().sum();
            if sum > 0.0 && sum.is_finite() {
                parts.iter_mut().zip(&of_hours).for_each(|(part, price)| *part *= price / sum);
                prices.iter_mut().flatten().for_each(|price| *price /= sum);
            } else {
                let all = self.programs.len() as f64;
                parts.iter_mut().for_each(|part| *part /= all);
            }
        }
        self.unload(&mut cached);
        self.fill(&mut cached, &parts, &prices);
        let saved = self.programs.iter().map(|program| program.value(&cached));
        let objective = match self.aim {
            Aim::Mean => saved.sum::<f64>() / self.programs.len() as f64,
            Aim::Worst => {
                saved.zip(&self.parts).map(|(saved, part)| saved * part).fold(1.0, f64::min)
            }
        };
        let of_all = |row: usize| prices.iter().map(|hour| hour[row]).sum();
        let (devices, count) = (instance.devices.len(), self.programs[0].limits.len());
        Solution {
            objective,
            bound: self.bound(&parts, &prices).max(objective),
            prices: Prices {
                memory: (0..devices).map(of_all).collect(),
                operations: (devices..2 * devices).map(of_all).collect(),
                ingress_memory: (2 * devices..count).map(of_all).collect(),
            },
            method: if of_rows.is_empty() {
                SolvedBy::NothingBinds
            } else {
                SolvedBy::InteriorPoint
            },
            iterations,
            cached,
        }
    }

    /// Scales down what is cached where a limit is exceeded.
    fn unload(&self, cached: &mut [f64]) {
        let mut part = vec![1.0f64; cached.len()];
        for program in self.programs {
            let loads = program.loads(cached);
            let room = |row: usize| {
                let limit = program.limits[row] * (1.0 - ROUNDING);
                if loads[row] > limit { limit / loads[row] } else { 1.0 }
            };
            for (path, hop, column) in self.columns() {
                for Need { row, .. } in needs(program, path, hop, column) {
                    part[column] = part[column].min(room(row));
                }
            }
        }
        cached.iter_mut().zip(part).for_each(|(share, part)| *share *= part);
    }

    /// Assigns what paths have left where there is room, the best first.
    fn fill(&self, cached: &mut [f64], parts: &[f64], prices: &[Vec<f64>]) {
        let instance = self.programs[0].instance;
        let mut left: Vec<Vec<f64>> = Vec::with_capacity(self.programs.len());
        for program in self.programs {
            let loads = program.loads(cached);
            let room = |(load, limit): (&f64, &f64)| limit * (1.0 - ROUNDING) - load;
            left.push(loads.iter().zip(&program.limits).map(room).collect());
        }
        let mut order: Vec<(f64, usize, &Hop, usize)> = self
            .columns()
            .filter(|&(_, _, column)| self.worth(column, parts) > 0.0)
            .map(|(path, hop, column)| {
                (self.gain(path, hop, column, parts, prices), path, hop, column)
            })
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.3.cmp(&b.3)));
        for (_, path, hop, column) in order {
            let coded = self.coded[instance.paths[path].ingress as usize];
            let covered: f64 = cached[instance.hop_range(path)].iter().sum();
            let mut more = coded * (1.0 - ROUNDING) - covered;
            for (program, left) in self.programs.iter().zip(&left) {
                for Need { row, need } in needs(program, path, hop, column) {
                    if need > 0.0 {
                        more = more.min(left[row] / need);
                    }
                }
            }
            if more > 0.0 {
                cached[column] += more;
                for (program, left) in self.programs.iter().zip(&mut left) {
                    for Need { row, need } in needs(program, path, hop, column) {
                        left[row] -= more * need;
                    }
                }
            }
        }
    }

    /// Worth of caching a whole path at a hop, less what it uses at these prices.
    fn gain(
        &self,
        path: usize,
        hop: &Hop,
        column: usize,
        parts: &[f64],
        prices: &[Vec<f64>],
    ) -> f64 {
        let cost = |(program, prices): (&Program<'_>, &Vec<f64>)| {
            let whole = &program.instance.paths[path];
            program.cost(whole, hop, column, prices)
        };
        self.worth(column, parts) - self.programs.iter().zip(prices).map(cost).sum::<f64>()
    }

    /// Bound on any plan, by weak duality ([`Program::bound`]).
    fn bound(&self, parts: &[f64], prices: &[Vec<f64>]) -> f64 {
        let instance = self.programs[0].instance;
        let mut sum = Sum::default();
        for (program, prices) in self.programs.iter().zip(prices) {
            for (price, limit) in prices.iter().zip(&program.limits) {
                if *price > 0.0 {
                    sum.add(price * limit);
                }
            }
        }
        for (number, path) in instance.paths.iter().enumerate() {
            let coded = self.coded[path.ingress as usize];
            let mut best: f64 = 0.0;
            for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
                if self.alive[column] {
                    best = best.max(self.gain(number, hop, column, parts, prices));
                    continue;
                }
                // No more of it than its scarcest resource allows.
                let mut most = coded;
                for program in self.programs {
                    for Need { row, need } in needs(program, number, hop, column) {
                        if need > 0.0 {
                            most = most.min(program.limits[row] / need);
                        }
                    }
                }
                sum.add(most * self.worth(column, parts));
            }
            sum.add(best * coded);
        }
        sum.value()
    }
}

/// What a column uses of its device's memory and operations, and of its ingress's store.
fn needs(program: &Program<'_>, path: usize, hop: &Hop, column: usize) -> [Need; 3] {
    let whole = &program.instance.paths[path];
    let device: DeviceId = hop.device;
    [
        Need { row: program.memory_row(device), need: whole.volume },
        Need { row: program.operations_row(device), need: program.operations[column] },
        Need { row: program.ingress_row(whole.ingress), need: whole.volume },
    ]
}
