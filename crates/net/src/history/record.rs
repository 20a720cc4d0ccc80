//! What happened in an interval, and how a file has it.

use oncewire_session::{Metrics, metrics};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Peers of a record by name; what others carried is in the sum of the record only.
pub const MOST_PEERS: usize = 64;
/// Services of a record; as for peers.
pub const MOST_RECORDED_SERVICES: usize = 32;
/// Most characters of a name or key.
const LONGEST_NAME: usize = 64;
/// Most numbers of one set of [`Amounts`] that are read, for files of later versions.
const MOST_VALUES: u64 = 256;

metrics! {
    /// What was carried in an interval. Sent and received are as this end sees them. Counters after
    /// these sum up what both ends encoded, as far as the other end has reported it.
    pub struct Amounts {
        /// Bytes of applications, or of inner packets, that this end sent.
        sent_bytes: Counter, Bytes;
        /// Bytes of applications, or of inner packets, that this end received.
        received_bytes: Counter, Bytes;
        /// Bytes that this end sent for them on the wire.
        wire_sent_bytes: Counter, Bytes;
        /// Bytes that this end received for them on the wire.
        wire_received_bytes: Counter, Bytes;
        /// Flows opened, by either end.
        flows_opened: Counter, Count;
        /// Flows refused: too many, or their target is not allowed or cannot be reached.
        flows_refused: Counter, Count;
        /// Blocks encoded.
        blocks: Counter, Count;
        /// Blocks that looked incompressible, such as compressed or encrypted content.
        incompressible_blocks: Counter, Count;
        /// Bytes sent as references to content that was sent before.
        matched_bytes: Counter, Bytes;
        /// Bytes of compressed content that was opened to find repeats in it.
        opened_bytes: Counter, Bytes;
        /// Bytes of compressed content that was not opened, because that had saved little.
        declined_bytes: Counter, Bytes;
        /// Bytes sent while compressed content was not looked into, because sending was faster.
        unopened_bytes: Counter, Bytes;
        /// Bytes of flows larger than the cache.
        large_flow_bytes: Counter, Bytes;
        /// Bytes of encrypted flows that were sent as they are.
        encrypted_bytes: Counter, Bytes;
        /// Bytes of padding.
        padding_bytes: Counter, Bytes;
        /// Bytes sent again after a lost transport.
        repeated_bytes: Counter, Bytes;
        /// Bytes of tunnels that looked incompressible and were sent as they are, but for encrypted flows.
        incompressible_bytes: Counter, Bytes;
        /// Bytes of tunnels in blocks too small to be reduced.
        small_bytes: Counter, Bytes;
    }
}

impl Amounts {
    /// What was carried in both directions.
    pub fn content(&self) -> u64 {
        self.sent_bytes.saturating_add(self.received_bytes)
    }

    /// What crossed the wire for it.
    pub fn wire(&self) -> u64 {
        self.wire_sent_bytes.saturating_add(self.wire_received_bytes)
    }

    /// What happened since `earlier`. A counter that is smaller than before started again.
    #[must_use]
    pub fn since(&self, earlier: &Amounts) -> Amounts {
        let change = |(now, before): (u64, u64)| now.checked_sub(before).unwrap_or(now);
        Amounts::from_values(self.values().into_iter().zip(earlier.values()).map(change))
    }

    /// Whether no counter is smaller than `earlier`'s.
    pub fn continues(&self, earlier: &Amounts) -> bool {
        self.values().iter().zip(earlier.values()).all(|(now, before)| *now >= before)
    }
}

/// The public key of a peer and its name, if it has one. Names are of configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerName {
    /// Public key.
    pub key: String,
    /// Name; empty if there is none.
    pub name: String,
}

impl PeerName {
    /// Long text is cut, and control characters are replaced.
    pub fn new(key: &str, name: Option<&str>) -> PeerName {
        let bounded = |text: &str| {
            let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
            text.chars().take(LONGEST_NAME).map(shown).collect()
        };
        PeerName { key: bounded(key), name: bounded(name.unwrap_or_default()) }
    }

    /// A service, which has no key. Clients of the tunnel choose its name.
    pub fn of_service(name: &str) -> PeerName {
        PeerName::new("", Some(name))
    }

    /// What people call it: its name, or the beginning of its key.
    pub fn label(&self) -> String {
        if self.name.is_empty() { self.key.chars().take(11).collect() } else { self.name.clone() }
    }
}

/// What a peer's sessions carried, or the connections to a service. Wire bytes of a tunnel's peer are counted before encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRecord {
    /// The peer, or the service.
    pub peer: Arc<PeerName>,
    /// What was carried.
    pub amounts: Amounts,
}

