//! Questions to a running controller.

use super::map;
use super::text::line;
use crate::args::{AskArgs, ControllerVerb};
use crate::failure::{Failure, Outcome};
use crate::format::{self, counted};
use crate::{stdout, terminal};
use oncewire_net::controller::Request;
use oncewire_report::{Cell, Report, Section, Table, TableView, Unit};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Socket of the systemd unit in `docs/examples`.
const UNIT: &str = "/run/oncewire-controller/control.sock";
/// Timeout for the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer, in bytes.
const LONGEST: u64 = 1 << 29;

pub(super) fn run(verb: &ControllerVerb) -> Outcome {
    let (request, asked) = match verb {
        ControllerVerb::Status(ask) => (Request::Status, ask),
        ControllerVerb::Plan { now: true, ask } => (Request::PlanNow, ask),
        ControllerVerb::Plan { now: false, ask } => (Request::Plan, ask),
        ControllerVerb::Why { from, to, ask } => {
            (Request::Why { from: from.clone(), to: to.clone() }, ask)
        }
        ControllerVerb::Drain { node, undo, ask } => {
            (Request::Drain { node: node.clone(), on: !undo }, ask)
        }
    };
    let path = socket(asked);
    let mut answer = question(&path, &request)?;
    if let Some(why) = answer["failed"].as_str() {
        return Err(Failure::failed(line(why)));
    }
    if let Some(text) = answer["plan"].as_str() {
        // The document as nodes get it, for other programs.
        return stdout::text(&format!("{text}\n"));
    }
    if asked.json {
        let inner = answer.as_object_mut().and_then(|one| one.values_mut().next());
        return stdout::json(&match inner {
            Some(inner) => inner.take(),
            None => serde_json::json!({ "accepted": true }),
        });
    }
    let report = match (verb, answer.get("status"), answer.get("why")) {
        (_, Some(status), _) => status_report(status),
        (ControllerVerb::Why { from, to, .. }, _, Some(why)) => why_report(from, to, why),
        (ControllerVerb::Drain { node, undo, .. }, ..) => {
            let what = if *undo { "will be used again" } else { "will be emptied" };
            return stdout::text(&format!(
                "{node} {what}; `oncewire controller status` says when\n"
            ));
        }
        _ => return stdout::text("a plan is being made; `oncewire controller status` shows it\n"),
    };
    terminal::print("--json", |page| page.answer(&report))
}

fn socket(asked: &AskArgs) -> PathBuf {
    let own = super::socket().filter(|path| path.exists());
    asked.socket.clone().or(own).unwrap_or_else(|| UNIT.into())
}

fn question(path: &Path, request: &Request) -> Outcome<Value> {
    let name = path.display();
    let ask = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = serde_json::to_string(request).unwrap_or_default();
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut text = Vec::new();
        stream.take(LONGEST).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = ask().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Failure::failed(format!(
            "no running controller found at {name}; if it has another --socket, pass that"
        )),
        io::ErrorKind::ConnectionRefused => Failure::failed(format!(
            "no process answers on {name}: the one that made this socket has ended"
        )),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Failure::failed(format!("the process with the socket {name} does not answer"))
        }
        _ => Failure::io("ask", &name, &error),
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::failed(format!("{name} is not the socket of a controller: {error}"))
    })
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

fn size(bytes: f64) -> String {
    format::number(bytes, Unit::Bytes)
}

fn rate(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |bytes| size(bytes) + "/s")
}

fn time(value: &Value) -> Option<String> {
    value.as_f64().map(|seconds| format::number(seconds, Unit::Seconds))
}

