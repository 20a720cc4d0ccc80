//! Metrics in the text format of Prometheus.

use crate::status::{Document, Role, Sample, Status};
use oncewire_session::{MetricKind, MetricUnit};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};
use std::collections::BTreeMap;

/// Most samples of an exposition. A tunnel of 2,000 sessions has fewer.
const MOST_SAMPLES: usize = 200_000;

/// Most characters of a label's value: keys have 56, names come from configurations.
const LONGEST_LABEL: usize = 128;

/// Families by name, so that all samples of one stand together, as the format requires.
#[derive(Default)]
pub(super) struct Families(BTreeMap<String, MetricFamily>);

impl Families {
    fn push(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        labels: &[(&str, String)],
        value: f64,
    ) {
        let family = self.0.entry(name.to_owned()).or_insert_with(|| {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_field_type(match kind {
                MetricKind::Counter => MetricType::COUNTER,
                MetricKind::Gauge => MetricType::GAUGE,
            });
            family
        });
        let labels = labels.iter().map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(label(value));
            pair
        });
        let mut metric = Metric::from_label(labels.collect());
        match kind {
            MetricKind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            MetricKind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        family.mut_metric().push(metric);
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, String)], value: f64) {
        self.push(name, MetricKind::Gauge, help, labels, value);
    }
}

/// A label's value: what peers and configurations say is cut and loses control characters.
fn label(value: &str) -> String {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    value.chars().take(LONGEST_LABEL).map(shown).collect()
}

/// The name of a sample's metric, by the rules of Prometheus: base units, which the name ends with,
/// and `_total` for counters.
fn name(sample: &Sample) -> String {
    let scope = match sample.scope {
        "" => "",
        // The counters of this end of a session, and what the other end reported of its own.
        "session" | "here" => "session_",
        "there" => "session_there_",
        "service" => "service_",
        "sent" => "link_sent_",
        "received" => "link_received_",
        "dropped" => "link_dropped_",
        "https" => "https_",
        "store" => "store_",
        "node" => "node_",
        "peer" => "link_peer_",
        "peer_sent" => "link_peer_sent_",
        "peer_received" => "link_peer_received_",
        "peer_dropped" => "link_peer_dropped_",
        other => other,
    };
    let metric = sample.metric;
    let base = metric.name.strip_suffix("_us").unwrap_or(metric.name);
    let unit = match metric.unit {
        MetricUnit::Bytes => "_bytes",
        MetricUnit::Seconds | MetricUnit::Microseconds => "_seconds",
        _ => "",
    };
    let unit = if base.contains(unit.trim_start_matches('_')) { "" } else { unit };
    let total = match metric.kind {
        MetricKind::Counter => "_total",
        MetricKind::Gauge => "",
    };
    format!("oncewire_{scope}{base}{unit}{total}")
}

/// The value in base units.
fn value(sample: &Sample) -> f64 {
    match sample.metric.unit {
        MetricUnit::Microseconds => sample.value / 1e6,
        _ => sample.value,
    }
}

fn of_sessions(families: &mut Families, status: &Status) {
    let help = "1 if the session's handshake is complete and it accepts flows.";
    for (session, labels) in status.sessions.iter().zip(status.session_labels()) {
        let is_up = session.phase == "established";
        families.gauge("oncewire_session_established", help, &labels, f64::from(u8::from(is_up)));
    }
}

impl Families {
    /// What runs.
    pub(super) fn about(&mut self, version: &str, role: &str, key: &str) {
        let about = [("version", version), ("role", role), ("key", key)];
        let about = about.map(|(name, value)| (name, value.to_owned()));
        self.gauge("oncewire_build_info", "1, with what runs as labels.", &about, 1.0);
    }

    fn samples(&mut self, samples: &[Sample]) {
        let left_out = samples.len().saturating_sub(MOST_SAMPLES);
        for sample in samples.iter().take(MOST_SAMPLES) {
            let metric = sample.metric;
            let help = metric.help.replace("microseconds", "seconds");
            self.push(&name(sample), metric.kind, &help, &sample.labels, value(sample));
        }
        let help = "Samples that this exposition leaves out, because there are too many sessions.";
        self.gauge("oncewire_left_out_samples", help, &[], left_out as f64);
    }

    /// The text, with what the system knows of the process.
    pub(super) fn text(mut self) -> String {
        #[cfg(target_os = "linux")]
        for metric in super::process::measure() {
            self.push(metric.name, metric.kind, metric.help, &[], metric.value);
        }
        let families: Vec<MetricFamily> = self.0.into_values().collect();
        let mut text = Vec::new();
        // Fails only if a family is empty or has no name, and leaves what it wrote before.
        let _ = TextEncoder::new().encode(&families, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// All metrics of a process, in the text format of Prometheus, version 0.0.4: names `oncewire_*`
/// with base units, and `process_*` as other exporters have them.
pub fn exposition(document: &Document) -> String {
    let mut families = Families::default();
    let (version, role, key, history) = match document {
        Document::Tunnel(status) => {
            let role = match status.role {
                Role::Serve => "serve",
                Role::Connect => "connect",
            };
            of_sessions(&mut families, status);
            (&status.version, role, &status.key, &status.history)
        }
        Document::Link(status) => (&status.version, "link", &status.key, &status.history),
    };
    families.about(version, role, key);
    if let Some(history) = history {
        let help = "1 if the history file is recorded to, 0 if that failed.";
        let value = f64::from(u8::from(history.recording));
        families.gauge("oncewire_history_recording", help, &[], value);
    }
    families.samples(&document.samples());
    families.text()
}

/// The same of a node of a network: `oncewire_node_*` of the node, `oncewire_link_*` of its hops to
/// neighbors.
#[cfg(target_os = "linux")]
pub(crate) fn of_node(status: &crate::status::NodeStatus) -> String {
    let mut families = Families::default();
    families.about(&status.hops.version, "node", &status.hops.key);
    families.samples(&status.samples());
    families.text()
}
