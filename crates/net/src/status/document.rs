//! What a status socket answers: names and shape of the JSON document. Its text is the caller's.

use super::Status;
use super::link::{ConnectionStatus, LinkStatus, Traffic};
use oncewire_session::link::{ReceiverStats, SenderStats};
use oncewire_session::{Counters, Metrics, VERSIONS};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Number of the document's layout. It grows when a key changes its meaning or goes away, not when
/// one is added.
pub const FORMAT: u64 = 1;

/// The status of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// An end of a tunnel.
    Tunnel(Box<Status>),
    /// An end of a link.
    Link(Box<LinkStatus>),
}

/// Why a document is not the status of a process, or none that this version reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It has no format.
    #[error("its answer has no format")]
    NoFormat,
    /// Its format is another one.
    #[error("its status has format {0}")]
    Format(u64),
}

/// The head of every document.
#[derive(Deserialize)]
struct Head {
    format: Option<u64>,
    /// Without it, a list of one number would do.
    #[serde(flatten)]
    _rest: IgnoredAny,
}

/// The part that says what a document is.
#[derive(Deserialize)]
struct Tag {
    #[serde(default)]
    role: String,
}

impl Document {
    /// Checks that a document has the format that this version reads. `document` is the whole one,
    /// such as a borrowed `serde_json::Value`.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub fn check<'de, D: Deserializer<'de>>(document: D) -> Result<(), DocumentError> {
        match Head::deserialize(document).ok().and_then(|head| head.format) {
            Some(FORMAT) => Ok(()),
            Some(other) => Err(DocumentError::Format(other)),
            None => Err(DocumentError::NoFormat),
        }
    }

    /// Reads a document. Keys that are missing, as an older process does not write them, have their
    /// default; keys of a newer one are skipped.
    ///
    /// # Errors
    /// The deserializer's, if a value has another type or the role is unknown.
    pub fn read<'de, D: Deserializer<'de> + Copy>(document: D) -> Result<Document, D::Error> {
        match &*Tag::deserialize(document)?.role {
            "link" => Ok(Document::Link(Box::new(LinkStatus::deserialize(document)?))),
            "serve" | "connect" => Ok(Document::Tunnel(Box::new(Status::deserialize(document)?))),
            other => Err(D::Error::custom(format_args!("it has the role {other:?}"))),
        }
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Document::Tunnel(status) => status.document().serialize(serializer),
            Document::Link(status) => status.document().serialize(serializer),
        }
    }
}

#[derive(Serialize)]
struct TunnelKeys<'a> {
    format: u64,
    protocol_versions: [u64; 2],
    #[serde(flatten)]
    status: &'a Status,
}

#[derive(Serialize)]
struct LinkKeys<'a> {
    format: u64,
    role: &'static str,
    up: bool,
    peers_connected: usize,
    #[serde(flatten)]
    status: &'a LinkStatus,
}

impl Status {
    /// The document of this status.
    pub fn document(&self) -> impl Serialize + '_ {
        let protocol_versions = [*VERSIONS.start(), *VERSIONS.end()];
        TunnelKeys { format: FORMAT, protocol_versions, status: self }
    }
}

impl LinkStatus {
    /// The document of this status.
    pub fn document(&self) -> impl Serialize + '_ {
        let peers_connected = self.connected();
        let up = peers_connected == self.peers.len();
        LinkKeys { format: FORMAT, role: "link", up, peers_connected, status: self }
    }
}

