//! Figure 4: savings over time, and whether they come when the link is busy (thesis, section 2.3,
//! "Temporal Variations", Figures 2.3 to 2.5).

mod buckets;
mod certainty;
mod clock;
mod present;
mod series;

use super::burstiness::{BASE, OCTAVES, Pyramid};
use super::tally::TOTAL;
use super::{Finding, Observer};
use crate::batch::{Direction, View};
use buckets::{BUCKET_BYTES, Bucket, ENERGY_BYTES, Energy, LATE, Sums, total_of};
use clock::{Clock, saved};
pub(crate) use series::{SavingsOverTime, Series};

/// Measures volume and redundancy over time, savings in percentiles, and burstiness.
#[derive(Debug)]
pub struct Temporal {
    /// Time of the first packet, where buckets begin.
    start: Option<i64>,
    /// Times of the earliest and the latest packet, in nanoseconds from `start`.
    span: (i64, i64),
    series: Sums,
    energy: Energy,
}

impl Temporal {
    /// `memory` (bytes) is for the series of bytes over time, about 80 bytes for every 10 ms with
    /// packets in a direction. If they do not fit, buckets get coarser: 100 ms, 1 s, 10 s, 1 min
    /// and so on. At least 30 KB are taken.
    pub fn new(memory: u64) -> Temporal {
        Temporal {
            start: None,
            span: (0, 0),
            series: Sums::new(memory.saturating_sub(ENERGY_BYTES)),
            energy: Energy::default(),
        }
    }
}

const SECOND: i64 = 1_000_000_000;

/// Widths of buckets for which percentiles are taken, in nanoseconds.
const WIDTHS: [i64; 13] = {
    let mut widths = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000];
    let mut i = 0;
    while i < widths.len() {
        widths[i] *= SECOND;
        i += 1;
    }
    widths
};

/// Fewest complete buckets for percentiles, and for a correlation.
const FEW: i64 = 3;
const ENOUGH: i64 = 30;

/// Most buckets in the chart of volume.
const PLACES: i64 = 300;

/// A bucket is complete if the trace covers at least this much of it, in percent.
const COMPLETE: i128 = 95;

impl Observer for Temporal {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            let start = *self.start.get_or_insert(packet.time);
            let time = packet.time.saturating_sub(start);
            self.span = (self.span.0.min(time), self.span.1.max(time));
            let reduced = packet.wire.saturating_sub(view.saved(i));
            self.series.add(time, packet.direction, packet.wire.into(), reduced.into());
            self.energy.add(time, packet.direction, packet.wire, reduced);
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Temporal(self.compute())
    }
}

/// Figure 4: volume and savings over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverTime {
    /// Each direction with packets; the total comes last if there are several.
    pub directions: Vec<DirectionOverTime>,
    /// Width of the finest buckets in seconds.
    pub base: f64,
    /// Whether the clock of the trace was set back.
    pub set_back: bool,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Volume and savings of one direction over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionOverTime {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Index of the direction among [`Direction::ALL`]; their number for the total or an only
    /// direction.
    place: usize,
    /// Mean savings of the reference algorithm.
    pub savings: f64,
    /// Volume and redundancy over time.
    pub volume: Volume,
    /// Savings in statistics of buckets, by width, ascending.
    pub percentiles: Vec<Percentiles>,
    /// Correlation of volume and redundancy. `None` if the trace is too short.
    pub correlation: Option<Correlation>,
    /// Burstiness by time scale, ascending.
    pub octaves: Vec<Octave>,
    /// Percentiles of savings over time.
    pub spread: Spread,
}

/// Volume and redundancy over time. Points begin with seconds since the first packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// Width of the buckets in seconds.
    pub width: f64,
    /// Original volume in bits per second.
    pub original: Vec<(f64, f64)>,
    /// Reduced volume in bits per second.
    pub reduced: Vec<(f64, f64)>,
    /// 1 - reduced / original, where there are packets.
    pub redundancy: Vec<(f64, f64)>,
}

/// Savings in statistics of buckets of one width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// Width of the buckets in seconds.
    pub width: f64,
    /// Number of buckets.
    pub buckets: i64,
    /// Buckets without packets.
    pub empty: i64,
    /// Bits per second at the mean, median, 95th percentile and peak: original and reduced.
    pub rates: [(f64, f64); 4],
}

