//! The page of a controller's admin address.

use super::text::line;
use super::{ask, map};
use crate::format;
use crate::report::TEXTS;
use oncewire_net::admin::{Page, Site};
use oncewire_net::controller::Status;
use oncewire_report::html::{self, Live};
use oncewire_report::{Block, Fact, Report, Section, Summary, Unit};
use serde_json::Value;

/// What the controller answers.
pub(super) fn site() -> Site<Status> {
    Site {
        status: |status| crate::status::text::render(status),
        page: |status| {
            let live = Live { path: "update", price: None };
            let made = html::live(&report(&document(status)), &TEXTS, &live);
            Page { html: made.html, policy: made.policy }
        },
        update: |status| html::update(&report(&document(status)), None),
    }
}

fn document(status: &Status) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

fn report(status: &Value) -> Report {
    let text = |key: &str| line(status[key].as_str().unwrap_or_default());
    let nodes = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let is = |phase: &'static str| move |node: &&Value| node["phase"] == phase;
    let away = nodes.iter().filter(is("away")).chain(nodes.iter().filter(is("down"))).count();
    let done = nodes.iter().filter(is("done")).count();
    let saved = match [0, 1].map(|at| status["footprint"][at].as_f64()) {
        [Some(before), Some(saved)] if before > 0.0 => format!("{:.1} %", 100.0 * saved / before),
        _ => "-".into(),
    };
    let sum = |key: &str| nodes.iter().filter_map(|node| node[key].as_f64()).sum::<f64>();
    let rate = |bytes: f64| format::number(bytes, Unit::Bytes) + "/s";
    let plan = status["plan"].as_u64().unwrap_or(0);
    let why = status["reason"].as_str().map(|why| format!(", {}", line(why)));
    let rollout = match status["rollout"]["seconds"].as_f64() {
        Some(time) => format!(", after {}", format::number(time, Unit::Seconds)),
        None => String::new(),
    };
    let on_links = match map::carried(status) {
        Some((sent, whole)) => (rate(sent), format!(", {}", map::beside(sent, whole))),
        None => ("-".into(), String::new()),
    };
    let problem = match status["failed"].as_str() {
        Some(why) => line(why),
        None if status["planning"] == true => "a plan is being made".into(),
        None => "none".into(),
    };
    let facts = vec![
        Fact::new("plan", plan.to_string(), why.unwrap_or_default()),
        Fact::new("saved as planned", saved, ", of bytes times links".to_owned()),
        Fact::new("on links now", on_links.0, on_links.1),
        Fact::new("nodes that carry it out", format!("{done} of {}", nodes.len()), rollout),
        Fact::new("nodes away", away.to_string(), String::new()),
        Fact::new(
            "entering",
            rate(sum("bytes_per_second")),
            format!(", {} repeat others", rate(sum("repeated_per_second"))),
        ),
        Fact::new(
            "pairs without a way",
            status["unreachable"].as_array().map_or(0, Vec::len).to_string(),
            String::new(),
        ),
        Fact::new("last problem", problem, String::new()),
    ];
    let headline = match (plan, away) {
        (0, _) => "There is no plan yet.".to_owned(),
        (_, 0) if done == nodes.len() => "All nodes carry out the plan.".into(),
        (_, 0) => "A plan is being brought in.".into(),
        (_, away) => format!(
            "{} not connected.",
            match away {
                1 => "One node is".to_owned(),
                _ => format!("{away} nodes are"),
            }
        ),
    };
    Report {
        kind: "Oncewire",
        title: format!("controller of {}", text("network")),
        about: format!(
            "Version {}, up {}, TCP {}.",
            text("version").trim_start_matches("oncewire "),
            format::number(status["uptime"].as_f64().unwrap_or(0.0).floor(), Unit::Seconds),
            text("address")
        ),
        summary: Summary { headline, positive: away == 0 && plan > 0, facts, reasons: Vec::new() },
        sections: vec![
            Section::new("map", "Map").with(Block::Map(map::map(status))),
            ask::nodes(nodes),
            ask::loads(status),
            ask::links(nodes),
        ],
        footer: "Metrics for Prometheus are at /metrics, the state as JSON at /status.".into(),
    }
}
