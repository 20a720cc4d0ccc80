//! The result of an emulation: the JSON document, and the report made from it.

use super::super::scenario::{self, Scenario};
use super::Carried;
use super::traffic::{Kind, Traffic};
use crate::args::plan::EmulateArgs;
use crate::format::count_of;
use crate::quantity::bytes;
use crate::stdout as output;
use crate::terminal::Page;
use oncewire_plan::emulate::{Limits, Offered, Outcome, Report};
use oncewire_plan::{Instance, NodeId};
use oncewire_report::format::number;
use oncewire_report::{self as presented, Block, Cell, Section, Summary, Table, TableView, Unit};
use serde::Serialize;
use std::io;

/// Format of the document. Its number grows when a field is removed or changes its meaning.
const FORMAT: &str = "oncewire-emulate/1";

/// Settings that do not apply to captures, which have their own volumes and redundancy.
const ASKED: [&str; 5] = ["traffic", "volumes", "load", "redundancy", "match length"];

/// Epochs that the overview shows.
const FIRST_EPOCHS: usize = 3;
/// Rows of a table on a terminal.
const ROWS: usize = 10;

/// The result of an emulation.
#[derive(Serialize)]
pub(super) struct Document {
    format: &'static str,
    network: String,
    derivation: Vec<String>,
    traffic: String,
    /// Factor for volumes, caches and speeds.
    scale: f64,
    epoch_seconds: f64,
    settings: Vec<(String, String)>,
    headline: String,
    schemes: Vec<Run>,
    /// Plans that there were to choose from; none if one was given.
    plans: Vec<PlanLine>,
    packets: u64,
    bytes: u64,
    delivered: u64,
    lost: u64,
    undecodable: u64,
    /// Footprint of sending again what was lost or could not be decoded, once and plain.
    resent_bytes: u64,
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
    /// Share of the footprint saved after the first epoch, with the bytes of shims and of packets
    /// that are sent again.
    reduction: f64,
    /// The same with the first epoch, when caches are empty.
    whole_run: f64,
    /// The same as the plan expected.
    expected: Option<f64>,
    /// Per epoch.
    epochs: Vec<EpochLine>,
    replans: u32,
    seconds: f64,
}

/// A plan that could be taken.
#[derive(Serialize)]
struct PlanLine {
    /// With which limits it was made.
    limits: String,
    expected: f64,
    /// What the packets saved with it, if they decided.
    reduction: Option<f64>,
    taken: bool,
}

#[derive(Serialize)]
struct EpochLine {
    epoch: u64,
    packets: u64,
    reduction: f64,
    matches: u64,
    /// Operations of the busiest device, as a share of its limit.
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
        let (before, after) = settled.iter().fold((0, 0), |sum, epoch| {
            let all = epoch.footprint.with(epoch.resent);
            (sum.0 + all.before, sum.1 + all.after)
        });
        let line = |epoch: &oncewire_plan::emulate::EpochReport| EpochLine {
            epoch: epoch.epoch,
            packets: epoch.packets,
            reduction: epoch.footprint.with(epoch.resent).reduction(),
            matches: epoch.matches,
            busiest: epoch.busiest,
            shed: epoch.overloaded,
            undecodable: epoch.undecodable,
        };
        Run {
            name,
            reduction: output::savings(after, before),
            whole_run: report.footprint.with(report.resent).reduction(),
            expected: report.expected,
            epochs: report.epochs.iter().map(line).collect(),
            replans: carried.replans,
            seconds: carried.seconds,
        }
    }
}

