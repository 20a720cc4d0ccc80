//! Cholesky factors of dense matrices, by recursion down to blocks so that nearly all work is
//! matrix products.

use ndarray::{Array2, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis, linalg::general_mat_mul};

/// Below this order blocks are factored by plain loops.
const BLOCK: usize = 32;
/// From this order on, updates are shared among threads.
const SHARED: usize = 512;
/// A pivot below this part of its diagonal element is rounding error; its row depends on those
/// above.
const DEPENDENT: f64 = 1e-15;

/// L with L L' = A, from the lower triangle of A.
pub(crate) struct Cholesky {
    factor: Array2<f64>,
}

impl Cholesky {
    /// Factors `matrix`, symmetric positive semidefinite, whose lower triangle is read and whose
    /// store is taken. A row that depends on others gets a pivot so large that its unknown comes
    /// out as nothing.
    pub(crate) fn new(matrix: Array2<f64>) -> Self {
        let mut factor = matrix;
        let least: Vec<f64> = factor.diag().iter().map(|value| value * DEPENDENT).collect();
        recurse(factor.view_mut(), &least);
        Self { factor }
    }

    /// Replaces b by the solution of A x = b.
    pub(crate) fn solve(&self, b: &mut [f64]) {
        let rows = || self.factor.rows().into_iter().enumerate();
        for (i, row) in rows() {
            let row = row.to_slice().expect("rows of the factor are contiguous");
            let (known, rest) = b.split_at_mut(i);
            rest[0] = (rest[0] - dot(&row[..i], known)) / row[i];
        }
        for (i, row) in rows().rev() {
            let row = row.to_slice().expect("rows of the factor are contiguous");
            b[i] /= row[i];
            let value = b[i];
            b[..i].iter_mut().zip(row).for_each(|(b, l)| *b -= value * l);
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four sums at once: one would wait for itself at every step.
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 4];
    for (a, b) in a4.zip(b4) {
        for k in 0..4 {
            sums[k] += a[k] * b[k];
        }
    }
    rest + (sums[0] + sums[1]) + (sums[2] + sums[3])
}

fn recurse(mut a: ArrayViewMut2<'_, f64>, least: &[f64]) {
    let n = a.nrows();
    if n <= BLOCK {
        return plain(a, least);
    }
    let half = (n / 2).next_multiple_of(BLOCK).min(n - 1);
    let (upper, lower) = a.view_mut().split_at(Axis(0), half);
    let (mut a11, _) = upper.split_at(Axis(1), half);
    let (mut a21, a22) = lower.split_at(Axis(1), half);
    recurse(a11.view_mut(), &least[..half]);
    triangular(a21.view_mut(), a11.view());
    let mut a22 = a22;
    update(a22.view_mut(), a21.view());
    recurse(a22, &least[half..]);
}

fn plain(mut a: ArrayViewMut2<'_, f64>, least: &[f64]) {
    for j in 0..a.nrows() {
        for i in j..a.nrows() {
            let mut sum = a[[i, j]];
            for k in 0..j {
                sum -= a[[i, k]] * a[[j, k]];
            }
            a[[i, j]] = if i > j {
                sum / a[[j, j]]
            } else if sum > least[j] && sum.is_finite() {
                sum.sqrt()
            } else {
                1e64
            };
        }
    }
}

/// B becomes B L'^-1.
fn triangular(mut b: ArrayViewMut2<'_, f64>, l: ArrayView2<'_, f64>) {
    let n = l.nrows();
    if n <= BLOCK / 2 {
        for row in b.rows_mut() {
            forward(row, l);
        }
        return;
    }
    let half = n / 2;
    let (mut b1, mut b2) = b.view_mut().split_at(Axis(1), half);
    let (upper, lower) = l.split_at(Axis(0), half);
    let (l21, l22) = lower.split_at(Axis(1), half);
    triangular(b1.view_mut(), upper.split_at(Axis(1), half).0);
    general_mat_mul(-1.0, &b1, &l21.t(), 1.0, &mut b2);
    triangular(b2, l22);
}

fn forward(mut row: ArrayViewMut1<'_, f64>, l: ArrayView2<'_, f64>) {
    for j in 0..l.nrows() {
        let mut sum = row[j];
        for k in 0..j {
            sum -= row[k] * l[[j, k]];
        }
        row[j] = sum / l[[j, j]];
    }
}

/// The lower triangle of C becomes that of C - A A'.
fn update(mut c: ArrayViewMut2<'_, f64>, a: ArrayView2<'_, f64>) {
    let n = c.nrows();
    if n <= 2 * BLOCK {
        return general_mat_mul(-1.0, &a, &a.t(), 1.0, &mut c);
    }
    let half = n / 2;
    let (upper, lower) = c.view_mut().split_at(Axis(0), half);
    let (c11, _) = upper.split_at(Axis(1), half);
    let (mut c21, c22) = lower.split_at(Axis(1), half);
    let (a1, a2) = a.split_at(Axis(0), half);
    let mut beside = move || general_mat_mul(-1.0, &a2, &a1.t(), 1.0, &mut c21);
    let diagonal = move || {
        update(c11, a1);
        update(c22, a2);
    };
    if n >= SHARED {
        rayon::join(beside, diagonal);
    } else {
        beside();
        diagonal();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_kernels::random::SplitMix64;

    #[test]
    fn solves_what_it_factored() {
        for n in [1, 2, 31, 32, 33, 64, 97, 200, 530] {
            let mut numbers = SplitMix64(n as u64);
            let mut random = || numbers.unit() - 0.5;
            let root = Array2::from_shape_fn((n, n), |_| random());
            let mut matrix = root.dot(&root.t());
            matrix.diag_mut().iter_mut().for_each(|value| *value += 1.0);
            let x: Vec<f64> = (0..n).map(|_| random()).collect();
            let mut b = matrix.dot(&ndarray::ArrayView1::from(&x)).to_vec();
            Cholesky::new(matrix).solve(&mut b);
            for (found, known) in b.iter().zip(&x) {
                assert!((found - known).abs() < 1e-9, "order {n}: {found} instead of {known}");
            }
        }
    }

    #[test]
    fn a_dependent_row_gets_nothing() {
        let mut b = [2.0, 2.0];
        Cholesky::new(ndarray::array![[1.0, 1.0], [1.0, 1.0]]).solve(&mut b);
        assert!((b[0] - 2.0).abs() < 1e-12 && b[1].abs() < 1e-12, "{b:?}");
    }
}
