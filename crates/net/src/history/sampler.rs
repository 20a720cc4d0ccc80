//! From states of a process to what happened between them.

use super::record::{Amounts, PeerName, PeerRecord, Record};
use crate::services::ServiceCounters;
use crate::status::{Document, LinkStatus, PeerStatus, SessionStatus, Status, Traffic};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A session, or a peer of a link, at one moment.
#[derive(Debug)]
struct Part {
    peer: Arc<PeerName>,
    /// Age of the session. Peers of a link have none: there is one for each key.
    age: Option<Duration>,
    amounts: Amounts,
}

/// A process at one moment.
#[derive(Debug)]
struct Moment {
    at: Instant,
    /// Bytes only.
    totals: Amounts,
    flows: u64,
    peers_up: u64,
    parts: Vec<Part>,
    services: HashMap<String, Amounts>,
}

/// Remembers a state, and says what happened since.
#[derive(Debug, Default)]
pub struct Sampler {
    before: Option<Moment>,
    /// One of each name, so that records share it.
    names: HashMap<(String, Option<String>), Arc<PeerName>>,
}

impl Sampler {
    /// What happened since the last state, or since the process started if this is the first one.
    /// `time` is in seconds since 1970, `seconds` those since the last record.
    pub fn sample(&mut self, document: &Document, at: Instant, time: u64, seconds: u64) -> Record {
        let now = self.moment(document, at);
        let record = record(self.before.as_ref(), &now, time, seconds);
        self.before = Some(now);
        record
    }

    fn moment(&mut self, document: &Document, at: Instant) -> Moment {
        let mut known = HashMap::new();
        let mut called = |key: &str, name: Option<&String>| {
            let id = (key.to_owned(), name.cloned());
            let make = || Arc::new(PeerName::new(key, name.map(String::as_str)));
            let one = self.names.remove(&id).unwrap_or_else(make);
            known.entry(id).or_insert(one).clone()
        };
        let moment = match document {
            Document::Tunnel(status) => tunnel(status, at, &mut called),
            Document::Link(status) => link(status, at, &mut called),
        };
        // Those of peers that are gone are forgotten.
        self.names = known;
        moment
    }
}

fn tunnel(
    status: &Status,
    at: Instant,
    called: &mut impl FnMut(&str, Option<&String>) -> Arc<PeerName>,
) -> Moment {
    let totals = Amounts {
        sent_bytes: status.application_sent,
        received_bytes: status.application_received,
        wire_sent_bytes: status.transport_sent,
        wire_received_bytes: status.transport_received,
        ..Amounts::default()
    };
    let mut parts = Vec::with_capacity(status.sessions.len());
    for session in &status.sessions {
        // Several sessions of a peer follow each other here.
        let peer = match parts.last() {
            Some(Part { peer, .. })
                if peer.key == session.peer
                    && peer.name == *session.name.as_deref().unwrap_or_default() =>
            {
                peer.clone()
            }
            _ => called(&session.peer, session.name.as_ref()),
        };
        parts.push(Part { peer, age: Some(session.age), amounts: of_session(session) });
    }
    let is_up = |one: &&SessionStatus| one.phase == "established" && one.lanes_up > 0;
    Moment {
        at,
        totals,
        flows: status.sessions.iter().map(|one| one.here.flows).sum(),
        peers_up: status.sessions.iter().filter(is_up).count() as u64,
        parts,
        services: status
            .services
            .iter()
            .map(|one| (one.name.clone(), of_service(&one.counters)))
            .collect(),
    }
}

fn of_session(session: &SessionStatus) -> Amounts {
    let here = &session.here;
    let there = session.there.map(|(there, _)| there).unwrap_or_default();
    let both = |of: fn(&crate::status::Counters) -> u64| of(here).saturating_add(of(&there));
    Amounts {
        sent_bytes: here.sent_bytes,
        received_bytes: here.received_bytes,
        wire_sent_bytes: here.wire_sent_bytes,
        wire_received_bytes: here.wire_received_bytes,
        flows_opened: here.flows_opened + here.flows_accepted,
        flows_refused: here.flows_refused + session.refused_targets,
        blocks: both(|of| of.blocks),
        incompressible_blocks: both(|of| of.incompressible_blocks),
        matched_bytes: both(|of| of.matched_bytes),
        opened_bytes: both(|of| of.opened_bytes),
        declined_bytes: both(|of| of.declined_bytes),
        unopened_bytes: both(|of| of.unopened_bytes),
        large_flow_bytes: both(|of| of.large_flow_bytes),
        encrypted_bytes: both(|of| of.encrypted_bytes),
        padding_bytes: both(|of| of.padding_bytes),
        repeated_bytes: both(|of| of.repeated_bytes),
        incompressible_bytes: both(|of| of.incompressible_bytes),
        small_bytes: both(|of| of.small_bytes),
    }
}

