//! The energy of traffic at time scales: a Haar wavelet analysis that runs along with the trace
//! (thesis, section 2.3, Figure 2.5).

/// Octaves of the analysis: the last compares spans of 10 ms * 2^18, 44 minutes.
pub(super) const OCTAVES: usize = 19;

/// Width of a base bucket in nanoseconds.
pub(super) const BASE: i64 = 10_000_000;

/// An orthonormal Haar multiresolution analysis of several series of bytes per 10 ms, by the
/// pyramid algorithm.
///
/// The detail coefficient of octave j at place k is (A - B) / 2^(j/2), with A and B the sums of the
/// series over the two halves of the 2^j buckets from k * 2^j on. Each octave keeps one sum that
/// waits for its other half: nothing else is stored, and n empty buckets take a time in proportion
/// to log n.
#[derive(Clone, Debug)]
pub(super) struct Pyramid<const N: usize> {
    octaves: [Octave<N>; OCTAVES],
}

#[derive(Clone, Copy, Debug)]
struct Octave<const N: usize> {
    /// The sums over the first half, if it is complete.
    pending: Option<[f64; N]>,
    /// Coefficients so far.
    count: u64,
    /// Sums of their squares.
    squares: [f64; N],
}

impl<const N: usize> Pyramid<N> {
    pub(super) fn new() -> Pyramid<N> {
        Pyramid { octaves: [Octave { pending: None, count: 0, squares: [0.0; N] }; OCTAVES] }
    }

    /// The next bucket of each series.
    pub(super) fn push(&mut self, bucket: [f64; N]) {
        self.push_at(0, bucket);
    }

    fn push_at(&mut self, from: usize, mut sums: [f64; N]) {
        for (j, octave) in self.octaves.iter_mut().enumerate().skip(from) {
            let Some(first) = octave.pending.take() else {
                octave.pending = Some(sums);
                return;
            };
            octave.count += 1;
            for i in 0..N {
                let difference = first[i] - sums[i];
                octave.squares[i] += difference * difference / (1u64 << (j + 1)) as f64;
                sums[i] += first[i];
            }
        }
    }

    /// The next `count` buckets are empty.
    pub(super) fn push_empty(&mut self, mut count: u64) {
        for j in 0..OCTAVES {
            if count == 0 {
                return;
            }
            if self.octaves[j].pending.is_some() {
                self.push_at(j, [0.0; N]);
                count -= 1;
            }
            // Pairs of nothing: coefficients of 0, and half as many empty places in the next
            // octave.
            self.octaves[j].count += count / 2;
            if count % 2 == 1 {
                self.octaves[j].pending = Some([0.0; N]);
            }
            count /= 2;
        }
    }

    /// For each octave from 1 on: the number of complete coefficients, and the mean of their
    /// squares for each series. `None` without any.
    pub(super) fn energies(&self) -> impl Iterator<Item = (u64, Option<[f64; N]>)> {
        let mean = |octave: &Octave<N>| octave.squares.map(|sum| sum / octave.count as f64);
        self.octaves
            .iter()
            .map(move |octave| (octave.count, (octave.count > 0).then(|| mean(octave))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By the definition: averages scaled by the square root of two, octave by octave.
    fn naive(series: &[f64]) -> Vec<(u64, Option<f64>)> {
        let mut approximation = series.to_vec();
        (0..OCTAVES)
            .map(|_| {
                let pairs: Vec<_> =
                    approximation.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                let energy =
                    pairs.iter().map(|(a, b)| ((a - b) / 2f64.sqrt()).powi(2)).sum::<f64>();
                approximation = pairs.iter().map(|(a, b)| (a + b) / 2f64.sqrt()).collect();
                (pairs.len() as u64, (!pairs.is_empty()).then(|| energy / pairs.len() as f64))
            })
            .collect()
    }

    #[test]
    fn a_series_worked_by_hand() {
        let mut pyramid = Pyramid::<1>::new();
        for bytes in [4.0, 2.0, 5.0, 5.0] {
            pyramid.push([bytes]);
        }
        let energies: Vec<_> = pyramid.energies().take(3).collect();
        // (4 - 2)^2 / 2 = 2 and 0: mean 1. (6 - 10)^2 / 4 = 4.
        assert_eq!(energies, [(2, Some([1.0])), (1, Some([4.0])), (0, None)]);
    }

    proptest! {
        #[test]
        fn it_is_the_pyramid_algorithm(runs in proptest::collection::vec((0u64..70, 0u32..1500), 0..60)) {
            let mut pyramid = Pyramid::<2>::new();
            let mut series = Vec::new();
            for (empty, bytes) in runs {
                pyramid.push_empty(empty);
                pyramid.push([f64::from(bytes), f64::from(bytes / 2)]);
                series.extend(std::iter::repeat_n(0.0, empty as usize));
                series.push(f64::from(bytes));
            }
            let halves: Vec<f64> = series.iter().map(|bytes| (bytes / 2.0).floor()).collect();
            for (i, ((count, energy), ((naive_count, whole), (_, half)))) in pyramid.energies().zip(naive(&series).into_iter().zip(naive(&halves))).enumerate() {
                prop_assert_eq!(count, naive_count, "octave {}", i + 1);
                if let Some([a, b]) = energy {
                    prop_assert!((a - whole.unwrap()).abs() <= 1e-9 * a.max(1.0), "octave {}: {} {:?}", i + 1, a, whole);
                    prop_assert!((b - half.unwrap()).abs() <= 1e-9 * b.max(1.0));
                } else {
                    prop_assert_eq!(whole, None);
                }
            }
        }
    }

    #[test]
    fn years_of_nothing_take_no_time() {
        let mut pyramid = Pyramid::<1>::new();
        pyramid.push([1.0]);
        pyramid.push_empty(u64::MAX / 2);
        assert_eq!(pyramid.energies().last().unwrap().0, (u64::MAX / 2 + 1) >> OCTAVES);
    }
}
