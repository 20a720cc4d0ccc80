//! What processes say of themselves, and how that changes.

use oncewire_net::status::{
    Document, LinkStatus, MetricUnit, Sample, SessionStatus, Status, StoreStatus,
};
use oncewire_report::Unit;
use oncewire_report::format;
use oncewire_report::text::sanitize;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Intervals that the chart goes back.
const HISTORY: usize = 512;

/// Bytes that this end sent and received.
pub(crate) type Ways = [u64; 2];

/// A peer, or a session with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Peer {
    pub(crate) key: String,
    /// Which of the sessions with this peer.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) is_up: bool,
    pub(crate) address: String,
    /// Open connections. Links have none.
    pub(crate) flows: Option<u64>,
    /// Bytes of applications, or of inner packets.
    pub(crate) content: Ways,
    pub(crate) wire: Ways,
    pub(crate) rtt: Option<Duration>,
    /// Bytes in the cache for what this end sends, and its size.
    pub(crate) cache: Option<(u64, u64)>,
    /// All counters, by name.
    pub(crate) counters: Vec<(String, String)>,
}

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    pub(crate) role: String,
    pub(crate) version: String,
    pub(crate) uptime: Duration,
    pub(crate) listening: String,
    /// Memory in use and its limit, in bytes.
    pub(crate) memory: Option<(u64, u64)>,
    /// Caches on disk, in short.
    pub(crate) store: Option<String>,
    pub(crate) problem: Option<String>,
    pub(crate) content: Ways,
    pub(crate) wire: Ways,
    pub(crate) peers: Vec<Peer>,
}

/// Text of peers and configurations, without what a terminal would obey.
fn clean(text: &str) -> String {
    sanitize(text).into_owned()
}

fn called(name: Option<&String>, key: &str) -> String {
    clean(&name.cloned().unwrap_or_else(|| key.chars().take(11).collect()))
}

/// Samples by the key of their peer and the number of their session, if they have one.
struct Samples<'a>(HashMap<(&'a str, &'a str), Vec<&'a Sample>>);

impl<'a> Samples<'a> {
    fn of(samples: &'a [Sample]) -> Samples<'a> {
        let label = |sample: &'a Sample, wanted: &str| {
            let found = sample.labels.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        let mut of: HashMap<_, Vec<_>> = HashMap::new();
        for sample in samples {
            if let Some(peer) = label(sample, "peer") {
                of.entry((peer, label(sample, "session").unwrap_or(""))).or_default().push(sample);
            }
        }
        Samples(of)
    }
}

/// The counters of one peer.
fn counters(samples: &Samples<'_>, key: &str, session: Option<usize>) -> Vec<(String, String)> {
    let number = session.map(|session| session.to_string()).unwrap_or_default();
    let of = samples.0.get(&(key, number.as_str()));
    of.into_iter()
        .flatten()
        .map(|sample| {
            let scope = match sample.scope {
                "session" | "peer" => String::new(),
                "there" => "other end: ".into(),
                "here" => "here: ".into(),
                scope => scope.replace("peer_", "") + ": ",
            };
            let unit = match sample.metric.unit {
                MetricUnit::Bytes => Unit::Bytes,
                MetricUnit::Seconds => Unit::Seconds,
                _ => Unit::Count,
            };
            let (name, value) = match sample.metric.unit {
                MetricUnit::Microseconds => {
                    let name = sample.metric.name.trim_end_matches("_us");
                    (name, format::number(sample.value / 1e6, Unit::Seconds))
                }
                _ => (sample.metric.name, format::number(sample.value, unit)),
            };
            (format!("{scope}{}", name.replace('_', " ")), value)
        })
        .collect()
}

fn session(session: &SessionStatus, number: usize, samples: &Samples<'_>) -> Peer {
    let here = &session.here;
    Peer {
        key: session.peer.clone(),
        number,
        name: called(session.name.as_ref(), &session.peer),
        state: match &*session.phase {
            "established" if session.lanes_up > 0 => {
                format!("up {}/{}", session.lanes_up, session.lanes)
            }
            "established" => "waits".into(),
            phase => clean(phase),
        },
        is_up: session.phase == "established" && session.lanes_up > 0,
        address: session.address.map_or_else(String::new, |address| address.to_string()),
        flows: Some(here.flows),
        content: [here.sent_bytes, here.received_bytes],
        wire: [here.wire_sent_bytes, here.wire_received_bytes],
        rtt: (here.rtt_us > 0).then(|| Duration::from_micros(here.rtt_us)),
        cache: Some((here.log_end.min(here.log_capacity), here.log_capacity)),
        counters: counters(samples, &session.peer, Some(number)),
    }
}

/// What a line says about caches on disk.
fn on_disk(store: &StoreStatus) -> String {
    let recalled = store.recalled_hour + store.recalled_day + store.recalled_older;
    let oldest = store.oldest.map_or_else(String::new, |age| {
        format!(", oldest {}", format::number(age as f64, Unit::Seconds))
    });
    format!(
        "disk     {} of {}{oldest}; {} recalled, {} written in a day",
        format::bytes(store.used),
        format::bytes(store.limit),
        format::bytes(recalled),
        format::bytes(store.day_written),
    )
}

fn tunnel(status: &Status, samples: &Samples<'_>) -> Moment {
    let mut numbers = HashMap::new();
    let peers = status.sessions.iter().map(|one| {
        let number = numbers.entry(&one.peer).or_insert(0);
        *number += 1;
        session(one, *number - 1, samples)
    });
    let failure = status.last_failure.as_ref().map(|why| clean(why));
    Moment {
        role: status.role.name().into(),
        version: clean(&status.version),
        uptime: status.uptime,
        listening: clean(&status.listening.join(", ")),
        memory: Some((status.memory, status.memory_limit)),
        store: status.store.as_ref().map(on_disk),
        problem: failure.or_else(|| status.draining.then(|| "draining".into())),
        content: [status.application_sent, status.application_received],
        wire: [status.transport_sent, status.transport_received],
        peers: peers.collect(),
    }
}

fn link(status: &LinkStatus, samples: &Samples<'_>) -> Moment {
    let peers = status.peers.iter().map(|peer| {
        let traffic = &peer.traffic;
        Peer {
            key: peer.key.clone(),
            name: called(peer.name.as_ref(), &peer.key),
            state: if peer.connection.is_some() { "up" } else { "down" }.into(),
            is_up: peer.connection.is_some(),
            address: clean(peer.connection.as_ref().map_or("", |connection| &connection.address)),
            content: [traffic.sent.inner_bytes, traffic.received.inner_bytes],
            wire: [traffic.sent.bytes, traffic.received.bytes],
            rtt: peer.connection.as_ref().map(|connection| connection.rtt),
            counters: counters(samples, &peer.key, None),
            ..Peer::default()
        }
    });
    let down = status.peers.iter().find_map(|peer| {
        let why = peer.last_failure.as_ref()?;
        Some(format!("{}: {}", called(peer.name.as_ref(), &peer.key), clean(why)))
    });
    Moment {
        role: "link".into(),
        version: clean(&status.version),
        uptime: status.uptime,
        listening: clean(&format!("{} on {}", status.device, status.address)),
        problem: down,
        content: [status.traffic.sent.inner_bytes, status.traffic.received.inner_bytes],
        wire: [status.traffic.sent.bytes, status.traffic.received.bytes],
        peers: peers.collect(),
        ..Moment::default()
    }
}

impl Moment {
    pub(crate) fn of(document: &Document) -> Moment {
        Moment::with(document, &document.samples())
    }

