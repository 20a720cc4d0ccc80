//! A node's status as a report.

use super::link;
use crate::format::{self, counted};
use oncewire_net::node::NodeCounters;
use oncewire_net::status::{LinkStatus, Metric, MetricUnit, Metrics, NodeStatus};
use oncewire_report::{Cell, Report, Section, Table, TableView, Unit};
use serde::Deserialize;
use serde_json::Value;

/// The status as people read it, from its document. Some text in it comes from files and peers.
///
/// # Errors
/// The document's, if its hops are not those of a node.
pub(super) fn report(document: &Value) -> Result<Report, serde_json::Error> {
    let hops = LinkStatus::deserialize(document)?;
    let number = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let name = document["name"].as_str().unwrap_or_default();
    let next = match document["next_plan"].as_u64() {
        Some(next) => format!(" (plan {next} is being brought in)"),
        None => String::new(),
    };
    let about = Section::new("about", "About")
        .text(format!(
            "node {name}, {}, plan {}{}, UDP {}",
            hops.version,
            number("/plan_version"),
            next,
            hops.address
        ))
        .text(format!("key {}", hops.key))
        .text(format!(
            "up {}, {} of {} connected",
            format::number(hops.uptime.as_secs_f64(), Unit::Seconds),
            hops.connected(),
            counted(hops.peers.len() as u64, "neighbor"),
        ))
        .text(format!(
            "caches {} in {}",
            format::number(number("/cached_bytes") as f64, Unit::Bytes),
            counted(number("/cached_packets"), "packet")
        ));
    let about = match &document["controller"] {
        Value::Null => about,
        controller => {
            let address = controller["address"].as_str().unwrap_or_default();
            let state = match controller["connected"] == true {
                true => "connected".to_owned(),
                false => match controller["last_failure"].as_str() {
                    Some(why) => format!("not connected: {why}"),
                    None => "connecting".into(),
                },
            };
            about.text(format!("controller {address}, {state}"))
        }
    };
    let sections = vec![about, link::states(&hops.peers), carried(document), link::notes(&hops)];
    Ok(Report { kind: "Status", title: "node".into(), sections, ..Report::default() })
}

/// The sections of the page: what each neighbor's connection is like, and all counters.
pub(crate) fn live(status: &NodeStatus) -> Vec<Section> {
    let value = |metric: &Metric| {
        status.carried.list().find(|one| one.0.name == metric.name).map(|(_, value)| value)
    };
    vec![link::states(&status.hops.peers), counters_by(value)]
}

fn carried(document: &Value) -> Section {
    counters_by(|metric| document["carried"][metric.name].as_u64())
}

fn counters_by(value: impl Fn(&Metric) -> Option<u64>) -> Section {
    let row = |metric: &Metric| {
        let value = value(metric).filter(|&value| value > 0)?;
        let shown = match metric.unit {
            MetricUnit::Bytes => format::number(value as f64, Unit::Bytes),
            _ => format::count_of(value),
        };
        let help = metric.help.trim_end_matches('.').to_owned();
        Some(vec![Cell::from(shown), Cell::from(help)])
    };
    let columns = [("since the start", Unit::Text), ("what", Unit::Text)];
    let rows = NodeCounters::METRICS.iter().filter_map(row).collect();
    Section::new("carried", "Carried")
        .table(TableView::complete(Table::new("carried", "", &columns, rows)))
}
