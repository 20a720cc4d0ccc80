//! Figure 4 as tables, charts and text.

use super::super::burstiness::BASE;
use super::super::layout::{add_series, chart, drawn, shares, table};
use super::super::{Figure, FigureId};
use super::{COMPLETE, DirectionOverTime, ENOUGH, FEW, LATE, OverTime, PLACES, SECOND, billed};
use crate::batch::Direction;
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Series, Table, Unit};
use oncewire_report::format::{number, share as percent};

/// Names of the charts of volume, redundancy, savings and burstiness for each direction, and for the
/// total or an only direction.
const IDS: [[&str; 4]; Direction::ALL.len() + 1] = [
    ["volume-all", "redundancy-all", "savings-all", "burstiness-all"],
    ["volume-outbound", "redundancy-outbound", "savings-outbound", "burstiness-outbound"],
    ["volume-inbound", "redundancy-inbound", "savings-inbound", "burstiness-inbound"],
    ["volume-internal", "redundancy-internal", "savings-internal", "burstiness-internal"],
    ["volume-transit", "redundancy-transit", "savings-transit", "burstiness-transit"],
    ["volume-unknown", "redundancy-unknown", "savings-unknown", "burstiness-unknown"],
    ["volume", "redundancy", "savings", "burstiness"],
];

/// Widths of buckets that make a chart of savings by width.
const ENOUGH_WIDTHS: usize = 3;

const STATISTICS: [&str; 4] = ["mean", "median", "95th percentile", "peak"];

const ENERGIES: [&str; 3] = ["original", "reduced", "uniform"];

impl OverTime {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Temporal.number(),
            id: FigureId::Temporal.name(),
            title: "Over time",
            source: "thesis, section 2.3, Figures 2.3 to 2.5",
            definition: definition(),
            finding: self.directions.last().map(DirectionOverTime::finding).unwrap_or_default(),
            brief: self.directions.last().and_then(DirectionOverTime::brief).unwrap_or_default(),
            tables: if self.directions.is_empty() { Vec::new() } else { self.tables().into() },
            charts: self.directions.iter().flat_map(DirectionOverTime::charts).collect(),
            notes: self.notes(),
            memory: self.memory,
        }
    }

    fn tables(&self) -> [Table; 4] {
        let text = [("direction", Unit::Text)];
        let buckets = [("bucket", Unit::Seconds), ("buckets", Unit::Count)];
        let originals = STATISTICS.map(|statistic| format!("original {statistic}"));
        let columns = text.into_iter().chain(buckets).chain([("empty", Unit::Count)]);
        let columns =
            columns.chain(originals.iter().map(|name| (name.as_str(), Unit::BitsPerSecond)));
        let columns = columns.chain(STATISTICS.map(|name| (name, Unit::Share)));
        let caption =
            "Savings in mean, median, 95th percentile and peak volume, by width of buckets";
        let mut percentiles = table("percentiles", caption, columns);
        let columns = text.into_iter().chain(buckets).chain([("coefficient", Unit::Number)]);
        let mut correlation =
            table("correlation", "Correlation between volume and share of redundancy", columns);
        let columns =
            text.into_iter().chain([("time scale", Unit::Seconds), ("coefficients", Unit::Count)]);
        let columns = columns.chain(ENERGIES.map(|name| (name, Unit::Number)));
        let mut burstiness =
            table("burstiness", "Base-2 logarithm of the energy by time scale", columns);
        for of in &self.directions {
            percentiles.rows.extend(of.percentiles.iter().map(|at| {
                let mut row = vec![
                    of.direction.into(),
                    at.width.into(),
                    (at.buckets as u64).into(),
                    (at.empty as u64).into(),
                ];
                row.extend(at.rates.map(|(original, _)| Cell::from(original)));
                row.extend(at.savings().map(Cell::from));
                row
            }));
            let found = of.correlation;
            correlation.rows.push(vec![
                of.direction.into(),
                found.map(|found| found.width).into(),
                found.map_or(0, |found| found.buckets).into(),
                found.and_then(|found| found.coefficient).into(),
            ]);
            burstiness.rows.extend(of.octaves.iter().map(|octave| {
                let mut row =
                    vec![of.direction.into(), octave.scale.into(), octave.coefficients.into()];
                row.extend(octave.energies.map(|energy| Cell::from(log(energy))));
                row
            }));
        }
        [percentiles, correlation, burstiness, self.spreads()]
    }

    fn spreads(&self) -> Table {
        let mut spreads = table("spread", "", [("percentile", Unit::Text)]);
        spreads.rows.extend(["p10", "p50", "p90"].map(|percentile| vec![percentile.into()]));
        for of in &self.directions {
            let is_last = of.place == Direction::ALL.len();
            spreads
                .columns
                .push(Column::new(if is_last { "savings" } else { of.direction }, Unit::Share));
            for (row, percentile) in spreads.rows.iter_mut().zip(of.spread.percentiles) {
                row.push(percentile.into());
            }
            let each = match of.spread.width {
                60.0 => "minutes".to_owned(),
                width => format!("hundredths of the trace ({} each)", number(width, Unit::Seconds)),
            };
            spreads.caption = format!(
                "Percentiles of the savings in the {} {each} with packets, weighted by bytes",
                of.spread.buckets
            );
        }
        spreads
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.directions.is_empty() {
            notes.push(
                "Burstiness assumes that packets arrive when they did in the trace. In reality, removing redundancy changes the behavior of TCP's \
                 congestion control and so when packets arrive, especially at short time scales (thesis, section 2.3)."
                    .into(),
            );
        }
        if self.base > 1.0 {
            notes.push(format!(
                "To stay within its memory limit, the figure uses buckets of {} and more for percentiles, savings over time and correlation. \
                 Burstiness is not affected.",
                number(self.base, Unit::Seconds)
            ));
        }
        if self.set_back {
            notes.push(format!(
                "The clock of the trace steps back by more than {}; for burstiness, time continues from there.",
                number((LATE * BASE) as f64 / SECOND as f64, Unit::Seconds)
            ));
        }
        notes
    }
}

