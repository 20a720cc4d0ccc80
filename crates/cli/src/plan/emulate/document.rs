//! What an emulation came to: the JSON document, and the summary made from it.

use super::super::scenario::{self, Scenario};
use super::Carried;
use super::traffic::{Kind, Traffic};
use crate::args::plan::EmulateArgs;
use crate::format::{self, count_of};
use crate::quantity::bytes;
use crate::report as output;
use crate::terminal::Page;
use oncewire_plan::Instance;
use oncewire_plan::emulate::Report;
use oncewire_trace::results::{Cell, Column, Table, Unit};
use serde::Serialize;
use std::io::{self, Write};

/// What the document calls itself. Its number grows when a field changes its meaning or goes.
const FORMAT: &str = "oncewire-emulate/1";

/// Settings that say nothing of captures: they have volumes and redundancy of their own.
const ASKED: [&str; 5] = ["traffic", "volumes", "load", "redundancy", "match length"];

/// Rows of a table; all are in the JSON document.
const ROWS: usize = 10;

/// What an emulation came to.
#[derive(Serialize)]
pub(super) struct Document {
    format: &'static str,
    network: String,
    derivation: Vec<String>,
    traffic: String,
    /// Part of volumes, caches and speeds that was emulated.
    scale: f64,
    epoch_seconds: f64,
    settings: Vec<(String, String)>,
    headline: String,
    schemes: Vec<Run>,
    packets: u64,
    bytes: u64,
    delivered: u64,
    lost: u64,
    undecodable: u64,
    damaged: u64,
    collisions: u64,
    updates: u64,
    refusals: Vec<(&'static str, u64)>,
    shim_bytes: u64,
    matches: u64,
    matched_bytes: u64,
    ingresses: Vec<IngressLine>,
    links: Vec<LinkLine>,
    devices: Vec<DeviceLine>,
    notes: Vec<String>,
}

/// One scheme's run.
#[derive(Serialize)]
pub(super) struct Run {
    name: &'static str,
    /// Share of the footprint saved, shims counted, after the first epoch.
    reduction: f64,
    /// The same with the first epoch, in which caches fill.
    whole_run: f64,
    /// What the plan expected.
    expected: Option<f64>,
    /// Per epoch.
    epochs: Vec<EpochLine>,
    replans: u32,
    seconds: f64,
}

#[derive(Serialize)]
struct EpochLine {
    epoch: u64,
    packets: u64,
    reduction: f64,
    matches: u64,
    /// Most operations of a device, as a share of what it can do.
    busiest: f64,
    shed: u64,
    undecodable: u64,
}

#[derive(Serialize)]
struct IngressLine {
    node: String,
    packets: u64,
    reduction: f64,
    expected: Option<f64>,
    matches: u64,
    shim_bytes: u64,
    collisions: u64,
}

#[derive(Serialize)]
struct LinkLine {
    from: String,
    to: String,
    /// Whether it counts in the footprint.
    counted: bool,
    before_bytes: u64,
    after_bytes: u64,
}

#[derive(Serialize)]
struct DeviceLine {
    name: String,
    cached: u64,
    decoded: u64,
    /// Per epoch.
    mean_operations: f64,
    most_operations: u64,
    expected_operations: Option<f64>,
    limit: Option<f64>,
    most_bytes: u64,
    memory: Option<f64>,
}

impl Run {
    pub(super) fn of(name: &'static str, carried: &Carried) -> Run {
        let report = &carried.report;
        let settled: Vec<_> = report.epochs.iter().filter(|epoch| epoch.epoch > 0).collect();
        let (before, after) =
            settled.iter().fold((0, 0), |sum, epoch| (sum.0 + epoch.footprint.before, sum.1 + epoch.footprint.after));
        let line = |epoch: &oncewire_plan::emulate::EpochReport| EpochLine {
            epoch: epoch.epoch,
            packets: epoch.packets,
            reduction: epoch.footprint.reduction(),
            matches: epoch.matches,
            busiest: epoch.busiest,
            shed: epoch.overloaded,
            undecodable: epoch.undecodable,
        };
        Run {
            name,
            reduction: output::savings(after, before),
            whole_run: report.footprint.reduction(),
            expected: report.expected,
            epochs: report.epochs.iter().map(line).collect(),
            replans: carried.replans,
            seconds: carried.seconds,
        }
    }
}

/// The document of a run.
pub(super) fn document(
    args: &EmulateArgs,
    scenario: &Scenario,
    instance: &Instance,
    traffic: &Traffic,
    report: &Report,
    schemes: Vec<Run>,
    mut notes: Vec<String>,
) -> Document {
    let label = |node: u32| scenario::label(&instance.network, node);
    let of_captures = matches!(traffic.kind, Kind::Captures { .. });
    let ours = &schemes[0];
    let mut headline = format!("Packets through the plan: {:.1} % of the footprint saved", 100.0 * ours.reduction);
    if let Some(expected) = ours.expected {
        headline += &format!(", where the program expected {:.1} %", 100.0 * expected);
    }
    if let Some(ideal) = schemes.iter().find(|run| run.name == "Ideal").filter(|ideal| ideal.reduction > 0.0) {
        headline += &format!("; Ideal saves {:.1} %", 100.0 * ideal.reduction);
    }
    headline += ".";
    let mut fate = format!("{} packets left the network, each as it entered", count_of(report.delivered));
    if report.lost > 0 {
        fate += &format!("; {} were lost on links", count_of(report.lost));
    }
    if report.undecodable + report.damaged > 0 {
        let dropped = count_of(report.undecodable + report.damaged);
        fate += &format!("; {dropped} were dropped, because what they referred to was not where their ingress believed it");
    }
    notes.insert(0, fate + ".");
    if args.reroute.is_some() && report.undecodable > 0 {
        notes.push("After the link failed, ingresses went on encoding for the old route until they heard of it.".into());
    }
    let refusals = &report.refusals;
    let finite = |limit: f64| limit.is_finite().then_some(limit);
    Document {
        format: FORMAT,
        network: instance.network.name.clone(),
        derivation: instance.network.derivation.clone(),
        traffic: traffic.words.clone(),
        scale: traffic.scale,
        epoch_seconds: instance.epoch,
        settings: scenario
            .settings
            .iter()
            .filter(|setting| !of_captures || !ASKED.contains(&setting.0.as_str()))
            .cloned()
            .collect(),
        headline,
        packets: report.packets,
        bytes: report.bytes,
        delivered: report.delivered,
        lost: report.lost,
        undecodable: report.undecodable,
        damaged: report.damaged,
        collisions: report.collisions,
        updates: report.updates,
        refusals: vec![
            ("cached by no device ahead", refusals.overlap),
            ("device overloaded", refusals.overloaded),
            ("name not unique", refusals.ambiguous),
            ("shorter than its shim", refusals.short),
            ("more than a shim carries", refusals.many),
            ("packets sent again, plain", refusals.retransmission),
            ("in a gap", refusals.gap),
        ],
        shim_bytes: report.ingresses.iter().map(|ingress| ingress.shim_bytes).sum(),
        matches: report.ingresses.iter().map(|ingress| ingress.matches).sum(),
        matched_bytes: report.ingresses.iter().map(|ingress| ingress.matched_bytes).sum(),
        ingresses: report
            .ingresses
            .iter()
            .zip(&instance.ingresses)
            .map(|(found, ingress)| IngressLine {
                node: label(ingress.node),
                packets: found.packets,
                reduction: found.footprint.reduction(),
                expected: found.expected,
                matches: found.matches,
                shim_bytes: found.shim_bytes,
                collisions: found.collisions,
            })
            .collect(),
        links: report
            .links
            .iter()
            .zip(&instance.network.links)
            .zip(&instance.counted)
            .map(|((found, link), &counted)| LinkLine {
                counted,
                from: label(link.from),
                to: label(link.to),
                before_bytes: found.before,
                after_bytes: found.after,
            })
            .collect(),
        devices: report
            .devices
            .iter()
            .enumerate()
            .map(|(at, found)| DeviceLine {
                name: scenario::device_label(instance, at),
                cached: found.cached,
                decoded: found.decoded,
                mean_operations: found.mean_operations,
                most_operations: found.most_operations,
                expected_operations: found.expected,
                limit: finite(found.limit),
                most_bytes: found.most_used,
                memory: finite(found.memory),
            })
            .collect(),
        schemes,
        notes,
    }
}

fn table(id: &'static str, caption: &str, columns: &[(&str, Unit)], rows: Vec<Vec<Cell>>) -> Table {
    let columns = columns.iter().map(|&(name, unit)| Column::new(name, unit)).collect();
    Table { id, caption: caption.into(), columns, rows }
}

impl Document {
    /// Writes the summary for a terminal.
    pub(super) fn write(&self, out: &mut impl Write, width: usize, colour: bool) -> io::Result<()> {
        let mut page = Page::new(out, width, colour).whole_in("--json");
        page.headline(&self.headline)?;
        page.line("")?;
        let carried = format!("{} packets, {}", count_of(self.packets), bytes(self.bytes));
        let matches =
            format!("{}, for {}; shims take {}", count_of(self.matches), bytes(self.matched_bytes), bytes(self.shim_bytes));
        let mut facts = vec![("network", self.network.clone())];
        facts.extend(self.derivation.iter().map(|line| ("", line.clone())));
        facts.extend([("packets", self.traffic.clone()), ("carried", carried), ("matches encoded", matches)]);
        facts.extend(self.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
        page.facts(&facts)?;
        page.heading("", "Schemes")?;
        let rows = self.schemes.iter().map(|run| {
            vec![run.name.into(), run.reduction.into(), run.whole_run.into(), run.expected.into(), run.seconds.into()]
        });
        let columns = [
            ("scheme", Unit::Text),
            ("reduction", Unit::Share),
            ("with the first epoch", Unit::Share),
            ("expected", Unit::Share),
            ("took", Unit::Seconds),
        ];
        page.table(&table("schemes", "Footprint reduction, shims counted, after the first epoch", &columns, rows.collect()))?;
        if let Some(run) = self.schemes.first() {
            page.heading("", "Epochs of the plan")?;
            let rows = run.epochs.iter().map(|epoch| {
                vec![
                    Cell::Count(epoch.epoch),
                    Cell::Count(epoch.packets),
                    epoch.reduction.into(),
                    Cell::Count(epoch.matches),
                    epoch.busiest.into(),
                    Cell::Count(epoch.shed),
                    Cell::Count(epoch.undecodable),
                ]
            });
            let columns = [
                ("epoch", Unit::Count),
                ("packets", Unit::Count),
                ("reduction", Unit::Share),
                ("matches", Unit::Count),
                ("busiest device", Unit::Share),
                ("shed", Unit::Count),
                ("undecodable", Unit::Count),
            ];
            let mut epochs = table(
                "epochs",
                "Epoch by epoch; shed: matches left to no one, as the device had no operations left",
                &columns,
                rows.collect(),
            );
            epochs.rows.truncate(4 * ROWS);
            page.table(&epochs)?;
        }
        let mut links: Vec<&LinkLine> = self.links.iter().filter(|link| link.counted).collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.before_bytes));
        self.some(
            &mut page,
            "Links",
            links.len(),
            table(
                "links",
                "The busiest of the links that count in the footprint; bytes in the whole run",
                &[
                    ("from", Unit::Text),
                    ("to", Unit::Text),
                    ("before", Unit::Bytes),
                    ("after", Unit::Bytes),
                    ("saved", Unit::Share),
                ],
                links
                    .into_iter()
                    .take(ROWS)
                    .map(|link| {
                        let saved = output::savings(link.after_bytes, link.before_bytes);
                        vec![
                            link.from.clone().into(),
                            link.to.clone().into(),
                            Cell::Count(link.before_bytes),
                            Cell::Count(link.after_bytes),
                            saved.into(),
                        ]
                    })
                    .collect(),
            ),
        )?;
        let mut devices: Vec<&DeviceLine> = self.devices.iter().collect();
        devices.sort_by(|a, b| b.mean_operations.total_cmp(&a.mean_operations));
        self.some(
            &mut page,
            "Devices",
            devices.len(),
            table(
                "devices",
                "The busiest devices; operations per epoch",
                &[
                    ("device", Unit::Text),
                    ("cached", Unit::Count),
                    ("decoded", Unit::Count),
                    ("operations", Unit::Number),
                    ("expected", Unit::Number),
                    ("limit", Unit::Number),
                    ("cache used", Unit::Share),
                ],
                devices
                    .into_iter()
                    .take(ROWS)
                    .map(|device| {
                        let used = device.memory.filter(|memory| *memory > 0.0).map(|memory| device.most_bytes as f64 / memory);
                        vec![
                            device.name.clone().into(),
                            Cell::Count(device.cached),
                            Cell::Count(device.decoded),
                            device.mean_operations.round().into(),
                            device.expected_operations.map(f64::round).into(),
                            device.limit.map(f64::round).into(),
                            used.into(),
                        ]
                    })
                    .collect(),
            ),
        )?;
        page.heading("", "Matches that were not used")?;
        let facts: Vec<(&str, String)> =
            self.refusals.iter().filter(|refusal| refusal.1 > 0).map(|&(why, count)| (why, count_of(count))).collect();
        if facts.is_empty() {
            page.line("  none")?;
        }
        page.facts(&facts)?;
        page.heading("", "Notes")?;
        for note in &self.notes {
            page.wrapped("- ", note)?;
        }
        page.line("")
    }

    fn some<W: Write>(&self, page: &mut Page<'_, W>, title: &str, all: usize, table: Table) -> io::Result<()> {
        page.heading("", title)?;
        page.table(&table)?;
        if all > table.rows.len() {
            page.dim(&format!("... {} more rows in --json", format::count_of((all - table.rows.len()) as u64)))?;
        }
        Ok(())
    }
}