/// The document of an emulation.
pub(super) fn document(
    args: &EmulateArgs,
    scenario: &Scenario,
    outcome: &Outcome,
    traffic: &Traffic,
    report: &Report,
    schemes: Vec<Run>,
    mut notes: Vec<String>,
) -> Document {
    let instance = &outcome.instance;
    let of_captures = matches!(traffic.kind, Kind::Captures { .. });
    notes.insert(0, fate(report));
    if args.reroute.is_some() && report.undecodable > 0 {
        notes.push(
            "After the link failed, ingresses encoded for the old route until they learned of it."
                .into(),
        );
    }
    let refusals = &report.refusals;
    Document {
        format: FORMAT,
        network: instance.network.name.clone(),
        derivation: instance.network.derivation.clone(),
        traffic: traffic.words.clone(),
        scale: traffic.scale,
        epoch_seconds: instance.epoch.0,
        settings: scenario
            .settings
            .iter()
            .filter(|setting| !of_captures || !ASKED.contains(&setting.0.as_str()))
            .cloned()
            .collect(),
        headline: headline(&schemes),
        plans: outcome.offered.iter().map(plan_line).collect(),
        packets: report.packets,
        bytes: report.bytes,
        delivered: report.delivered,
        lost: report.lost,
        undecodable: report.undecodable,
        resent_bytes: report.resent.after,
        damaged: report.damaged,
        collisions: report.collisions,
        updates: report.updates,
        refusals: vec![
            ("not cached by any downstream device", refusals.overlap),
            ("device overloaded", refusals.overloaded),
            ("name not unique", refusals.ambiguous),
            ("shorter than its shim", refusals.short),
            ("more than a shim carries", refusals.many),
            ("packets sent again, plain", refusals.retransmission),
            ("in a gap", refusals.gap),
            ("not known to have arrived", refusals.unconfirmed),
        ],
        shim_bytes: report.ingresses.iter().map(|ingress| ingress.shim_bytes).sum(),
        matches: report.ingresses.iter().map(|ingress| ingress.matches).sum(),
        matched_bytes: report.ingresses.iter().map(|ingress| ingress.matched_bytes).sum(),
        ingresses: ingress_lines(instance, report),
        links: link_lines(instance, report),
        devices: device_lines(instance, report),
        schemes,
        notes,
    }
}

fn plan_line(offered: &Offered) -> PlanLine {
    PlanLine {
        limits: match offered.limits {
            Limits::Own => "those of the devices: the program's optimum".into(),
            Limits::Operations(round) => {
                format!("fewer operations at busy devices, lowered {}", times(round))
            }
            Limits::Memory(share) => {
                format!("at most {} of the memory that the optimum fills", percent(share))
            }
        },
        expected: offered.expected,
        reduction: offered.emulated,
        taken: offered.taken,
    }
}

fn times(count: usize) -> String {
    match count {
        1 => "once".into(),
        2 => "twice".into(),
        count => format!("{count} times"),
    }
}

fn percent(share: f64) -> String {
    number(share, presented::Unit::Share)
}

/// What the plan saved, beside what it expected and what could be saved at most.
fn headline(schemes: &[Run]) -> String {
    let ours = &schemes[0];
    let mut headline =
        format!("Packets through the plan: {:.1} % of the footprint saved", 100.0 * ours.reduction);
    if let Some(expected) = ours.expected {
        headline += &format!(", where the plan expected {:.1} %", 100.0 * expected);
    }
    if let Some(ideal) =
        schemes.iter().find(|run| run.name == "Ideal").filter(|ideal| ideal.reduction > 0.0)
    {
        headline += &format!("; Ideal saves {:.1} %", 100.0 * ideal.reduction);
    }
    if let Some(hop) = schemes.iter().find(|run| run.name == "hop-by-hop") {
        let winner = if hop.reduction > ours.reduction { hop.name } else { ours.name };
        headline += &format!(", hop-by-hop {:.1} %: {winner} wins", 100.0 * hop.reduction);
    }
    headline + "."
}

/// What became of the packets.
fn fate(report: &Report) -> String {
    let mut fate = format!(
        "{} packets left the network, each identical to the one that entered",
        count_of(report.delivered)
    );
    if report.lost > 0 {
        fate += &format!("; {} were lost on links", count_of(report.lost));
    }
    if report.undecodable + report.damaged > 0 {
        let dropped = count_of(report.undecodable + report.damaged);
        fate += &format!(
            "; {dropped} were dropped, because a device did not have the content that they refer to"
        );
    }
    if report.resent.after > 0 {
        fate += "; all of these count as sent again, once and plain";
    }
    fate + "."
}

