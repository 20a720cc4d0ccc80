//! A primal-dual interior point method (Mehrotra, *On the implementation of a primal-dual interior
//! point method*, SIAM J. Optim. 2(4), 1992) for programs whose columns come in groups, each with
//! one row of its own (cover), coupled by few rows (limits).
//!
//! Maximise w'x with A x + s = b (limits), and x of each group + t = 1 (cover); prices y of the
//! limits and z of the groups, reduced costs sigma = A'y + z - w. In Newton's equations a group's
//! columns and its cover row are diagonal but for one row and one column, so they are eliminated by
//! hand; what is left is one dense system for the prices y,
//!
//! S dy = r,  S = diag(s/y) + sum over groups (sum of d a a' - h h'/g),  d = x/sigma, h = sum of d
//! a, g = t/z + sum of d.
//!
//! Longer than 600 lines: one iteration, whose steps share the vectors of a point and their meaning.

use ndarray::Array2;
use rayon::prelude::*;

use super::{
    cholesky::Cholesky,
    packing::{Groups, Packing},
    program::Sum,
};
use crate::{Error, Watch, error::SolverError};

/// Where the method ended, and a centre from which it can begin again.
pub(crate) struct Outcome {
    /// Per column of [`Packing::groups`].
    pub x: Vec<f64>,
    /// Price of each row.
    pub prices: Vec<f64>,
    pub iterations: u32,
    /// The prices and the complementarity of an iterate on the way that was near the central path.
    pub centre: Option<Centre>,
}

/// A point of the central path, nearly: the prices of the rows, and what each product of a variable
/// and its reduced cost is there. The rest follows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Centre {
    pub prices: Vec<f64>,
    pub complementarity: f64,
}

/// Iterations after which it is given up; 15 to 40 are usual.
const ITERATIONS: u32 = 150;
/// Relative gap at which an iterate is kept as a centre for later.
const CENTRE_GAP: f64 = 0.02;
/// Columns from which on threads share the work.
const SHARED: usize = 4096;
/// Residual of the rows, relative to their limits, that the clean-up of the solution repairs
/// without loss.
const FEASIBLE: f64 = 1e-8;
/// The same as a part of the tolerance, where that asks for less.
const FEASIBLE_PART: f64 = 0.1;
/// What the complementarity of an earlier run's centre is multiplied with: what has changed since
/// has to be made good first, and without room a row that now holds too much allows only short
/// steps.
const ROOM: f64 = 10.0;

