//! SmartRE's linear program: built from an [`Instance`], solved, with a bound that needs no trust
//! in the solver.
//!
//! `docs/PLANNERS.md`, "The program", defines it. The method is an interior point method that uses
//! the program's shape (one row per path, few rows per device); a simplex method is the fallback.

mod cholesky;
mod coefficients;
#[cfg(feature = "highs")]
mod highs;
mod interior;
pub(crate) mod packing;
mod presolve;
mod program;
mod recover;
mod several;
mod simplex;
#[cfg(test)]
mod tests;

use crate::{BitRate, Error, Instance, Prices, Solution, SolvedBy, Watch, error::SolverError};
use interior::Centre;
use presolve::Reduced;
use program::Program;
pub use several::solve_several;

/// What a plan is to be good at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Objective {
    /// Save as many bytes times links as possible (thesis, section 3.2, equation 3.4).
    /// [`Solution::objective`] is that number per epoch.
    #[default]
    Footprint,
    /// Make the highest utilization of a link as low as possible. [`Solution::objective`] is that
    /// utilization: 1 is a full link.
    LinkLoad {
        /// Capacity of links whose own is not known; without it they take no part.
        capacity: Option<BitRate>,
    },
}

/// What a plan for several hours is to be good at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// Save as many bytes times links as possible over all hours.
    #[default]
    Mean,
    /// Save as large a share of the footprint as possible in the hour in which it is smallest.
    Worst,
}

/// How the program is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The interior point method; the simplex method where that ends with too large a gap and the
    /// program is small.
    #[default]
    Auto,
    /// The interior point method.
    Interior,
    /// The simplex method of the crate `microlp`. For small programs: its time grows steeply with
    /// size.
    Simplex,
    /// The solver HiGHS, as a reference: its dual simplex method.
    #[cfg(feature = "highs")]
    Highs,
    /// The interior point method of HiGHS, without crossover to a vertex.
    #[cfg(feature = "highs")]
    HighsInterior,
}

/// How a plan is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What it is to be good at.
    pub objective: Objective,
    /// How it is solved.
    pub method: Method,
    /// Relative gap at which solving ends, before limits that it breaks by a hair are repaired:
    /// [`Solution::gap`] may be some times as large. What it costs to make it smaller is little:
    /// each iteration divides it by about ten.
    pub tolerance: f64,
    /// Relative gap that is good enough for a re-plan: the old plan, fitted to the changed
    /// instance, is kept if it is within that, and otherwise solving ends as soon as the new one
    /// is. 0 always solves to `tolerance`.
    pub gap: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { objective: Objective::Footprint, method: Method::Auto, tolerance: 1e-7, gap: 1e-3 }
    }
}

/// What a later [`solve`] of a slightly changed instance can begin with.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmStart {
    link_load: bool,
    devices: usize,
    ingresses: usize,
    links: usize,
    cached: Vec<f64>,
    /// Prices of the program's rows, and those of a point near the central path.
    prices: Vec<f64>,
    centre: Option<WholeCentre>,
}

/// A [`Centre`] for all rows of the program in units of the objective, so that it outlives changes
/// of limits and scales.
#[derive(Clone, Debug, PartialEq)]
struct WholeCentre {
    prices: Vec<f64>,
    complementarity: f64,
}

/// Columns up to which the simplex method is worth a try.
const SMALL: usize = 3000;
/// Gap of the old plan up to which the old centre is a better beginning than none.
const NEAR: f64 = 1e-3;
/// Rows above which the matrix of the prices would not fit in a reasonable memory (1.2 GB for it
/// and its factor).
const MOST_ROWS: usize = 8000;