impl Percentiles {
    /// Savings at the mean, median, 95th percentile and peak. `None` without original volume.
    pub fn savings(&self) -> [Option<f64>; 4] {
        self.rates.map(|(original, reduced)| saved(original, reduced))
    }
}

/// The percentiles that a link is billed by: of buckets of five minutes, or else the widest of which
/// there are twenty. Of fewer, the 95th percentile is the peak.
fn billed(percentiles: &[Percentiles]) -> Option<&Percentiles> {
    percentiles.iter().rev().find(|of| of.width <= 300.0 && of.buckets >= 20)
}

/// Correlation of volume and redundancy of buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correlation {
    /// Width of the buckets in seconds.
    pub width: f64,
    /// Number of buckets with packets.
    pub buckets: u64,
    /// Pearson's coefficient. `None` if volume or redundancy is constant.
    pub coefficient: Option<f64>,
}

/// Energy of bytes at one time scale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Octave {
    /// Time scale in seconds.
    pub scale: f64,
    /// Number of wavelet coefficients.
    pub coefficients: u64,
    /// Mean square of the coefficients, in bytes squared: of the original, the reduced, and the
    /// uniformly reduced bytes.
    pub energies: [f64; 3],
}

/// Percentiles of savings over time, weighted by bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Width of the buckets in seconds: a minute, or a hundredth of a trace shorter than 100
    /// minutes.
    pub width: f64,
    /// Number of buckets with packets.
    pub buckets: u64,
    /// Tenth, fiftieth and ninetieth percentile.
    pub percentiles: [Option<f64>; 3],
}

impl OverTime {
    /// The tenth and the ninetieth percentile of savings over time, over all directions. `None` for
    /// an empty trace.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let [low, _, high] = self.directions.last()?.spread.percentiles;
        low.zip(high)
    }
}

impl Temporal {
    fn compute(mut self) -> OverTime {
        self.series.flush();
        self.series.put_together();
        self.energy.flush();
        let memory = self.series.buckets.capacity() as u64 * BUCKET_BYTES
            + self.energy.directions.iter().flatten().count() as u64
                * size_of::<Pyramid<2>>() as u64;
        let clock = Clock { span: self.span, base: self.series.width };
        let directions = self.series.buckets.chunk_by(|a, b| a.direction == b.direction);
        let mut rows: Vec<(usize, &'static str, &[Bucket])> =
            directions.map(|of| (of[0].direction.index(), of[0].direction.name(), of)).collect();
        let total;
        if rows.len() > 1 {
            total = total_of(&self.series.buckets);
            rows.push((Direction::ALL.len(), TOTAL, &total));
        }
        let last = rows.len().saturating_sub(1);
        let of = |(i, (place, direction, buckets)): (usize, (usize, &'static str, &[Bucket]))| {
            let all = buckets
                .iter()
                .fold((0, 0), |sum, bucket| (sum.0 + bucket.original, sum.1 + bucket.reduced));
            let savings = saved(all.0 as f64, all.1 as f64).unwrap_or(0.0);
            DirectionOverTime {
                direction,
                place: if i == last { Direction::ALL.len() } else { place },
                savings,
                volume: clock.volume(buckets),
                percentiles: clock.percentiles(buckets),
                correlation: clock.correlation(buckets),
                octaves: energies(self.energy.directions[place].as_deref(), savings),
                spread: clock.spread(buckets),
            }
        };
        OverTime {
            directions: rows.into_iter().enumerate().map(of).collect(),
            base: clock.base as f64 / SECOND as f64,
            set_back: self.energy.offset > 0,
            memory,
        }
    }
}

fn energies(pyramid: Option<&Pyramid<2>>, savings: f64) -> Vec<Octave> {
    let mut octaves = Vec::with_capacity(OCTAVES);
    for (j, (count, energy)) in pyramid.iter().flat_map(|pyramid| pyramid.energies()).enumerate() {
        if let Some([original, reduced]) = energy.filter(|_| count >= 4) {
            let scale = (BASE << j) as f64 / SECOND as f64;
            let energies = [original, reduced, original * (1.0 - savings).powi(2)];
            octaves.push(Octave { scale, coefficients: count, energies });
        }
    }
    octaves
}

#[cfg(test)]
mod tests;