fn status_report(status: &Value) -> Report {
    let none = Vec::new();
    let nodes = status["nodes"].as_array().unwrap_or(&none);
    let mut about = Section::new("about", "About").text(format!(
        "controller of {}, {}, TCP {}, up {}",
        line(text(status, "network").unwrap_or_default()),
        line(text(status, "version").unwrap_or_default()),
        line(text(status, "address").unwrap_or_default()),
        time(&status["uptime"]).unwrap_or_default(),
    ));
    about = about.text(format!("key {}", line(text(status, "key").unwrap_or_default())));
    let plan = status["plan"].as_u64().unwrap_or(0);
    about = match plan {
        0 => about.text("no plan yet".to_owned()),
        plan => {
            let why = text(status, "reason").map(|why| format!(": {}", line(why)));
            about.text(format!("plan {plan}{}", why.unwrap_or_default()))
        }
    };
    if let [Some(before), Some(saved)] = [0, 1].map(|at| status["footprint"][at].as_f64())
        && before > 0.0
    {
        about = about.text(format!(
            "it saves {:.1} % of bytes times links with the traffic that it was made for",
            100.0 * saved / before
        ));
    }
    let rollout = &status["rollout"];
    if let (Some(done), Some(of)) = (rollout["done"].as_u64(), rollout["of"].as_u64()) {
        let took = time(&rollout["seconds"]).map(|time| format!(", after {time}"));
        let spread = time(&rollout["spread"]);
        let spread = spread.map(|time| format!("; the last one had it {time} after the first"));
        let done = format!("{done} of {} carry it out", counted(of, "node"));
        about = about.text(done + &took.unwrap_or_default() + &spread.unwrap_or_default());
    }
    if status["planning"] == true {
        about = about.text("a plan is being made".to_owned());
    }
    if let Some(failed) = text(status, "failed") {
        about = about.text(format!("the last attempt failed: {}", line(failed)));
    }
    if let Some((sent, whole)) = map::carried(status) {
        let beside = map::beside(sent, whole);
        about = about.text(format!("links carry {}/s, {beside}", size(sent)));
    }
    let cut = status["unreachable"].as_array().map_or(0, Vec::len);
    if cut > 0 {
        about = about
            .text(format!("{} of nodes have no way to each other", counted(cut as u64, "pair")));
    }
    let mut sections = vec![about, self::nodes(nodes)];
    let mut notes = Section::new("notes", "Notes");
    let mut any = false;
    for node in nodes {
        let name = line(text(node, "name").unwrap_or_default());
        if let Some(why) = text(node, "refused") {
            notes = notes.text(format!("{name} refuses the plan: {}", line(why)));
            any = true;
        }
        let down = node["down"].as_array().unwrap_or(&none);
        if !down.is_empty() {
            let down: Vec<String> = down.iter().filter_map(Value::as_str).map(line).collect();
            notes = notes.text(format!("{name} does not reach {}", down.join(", ")));
            any = true;
        }
    }
    if any {
        sections.push(notes);
    }
    Report { kind: "Status", title: "controller".into(), sections, ..Report::default() }
}

/// The name of a node, and what it is called on maps.
fn name_of(node: &Value) -> String {
    let (name, label) = (text(node, "name").unwrap_or_default(), text(node, "label"));
    match label.filter(|label| !label.is_empty() && *label != name) {
        Some(label) => line(&format!("{name} ({label})")),
        None => line(name),
    }
}

/// The table of nodes.
pub(super) fn nodes(nodes: &[Value]) -> Section {
    let columns = [
        ("node", Unit::Text),
        ("state", Unit::Text),
        ("plan", Unit::Text),
        ("enters", Unit::Text),
        ("repeats", Unit::Text),
        ("sent", Unit::Text),
    ];
    let row = |node: &Value| {
        let mut state = line(text(node, "phase").unwrap_or_default());
        if node["drained"] == true {
            state += ", drained";
        }
        let sent = match (node["entered_bytes"].as_f64(), node["encoded_bytes"].as_f64()) {
            (Some(entered), Some(encoded)) if entered > 0.0 => {
                format!("{:.1} %", 100.0 * encoded / entered)
            }
            _ => "-".into(),
        };
        let plan = node["plan"].as_u64().map_or_else(|| "-".into(), |plan| plan.to_string());
        let (enters, repeats) =
            (rate(&node["bytes_per_second"]), rate(&node["repeated_per_second"]));
        let name = name_of(node);
        [name, state, plan, enters, repeats, sent].map(Cell::from).to_vec()
    };
    let table = Table::new("nodes", "", &columns, nodes.iter().map(row).collect());
    Section::new("nodes", "Nodes").table(TableView::complete(table))
}