impl DirectionOverTime {
    fn charts(&self) -> Vec<Chart> {
        let ids = IDS[self.place];
        let mut charts = vec![self.volume_chart(ids[0])];
        charts.extend(drawn([
            self.redundancy_chart(ids[1]),
            self.savings_chart(ids[2]),
            self.burstiness_chart(ids[3]),
        ]));
        charts
    }

    /// Figure 2.3 of the thesis, the volume.
    fn volume_chart(&self, id: &'static str) -> Chart {
        let of = &self.volume;
        let rate = Axis::new("volume", Unit::BitsPerSecond);
        let mut volume = chart(id, self.caption("Volume"), ChartKind::Line, time(), rate);
        volume.series = vec![
            Series::new("original", of.original.clone()),
            Series::new("reduced", of.reduced.clone()),
        ];
        volume
    }

    /// The same figure, the redundancy: over the volume, it would hide it.
    fn redundancy_chart(&self, id: &'static str) -> Chart {
        let caption = self.caption("Redundancy");
        let mut redundancy = chart(id, caption, ChartKind::Line, time(), shares("redundancy"));
        add_series(&mut redundancy, "redundancy", self.volume.redundancy.clone());
        redundancy
    }

    fn caption(&self, what: &str) -> String {
        let width = number(self.volume.width, Unit::Seconds);
        format!("{what} over time in buckets of {width} ({})", self.direction)
    }

    fn savings_chart(&self, id: &'static str) -> Chart {
        let caption = format!(
            "Savings in mean, median, 95th percentile and peak volume ({})",
            self.direction
        );
        let width = Axis::log("width of buckets", Unit::Seconds);
        let mut savings = chart(id, caption, ChartKind::Line, width, shares("savings"));
        if self.percentiles.len() < ENOUGH_WIDTHS {
            return savings;
        }
        for (i, statistic) in STATISTICS.into_iter().enumerate() {
            let points =
                self.percentiles.iter().filter_map(|of| Some((of.width, of.savings()[i]?)));
            add_series(&mut savings, statistic, points.collect());
        }
        savings
    }

    fn burstiness_chart(&self, id: &'static str) -> Chart {
        let caption = format!("Burstiness: energy of bytes by time scale ({})", self.direction);
        let scale = Axis::log("time scale", Unit::Seconds);
        let mut burstiness =
            chart(id, caption, ChartKind::Line, scale, Axis::new("log2 of energy", Unit::Number));
        for (i, which) in ENERGIES.into_iter().enumerate() {
            let points = self
                .octaves
                .iter()
                .filter_map(|octave| Some((octave.scale, log(octave.energies[i])?)));
            add_series(&mut burstiness, which, points.collect());
        }
        burstiness
    }