/// Solves to a relative gap of `tolerance` or as near as the digits allow.
pub(crate) fn solve(
    packing: &Packing,
    offset: f64,
    tolerance: f64,
    start: Option<Centre>,
    watch: &dyn Watch,
) -> Result<Outcome, Error> {
    let rows = packing.limits.len();
    let groups = &packing.groups;
    let mut parts = parts(groups, rows);
    let b = &packing.limits;

    let cold = start.is_none();
    let (mut y, mut mu) = first_prices(groups, rows, start);
    each(&mut parts, |part| part.centre(&y, mu));
    let used = total(each(&mut parts, |part| part.used(rows)), rows);
    let mut s = first_slacks(b, &used, (!cold).then_some((&y, mu)));

    let variables = groups.column_count() + groups.len() + rows;
    let feasible = FEASIBLE.max(FEASIBLE_PART * tolerance);
    let mut outcome = Outcome { x: Vec::new(), prices: y.clone(), iterations: 0, centre: None };
    let mut best_bound = f64::INFINITY;
    let mut best_merit = f64::INFINITY;
    let mut stalled = 0;
    for iteration in 0..ITERATIONS {
        watch.progress("solving", u64::from(iteration), 0);
        watch.proceed()?;

        let Whole { mut matrix, mut rhs, used, value, mut bound, mut products, mut missing } =
            Whole::of(each(&mut parts, |part| part.form(&y, rows)), rows);
        let mut residual = vec![0.0; rows];
        for i in 0..rows {
            residual[i] = b[i] - used[i] - s[i];
            bound.add(y[i] * b[i]);
            products.add(s[i] * y[i]);
            missing = missing.max(residual[i].abs() / b[i].abs().max(0.1));
            matrix[[i, i]] += s[i] / y[i];
            rhs[i] += -s[i] - residual[i];
        }
        mu = products.value() / variables as f64;
        best_bound = best_bound.min(bound.value());
        let gap = (best_bound - value.value()) / (offset + best_bound).abs().max(1e-300);

        // The iterate that promises most is kept: the last ones may be lost in rounding.
        let merit = gap.abs() + missing;
        if merit < best_merit {
            best_merit = merit;
            stalled = 0;
            outcome.x.clear();
            parts.iter().for_each(|part| outcome.x.extend_from_slice(&part.x));
            outcome.prices.clone_from(&y);
            outcome.iterations = iteration;
        } else if iteration > 10 {
            stalled += 1;
        }
        if (gap <= tolerance && missing <= feasible) || stalled >= 8 || !merit.is_finite() {
            break;
        }
        if outcome.centre.is_none() && gap <= CENTRE_GAP && missing <= 1e-3 {
            outcome.centre = Some(Centre { prices: y.clone(), complementarity: mu });
        }

        let system = System::new(matrix);
        let mut dy = rhs;
        system.solve(&mut dy);
        let affine = step(each(&mut parts, |part| part.direction(&dy)));
        let ds: Vec<f64> = (0..rows).map(|i| -s[i] - s[i] / y[i] * dy[i]).collect();
        let left = affine.left((&s, &ds), (&y, &dy));
        let ratio = (left / variables as f64 / mu).clamp(0.0, 1.0);
        let target = mu * (ratio * ratio * ratio).max(1e-6);

        let corrected = each(&mut parts, |part| part.correct(target, rows));
        let mut rhs = total(corrected, rows);
        let complement: Vec<f64> =
            (0..rows).map(|i| (target - ds[i] * dy[i]) / y[i] - s[i]).collect();
        for i in 0..rows {
            rhs[i] += complement[i] - residual[i];
        }
        let mut dy = rhs;
        system.solve(&mut dy);
        let full = step(each(&mut parts, |part| part.direction(&dy)));
        let ds: Vec<f64> = (0..rows).map(|i| complement[i] - s[i] / y[i] * dy[i]).collect();
        // Nearly to the boundary, the nearer the smaller the gap is.
        let near = (1.0 - ratio).clamp(0.9, 0.9995);
        let primal = (near * full.primal.min(longest(&s, &ds))).min(1.0);
        let dual = (near * full.dual.min(longest(&y, &dy))).min(1.0);
        each(&mut parts, |part| part.advance(primal, dual));
        for i in 0..rows {
            s[i] += primal * ds[i];
            y[i] += dual * dy[i];
        }
    }
    if !best_merit.is_finite() {
        return Err(singular());
    }
    Ok(outcome)
}

fn singular() -> Error {
    let reason = "the system of equations is singular to working precision".into();
    SolverError::Failed { method: "interior point method", reason }.into()
}

/// The columns in parts, each of which has a matrix of its own: fewer where that is large. Never by
/// the number of threads: sums must not depend on it.
fn parts(groups: &Groups, rows: usize) -> Vec<Part> {
    let parts = if groups.column_count() < SHARED {
        1
    } else {
        (8_000_000 / (rows * rows).max(1)).clamp(2, 8)
    };
    groups.split(parts).into_iter().map(Part::new).collect()
}

/// Prices of the rows to begin with, and their complementarity.
fn first_prices(groups: &Groups, rows: usize, start: Option<Centre>) -> (Vec<f64>, f64) {
    if let Some(Centre { mut prices, complementarity }) = start {
        let complementarity = ROOM * complementarity;
        prices.iter_mut().for_each(|price| *price = price.max(complementarity));
        return (prices, complementarity);
    }
    let best = |group: usize| {
        let columns = groups.columns[group] as usize..groups.columns[group + 1] as usize;
        groups.weights[columns].iter().copied().fold(0.0, f64::max)
    };
    let sum: f64 = (0..groups.len()).map(best).sum();
    let mean = sum / groups.len().max(1) as f64;
    // A quarter of what all may be worth, shared by the rows. A tenth of this complementarity takes
    // a third more iterations.
    (vec![0.25 * sum / rows.max(1) as f64; rows], mean)
}

