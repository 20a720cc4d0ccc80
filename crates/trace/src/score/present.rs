//! The score as tables, charts and text.

use super::{Algorithm, Configuration, Layer, Measurement, Ranked, Score, Write, benefit, value};
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use oncewire_report::format::share as percent;
use std::collections::BTreeMap;

impl Score {
    /// The score as a figure, outside the numbering of the study's: 0.
    pub fn figure(&self) -> Figure {
        let mut figure = Figure {
            number: 0,
            id: "score",
            title: "Score of encoder configurations",
            source: "Martynov, section 5 and Table 1",
            definition: format!(
                "Score: the benefit (min(Tmax, w / (1 - r)) - w) / w integrated over links w from {} to Tmax, in Mbit/s, summed over the tests by \
                 weight. r: savings, 1 - encoded bytes / bytes, all descriptors counted, no entropy stage. Tmax: bits per second of CPU \
                 time, encoding only, cache in memory. Mean benefit: the same integral divided by the range from the slowest link to the \
                 fastest configuration's Tmax; 1 is twice the throughput.",
                rate(self.slowest_link)
            ),
            finding: String::new(),
            brief: String::new(),
            tables: vec![self.ranking_table(), self.measurement_table()],
            charts: self.charts(),
            notes: vec![
                "The paper does not state the unit of the scores in its Table 1; they have the magnitude of an integral in Mbit/s. Scores of \
                 different machines cannot be compared, since they are proportional to speed."
                    .to_owned(),
            ],
            memory: self.memory,
        };
        if let Some(best) = self.ranking.first() {
            let Ranked { configuration, score, savings, throughput, .. } = best;
            figure.finding = format!(
                "The best is {configuration}: score {score:.1}, with savings of {} at {}.",
                percent(*savings),
                rate(*throughput)
            );
            if let Some(other) = self
                .ranking
                .iter()
                .find(|other| other.configuration.algorithm != configuration.algorithm)
            {
                figure.finding += &format!(
                    " The best of the {} algorithm, {}, has {:.1}.",
                    other.configuration.algorithm.name(),
                    other.configuration,
                    other.score
                );
            }
        }
        let checked: Vec<u64> =
            self.measurements.iter().filter_map(|measurement| measurement.collisions).collect();
        if !checked.is_empty() {
            figure.notes.push(format!(
                "The modified algorithm trusts its fingerprints. A check over {} passes found {} chunks with equal names and different content.",
                checked.len(),
                checked.iter().sum::<u64>()
            ));
        }
        if self.dropped > 0 {
            figure.notes.push(format!(
                "In one run, {} chunks had no room in the index of the modified algorithm.",
                self.dropped
            ));
        }
        figure
    }

    fn ranking_table(&self) -> Table {
        let columns = [
            ("rank", Unit::Count),
            ("algorithm", Unit::Text),
            ("write", Unit::Text),
            ("distance", Unit::Bytes),
            ("layer", Unit::Text),
            ("score", Unit::Number),
            ("mean benefit", Unit::Number),
            ("savings", Unit::Share),
            ("Tmax", Unit::BitsPerSecond),
        ];
        let rows = self.ranking.iter().zip(1u64..).map(|(ranked, rank)| {
            let Ranked {
                configuration: Configuration { algorithm, write, distance, layer }, ..
            } = *ranked;
            vec![
                Cell::from(rank),
                algorithm.name().into(),
                write.name().into(),
                u64::from(distance).into(),
                layer.name().into(),
                ranked.score.into(),
                ranked.mean_benefit.into(),
                ranked.savings.into(),
                ranked.throughput.into(),
            ]
        });
        let weights: Vec<String> = self
            .benchmarks
            .iter()
            .zip(&self.weights)
            .map(|(name, weight)| format!("{name} {:.0} %", weight * 100.0))
            .collect();
        Table {
            id: "ranking",
            caption: format!(
                "Configurations by score in Mbit/s; savings and Tmax are means over the tests. Weights: {}.",
                weights.join(", ")
            ),
            columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
            rows: rows.collect(),
        }
    }

    fn measurement_table(&self) -> Table {
        let columns = [
            ("benchmark", Unit::Text),
            ("base size", Unit::Bytes),
            ("algorithm", Unit::Text),
            ("write", Unit::Text),
            ("distance", Unit::Bytes),
            ("layer", Unit::Text),
            ("mean unit", Unit::Bytes),
            ("savings", Unit::Share),
            ("Tmax", Unit::BitsPerSecond),
            ("value", Unit::Number),
            ("collisions", Unit::Count),
        ];
        let rows = self.measurements.iter().map(|measurement| {
            let Measurement {
                configuration: Configuration { algorithm, write, distance, layer },
                savings,
                throughput,
                ..
            } = *measurement;
            vec![
                Cell::from(&self.benchmarks[measurement.benchmark][..]),
                measurement.base.map(|base| base as u64).into(),
                algorithm.name().into(),
                write.name().into(),
                u64::from(distance).into(),
                layer.name().into(),
                measurement.mean_unit.into(),
                savings.into(),
                throughput.into(),
                (value(savings, throughput, self.slowest_link) / 1e6).into(),
                measurement.collisions.into(),
            ]
        });
        Table {
            id: "tests",
            caption: "Each configuration on each test; value in Mbit/s.".to_owned(),
            columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
            rows: rows.collect(),
        }
    }

