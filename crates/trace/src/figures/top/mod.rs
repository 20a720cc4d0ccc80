//! Figure 16: where savings come from: by host, conversation, service, hour and kind of content.

mod kind;
mod present;

use super::{Finding, Observer};
use crate::batch::{Packet, View};
use crate::lru::{LruCache, entry_bytes};
use crate::service;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::net::IpAddr;

/// Rows of a table.
const ROWS: usize = 50;
/// Nanoseconds of an hour.
const HOUR: i64 = 3600 * 1_000_000_000;
/// Most hours that are counted separately: a year.
const MOST_HOURS: usize = 24 * 366;
/// Bytes of repeated content that are shown and told apart.
const SHOWN: usize = 32;
/// Bytes that the text of a key takes beside its entry.
const TEXT: usize = 64;

/// What something carried, and what the reference algorithm saves of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Packets, or of content the times that it repeated.
    pub packets: u64,
    /// Bytes on the wire.
    pub wire: u64,
    /// Bytes saved.
    pub saved: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.packets += other.packets;
        self.wire += other.wire;
        self.saved += other.saved;
    }
}

/// Sums by key in bounded memory: the least recently used one makes room.
struct Sums<K> {
    sums: LruCache<K, Sum>,
    most: usize,
    /// How many made room, and their sum.
    evicted: u64,
    others: Sum,
}

impl<K: Hash + Eq + Ord + Clone> Sums<K> {
    fn new(memory: usize, owned: usize) -> Sums<K> {
        let most = (memory / (entry_bytes::<K, Sum>() + owned)).max(16);
        Sums { sums: LruCache::unbounded(), most, evicted: 0, others: Sum::default() }
    }

    fn add(&mut self, key: K, sum: Sum) {
        if let Some(known) = self.sums.get_mut(&key) {
            return known.add(sum);
        }
        if self.sums.len() >= self.most
            && let Some((_, gone)) = self.sums.pop_lru()
        {
            self.evicted += 1;
            self.others.add(gone);
        }
        self.sums.put(key, sum);
    }

    /// Those that save most, and what all others sum up to.
    fn top(&self) -> Ranking<K> {
        let mut rows: Vec<(K, Sum)> =
            self.sums.iter().map(|(key, sum)| (key.clone(), *sum)).collect();
        rows.sort_by(|a, b| {
            (b.1.saved, b.1.wire).cmp(&(a.1.saved, a.1.wire)).then_with(|| a.0.cmp(&b.0))
        });
        let mut others = self.others;
        let all = rows.len() as u64 + self.evicted;
        rows.iter().skip(ROWS).for_each(|(_, sum)| others.add(*sum));
        rows.truncate(ROWS);
        Ranking { rows, all, others, evicted: self.evicted }
    }
}

/// Keys with the most savings, most first.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking<K> {
    /// The first ones.
    pub rows: Vec<(K, Sum)>,
    /// Number of all.
    pub all: u64,
    /// The sum of the others.
    pub others: Sum,
    /// Keys that were forgotten to stay within memory; one that came again counts twice in `all`.
    pub evicted: u64,
}

impl<K> Default for Ranking<K> {
    fn default() -> Ranking<K> {
        Ranking { rows: Vec::new(), all: 0, others: Sum::default(), evicted: 0 }
    }
}

/// Two hosts and a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conversation {
    /// The smaller address, and the other.
    pub hosts: (IpAddr, IpAddr),
    /// IP protocol and the service's port.
    pub service: (u8, u16),
}

/// Sums up savings by where they come from.
pub struct Top {
    hosts: Sums<IpAddr>,
    conversations: Sums<Conversation>,
    services: Sums<(u8, u16)>,
    hours: BTreeMap<i64, Sum>,
    kinds: Sums<String>,
    /// What flows carry, if they said so.
    flows: LruCache<u64, String>,
    most_flows: usize,
    /// First bytes of what repeats, if they may be shown.
    content: Option<Sums<Vec<u8>>>,
    total: Sum,
}

impl Top {
    /// `memory` is in bytes. `show_content`: whether results may have bytes of payload.
    pub fn new(memory: u64, show_content: bool) -> Top {
        let part = usize::try_from(memory).unwrap_or(usize::MAX) / 6;
        Top {
            hosts: Sums::new(part, 0),
            conversations: Sums::new(part, 0),
            services: Sums::new(part, 0),
            hours: BTreeMap::new(),
            kinds: Sums::new(part, TEXT),
            flows: LruCache::unbounded(),
            most_flows: (part / (entry_bytes::<u64, String>() + TEXT)).max(16),
            content: show_content.then(|| Sums::new(part, SHOWN)),
            total: Sum::default(),
        }
    }

