//! Figure 2: savings by sampling period (thesis, section 2.2; EndRE section 8.1).

use super::layout::{chart, shares, table};
use super::{Figure, FigureId};
use crate::results::{Axis, Chart, ChartKind, Series, Table, Unit};
use oncewire_report::format::share as percent;

/// The sampling periods in bytes.
pub(crate) const PERIODS: [usize; 8] = [4, 8, 16, 32, 64, 128, 256, 512];

/// Figure 2: savings of each sampler by sampling period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeriodSavings {
    /// The samplers, each with its measured periods in ascending order.
    pub samplers: Vec<(&'static str, Vec<PeriodPoint>)>,
    /// Savings of the upper bound, which indexes every window. `None` if it was not measured.
    pub bound: Option<f64>,
    /// What limits the bound.
    pub bound_notes: Vec<String>,
}

/// Savings at one sampling period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeriodPoint {
    /// Sampling period in bytes.
    pub period: usize,
    /// Bytes per fingerprint that the sampler achieved.
    pub bytes_per_fingerprint: Option<f64>,
    /// Share of all bytes on the wire saved.
    pub savings: f64,
}

impl PeriodSavings {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Periods.number(),
            id: FigureId::Periods.name(),
            title: "Savings by sampling period",
            source: "thesis section 2.2, Fig. 2.2; EndRE section 8.1, Fig. 7",
            definition: "Savings over all bytes on the wire, as in figure 1, of max-match with each sampler at sampling periods of 4 to 512 bytes. \
                         A sampler aims for one fingerprint per period; the table shows how many bytes it achieved per fingerprint. Optimal \
                         indexes every window (thesis section 2.2), so it has no period. Tables have two slots for each fingerprint that the \
                         cache is expected to hold."
                .into(),
            finding: self.finding().unwrap_or_default(),
            brief: self.brief().unwrap_or_default(),
            tables: vec![self.table()],
            charts: vec![self.chart()],
            notes: self.bound_notes.clone(),
            memory: 0,
        }
    }

    fn table(&self) -> Table {
        let columns = [
            ("sampler", Unit::Text),
            ("period", Unit::Bytes),
            ("bytes per fingerprint", Unit::Number),
            ("savings", Unit::Share),
            ("share of optimal", Unit::Share),
        ];
        let mut periods = table("periods", "Savings by sampler and period", columns);
        let bound = self.bound.filter(|&bound| bound > 0.0);
        for (sampler, points) in &self.samplers {
            periods.rows.extend(points.iter().map(|at| {
                vec![
                    (*sampler).into(),
                    (at.period as u64).into(),
                    at.bytes_per_fingerprint.into(),
                    at.savings.into(),
                    bound.map(|bound| at.savings / bound).into(),
                ]
            }));
        }
        periods
    }

    fn chart(&self) -> Chart {
        let axis = Axis::log("sampling period", Unit::Bytes);
        let mut periods = chart(
            "periods",
            "Savings by sampling period",
            ChartKind::Line,
            axis,
            shares("savings"),
        );
        periods.series.extend(self.samplers.iter().map(|(sampler, points)| {
            Series::new(*sampler, points.iter().map(|at| (at.period as f64, at.savings)).collect())
        }));
        let bound = self.bound.map(|bound| PERIODS.map(|period| (period as f64, bound)).to_vec());
        periods.series.extend(bound.map(|points| Series::new("optimal", points)));
        periods
    }

    fn brief(&self) -> Option<String> {
        let [(best, name), (least, worst)] = self.at_32()?;
        let (best, least) = (percent(best), percent(least));
        Some(format!("at a period of 32, {name} saves {best}, {worst} {least}"))
    }

    /// The samplers that find most and least at a period of 32.
    fn at_32(&self) -> Option<[(f64, &'static str); 2]> {
        let at_32 =
            |points: &[PeriodPoint]| points.iter().find(|at| at.period == 32).map(|at| at.savings);
        let mut samplers: Vec<_> = self
            .samplers
            .iter()
            .filter_map(|(sampler, points)| Some((at_32(points)?, *sampler)))
            .collect();
        samplers.sort_by(|a, b| b.0.total_cmp(&a.0));
        let [best, .., least] = samplers[..] else { return None };
        Some([best, least])
    }

    fn finding(&self) -> Option<String> {
        let bound = self.bound.filter(|&bound| bound > 0.005)?;
        let [(best, name), (least, worst)] = self.at_32()?;
        Some(format!(
            "At a period of 32, {name} finds most ({}, {} of the bound) and {worst} least ({}).",
            percent(best),
            percent(best / bound),
            percent(least)
        ))
    }
}
