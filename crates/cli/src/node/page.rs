//! The page of a node's admin address.

use crate::format;
use crate::quantity::binary;
use crate::report::TEXTS;
use crate::status;
use oncewire_net::admin::{Page, Site};
use oncewire_net::status::NodeStatus;
use oncewire_report::html::{self, Live};
use oncewire_report::{Fact, Report, Summary, Unit};

/// What the node answers.
pub(super) fn site() -> Site<NodeStatus> {
    Site {
        status: |status| status::text::render(status),
        page: |status| {
            let live = Live { path: "update", price: None };
            let made = html::live(&report(status), &TEXTS, &live);
            Page { html: made.html, policy: made.policy }
        },
        update: |status| html::update(&report(status), None),
    }
}

fn report(status: &NodeStatus) -> Report {
    let NodeStatus { name, hops, carried, .. } = status;
    let (entered, encoded) = (carried.entered_bytes, carried.encoded_bytes);
    let saved = match entered {
        0 => "-".into(),
        _ => format!("{:.1} %", 100.0 - 100.0 * encoded as f64 / entered as f64),
    };
    let plan = match status.next_plan {
        Some(next) => format!(", plan {next} is being brought in"),
        None => String::new(),
    };
    let controller = match &status.controller {
        None => ("none".into(), ", plans from files".to_owned()),
        Some(one) if one.connected => ("connected".to_owned(), format!(", {}", one.address)),
        Some(one) => {
            let why = one.last_failure.clone().unwrap_or_else(|| one.address.clone());
            ("away".into(), format!(", {why}"))
        }
    };
    let up = format!("{} of {}", hops.connected(), hops.peers.len());
    let facts = vec![
        Fact::new("plan", status.plan_version.to_string(), plan),
        Fact::new("neighbors connected", up, String::new()),
        Fact::new("controller", controller.0, controller.1),
        Fact::new("entered here", format::bytes(entered), format!(", {saved} saved as they left")),
        Fact::new("left here", format::bytes(carried.delivered_bytes), String::new()),
        Fact::new(
            "cached for others",
            binary(status.cached_bytes),
            format!(", {}", format::counted(status.cached_packets, "packet")),
        ),
        Fact::new("decoded here", format::bytes(carried.decoded_bytes), String::new()),
    ];
    let up = hops.connected() == hops.peers.len();
    Report {
        kind: "Oncewire",
        title: format!("node {name}"),
        about: format!(
            "Version {}, up {}.",
            hops.version.trim_start_matches("oncewire "),
            format::number(hops.uptime.as_secs() as f64, Unit::Seconds)
        ),
        summary: Summary {
            headline: match up {
                true => format!("Node {name} is connected with all neighbors."),
                false => format!("Node {name} does not reach all neighbors."),
            },
            positive: up,
            facts,
            reasons: Vec::new(),
        },
        sections: status::node::live(status),
        footer: "Metrics for Prometheus are at /metrics, the state as JSON at /status.".into(),
    }
}
