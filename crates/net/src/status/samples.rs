//! All counters and gauges of a status, one by one, for programs that export them.

#[cfg(target_os = "linux")]
use super::NodeStatus;
use super::{
    Document, HttpsStatus, LinkStatus, PeerStatus, ServiceStatus, SessionStatus, Status,
    StoreStatus, Traffic,
};
use oncewire_session::MetricKind::{self, Counter, Gauge};
use oncewire_session::MetricUnit::{self, Bytes, Count, Microseconds, Seconds};
use oncewire_session::{Metric, Metrics};
use std::collections::HashMap;
use std::time::Duration;

/// The value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Where the metric belongs. Empty for what is of the whole process; otherwise `session`, `here`
    /// and `there` (the counters of a session's two ends), `store`, `service`, `https`, `sent`, `received` and
    /// `dropped` (of a link), `peer`, and `peer_sent`, `peer_received` and `peer_dropped`. With the
    /// metric's name it is unique but for labels.
    pub scope: &'static str,
    /// The metric.
    pub metric: &'static Metric,
    /// Names and values that tell apart samples of the same metric: the public key of the peer, and
    /// its name, if it has one; or the service. Text of peers and configurations is hostile. A peer can have several
    /// sessions: those of each are numbered from 0.
    pub labels: Vec<(&'static str, String)>,
    /// The value. Exact up to 2^53.
    pub value: f64,
}

/// A metric that is a field, and how to read it. `None` if it is not known now.
struct Field<T> {
    metric: Metric,
    value: fn(&T) -> Option<f64>,
}

const fn field<T>(
    name: &'static str,
    kind: MetricKind,
    unit: MetricUnit,
    help: &'static str,
    value: fn(&T) -> Option<f64>,
) -> Field<T> {
    Field { metric: Metric { name, kind, unit, help }, value }
}

fn whole(value: u64) -> Option<f64> {
    Some(value as f64)
}

fn time(value: Duration) -> Option<f64> {
    Some(value.as_secs_f64())
}

const UPTIME: &str = "Time since this end started.";

const TUNNEL: &[Field<Status>] = &[
    field("uptime_seconds", Gauge, Seconds, UPTIME, |s| time(s.uptime)),
    field("draining", Gauge, Count, "1 if this end drains.", |s| whole(s.draining.into())),
    field("memory_limit_bytes", Gauge, Bytes, "Memory limit.", |s| whole(s.memory_limit)),
    field(
        "memory_bytes",
        Gauge,
        Bytes,
        "Memory in use by sessions and by caches kept for absent peers.",
        |s| whole(s.memory),
    ),
    field(
        "application_sent_bytes",
        Counter,
        Bytes,
        "Bytes of applications that all sessions sent, those included that ended.",
        |s| whole(s.application_sent),
    ),
    field(
        "application_received_bytes",
        Counter,
        Bytes,
        "Bytes that applications received from all sessions, those included that ended.",
        |s| whole(s.application_received),
    ),
    field(
        "transport_sent_bytes",
        Counter,
        Bytes,
        "Bytes sent on all transports, including TLS, without TCP and IP headers.",
        |s| whole(s.transport_sent),
    ),
    field(
        "transport_received_bytes",
        Counter,
        Bytes,
        "Bytes received on all transports, including TLS, without TCP and IP headers.",
        |s| whole(s.transport_received),
    ),
    field("kept_logs", Gauge, Count, "Sessions whose caches are kept for absent peers.", |s| {
        whole(s.kept_logs as u64)
    }),
    field(
        "logs_shrunk",
        Counter,
        Count,
        "Times that a session had to restart with a smaller cache, for lack of memory.",
        |s| whole(s.shrunk),
    ),
    field(
        "logs_grown",
        Counter,
        Count,
        "Times that a session restarted with a larger cache, because memory was free.",
        |s| whole(s.grown),
    ),
    field("refused_transports", Counter, Count, "Transports refused.", |s| {
        whole(s.refused_transports)
    }),
    field("refused_connections", Counter, Count, "Connections of applications refused.", |s| {
        whole(s.refused_connections)
    }),
    field(
        "displaced_proxy_clients",
        Counter,
        Count,
        "Proxy clients dropped because too many had not sent a request.",
        |s| whole(s.displaced_proxy_clients),
    ),
    field("socks4_clients", Counter, Count, "Proxy clients that spoke SOCKS4.", |s| {
        whole(s.socks4_clients)
    }),
    field(
        "unauthorized_proxy_clients",
        Counter,
        Count,
        "Proxy clients refused by their address or for want of a password.",
        |s| whole(s.unauthorized_proxy_clients),
    ),
];