/// Slack of the rows to begin with: what is left where something is, and what belongs to the price
/// where nothing is; the residual goes away with the first long steps. `warm`: prices and
/// complementarity of an earlier run.
fn first_slacks(b: &[f64], used: &[f64], warm: Option<(&Vec<f64>, f64)>) -> Vec<f64> {
    let slack = |(row, (b, used)): (usize, (&f64, &f64))| {
        let left = b - used;
        match warm {
            Some((y, mu)) => left.max(mu / y[row]),
            None => left.max(b.max(0.1)),
        }
    };
    b.iter().zip(used).enumerate().map(slack).collect()
}

fn each<T: Send>(parts: &mut [Part], work: impl Fn(&mut Part) -> T + Sync + Send) -> Vec<T> {
    if let [part] = parts { vec![work(part)] } else { parts.par_iter_mut().map(work).collect() }
}

fn add(sum: &mut [f64], values: &[f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

fn total(parts: Vec<Vec<f64>>, rows: usize) -> Vec<f64> {
    let mut sum = vec![0.0; rows];
    parts.iter().for_each(|part| add(&mut sum, part));
    sum
}

/// The longest step, at most 1e3, along `moves` that leaves `values` at least 0.
fn longest(values: &[f64], moves: &[f64]) -> f64 {
    1.0 / values.iter().zip(moves).map(|(value, by)| -by / value).fold(1e-3, f64::max)
}

/// The system for the prices, with one round of refinement.
struct System {
    matrix: Array2<f64>,
    factor: Cholesky,
}

impl System {
    fn new(matrix: Array2<f64>) -> Self {
        let factor = Cholesky::new(matrix.clone());
        Self { matrix, factor }
    }

    fn solve(&self, b: &mut [f64]) {
        let wanted = b.to_vec();
        self.factor.solve(b);
        let mut rest = wanted;
        // Only the lower triangle is there.
        for (i, row) in self.matrix.rows().into_iter().enumerate() {
            let row = row.to_slice().expect("rows are contiguous");
            let mut sum = row[i] * b[i];
            for j in 0..i {
                sum += row[j] * b[j];
                rest[j] -= row[j] * b[i];
            }
            rest[i] -= sum;
        }
        self.factor.solve(&mut rest);
        add(b, &rest);
    }
}

/// Some groups, and the iterate's part there.
struct Part {
    groups: Groups,
    x: Vec<f64>,
    sigma: Vec<f64>,
    /// Per group: slack and price of its cover row.
    t: Vec<f64>,
    z: Vec<f64>,
    // Of the Newton system: x/sigma; residual of the dual; what x moves at unchanged prices. Per
    // group: g; residual; what t moves.
    d: Vec<f64>,
    dual_residual: Vec<f64>,
    q: Vec<f64>,
    g: Vec<f64>,
    residual: Vec<f64>,
    q_t: Vec<f64>,
    // The direction.
    dx: Vec<f64>,
    dsigma: Vec<f64>,
    dt: Vec<f64>,
    dz: Vec<f64>,
}

struct Formed {
    matrix: Array2<f64>,
    rhs: Vec<f64>,
    used: Vec<f64>,
    value: f64,
    bound: f64,
    products: f64,
    missing: f64,
}

/// [`Formed`] of all parts together.
struct Whole {
    matrix: Array2<f64>,
    rhs: Vec<f64>,
    used: Vec<f64>,
    value: Sum,
    bound: Sum,
    products: Sum,
    missing: f64,
}

impl Whole {
    fn of(parts: Vec<Formed>, rows: usize) -> Self {
        let mut whole = Self {
            matrix: Array2::zeros((rows, rows)),
            rhs: vec![0.0; rows],
            used: vec![0.0; rows],
            value: Sum::default(),
            bound: Sum::default(),
            products: Sum::default(),
            missing: 0.0,
        };
        for part in parts {
            whole.matrix += &part.matrix;
            add(&mut whole.rhs, &part.rhs);
            add(&mut whole.used, &part.used);
            whole.value.add(part.value);
            whole.bound.add(part.bound);
            whole.products.add(part.products);
            whole.missing = whole.missing.max(part.missing);
        }
        whole
    }
}

#[derive(Clone, Copy)]
struct Step {
    primal: f64,
    dual: f64,
    /// Sums of products of variables and reduced costs: now, by what a step of the one, of the
    /// other and of both changes them.
    products: f64,
    primal_moves: f64,
    dual_moves: f64,
    both: f64,
}

impl Step {
    /// The products that are left after the longest step that this one and those of the slacks
    /// and prices of rows allow; each of them a vector with its direction.
    fn left(&self, slacks: (&[f64], &[f64]), prices: (&[f64], &[f64])) -> f64 {
        let primal = self.primal.min(longest(slacks.0, slacks.1));
        let dual = self.dual.min(longest(prices.0, prices.1));
        let mut left = self.products
            + primal * self.primal_moves
            + dual * self.dual_moves
            + primal * dual * self.both;
        for ((s, ds), (y, dy)) in slacks.0.iter().zip(slacks.1).zip(prices.0.iter().zip(prices.1)) {
            left += (s + primal * ds) * (y + dual * dy);
        }
        left
    }
}

fn step(parts: Vec<Step>) -> Step {
    let none = Step {
        primal: f64::INFINITY,
        dual: f64::INFINITY,
        products: 0.0,
        primal_moves: 0.0,
        dual_moves: 0.0,
        both: 0.0,
    };
    parts.into_iter().fold(none, |a, b| Step {
        primal: a.primal.min(b.primal),
        dual: a.dual.min(b.dual),
        products: a.products + b.products,
        primal_moves: a.primal_moves + b.primal_moves,
        dual_moves: a.dual_moves + b.dual_moves,
        both: a.both + b.both,
    })
}

impl Part {
    fn new(groups: Groups) -> Self {
        let (columns, count) = (groups.column_count(), groups.len());
        let column = || vec![0.0; columns];
        let group = || vec![0.0; count];
        Self {
            x: column(),
            sigma: column(),
            t: group(),
            z: group(),
            d: column(),
            dual_residual: column(),
            q: column(),
            g: group(),
            residual: group(),
            q_t: group(),
            dx: column(),
            dsigma: column(),
            dt: group(),
            dz: group(),
            groups,
        }
    }

    /// The point of the central path for these prices: given y and mu, x = mu / sigma and t = mu /
    /// z, and z of a group is what makes them add up to 1. That sum is convex and decreasing in z,
    /// so Newton's method from the left comes near without passing.
    fn centre(&mut self, y: &[f64], mu: f64) {
        for group in 0..self.groups.len() {
            let columns =
                self.groups.columns[group] as usize..self.groups.columns[group + 1] as usize;
            let rows = &self.groups.rows[self.groups.row_offsets[group] as usize..];
            let mut worth: f64 = 0.0;
            for column in columns.clone() {
                let gain = self.groups.weights[column] - priced(&self.groups, rows, column, y);
                self.sigma[column] = -gain;
                worth = worth.max(gain);
            }
            let mut z = worth + mu;
            for _ in 0..40 {
                let (mut sum, mut slope) = (mu / z, mu / (z * z));
                for column in columns.clone() {
                    let share = mu / (self.sigma[column] + z);
                    sum += share;
                    slope += share / (self.sigma[column] + z);
                }
                let by = (sum - 1.0) / slope;
                z += by.max(0.0);
                if by <= 1e-9 * mu {
                    break;
                }
            }
            self.z[group] = z;
            self.t[group] = mu / z;
            for column in columns {
                self.sigma[column] += z;
                self.x[column] = mu / self.sigma[column];
            }
        }
    }

    /// A x.
    fn used(&mut self, rows: usize) -> Vec<f64> {
        let mut used = vec![0.0; rows];
        for group in 0..self.groups.len() {
            let own = &self.groups.rows[self.groups.row_offsets[group] as usize..];
            for column in
                self.groups.columns[group] as usize..self.groups.columns[group + 1] as usize
            {
                for entry in
                    self.groups.entries[column] as usize..self.groups.entries[column + 1] as usize
                {
                    used[own[self.groups.local[entry] as usize] as usize] +=
                        self.groups.coefficients[entry] * self.x[column];
                }
            }
        }
        used
    }

    /// The matrix and the right-hand side of the predictor, without what the rows' slacks add.
    fn form(&mut self, y: &[f64], rows: usize) -> Formed {
        let mut formed = Formed {
            matrix: Array2::zeros((rows, rows)),
            rhs: vec![0.0; rows],
            used: vec![0.0; rows],
            value: 0.0,
            bound: 0.0,
            products: 0.0,
            missing: 0.0,
        };
        let matrix = formed.matrix.as_slice_mut().expect("a new matrix is contiguous");
        let groups = &self.groups;
        // Of the group: h, A q, A x; and the lower triangle of its matrix.
        let (mut h, mut moved, mut used, mut local) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for group in 0..groups.len() {
            let own = &groups.rows
                [groups.row_offsets[group] as usize..groups.row_offsets[group + 1] as usize];
            let n = own.len();
            for vector in [&mut h, &mut moved, &mut used] {
                vector.clear();
                vector.resize(n, 0.0);
            }
            local.clear();
            local.resize(n * n, 0.0);
            let (t, z) = (self.t[group], self.z[group]);
            let (mut x_sum, mut q_sum, mut d_sum, mut best) = (0.0, 0.0, 0.0, 0.0f64);
            for column in groups.columns[group] as usize..groups.columns[group + 1] as usize {
                let (x, sigma) = (self.x[column], self.sigma[column]);
                let gain = groups.weights[column] - priced(groups, own, column, y);
                let dual_residual = gain - z + sigma;
                let d = x / sigma;
                let q = d * dual_residual - x;
                self.d[column] = d;
                self.dual_residual[column] = dual_residual;
                self.q[column] = q;
                best = best.max(gain);
                x_sum += x;
                q_sum += q;
                d_sum += d;
                formed.value += groups.weights[column] * x;
                formed.products += x * sigma;
                let entries = groups.entries[column] as usize..groups.entries[column + 1] as usize;
                let (places, coefficients) =
                    (&groups.local[entries.clone()], &groups.coefficients[entries]);
                for (k, (&i, &a)) in places.iter().zip(coefficients).enumerate() {
                    let i = i as usize;
                    let weighted = d * a;
                    h[i] += weighted;
                    moved[i] += a * q;
                    used[i] += a * x;
                    for (&j, &other) in places[..=k].iter().zip(coefficients) {
                        let j = j as usize;
                        local[i.max(j) * n + i.min(j)] += weighted * other;
                    }
                }
            }
            let q_t = -t;
            let residual = 1.0 - x_sum - t;
            let g = d_sum + t / z;
            let rho = q_sum + q_t - residual;
            self.g[group] = g;
            self.residual[group] = residual;
            self.q_t[group] = q_t;
            formed.bound += best;
            formed.products += t * z;
            formed.missing = formed.missing.max(residual.abs());
            let share = rho / g;
            for (i, &row) in own.iter().enumerate() {
                let row = row as usize;
                formed.rhs[row] += moved[i] - h[i] * share;
                formed.used[row] += used[i];
                let target = &mut matrix[row * rows..(row + 1) * rows];
                let part = h[i] / g;
                for (j, &column) in own[..=i].iter().enumerate() {
                    target[column as usize] += local[i * n + j] - part * h[j];
                }
            }
        }
        formed
    }

    /// The direction for a change of the prices, and how far it can be followed.
    fn direction(&mut self, dy: &[f64]) -> Step {
        let groups = &self.groups;
        let (mut primal, mut dual) = (1e-3f64, 1e-3f64);
        let (mut products, mut primal_moves, mut dual_moves, mut both) = (0.0, 0.0, 0.0, 0.0);
        for group in 0..groups.len() {
            let own = &groups.rows[groups.row_offsets[group] as usize..];
            let columns = groups.columns[group] as usize..groups.columns[group + 1] as usize;
            let mut moved = 0.0;
            let mut q_sum = 0.0;
            for column in columns.clone() {
                let price = priced(groups, own, column, dy);
                self.dsigma[column] = price;
                moved += self.d[column] * price;
                q_sum += self.q[column];
            }
            let (t, z) = (self.t[group], self.z[group]);
            let dz = (q_sum + self.q_t[group] - self.residual[group] - moved) / self.g[group];
            let dt = self.q_t[group] - t / z * dz;
            self.dz[group] = dz;
            self.dt[group] = dt;
            primal = primal.max(-dt / t);
            dual = dual.max(-dz / z);
            products += t * z;
            primal_moves += dt * z;
            dual_moves += t * dz;
            both += dt * dz;
            for column in columns {
                let (x, sigma) = (self.x[column], self.sigma[column]);
                let dx = self.q[column] - self.d[column] * (self.dsigma[column] + dz);
                let dsigma = self.dsigma[column] + dz - self.dual_residual[column];
                self.dx[column] = dx;
                self.dsigma[column] = dsigma;
                primal = primal.max(-dx / x);
                dual = dual.max(-dsigma / sigma);
                products += x * sigma;
                primal_moves += dx * sigma;
                dual_moves += x * dsigma;
                both += dx * dsigma;
            }
        }
        Step { primal: 1.0 / primal, dual: 1.0 / dual, products, primal_moves, dual_moves, both }
    }

    /// Aims at products of `target`, with the direction found so far as the second-order term; the
    /// right-hand side of that system.
    fn correct(&mut self, target: f64, rows: usize) -> Vec<f64> {
        let mut rhs = vec![0.0; rows];
        let groups = &self.groups;
        for group in 0..groups.len() {
            let own = &groups.rows[groups.row_offsets[group] as usize..];
            let columns = groups.columns[group] as usize..groups.columns[group + 1] as usize;
            let mut q_sum = 0.0;
            for column in columns.clone() {
                let (d, sigma) = (self.d[column], self.sigma[column]);
                let q = d * self.dual_residual[column] - self.x[column]
                    + (target - self.dx[column] * self.dsigma[column]) / sigma;
                self.q[column] = q;
                q_sum += q;
            }
            self.q_t[group] =
                (target - self.dt[group] * self.dz[group]) / self.z[group] - self.t[group];
            let share = (q_sum + self.q_t[group] - self.residual[group]) / self.g[group];
            for column in columns {
                let moved = self.q[column] - self.d[column] * share;
                for entry in groups.entries[column] as usize..groups.entries[column + 1] as usize {
                    rhs[own[groups.local[entry] as usize] as usize] +=
                        groups.coefficients[entry] * moved;
                }
            }
        }
        rhs
    }

    fn advance(&mut self, primal: f64, dual: f64) {
        let go = |values: &mut [f64], moves: &[f64], by: f64| {
            values.iter_mut().zip(moves).for_each(|(value, step)| *value += by * step)
        };
        go(&mut self.x, &self.dx, primal);
        go(&mut self.t, &self.dt, primal);
        go(&mut self.sigma, &self.dsigma, dual);
        go(&mut self.z, &self.dz, dual);
    }
}

/// What a column's use of the rows costs at these prices.
#[inline]
fn priced(groups: &Groups, rows: &[u32], column: usize, prices: &[f64]) -> f64 {
    let entries = groups.entries[column] as usize..groups.entries[column + 1] as usize;
    let mut sum = 0.0;
    for (&place, &coefficient) in
        groups.local[entries.clone()].iter().zip(&groups.coefficients[entries])
    {
        sum += coefficient * prices[rows[place as usize] as usize];
    }
    sum
}