    fn packet(&mut self, view: &View<'_>, index: usize, packet: &Packet) {
        let sum = Sum { packets: 1, wire: packet.wire.into(), saved: view.saved(index).into() };
        self.total.add(sum);
        let hour = packet.time.div_euclid(HOUR);
        if self.hours.len() < MOST_HOURS || self.hours.contains_key(&hour) {
            self.hours.entry(hour).or_default().add(sum);
        }
        let Some(flow) = packet.flow else { return };
        let (a, b) = (flow.source.to_canonical(), flow.destination.to_canonical());
        self.hosts.add(a, sum);
        if a != b {
            self.hosts.add(b, sum);
        }
        let service = (flow.protocol, packet.service);
        self.services.add(service, sum);
        self.conversations.add(Conversation { hosts: (a.min(b), a.max(b)), service }, sum);
        let payload = view.batch.payload(packet);
        if payload.is_empty() {
            return;
        }
        let kind = self.kind(packet.flow_hash, payload);
        self.kinds.add(kind, sum);
        if let Some(content) = &mut self.content {
            for found in view.matches.of(index) {
                let repeated = &payload[found.at as usize..found.end()];
                let saved = u64::from(found.len.saturating_sub(view.charge.per_match));
                let sum = Sum { packets: 1, wire: found.len.into(), saved };
                content.add(repeated[..repeated.len().min(SHOWN)].to_vec(), sum);
            }
        }
    }

    /// The kind of content of a packet of a flow.
    fn kind(&mut self, flow: u64, payload: &[u8]) -> String {
        if let Some(kind) = kind::beginning(payload) {
            if self.flows.len() >= self.most_flows && self.flows.peek(&flow).is_none() {
                self.flows.pop_lru();
            }
            self.flows.put(flow, kind.clone());
            return kind;
        }
        let known = self.flows.get(&flow).cloned();
        known.unwrap_or_else(|| kind::unnamed(payload).to_owned())
    }
}

impl Observer for Top {
    fn batch(&mut self, view: &View<'_>) {
        for (index, packet) in view.batch.packets().iter().enumerate() {
            self.packet(view, index, packet);
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        let label = |(protocol, port): (u8, u16)| service::label(protocol, port);
        let services = self.services.top();
        let rows = services.rows.into_iter().map(|(key, sum)| (label(key), sum)).collect();
        let (all, others, evicted) = (services.all, services.others, services.evicted);
        let sums = self.hosts.sums.len() * entry_bytes::<IpAddr, Sum>()
            + self.conversations.sums.len() * entry_bytes::<Conversation, Sum>()
            + self.services.sums.len() * entry_bytes::<(u8, u16), Sum>()
            + self.flows.len() * (entry_bytes::<u64, String>() + TEXT);
        Finding::Top(TopSavings {
            hosts: self.hosts.top(),
            conversations: self.conversations.top(),
            services: Ranking { rows, all, others, evicted },
            hours: self.hours.into_iter().map(|(hour, sum)| (hour * HOUR, sum)).collect(),
            kinds: self.kinds.top(),
            content: self.content.map(|content| content.top()),
            total: self.total,
            memory: sums as u64,
        })
    }
}

/// Figure 16: savings of the reference algorithm by where they come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopSavings {
    /// By host, as sender or receiver.
    pub hosts: Ranking<IpAddr>,
    /// By pair of hosts and service.
    pub conversations: Ranking<Conversation>,
    /// By label of the service: `tcp/80 http`.
    pub services: Ranking<String>,
    /// By hour, ascending: its beginning in nanoseconds since the Unix epoch.
    pub hours: Vec<(i64, Sum)>,
    /// By kind of content: `text/html`.
    pub kinds: Ranking<String>,
    /// The first bytes of what repeats, if they may be shown.
    pub content: Option<Ranking<Vec<u8>>>,
    /// All packets.
    pub total: Sum,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_room_is_in_the_sum_of_others() {
        let mut sums = Sums::new(0, 0);
        for key in 0..100u32 {
            sums.add(key, Sum { packets: 1, wire: 10, saved: key.into() });
            // One that comes often stays.
            sums.add(7, Sum { packets: 1, wire: 10, saved: 5 });
        }
        let top = sums.top();
        assert_eq!((top.rows.len(), top.evicted), (16, 84));
        assert_eq!(top.rows[0].0, 7);
        let listed: u64 = top.rows.iter().map(|(_, sum)| sum.wire).sum();
        assert_eq!(listed + top.others.wire, 2000);
    }
}