const SESSION: &[Field<SessionStatus>] = &[
    field("age_seconds", Gauge, Seconds, "Time since the session started.", |s| time(s.age)),
    field(
        "idle_seconds",
        Gauge,
        Seconds,
        "Time since an application sent or received anything.",
        |s| time(s.idle),
    ),
    field("lanes", Gauge, Count, "Lanes that both ends agreed on.", |s| whole(s.lanes as u64)),
    field("lanes_up", Gauge, Count, "Lanes that have a working transport.", |s| {
        whole(s.lanes_up as u64)
    }),
    field(
        "peer_cache_limit_bytes",
        Gauge,
        Bytes,
        "Largest cache that the peer keeps in each direction now.",
        |s| s.peer_cache_limit.and_then(whole),
    ),
    field(
        "refused_targets",
        Counter,
        Count,
        "Flows that this end refused: their target is not allowed or cannot be reached.",
        |s| whole(s.refused_targets),
    ),
    field(
        "there_age_seconds",
        Gauge,
        Seconds,
        "Age of the peer's last report of its counters.",
        |s| s.there.and_then(|(_, age)| time(age)),
    ),
];

const STORE: &[Field<StoreStatus>] = &[
    field("limit_bytes", Gauge, Bytes, "Most bytes of all caches on disk.", |s| whole(s.limit)),
    field("used_bytes", Gauge, Bytes, "Bytes of all files of caches on disk.", |s| whole(s.used)),
    field("peers", Gauge, Count, "Peers that have a cache on disk.", |s| whole(s.peers as u64)),
    field(
        "held_bytes",
        Gauge,
        Bytes,
        "Content in caches on disk that were used since this end started.",
        |s| whole(s.held),
    ),
    field("oldest_seconds", Gauge, Seconds, "Age of the oldest content of those.", |s| {
        whole(s.oldest?)
    }),
    field("written_bytes", Counter, Bytes, "Content written to disk.", |s| whole(s.written)),
    field(
        "repeated_bytes",
        Counter,
        Bytes,
        "Content not written, because the caches have it.",
        |s| whole(s.repeated),
    ),
    field(
        "pending_bytes",
        Gauge,
        Bytes,
        "Content written that a crash could still take back.",
        |s| whole(s.pending),
    ),
    field(
        "lost_bytes",
        Counter,
        Bytes,
        "Content not on disk: not written, because the disk is slower than the link, or not readable.",
        |s| whole(s.lost),
    ),
    field("lost_ranges", Counter, Count, "Stretches of such content.", |s| whole(s.lost_ranges)),
    field("device_read_bytes", Counter, Bytes, "Read from the files of caches.", |s| whole(s.read)),
    field(
        "device_written_bytes",
        Counter,
        Bytes,
        "Written to the files of caches, with everything around content.",
        |s| whole(s.device_written),
    ),
    field(
        "day_written_bytes",
        Gauge,
        Bytes,
        "Of that, within the last 24 hours, or since this end started.",
        |s| whole(s.day_written),
    ),
    field(
        "recalled_hour_bytes",
        Counter,
        Bytes,
        "Content read from disk and sent as references, up to an hour old.",
        |s| whole(s.recalled_hour),
    ),
    field("recalled_day_bytes", Counter, Bytes, "The same, up to a day old.", |s| {
        whole(s.recalled_day)
    }),
    field("recalled_older_bytes", Counter, Bytes, "The same, older than a day.", |s| {
        whole(s.recalled_older)
    }),
    field(
        "failed",
        Gauge,
        Count,
        "1 once nothing is stored any more, because the disk failed.",
        |s| whole(s.failed.into()),
    ),
];

