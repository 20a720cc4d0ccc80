//! What reports of `plan` and of `route` have in common.

use oncewire_plan::Network;
use oncewire_report::{Axis, Chart, ChartKind, Series, Table, Unit};
use serde::Serialize;

/// What documents say of a network.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct MapFacts {
    pub(crate) name: String,
    pub(crate) source: String,
    /// How it was derived from the input.
    pub(crate) derivation: Vec<String>,
    pub(crate) nodes: usize,
    /// Directed.
    pub(crate) links: usize,
    pub(crate) ingresses: usize,
}

impl MapFacts {
    pub(crate) fn new(network: &Network, ingresses: usize) -> MapFacts {
        MapFacts {
            name: network.name.clone(),
            source: network.source.clone(),
            derivation: network.derivation.clone(),
            nodes: network.nodes.len(),
            links: network.links.len(),
            ingresses,
        }
    }

    /// Title of a report.
    pub(crate) fn title(&self) -> String {
        if self.name.is_empty() { "no name".into() } else { self.name.clone() }
    }

    /// Its name and where it comes from, as far as that is known.
    pub(crate) fn lines(&self) -> Vec<(String, Vec<String>)> {
        let mut lines = vec![("name".to_owned(), vec![self.name.clone()])];
        if !self.source.is_empty() {
            lines.push(("source".into(), vec![self.source.clone()]));
        }
        if !self.derivation.is_empty() {
            lines.push(("made by".into(), self.derivation.clone()));
        }
        lines
    }
}

/// The table of settings, in words.
pub(crate) fn settings(settings: &[(String, String)]) -> Table {
    let rows = settings.iter().map(|(name, value)| vec![name.clone().into(), value.clone().into()]);
    let columns = [("setting", Unit::Text), ("value", Unit::Text)];
    Table::new("settings", "Settings", &columns, rows.collect())
}

/// Cumulative distributions over ingresses (thesis, figure 6.5a).
pub(crate) fn distribution(series: Vec<Series>) -> Chart {
    Chart {
        id: "distribution",
        caption: "Cumulative distribution of the footprint reduction over ingresses".into(),
        kind: ChartKind::Step,
        x: Axis::new("footprint reduction", Unit::Share),
        y: Axis::new("share of ingresses", Unit::Share),
        right: None,
        series,
    }
}