    fn finding(&self) -> String {
        let sentences = [self.busy_times(), self.correlated(), self.bursts()];
        sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn brief(&self) -> Option<String> {
        let [Some(mean), _, Some(p95), Some(peak)] = billed(&self.percentiles)?.savings() else {
            return None;
        };
        let [mean, p95, peak] = [mean, p95, peak].map(percent);
        Some(format!("max-match: mean {mean}, 95th percentile {p95}, peak {peak}"))
    }

    /// Whether busy times save as much as others.
    fn busy_times(&self) -> Option<String> {
        let of = billed(&self.percentiles)?;
        let [Some(mean), _, Some(p95), Some(peak)] = of.savings() else { return None };
        let judgement = match p95 - mean {
            difference if difference < -0.02 => {
                "busy times are less redundant than quiet ones, so a link sized or billed by them gains less"
            }
            difference if difference > 0.02 => {
                "busy times are more redundant than quiet ones, so a link sized or billed by them gains more"
            }
            _ => "busy times are about as redundant as others",
        };
        Some(format!(
            "In buckets of {}, savings of max-match are {} in the mean, {} in the 95th percentile and {} in the peak: {judgement}.",
            number(of.width, Unit::Seconds),
            percent(mean),
            percent(p95),
            percent(peak)
        ))
    }

    fn correlated(&self) -> Option<String> {
        let r = self.correlation?.coefficient?;
        let strength = match r.abs() {
            r if r < 0.1 => "not correlated",
            r if r < 0.3 => "slightly correlated",
            r if r < 0.6 => "correlated",
            _ => "strongly correlated",
        };
        Some(format!("Volume and redundancy are {strength} ({r:.2})."))
    }

    /// How far energy falls, as a share of how far it would fall with uniform savings, on average
    /// over the octaves.
    fn bursts(&self) -> Option<String> {
        let positive = self
            .octaves
            .iter()
            .map(|octave| octave.energies)
            .filter(|of| of.iter().all(|energy| *energy > 0.0));
        let falls: Vec<f64> = positive
            .map(|[original, reduced, uniform]| {
                (original / reduced).ln() / (original / uniform).ln()
            })
            .filter(|fall| fall.is_finite())
            .collect();
        if self.savings < 0.01 || falls.is_empty() {
            return None;
        }
        let sentence = match falls.iter().sum::<f64>() / falls.len() as f64 {
            fall if fall < 0.5 => "Traffic stays about as bursty as it was.",
            fall if fall < 0.9 => "Bursts shrink less than the mean.",
            fall if fall <= 1.1 => "Bursts shrink like the mean.",
            _ => "Bursts shrink more than the mean.",
        };
        Some(sentence.to_owned())
    }
}

/// The axis of the charts over time.
fn time() -> Axis {
    Axis::new("time since the first packet", Unit::Seconds)
}

/// Base-2 logarithm of an energy.
fn log(energy: f64) -> Option<f64> {
    (energy > 0.0).then(|| energy.log2())
}

fn definition() -> String {
    format!(
        "Bytes are wire bytes of all packets, headers included. Reduced bytes are these less what the reference algorithm saves of the packet. \
         Buckets begin at the first packet of the trace. (a) Bits per second of both, and 1 - reduced / original, in each of up to {PLACES} \
         buckets. (b) For buckets of 1 s to 5 h, the savings in the mean, the median, the 95th percentile and the peak: 1 - (that statistic of \
         the reduced bytes of all buckets) / (that statistic of their original bytes), which is not a statistic of the savings of buckets. \
         Percentiles are nearest-rank. Empty buckets count as 0 bytes. The last bucket is left out unless the trace covers {COMPLETE} % of it. \
         Widths with fewer than {FEW} buckets are left out. Correlation is Pearson's, between original bytes and 1 - reduced / original of \
         buckets with packets, of 1 min, or the widest of which the trace has {ENOUGH}. Spread: percentiles of 1 - reduced / original over the \
         minutes with packets, or over the hundredths of a trace shorter than 100 min; savings are those over all directions. (c) Burstiness: \
         the base-2 logarithm of the mean square of the detail coefficients of an orthonormal Haar wavelet analysis of bytes per {base}, by \
         octave. The coefficient of octave j is the difference of the bytes in two adjacent spans of {base} * 2^(j-1), which is the time scale, \
         divided by 2^(j/2). Octaves with fewer than 4 complete coefficients are left out. Uniform: the original bytes times (1 - mean savings). \
         A packet up to {late} late counts into the current span.",
        base = number(BASE as f64 / SECOND as f64, Unit::Seconds),
        late = number((LATE * BASE) as f64 / SECOND as f64, Unit::Seconds),
    )
}