const HTTPS: &[Field<HttpsStatus>] = &[
    field("opened", Counter, Count, "Connections to the service that were opened.", |s| {
        whole(s.opened)
    }),
    field(
        "refused_by_clients",
        Counter,
        Count,
        "Connections in which a client refused the certificate.",
        |s| whole(s.refused_by_clients),
    ),
    field(
        "failed_handshakes",
        Counter,
        Count,
        "Connections whose TLS failed for another reason at the client's side.",
        |s| whole(s.failed_handshakes),
    ),
    field(
        "clients_passed",
        Gauge,
        Count,
        "Clients whose connections pass untouched now, because they have refused a certificate, or have one for the origin.",
        |s| whole(s.clients_passed),
    ),
    field(
        "content_sent_bytes",
        Counter,
        Bytes,
        "Bytes of content that went to the service, opened and passed.",
        |s| whole(s.sent),
    ),
    field(
        "content_received_bytes",
        Counter,
        Bytes,
        "Bytes of content that came from the service, opened and passed.",
        |s| whole(s.received),
    ),
    field(
        "wire_sent_bytes",
        Counter,
        Bytes,
        "Bytes of the tunnel's messages that carried the content to the service.",
        |s| whole(s.wire_sent),
    ),
    field(
        "wire_received_bytes",
        Counter,
        Bytes,
        "Bytes of the tunnel's messages that carried the content from the service.",
        |s| whole(s.wire_received),
    ),
];

#[cfg(target_os = "linux")]
const NODE: &[Field<NodeStatus>] = &[
    field("plan_version", Gauge, Count, "Version of the plan that the node carries out.", |s| {
        whole(s.plan_version)
    }),
    field(
        "settled",
        Gauge,
        Count,
        "1 if all nodes on its paths know that it uses its plan, and no other is coming.",
        |s| whole(s.settled.into()),
    ),
    field("cached_bytes", Gauge, Bytes, "Bytes cached for paths of other nodes.", |s| {
        whole(s.cached_bytes)
    }),
    field("cached_packets", Gauge, Count, "Packets cached.", |s| whole(s.cached_packets)),
    field(
        "controller_connected",
        Gauge,
        Count,
        "1 if the node is connected with its controller; not there without one.",
        |s| s.controller.as_ref().and_then(|one| whole(one.connected.into())),
    ),
];

const PASSED: Metric = Metric {
    name: "passed",
    kind: Counter,
    unit: Count,
    help: "Connections to the service whose bytes passed untouched, by reason.",
};

const ENDED: Metric = Metric {
    name: "ended",
    kind: Counter,
    unit: Count,
    help: "Connections that ended, because the origin's certificate was not accepted, by reason.",
};

const LINK: &[Field<LinkStatus>] = &[
    field("uptime_seconds", Gauge, Seconds, UPTIME, |s| time(s.uptime)),
    field("mtu_bytes", Gauge, Bytes, "Longest inner packet.", |s| whole(s.mtu.into())),
    field("peers_connected", Gauge, Count, "Peers that are connected.", |s| {
        whole(s.connected() as u64)
    }),
    field(
        "refused_handshakes",
        Counter,
        Count,
        "Handshakes that failed before the other end had proved to be a peer.",
        |s| whole(s.refused_handshakes),
    ),
    field(
        "address_checks",
        Counter,
        Count,
        "Connections that had to show first that they receive at their address.",
        |s| whole(s.retries),
    ),
];

const PEER: &[Field<PeerStatus>] = &[
    field("up", Gauge, Count, "1 if the peer is connected.", |p| {
        whole(p.connection.is_some().into())
    }),
    field("rtt_us", Gauge, Microseconds, "Round-trip time of the control connection.", |p| {
        p.connection.as_ref().and_then(|connection| whole(connection.rtt.as_micros() as u64))
    }),
    field("key_age_seconds", Gauge, Seconds, "Age of the keys in use.", |p| {
        p.connection.as_ref().and_then(|connection| time(connection.key_age))
    }),
];

const FORGED: Metric = Metric {
    name: "forged_datagrams",
    kind: Counter,
    unit: Count,
    help: "Datagrams with a known index that did not open.",
};