fn ingress_lines(instance: &Instance, report: &Report) -> Vec<IngressLine> {
    let label = |node: NodeId| scenario::label(&instance.network, node);
    report
        .ingresses
        .iter()
        .zip(&instance.ingresses)
        .map(|(found, ingress)| IngressLine {
            node: scenario::of_slice(label(ingress.node), ingress.slice),
            packets: found.packets,
            reduction: found.footprint.reduction(),
            expected: found.expected,
            matches: found.matches,
            shim_bytes: found.shim_bytes,
            collisions: found.collisions,
        })
        .collect()
}

fn link_lines(instance: &Instance, report: &Report) -> Vec<LinkLine> {
    let label = |node: NodeId| scenario::label(&instance.network, node);
    report
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
        .collect()
}

fn device_lines(instance: &Instance, report: &Report) -> Vec<DeviceLine> {
    let finite = |limit: f64| limit.is_finite().then_some(limit);
    report
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
        .collect()
}

impl Document {
    /// The report for presenters.
    pub(super) fn report(&self) -> presented::Report {
        let mut sections =
            vec![Section::new("network", "Network").with(Block::Facts(self.facts()))];
        let mut add = |title, view: TableView| {
            sections.push(Section::new(view.table.id, title).with(Block::Table(view)))
        };
        add("Schemes", self.schemes_table().into());
        if self.plans.len() > 1 {
            add("Plans to choose from", self.plans_table().into());
        }
        if let Some(run) = self.schemes.first() {
            add("Epochs of the plan", TableView { rows: Some(4 * ROWS), ..epochs(run).into() });
        }
        add("Links", TableView { rows: Some(ROWS), ..self.links_table().into() });
        add("Devices", TableView { rows: Some(ROWS), ..self.devices_table().into() });
        let refusals: Vec<(String, Vec<String>)> = self
            .refusals
            .iter()
            .filter(|refusal| refusal.1 > 0)
            .map(|&(why, count)| (why.to_owned(), vec![count_of(count)]))
            .collect();
        let refusals =
            if refusals.is_empty() { Block::Text("None.".into()) } else { Block::Facts(refusals) };
        sections.push(Section::new("refusals", "Matches that were not used").with(refusals));
        sections.push(Section::new("notes", "Notes").with(Block::Notes(self.notes.clone())));
        presented::Report {
            kind: "Emulation",
            title: self.network.clone(),
            summary: Summary {
                headline: self.headline.clone(),
                positive: true,
                ..Summary::default()
            },
            sections,
            ..presented::Report::default()
        }
    }

    /// Writes the result, what was carried, and how it went in the first epochs.
    pub(super) fn overview<W: io::Write>(&self, page: &mut Page<'_, W>) -> io::Result<()> {
        page.headline(&self.headline)?;
        page.line("")?;
        let facts: Vec<(String, String)> = self
            .facts()
            .into_iter()
            .filter(|(name, _)| ["packets", "carried", "matches encoded"].contains(&name.as_str()))
            .map(|(name, lines)| (name, lines.join("; ")))
            .collect();
        page.facts(&facts)?;
        page.line("")?;
        page.view(&self.schemes_table().into())?;
        if let Some(run) = self.schemes.first() {
            page.line("")?;
            page.view(&TableView { rows: Some(FIRST_EPOCHS), ..epochs(run).into() })?;
        }
        page.line("")?;
        self.notes.iter().try_for_each(|note| page.wrapped("- ", note))?;
        page.dim("Links, devices and the rest: --full.")
    }

    fn facts(&self) -> Vec<(String, Vec<String>)> {
        let (count, size) = (count_of(self.matches), bytes(self.matched_bytes));
        let mut network = vec![self.network.clone()];
        network.extend(self.derivation.iter().cloned());
        let mut facts = vec![
            ("name".to_owned(), network),
            ("packets".into(), vec![self.traffic.clone()]),
            (
                "carried".into(),
                vec![format!("{} packets, {}", count_of(self.packets), bytes(self.bytes))],
            ),
            (
                "matches encoded".into(),
                vec![format!("{count}, for {size}; shims take {}", bytes(self.shim_bytes))],
            ),
        ];
        facts.extend(self.settings.iter().map(|(name, value)| (name.clone(), vec![value.clone()])));
        facts
    }