/// What happened in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Begin, in seconds since 1970 (UTC).
    pub time: u64,
    /// Seconds of it that a process ran and recorded.
    pub seconds: u64,
    /// Most flows open at once.
    pub flows: u64,
    /// Most peers connected at once.
    pub peers_up: u64,
    /// What was carried, to and from all peers. Wire bytes include encryption.
    pub amounts: Amounts,
    /// What was carried by peer: at most [`MOST_PEERS`], those with the most bytes.
    pub peers: Vec<PeerRecord>,
    /// What was carried by service: at most [`MOST_RECORDED_SERVICES`], those with the most bytes.
    /// Of their amounts, only bytes are known.
    pub services: Vec<PeerRecord>,
}

/// A record that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of invalid form")]
pub struct RecordError;

impl Record {
    /// Includes another record, whose begin is ignored.
    pub fn add(&mut self, other: &Record) {
        self.seconds = self.seconds.saturating_add(other.seconds);
        self.flows = self.flows.max(other.flows);
        self.peers_up = self.peers_up.max(other.peers_up);
        self.amounts += other.amounts;
        for (sums, ones) in [(&mut self.peers, &other.peers), (&mut self.services, &other.services)]
        {
            for one in ones {
                match sums.iter_mut().find(|known| known.peer == one.peer) {
                    Some(known) => known.amounts += one.amounts,
                    None => sums.push(one.clone()),
                }
            }
        }
        self.limit();
    }

    /// Keeps the peers and services with the most bytes.
    pub(super) fn limit(&mut self) {
        for (list, most) in
            [(&mut self.peers, MOST_PEERS), (&mut self.services, MOST_RECORDED_SERVICES)]
        {
            if list.len() > most {
                let size =
                    |one: &PeerRecord| one.amounts.content().saturating_add(one.amounts.wire());
                list.sort_by_key(|one| std::cmp::Reverse(size(one)));
                list.truncate(most);
            }
        }
    }

    /// The value of a record in a file, whose key is its time: numbers in LEB128. `number` gives
    /// that of a peer or service, or `None` if there are too many. Services end it, if there are any:
    /// files of earlier versions have none.
    pub(super) fn write(&self, mut number: impl FnMut(&Arc<PeerName>) -> Option<u32>) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        for value in [self.seconds, self.flows, self.peers_up] {
            put(&mut out, value);
        }
        put_amounts(&mut out, &self.amounts);
        let lists = [&self.peers, &self.services];
        for list in &lists[..if self.services.is_empty() { 1 } else { 2 }] {
            let numbered: Vec<_> =
                list.iter().filter_map(|one| Some((number(&one.peer)?, one))).collect();
            put(&mut out, numbered.len() as u64);
            for (number, one) in numbered {
                put(&mut out, number.into());
                put_amounts(&mut out, &one.amounts);
            }
        }
        out
    }

    /// # Errors
    /// [`RecordError`].
    pub(super) fn read(
        time: u64,
        mut from: &[u8],
        peers: &BTreeMap<u32, Arc<PeerName>>,
    ) -> Result<Record, RecordError> {
        let from = &mut from;
        let (seconds, flows, peers_up) = (get(from)?, get(from)?, get(from)?);
        let amounts = get_amounts(from)?;
        let list = |from: &mut &[u8], most: usize| -> Result<Vec<PeerRecord>, RecordError> {
            let count = get(from)?;
            if count > most as u64 {
                return Err(RecordError);
            }
            let read = |_| {
                let number = u32::try_from(get(from)?).map_err(|_| RecordError)?;
                let peer = peers.get(&number).ok_or(RecordError)?.clone();
                Ok(PeerRecord { peer, amounts: get_amounts(from)? })
            };
            (0..count).map(read).collect()
        };
        let of_peers = list(from, MOST_PEERS)?;
        let services = if from.is_empty() { vec![] } else { list(from, MOST_RECORDED_SERVICES)? };
        // More may follow in a later version.
        Ok(Record { time, seconds, flows, peers_up, amounts, peers: of_peers, services })
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get(from: &mut &[u8]) -> Result<u64, RecordError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first().ok_or(RecordError)?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(RecordError);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(RecordError)
}

/// The number of values, without zeros at the end, and the values.
fn put_amounts(out: &mut Vec<u8>, amounts: &Amounts) {
    let values = amounts.values();
    let count = values.iter().rposition(|value| *value > 0).map_or(0, |last| last + 1);
    put(out, count as u64);
    for value in &values[..count] {
        put(out, *value);
    }
}

fn get_amounts(from: &mut &[u8]) -> Result<Amounts, RecordError> {
    let count = get(from)?;
    if count > MOST_VALUES {
        return Err(RecordError);
    }
    let values = (0..count).map(|_| get(from)).collect::<Result<Vec<_>, _>>()?;
    Ok(Amounts::from_values(values))
}