    fn charts(&self) -> Vec<Chart> {
        let distance = || Axis::log("expected distance between fingerprints", Unit::Bytes);
        let over_distance = |of: &dyn Fn(&Ranked) -> f64| {
            let mut lines: BTreeMap<(Layer, Algorithm, Write), Vec<(f64, f64)>> = BTreeMap::new();
            for ranked in &self.ranking {
                let Configuration { algorithm, write, distance, layer } = ranked.configuration;
                lines
                    .entry((layer, algorithm, write))
                    .or_default()
                    .push((f64::from(distance), of(ranked)));
            }
            let series = lines.into_iter().map(|((layer, algorithm, write), mut points)| {
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Series::new(
                    format!("{}, {}, {}", algorithm.name(), write.name(), layer.name()),
                    points,
                )
            });
            series.collect::<Vec<_>>()
        };
        let chart = |id, caption: &str, x, y, series| Chart {
            id,
            caption: caption.to_owned(),
            kind: ChartKind::Line,
            x,
            y,
            right: None,
            series,
        };
        let mut charts = vec![
            chart(
                "score",
                "Score by distance.",
                distance(),
                Axis::new("score, Mbit/s", Unit::Number),
                over_distance(&|ranked| ranked.score),
            ),
            chart(
                "savings",
                "Savings by distance.",
                distance(),
                Axis::new("savings", Unit::Share),
                over_distance(&|ranked| ranked.savings),
            ),
            chart(
                "throughput",
                "Throughput by distance.",
                distance(),
                Axis::new("Tmax", Unit::BitsPerSecond),
                over_distance(&|ranked| ranked.throughput),
            ),
        ];
        // The best configuration of each algorithm on each link, from the means of its tests.
        let mut best: Vec<&Ranked> = Vec::new();
        for ranked in &self.ranking {
            if !best
                .iter()
                .any(|other| other.configuration.algorithm == ranked.configuration.algorithm)
            {
                best.push(ranked);
            }
        }
        let series =
            best.into_iter().filter(|ranked| ranked.throughput > self.slowest_link).map(|ranked| {
                let ratio = ranked.throughput / self.slowest_link;
                let links =
                    (0..=100).map(|step| self.slowest_link * ratio.powf(f64::from(step) / 100.0));
                let points =
                    links.map(|link| (link, benefit(ranked.savings, ranked.throughput, link)));
                Series::new(ranked.configuration.to_string(), points.collect())
            });
        charts.push(chart(
            "benefit",
            "Benefit for a link, of the best configuration of each algorithm, by its mean savings and throughput.",
            Axis::log("link", Unit::BitsPerSecond),
            Axis::new("benefit", Unit::Number),
            series.collect(),
        ));
        charts.push(self.sizes_chart());
        charts
    }

    /// Savings and throughput of the best configuration by unit size (the paper's Figures 2 and 3).
    fn sizes_chart(&self) -> Chart {
        let mut series = Vec::new();
        if let Some(best) = self.ranking.first() {
            for (benchmark, name) in self.benchmarks.iter().enumerate() {
                let of = |value: &dyn Fn(&Measurement) -> f64| {
                    let tests = self.measurements.iter().filter(|test| {
                        test.benchmark == benchmark && test.configuration == best.configuration
                    });
                    let mut points: Vec<_> =
                        tests.filter_map(|test| Some((test.base? as f64, value(test)))).collect();
                    points.sort_by(|a, b| a.0.total_cmp(&b.0));
                    points
                };
                series.push(Series::new(format!("savings, {name}"), of(&|test| test.savings)));
                series.push(Series {
                    right: true,
                    ..Series::new(format!("Tmax, {name}"), of(&|test| test.throughput))
                });
            }
            series.retain(|series| !series.points.is_empty());
        }
        Chart {
            id: "sizes",
            caption: "The best configuration by base size of its buffers.".to_owned(),
            kind: ChartKind::Line,
            x: Axis::log("base size", Unit::Bytes),
            y: Axis::new("savings", Unit::Share),
            right: Some(Axis::new("Tmax", Unit::BitsPerSecond)),
            series,
        }
    }
}

/// A rate in words.
fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.1} Mbit/s", rate / 1e6),
        rate => format!("{:.0} kbit/s", rate / 1e3),
    }
}