/// A plan for `instance`, and what a re-plan can begin with. `warm` is what an earlier call
/// returned for an instance with the same paths and devices; of another shape it is not used.
///
/// The plan holds every limit to 1e-12 of it, whatever the method did. [`Solution::bound`] follows
/// from the prices by weak duality.
///
/// # Errors
/// Paths that do not form trees ([`Instance::check_trees`]); numbers in the instance that are no
/// numbers, or negative; for link load, no link with a
/// capacity; more limits that may bind than this solver takes; a solver that fails;
/// [`Error::Stopped`].
pub fn solve(
    instance: &Instance,
    options: &Options,
    warm: Option<&WarmStart>,
    watch: &dyn Watch,
) -> Result<(Solution, WarmStart), Error> {
    for (name, value) in [("tolerance", options.tolerance), ("gap", options.gap)] {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(SolverError::Range { what: name, value, range: "0 or more" }.into());
        }
    }
    watch.progress("building the program", 0, 0);
    watch.proceed()?;
    instance.check_trees()?;
    let program = Program::new(instance, &options.objective, watch)?;
    let warm = warm.filter(|warm| warm.fits(&program));
    let mut centre = None;
    if let Some(warm) = warm {
        let mut cached = warm.cached.clone();
        recover::repair(&program, &warm.prices, &mut cached);
        let solution = certified(&program, cached, &warm.prices, SolvedBy::Kept, 0);
        if options.gap > 0.0 && solution.gap() <= options.gap {
            let warm = WarmStart { cached: solution.cached.clone(), ..warm.clone() };
            return Ok((solution, warm));
        }
        if solution.gap() <= NEAR {
            centre = warm.centre.as_ref();
        }
    }
    watch.progress("reducing the program", 0, 0);
    watch.proceed()?;
    let reduced = presolve::reduce(&program);
    let start = centre.map(|centre| centre.for_rows(&program, &reduced));
    if warm.is_some()
        && options.gap > options.tolerance
        && matches!(options.method, Method::Auto | Method::Interior)
    {
        // Mending the plan costs a part of the gap.
        let near = Options { tolerance: options.gap / 4.0, ..*options };
        match interior(&program, &reduced, &near, start.clone(), watch) {
            Ok((solution, _)) if solution.gap() > options.gap => {}
            Err(Error::Solver(_)) => {}
            found => return found,
        }
    }
    match options.method {
        Method::Interior => interior(&program, &reduced, options, start, watch),
        Method::Simplex => simplex(&program, &reduced, watch),
        #[cfg(feature = "highs")]
        Method::Highs => highs(&program, &reduced, false, watch),
        #[cfg(feature = "highs")]
        Method::HighsInterior => highs(&program, &reduced, true, watch),
        Method::Auto => {
            let found = interior(&program, &reduced, options, start, watch);
            match &found {
                Ok((solution, _)) if good_enough(solution, options) => found,
                Err(Error::Stopped) => found,
                _ if reduced.packing.groups.column_count() > SMALL => found,
                _ => match (found, simplex(&program, &reduced, watch)) {
                    (_, Err(Error::Stopped)) => Err(Error::Stopped),
                    (Ok(interior), Ok(simplex)) if interior.0.gap() <= simplex.0.gap() => {
                        Ok(interior)
                    }
                    (found, Err(_)) => found,
                    (_, simplex) => simplex,
                },
            }
        }
    }
}

type Answer = Result<(Solution, WarmStart), Error>;

fn interior(
    program: &Program<'_>,
    reduced: &Reduced,
    options: &Options,
    start: Option<Centre>,
    watch: &dyn Watch,
) -> Answer {
    if reduced.rows.len() > MOST_ROWS {
        return Err(SolverError::TooLarge {
            what: "limits of devices that may bind",
            size: reduced.rows.len(),
            most: MOST_ROWS,
            remedy: "plan fewer devices, or larger ones",
        }
        .into());
    }
    if reduced.packing.groups.len() == 0 {
        return Ok(without_limits(program, reduced));
    }
    let offset = if program.links.is_some() { -1.0 } else { reduced.constant };
    let attempt = |tolerance: f64, start: Option<Centre>| -> Answer {
        let outcome = interior::solve(&reduced.packing, offset, tolerance, start, watch)?;
        Ok(finish(
            program,
            reduced,
            outcome.x,
            outcome.prices,
            outcome.centre,
            SolvedBy::InteriorPoint,
            outcome.iterations,
        ))
    };
    let first = attempt(options.tolerance, start)?;
    if good_enough(&first.0, options) || reduced.packing.groups.column_count() > SMALL {
        return Ok(first);
    }
    // What the method ends with breaks limits by a hair. Where numbers are of very different sizes,
    // that hair is worth more than the tolerance.
    match attempt(options.tolerance * 1e-3, None) {
        Ok(second) if second.0.gap() < first.0.gap() => Ok(second),
        Err(Error::Stopped) => Err(Error::Stopped),
        _ => Ok(first),
    }
}

/// The plan where no limit can bind.
fn without_limits(program: &Program<'_>, reduced: &Reduced) -> (Solution, WarmStart) {
    finish(program, reduced, Vec::new(), Vec::new(), None, SolvedBy::NothingBinds, 0)
}