    fn schemes_table(&self) -> Table {
        let row = |run: &Run| {
            vec![
                run.name.into(),
                run.reduction.into(),
                run.whole_run.into(),
                run.expected.into(),
                run.seconds.into(),
            ]
        };
        let columns = [
            ("scheme", Unit::Text),
            ("reduction", Unit::Share),
            ("with the first epoch", Unit::Share),
            ("expected", Unit::Share),
            ("took", Unit::Seconds),
        ];
        let caption = "Footprint reduction, shims counted, after the first epoch";
        Table::new("schemes", caption, &columns, self.schemes.iter().map(row).collect())
    }

    fn plans_table(&self) -> Table {
        let row = |plan: &PlanLine| {
            vec![
                plan.limits.clone().into(),
                plan.expected.into(),
                plan.reduction.into(),
                if plan.taken { "yes" } else { "" }.into(),
            ]
        };
        let columns = [
            ("limits", Unit::Text),
            ("expected", Unit::Share),
            ("packets", Unit::Share),
            ("taken", Unit::Text),
        ];
        let caption = "Footprint reduction by the limits that plans were made with";
        Table::new("plans", caption, &columns, self.plans.iter().map(row).collect())
    }

    fn links_table(&self) -> Table {
        let mut links: Vec<&LinkLine> = self.links.iter().filter(|link| link.counted).collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.before_bytes));
        let row = |link: &LinkLine| {
            vec![
                link.from.clone().into(),
                link.to.clone().into(),
                Cell::Count(link.before_bytes),
                Cell::Count(link.after_bytes),
                output::savings(link.after_bytes, link.before_bytes).into(),
            ]
        };
        let columns = [
            ("from", Unit::Text),
            ("to", Unit::Text),
            ("before", Unit::Bytes),
            ("after", Unit::Bytes),
            ("saved", Unit::Share),
        ];
        let caption = "Links that count in the footprint, busiest first; bytes in the whole run";
        Table::new("links", caption, &columns, links.into_iter().map(row).collect())
    }

    fn devices_table(&self) -> Table {
        let mut devices: Vec<&DeviceLine> = self.devices.iter().collect();
        devices.sort_by(|a, b| b.mean_operations.total_cmp(&a.mean_operations));
        let row = |device: &DeviceLine| {
            let used = device
                .memory
                .filter(|memory| *memory > 0.0)
                .map(|memory| device.most_bytes as f64 / memory);
            vec![
                device.name.clone().into(),
                Cell::Count(device.cached),
                Cell::Count(device.decoded),
                device.mean_operations.round().into(),
                device.expected_operations.map(f64::round).into(),
                device.limit.map(f64::round).into(),
                used.into(),
            ]
        };
        let columns = [
            ("device", Unit::Text),
            ("cached", Unit::Count),
            ("decoded", Unit::Count),
            ("operations", Unit::Number),
            ("expected", Unit::Number),
            ("limit", Unit::Number),
            ("cache used", Unit::Share),
        ];
        let caption = "Devices, busiest first; operations per epoch";
        Table::new("devices", caption, &columns, devices.into_iter().map(row).collect())
    }
}

fn epochs(run: &Run) -> Table {
    let row = |epoch: &EpochLine| {
        vec![
            Cell::Count(epoch.epoch),
            Cell::Count(epoch.packets),
            epoch.reduction.into(),
            Cell::Count(epoch.matches),
            epoch.busiest.into(),
            Cell::Count(epoch.shed),
            Cell::Count(epoch.undecodable),
        ]
    };
    let columns = [
        ("epoch", Unit::Count),
        ("packets", Unit::Count),
        ("reduction", Unit::Share),
        ("matches", Unit::Count),
        ("busiest device", Unit::Share),
        ("shed", Unit::Count),
        ("undecodable", Unit::Count),
    ];
    let caption = "Epochs; shed: matches not encoded because devices had no capacity";
    Table::new("epochs", caption, &columns, run.epochs.iter().map(row).collect())
}