pub(crate) type Labels = Vec<(&'static str, String)>;

#[derive(Default)]
struct Samples(Vec<Sample>);

impl Samples {
    fn push(
        &mut self,
        scope: &'static str,
        metric: &'static Metric,
        labels: &Labels,
        value: Option<f64>,
    ) {
        self.0.extend(value.map(|value| Sample { scope, metric, labels: labels.clone(), value }));
    }

    fn fields<T>(
        &mut self,
        scope: &'static str,
        fields: &'static [Field<T>],
        labels: &Labels,
        of: &T,
    ) {
        for Field { metric, value } in fields {
            self.push(scope, metric, labels, value(of));
        }
    }

    fn metrics(&mut self, scope: &'static str, labels: &Labels, metrics: &impl Metrics) {
        for (metric, value) in metrics.list() {
            self.push(scope, metric, labels, whole(value));
        }
    }

    fn traffic(&mut self, [sent, received]: [&'static str; 2], labels: &Labels, of: &Traffic) {
        self.metrics(sent, labels, &of.sent);
        self.metrics(received, labels, &of.received);
        self.push(received, &FORGED, labels, whole(of.forged));
    }
}

fn peer_labels(key: &str, name: Option<&String>) -> Labels {
    let name = name.map(|name| ("name", name.clone()));
    [("peer", key.to_owned())].into_iter().chain(name).collect()
}

impl Document {
    /// All counters and gauges of the process.
    pub fn samples(&self) -> Vec<Sample> {
        match self {
            Document::Tunnel(status) => status.samples(),
            Document::Link(status) => status.samples(),
        }
    }
}

impl Status {
    /// The labels of each session.
    pub(crate) fn session_labels(&self) -> impl Iterator<Item = Labels> {
        let mut counts = HashMap::new();
        self.sessions.iter().map(move |session| {
            let number = counts.entry(&session.peer).or_insert(0_u32);
            let mut labels = peer_labels(&session.peer, session.name.as_ref());
            labels.push(("session", number.to_string()));
            *number += 1;
            labels
        })
    }

    /// All counters and gauges of this end and of its sessions.
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = Samples::default();
        samples.fields("", TUNNEL, &Vec::new(), self);
        for ServiceStatus { name, counters } in &self.services {
            samples.metrics("service", &vec![("service", name.clone())], counters);
        }
        if let Some(store) = &self.store {
            samples.fields("store", STORE, &Vec::new(), store);
        }
        for service in &self.https {
            let labels = vec![("service", service.name.clone())];
            samples.fields("https", HTTPS, &labels, service);
            for (metric, counts) in [(&PASSED, &service.passed), (&ENDED, &service.ended)] {
                for (why, &count) in counts {
                    let why = ("why", why.clone());
                    let labels = labels.iter().cloned().chain([why]).collect();
                    samples.push("https", metric, &labels, whole(count));
                }
            }
        }
        for (session, labels) in self.sessions.iter().zip(self.session_labels()) {
            samples.fields("session", SESSION, &labels, session);
            samples.metrics("here", &labels, &session.here);
            if let Some((there, _)) = &session.there {
                samples.metrics("there", &labels, there);
            }
        }
        samples.0
    }
}

impl LinkStatus {
    /// All counters and gauges of this end and of its peers.
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = Samples::default();
        let none = Vec::new();
        samples.fields("", LINK, &none, self);
        samples.traffic(["sent", "received"], &none, &self.traffic);
        samples.metrics("dropped", &none, &self.drops);
        for peer in &self.peers {
            let labels = peer_labels(&peer.key, peer.name.as_ref());
            samples.fields("peer", PEER, &labels, peer);
            samples.traffic(["peer_sent", "peer_received"], &labels, &peer.traffic);
            samples.metrics("peer_dropped", &labels, &peer.drops);
        }
        samples.0
    }
}

#[cfg(target_os = "linux")]
impl NodeStatus {
    /// All counters and gauges of the node and of its hops.
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = Samples(self.hops.samples());
        let none = Vec::new();
        samples.fields("node", NODE, &none, self);
        samples.metrics("node", &none, &self.carried);
        samples.0
    }
}