/// Durations as seconds.
pub(super) mod seconds {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        f64::deserialize(deserializer).map(of)
    }

    /// Seconds that no duration can have are 0.
    pub(super) fn of(seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// Metrics as a map from names to values.
pub(super) mod named {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer, M: Metrics>(
        metrics: &M,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(metrics.list().map(|(metric, value)| (metric.name, value)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>, M: Metrics>(
        deserializer: D,
    ) -> Result<M, D::Error> {
        deserializer.deserialize_map(Values(PhantomData))
    }

    struct Values<M>(PhantomData<M>);

    impl<'de, M: Metrics> Visitor<'de> for Values<M> {
        type Value = M;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a map of counters")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<M, A::Error> {
            let mut values = vec![0; M::METRICS.len()];
            while let Some(name) = map.next_key::<String>()? {
                match M::METRICS.iter().position(|metric| metric.name == name) {
                    Some(at) => values[at] = map.next_value()?,
                    None => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(M::from_values(values))
        }
    }
}

/// Counters of a session, with a summary of why content was not reduced.
pub(super) mod counters {
    use super::*;

    #[derive(Serialize)]
    struct NotReduced {
        not_seen_before_bytes: u64,
        incompressible_blocks: u64,
        sent_again_bytes: u64,
        logs_begun: u64,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        counters: &Counters,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (metric, value) in counters.list() {
            map.serialize_entry(metric.name, &value)?;
        }
        let not_reduced = NotReduced {
            not_seen_before_bytes: counters.sent_bytes.saturating_sub(counters.matched_bytes),
            incompressible_blocks: counters.incompressible_blocks,
            sent_again_bytes: counters.repeated_bytes,
            logs_begun: counters.epochs,
        };
        map.serialize_entry("not_reduced", &not_reduced)?;
        map.end()
    }

    pub(in super::super) use super::named::deserialize;
}

/// The peer's counters and their age, or two nulls.
pub(super) mod there {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Known(#[serde(with = "counters")] Counters);

    #[derive(Serialize, Deserialize)]
    struct Keys {
        there: Option<Known>,
        there_age_seconds: Option<f64>,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        there: &Option<(Counters, Duration)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let keys = Keys {
            there: there.map(|(counters, _)| Known(counters)),
            there_age_seconds: there.map(|(_, age)| age.as_secs_f64()),
        };
        keys.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<(Counters, Duration)>, D::Error> {
        let keys = Keys::deserialize(deserializer)?;
        let age = keys.there_age_seconds.map(seconds::of).unwrap_or_default();
        Ok(keys.there.map(|Known(counters)| (counters, age)))
    }
}

/// A connection, or nulls.
pub(super) mod connection {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Keys {
        #[serde(default)]
        up: bool,
        address: Option<String>,
        cipher: Option<String>,
        rtt_us: Option<u64>,
        key_age_seconds: Option<f64>,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        connection: &Option<ConnectionStatus>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let connection = connection.as_ref();
        let keys = Keys {
            up: connection.is_some(),
            address: connection.map(|connection| connection.address.clone()),
            cipher: connection.map(|connection| connection.cipher.clone()),
            rtt_us: connection.map(|connection| connection.rtt.as_micros() as u64),
            key_age_seconds: connection.map(|connection| connection.key_age.as_secs_f64()),
        };
        keys.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ConnectionStatus>, D::Error> {
        let keys = Keys::deserialize(deserializer)?;
        Ok(keys.up.then(|| ConnectionStatus {
            address: keys.address.unwrap_or_default(),
            cipher: keys.cipher.unwrap_or_default(),
            rtt: Duration::from_micros(keys.rtt_us.unwrap_or(0)),
            key_age: keys.key_age_seconds.map(seconds::of).unwrap_or_default(),
        }))
    }
}

/// [`Traffic`] as it is written: what was forged is among what was received.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TrafficKeys {
    #[serde(with = "named")]
    sent: SenderStats,
    received: ReceivedKeys,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ReceivedKeys {
    #[serde(flatten, with = "named")]
    stats: ReceiverStats,
    forged_datagrams: u64,
}

impl From<Traffic> for TrafficKeys {
    fn from(Traffic { sent, received, forged }: Traffic) -> TrafficKeys {
        TrafficKeys { sent, received: ReceivedKeys { stats: received, forged_datagrams: forged } }
    }
}

impl From<TrafficKeys> for Traffic {
    fn from(TrafficKeys { sent, received }: TrafficKeys) -> Traffic {
        Traffic { sent, received: received.stats, forged: received.forged_datagrams }
    }
}
