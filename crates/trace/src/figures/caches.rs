//! Figure 3: savings by cache size (thesis, section 2.4; EndRE section 8.2.1).

use super::layout::{chart, shares, table};
use super::{Figure, FigureId};
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use oncewire_report::format::{cache, share as percent};

/// Figure 3: savings of the reference algorithm by cache size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheSavings {
    /// Savings by cache size, ascending.
    pub curve: Curve,
    /// The directions with packets, if there are several, and for each cache size their savings.
    pub directions: Vec<(&'static str, Vec<Option<f64>>)>,
    /// The sampler of the reference algorithm.
    pub sampler: &'static str,
    /// Payload of the busiest direction in bytes per second. `None` if the trace has no length, or its
    /// clocks are wrong.
    pub rate: Option<f64>,
    /// Whether each size was measured, or follows from the distances of matches.
    pub is_measured: bool,
}

/// Savings by cache size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Bytes of payload that the cache of each direction holds, ascending, and the share of all
    /// bytes on the wire saved.
    pub points: Vec<(u64, f64)>,
    /// Whether the largest cache holds the whole trace, so that no larger one can save more.
    pub is_complete: bool,
}

/// The share of the largest cache's savings that half of it may lack where a curve no longer rises.
const LEVEL: f64 = 0.05;

impl Curve {
    /// Savings with a cache of that size. `None` if it was not measured.
    pub fn at(&self, cache: u64) -> Option<f64> {
        self.points.iter().find(|&&(size, _)| size == cache).map(|&(_, savings)| savings)
    }

    /// Savings with the largest cache; 0 if nothing was measured.
    pub fn most(&self) -> f64 {
        self.points.last().map_or(0.0, |&(_, savings)| savings)
    }

    /// Whether the curve still rises where it ends, so that a larger cache may save more.
    pub fn rises(&self) -> bool {
        match self.points[..] {
            _ if self.is_complete => false,
            [.., (_, before), (_, last)] => last >= 0.005 && before < last * (1.0 - LEVEL),
            _ => false,
        }
    }

    /// The cache size where the curve bends: see the figure's definition. `None` if nothing is
    /// saved, or if the curve still rises where it ends.
    pub fn knee(&self) -> Option<u64> {
        let (&(first, low), &(last, high)) = (self.points.first()?, self.points.last()?);
        if high < 0.005 || self.rises() {
            return None;
        }
        if low >= high * 0.95 || first == last {
            return Some(first);
        }
        let x = |size: u64| {
            ((size as f64).ln() - (first as f64).ln()) / ((last as f64).ln() - (first as f64).ln())
        };
        let above = |&(size, savings): &(u64, f64)| (savings - low) / (high - low) - x(size);
        self.points.iter().max_by(|a, b| above(a).total_cmp(&above(b))).map(|&(size, _)| size)
    }
}

impl CacheSavings {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let mut notes = Vec::new();
        if self.curve.is_complete {
            notes.push(
                "The largest cache shown holds the whole trace. A longer trace might benefit from a larger one.".to_owned(),
            );
        }
        Figure {
            number: FigureId::Caches.number(),
            id: FigureId::Caches.name(),
            title: "Savings by cache size",
            source: "thesis section 2.4, Fig. 2.9; EndRE section 8.2.1, Fig. 8",
            definition: format!(
                "Savings over all bytes on the wire, as in figure 1, of max-match with {}, by the payload that the cache of each direction \
                 holds{}. The knee is the point furthest above the straight line from the first to the last point, over the logarithm of the size \
                 (Satopaa et al., Kneedle, 2011); if the smallest cache already saves 95 % of what the largest does, the knee is the smallest. A curve that gains more than 5 % \
                 of its savings by the last doubling, and does not hold the whole trace, has no knee. Filled in: how long \
                 the busiest direction takes to send as much payload, on the mean of the trace.",
                self.sampler,
                match self.is_measured {
                    true => "",
                    false =>
                        ": what the reference algorithm finds no further back than that (--all measures each size)",
                }
            ),
            finding: self.finding(),
            brief: self.brief(),
            tables: vec![self.table()],
            charts: vec![self.chart()],
            notes,
            memory: 0,
        }
    }

    fn table(&self) -> Table {
        let columns = [("cache", Unit::Bytes)].into_iter();
        let columns = columns.chain(self.rate.map(|_| ("filled in", Unit::Seconds)));
        let columns = columns.chain([("savings", Unit::Share)]);
        let columns =
            columns.chain(self.directions.iter().map(|(direction, _)| (*direction, Unit::Share)));
        let mut caches = table("caches", "Savings by cache size", columns);
        caches.rows.extend(self.curve.points.iter().enumerate().map(|(i, &(size, savings))| {
            let mut row: Vec<Cell> = vec![size.into()];
            row.extend(self.rate.map(|rate| Cell::from(size as f64 / rate)));
            row.push(savings.into());
            row.extend(self.directions.iter().map(|(_, savings)| Cell::from(savings[i])));
            row
        }));
        caches
    }

    fn chart(&self) -> Chart {
        let axis = Axis::log("cache of payload in each direction", Unit::Bytes);
        let mut caches =
            chart("caches", "Savings by cache size", ChartKind::Line, axis, shares("savings"));
        let sizes = || self.curve.points.iter().map(|&(size, _)| size as f64);
        let all = sizes().zip(self.curve.points.iter().map(|&(_, savings)| savings));
        caches.series.push(Series::new("savings", all.collect()));
        caches.series.extend(self.directions.iter().map(|(direction, savings)| {
            let points =
                sizes().zip(savings).filter_map(|(size, savings)| Some((size, (*savings)?)));
            Series::new(*direction, points.collect())
        }));
        caches
    }

    fn brief(&self) -> String {
        let saves = |(size, savings)| format!("{} saves {}", cache(size), percent(savings));
        let knee = self.curve.knee().and_then(|size| Some((size, self.curve.at(size)?)));
        let largest = self.curve.points.last().copied();
        match (knee, largest.filter(|largest| Some(*largest) != knee)) {
            (Some(knee), Some(largest)) => format!("{}, {}", saves(knee), saves(largest)),
            (Some(knee), None) => saves(knee),
            (None, Some((size, savings))) if self.curve.rises() => {
                format!("still rises: {} saves {}", cache(size), percent(savings))
            }
            (None, _) => "too little is saved at any size".to_owned(),
        }
    }

    fn finding(&self) -> String {
        match self.curve.knee() {
            None if self.curve.rises() => format!(
                "Savings still rise at the largest cache tried, which saves {}: try larger ones (--cache).",
                percent(self.curve.most())
            ),
            Some(size) => format!(
                "The knee lies at {}: that much cache in each direction saves {} of all bytes; the largest cache tried saves {}.",
                cache(size),
                percent(self.curve.at(size).unwrap_or(0.0)),
                percent(self.curve.most())
            ),
            None => "No cache size stands out: too little is saved at any of them.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_the_curve_bends() {
        let knee =
            |points: &[(u64, f64)]| Curve { points: points.to_vec(), is_complete: true }.knee();
        let curve = [(1, 0.0), (2, 0.1), (4, 0.38), (8, 0.40), (16, 0.41), (32, 0.41)];
        assert_eq!(knee(&curve), Some(4));
        assert_eq!(knee(&[(1, 0.40), (2, 0.41)]), Some(1));
        assert_eq!(knee(&[(1, 0.0), (2, 0.001)]), None);
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&[(5, 0.3)]), Some(5));
    }
}