/// Whether a gap, after repair, is about what was wanted.
fn good_enough(solution: &Solution, options: &Options) -> bool {
    solution.gap() <= options.tolerance.max(1e-9) * 10.0
}

fn simplex(program: &Program<'_>, reduced: &Reduced, watch: &dyn Watch) -> Answer {
    let (x, prices) = simplex::solve(reduced, watch)?;
    Ok(finish(program, reduced, x, prices, None, SolvedBy::Simplex, 0))
}

#[cfg(feature = "highs")]
fn highs(program: &Program<'_>, reduced: &Reduced, interior: bool, watch: &dyn Watch) -> Answer {
    // HiGHS has another status for a model without columns.
    if reduced.packing.groups.len() == 0 {
        return Ok(without_limits(program, reduced));
    }
    let (x, prices, iterations) = highs::solve(reduced, interior, watch)?;
    let method = if interior { SolvedBy::HighsInterior } else { SolvedBy::Highs };
    Ok(finish(program, reduced, x, prices, None, method, iterations))
}

fn finish(
    program: &Program<'_>,
    reduced: &Reduced,
    x: Vec<f64>,
    prices: Vec<f64>,
    centre: Option<Centre>,
    method: SolvedBy,
    iterations: u32,
) -> (Solution, WarmStart) {
    let prices = recover::prices(program, reduced, &prices);
    let mut cached = recover::expand(program, reduced, &x);
    recover::repair(program, &prices, &mut cached);
    let centre = centre.map(|centre| {
        let mut whole = vec![0.0; program.row_count()];
        for ((&row, price), scale) in reduced.rows.iter().zip(centre.prices).zip(&reduced.scale) {
            whole[row] = price * reduced.unit / scale;
        }
        WholeCentre { prices: whole, complementarity: centre.complementarity * reduced.unit }
    });
    let solution = certified(program, cached, &prices, method, iterations);
    let warm = WarmStart {
        link_load: program.links.is_some(),
        devices: program.instance.devices.len(),
        ingresses: program.instance.ingresses.len(),
        links: program.instance.network.links.len(),
        cached: solution.cached.clone(),
        prices,
        centre,
    };
    (solution, warm)
}

/// The solution with its value and its bound, both computed from the whole program.
fn certified(
    program: &Program<'_>,
    cached: Vec<f64>,
    prices: &[f64],
    method: SolvedBy,
    iterations: u32,
) -> Solution {
    let objective = program.value(&cached);
    let bound = program.bound(prices);
    // A bound beyond the value is rounding.
    let bound = if program.links.is_some() { bound.min(objective) } else { bound.max(objective) };
    let devices = program.instance.devices.len();
    Solution {
        cached,
        objective,
        bound,
        prices: Prices {
            memory: prices[..devices].to_vec(),
            operations: prices[devices..2 * devices].to_vec(),
            ingress_memory: prices[2 * devices..program.limits.len()].to_vec(),
        },
        method,
        iterations,
    }
}

impl WarmStart {
    fn fits(&self, program: &Program<'_>) -> bool {
        let instance = program.instance;
        self.link_load == program.links.is_some()
            && self.devices == instance.devices.len()
            && self.ingresses == instance.ingresses.len()
            && self.links == instance.network.links.len()
            && self.cached.len() == instance.hop_count()
            && self.prices.len() == program.row_count()
    }
}

impl WholeCentre {
    /// For the rows of a program reduced from a changed instance; rows that were not there get a
    /// price that is small, but not nothing. Where the one limit of a device implied the other and
    /// it is the other way round now, the price goes over to the other.
    fn for_rows(&self, program: &Program<'_>, reduced: &Reduced) -> Centre {
        let complementarity = self.complementarity / reduced.unit;
        let of_devices = 2 * program.instance.devices.len();
        let mut kept = vec![false; program.row_count()];
        reduced.rows.iter().for_each(|&row| kept[row] = true);
        let prices = reduced.rows.iter().zip(&reduced.scale).map(|(&row, scale)| {
            let mut worth = self.prices[row] * scale;
            if row < of_devices {
                let other = (row + of_devices / 2) % of_devices;
                if !kept[other] && self.prices[other] > 0.0 && program.limits[other].is_finite() {
                    worth += self.prices[other] * program.limits[other];
                }
            }
            (worth / reduced.unit).max(complementarity)
        });
        Centre { prices: prices.collect(), complementarity }
    }
}