fn of_service(counters: &ServiceCounters) -> Amounts {
    Amounts {
        sent_bytes: counters.sent_bytes,
        received_bytes: counters.received_bytes,
        wire_sent_bytes: counters.wire_sent_bytes,
        wire_received_bytes: counters.wire_received_bytes,
        matched_bytes: counters.matched_bytes,
        encrypted_bytes: counters.encrypted_bytes,
        incompressible_bytes: counters.incompressible_bytes,
        small_bytes: counters.small_bytes,
        ..Amounts::default()
    }
}

fn link(
    status: &LinkStatus,
    at: Instant,
    called: &mut impl FnMut(&str, Option<&String>) -> Arc<PeerName>,
) -> Moment {
    let part = |peer: &PeerStatus| Part {
        peer: called(&peer.key, peer.name.as_ref()),
        age: None,
        amounts: of_traffic(&peer.traffic),
    };
    Moment {
        at,
        totals: of_traffic(&status.traffic),
        flows: 0,
        peers_up: status.connected() as u64,
        parts: status.peers.iter().map(part).collect(),
        services: HashMap::new(),
    }
}

fn of_traffic(traffic: &Traffic) -> Amounts {
    Amounts {
        sent_bytes: traffic.sent.inner_bytes,
        received_bytes: traffic.received.inner_bytes,
        wire_sent_bytes: traffic.sent.bytes,
        wire_received_bytes: traffic.received.bytes,
        encrypted_bytes: traffic.sent.bypassed_bytes,
        ..Amounts::default()
    }
}

fn record(before: Option<&Moment>, now: &Moment, time: u64, seconds: u64) -> Record {
    let mut record =
        Record { time, seconds, flows: now.flows, peers_up: now.peers_up, ..Record::default() };
    let passed = before.map_or(Duration::ZERO, |before| now.at.duration_since(before.at));
    let mut earlier: HashMap<&str, Vec<&Part>> = HashMap::new();
    for part in before.iter().flat_map(|before| &before.parts) {
        earlier.entry(&part.peer.key).or_default().push(part);
    }
    let mut sum = Amounts::default();
    for part in &now.parts {
        // A session gets older and its counters grow. Of several, it is the one whose age fits best;
        // a state that came late, from a busy process, must not make it a new one.
        let misfit = |old: &Part| match (part.age, old.age) {
            (Some(age), Some(before)) => (age >= before && part.amounts.continues(&old.amounts))
                .then(|| age.abs_diff(before + passed)),
            _ => Some(Duration::ZERO),
        };
        let old = earlier.get_mut(&*part.peer.key).and_then(|all| {
            let fits = all.iter().enumerate().filter_map(|(at, old)| Some((misfit(old)?, at)));
            let (_, at) = fits.min()?;
            Some(all.swap_remove(at))
        });
        let change = old.map_or(part.amounts, |old| part.amounts.since(&old.amounts));
        sum += change;
        if change == Amounts::default() {
            continue;
        }
        // Sessions of a peer follow each other.
        match record.peers.last_mut().filter(|one| one.peer == part.peer) {
            Some(one) => one.amounts += change,
            None => record.peers.push(PeerRecord { peer: part.peer.clone(), amounts: change }),
        }
    }
    for (name, amounts) in &now.services {
        // One that was forgotten meanwhile starts again.
        let old = before.and_then(|before| before.services.get(name)).copied();
        let change = amounts.since(&old.unwrap_or_default());
        if change != Amounts::default() {
            let peer = Arc::new(PeerName::of_service(name));
            record.services.push(PeerRecord { peer, amounts: change });
        }
    }
    record.services.sort_by(|a, b| a.peer.cmp(&b.peer));
    record.limit();
    let zero = Amounts::default();
    let totals = now.totals.since(before.map_or(&zero, |before| &before.totals));
    // What sessions know, with the bytes of the whole process: those of sessions that ended, too.
    record.amounts = Amounts {
        sent_bytes: totals.sent_bytes,
        received_bytes: totals.received_bytes,
        wire_sent_bytes: totals.wire_sent_bytes,
        wire_received_bytes: totals.wire_received_bytes,
        ..sum
    };
    record
}