    /// Without the counters of peers, of which a hub has many.
    pub(crate) fn brief(document: &Document) -> Moment {
        Moment::with(document, &[])
    }

    fn with(document: &Document, samples: &[Sample]) -> Moment {
        let samples = Samples::of(samples);
        match document {
            Document::Tunnel(status) => tunnel(status, &samples),
            Document::Link(status) => link(status, &samples),
        }
    }
}

/// Bytes per second, sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) content: [f64; 2],
    pub(crate) wire: [f64; 2],
}

/// Share of the bytes that did not cross the wire. `None` if there are hardly any.
fn saved(content: f64, wire: f64) -> Option<f64> {
    (content >= 1.0 && wire < 2.0 * content).then(|| 1.0 - wire / content)
}

impl Rates {
    fn between(earlier: (Ways, Ways), later: (Ways, Ways), time: Duration) -> Rates {
        // A counter that is smaller than before began again.
        let rate = |before: u64, now: u64| {
            let bytes = if now < before { now } else { now - before };
            bytes as f64 / time.as_secs_f64().max(1e-3)
        };
        let both = |before: Ways, now: Ways| [rate(before[0], now[0]), rate(before[1], now[1])];
        Rates { content: both(earlier.0, later.0), wire: both(earlier.1, later.1) }
    }

    /// Both directions together.
    pub(crate) fn sum(&self) -> (f64, f64) {
        (self.content.iter().sum(), self.wire.iter().sum())
    }

    pub(crate) fn saved(&self) -> Option<f64> {
        let (content, wire) = self.sum();
        saved(content, wire)
    }
}

/// Share that was saved of all bytes so far.
pub(crate) fn saved_of(content: Ways, wire: Ways) -> Option<f64> {
    saved(content.iter().sum::<u64>() as f64, wire.iter().sum::<u64>() as f64)
}

/// A process that is watched.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) now: Option<Moment>,
    /// When that was.
    at: Option<Instant>,
    pub(crate) rates: Rates,
    peers: HashMap<(String, usize), Rates>,
    /// Bytes of content and on the wire per second, latest last.
    pub(crate) history: VecDeque<(f64, f64)>,
    /// Why it did not answer the last time.
    pub(crate) failure: Option<String>,
}

impl Process {
    /// What it answered at that time.
    pub(crate) fn update(&mut self, at: Instant, answer: Result<Moment, String>) {
        let moment = match answer {
            Ok(moment) => moment,
            Err(why) => {
                self.failure = Some(why);
                self.push(Rates::default());
                return;
            }
        };
        self.failure = None;
        let before = self.now.replace(moment);
        let earlier = self.at.replace(at);
        let (Some(before), Some(earlier), Some(now)) = (before, earlier, &self.now) else { return };
        let time = at.saturating_duration_since(earlier);
        let old: HashMap<_, _> = before
            .peers
            .iter()
            .map(|peer| ((peer.key.clone(), peer.number), (peer.content, peer.wire)))
            .collect();
        let rates = now.peers.iter().map(|peer| {
            let id = (peer.key.clone(), peer.number);
            let earlier = old.get(&id).copied().unwrap_or_default();
            (id, Rates::between(earlier, (peer.content, peer.wire), time))
        });
        self.peers = rates.collect();
        let rates = Rates::between((before.content, before.wire), (now.content, now.wire), time);
        self.push(rates);
    }

    fn push(&mut self, rates: Rates) {
        self.rates = rates;
        self.history.push_back(rates.sum());
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    pub(crate) fn rates_of(&self, peer: &Peer) -> Rates {
        self.peers.get(&(peer.key.clone(), peer.number)).copied().unwrap_or_default()
    }
}