/// What each link carries.
pub(super) fn loads(status: &Value) -> Section {
    let rows = |key: &str| status[key].as_array().map_or(&[][..], Vec::as_slice);
    let name = |number: &Value| {
        let node = number.as_u64().and_then(|at| rows("nodes").get(at as usize));
        node.map(name_of).unwrap_or_default()
    };
    let row = |link: &Value| {
        let (whole, sent) = (link["whole_per_second"].as_f64(), link["bytes_per_second"].as_f64());
        let saved = whole.zip(sent).filter(|rates| rates.0 > 0.0);
        let saved = saved.map_or(Cell::None, |(whole, sent)| Cell::Number(1.0 - sent / whole));
        let cell = |rate: Option<f64>| rate.map_or(Cell::None, Cell::Number);
        vec![name(&link["from"]).into(), name(&link["to"]).into(), cell(whole), cell(sent), saved]
    };
    let columns = [
        ("from", Unit::Text),
        ("to", Unit::Text),
        ("a second without elimination", Unit::Bytes),
        ("a second as sent", Unit::Bytes),
        ("saved", Unit::Share),
    ];
    let table = Table::new("loads", "", &columns, rows("links").iter().map(row).collect());
    Section::new("loads", "Links").table(TableView::complete(table))
}

/// The links that are down, as their ends see them.
pub(super) fn links(nodes: &[Value]) -> Section {
    let ends = nodes.iter().flat_map(|node| {
        let down = node["down"].as_array().map_or(&[][..], Vec::as_slice);
        let name = text(node, "name").unwrap_or_default();
        down.iter().filter_map(Value::as_str).map(move |other| [name, other])
    });
    let rows = ends.map(|ends| ends.map(|name| Cell::from(line(name))).to_vec()).collect();
    let columns = [("node", Unit::Text), ("does not reach", Unit::Text)];
    let table = Table::new("links", "", &columns, rows);
    Section::new("links", "Links that are down").table(TableView::complete(table))
}

fn why_report(from: &str, to: &str, why: &Value) -> Report {
    let none = Vec::new();
    let about = Section::new("about", "About")
        .text(format!("path {} of plan {}, from {from} to {to}", why["path"], why["plan"]))
        .text(match why["volume"].as_f64() {
            Some(volume) => format!("{}/s as measured", size(volume)),
            None => "not measured yet".into(),
        });
    let percent = |value: &Value| format!("{:.1} %", 100.0 * value.as_f64().unwrap_or(0.0));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for hop in why["hops"].as_array().unwrap_or(&none) {
        let bytes = size(hop["bytes"].as_f64().unwrap_or(0.0));
        let name = line(text(hop, "node").unwrap_or_default());
        rows.push([name, percent(&hop["share"]), bytes].map(Cell::from).to_vec());
    }
    rows.push(["nobody".into(), percent(&why["uncached"]), "-".into()].map(Cell::from).to_vec());
    let columns = [("node", Unit::Text), ("caches", Unit::Text), ("memory", Unit::Text)];
    let hops = Table::new("hops", "", &columns, rows);
    let row = |one: &Value| {
        let name = line(one[0].as_str().unwrap_or_default());
        let matches = format!("{:.1}", one[1].as_f64().unwrap_or(0.0));
        [name, matches, rate(&one[2])].map(Cell::from).to_vec()
    };
    let rows = why["repeats"].as_array().unwrap_or(&none).iter().map(row).collect();
    let columns =
        [("packets to", Unit::Text), ("matches a second", Unit::Text), ("bytes", Unit::Text)];
    let repeats = Table::new("repeats", "", &columns, rows);
    let sections = vec![
        about,
        Section::new("hops", "On the way").table(TableView::complete(hops)),
        Section::new("repeats", "What they repeat").table(TableView::complete(repeats)),
    ];
    Report { kind: "Status", title: format!("{from} to {to}"), sections, ..Report::default() }
}
