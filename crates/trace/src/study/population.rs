//! Who sends in a trace, and which services when (thesis, section 2.1, Table 2.1 and Figure 2.1).

use crate::batch::{Direction, Packet};
use crate::figures::protocols::{CHARTED, SharesOverTime};
use crate::results::Hosts;
use crate::service;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use xxhash_rust::xxh3::xxh3_64;

/// Most hosts, and most flows, that are counted: 10 MB each.
const MOST: usize = 1 << 19;
/// Most parts of the trace; beyond, two become one.
const PARTS: usize = 48;
/// Most services that are counted separately in a part.
const SERVICES: usize = 1 << 10;
/// Width of the first parts in nanoseconds.
const FIRST: i64 = 1_000_000_000;

/// Counts different numbers, up to [`MOST`].
#[derive(Default)]
struct Different {
    seen: HashSet<u64>,
    newest: Option<u64>,
}

impl Different {
    fn add(&mut self, number: u64) {
        // Most packets follow one of their own.
        if self.newest.replace(number) != Some(number) && self.seen.len() < MOST {
            self.seen.insert(number);
        }
    }
}

/// Hosts and flows, and bytes on the wire by service and time.
pub(super) struct Population {
    inside: Different,
    others: Different,
    flows: Different,
    /// Nanoseconds of each part.
    width: i64,
    parts: BTreeMap<i64, HashMap<(u8, u16), u64>>,
}

impl Population {
    pub(super) fn new() -> Population {
        Population {
            inside: Different::default(),
            others: Different::default(),
            flows: Different::default(),
            width: FIRST,
            parts: BTreeMap::new(),
        }
    }

    /// Takes the next packet.
    pub(super) fn packet(&mut self, packet: &Packet) {
        let Some(flow) = &packet.flow else { return };
        self.flows.add(packet.flow_hash);
        let (from_inside, to_inside) = match packet.direction {
            Direction::Outbound => (true, false),
            Direction::Inbound => (false, true),
            Direction::Internal => (true, true),
            Direction::All | Direction::Transit | Direction::Unknown => (false, false),
        };
        for (address, is_inside) in [(flow.source, from_inside), (flow.destination, to_inside)] {
            let hosts = if is_inside { &mut self.inside } else { &mut self.others };
            hosts.add(name(address));
        }
        let part = self.parts.entry(packet.time.div_euclid(self.width)).or_default();
        add(part, (flow.protocol, packet.service), packet.wire.into());
        while self.parts.len() > PARTS {
            self.widen();
        }
    }

    /// Joins each two parts.
    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        for (index, part) in std::mem::take(&mut self.parts) {
            let joined = self.parts.entry(index.div_euclid(2)).or_default();
            part.into_iter().for_each(|(key, bytes)| add(joined, key, bytes));
        }
    }

    /// Hosts and flows.
    pub(super) fn hosts(&self, has_inside: bool) -> Hosts {
        let count = |of: &Different| of.seen.len() as u64;
        Hosts {
            inside: has_inside.then(|| count(&self.inside)),
            others: count(&self.others),
            flows: count(&self.flows),
            most: MOST as u64,
        }
    }

    /// Shares of the services with the most bytes, and of all others, in each part with packets.
    pub(super) fn shares(&self) -> SharesOverTime {
        let mut sums: HashMap<(u8, u16), u64> = HashMap::new();
        for (key, bytes) in self.parts.values().flatten() {
            *sums.entry(*key).or_default() += bytes;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|&(key, bytes)| (std::cmp::Reverse(bytes), key));
        let charted: Vec<(u8, u16)> = sums.iter().map(|(key, _)| *key).take(CHARTED).collect();
        let whole = |part: &HashMap<_, u64>| part.values().sum::<u64>().max(1) as f64;
        let of = |key: &(u8, u16)| {
            let share =
                |part: &HashMap<_, u64>| part.get(key).copied().unwrap_or(0) as f64 / whole(part);
            (service::label(key.0, key.1), self.parts.values().map(share).collect::<Vec<f64>>())
        };
        let mut services: Vec<(String, Vec<f64>)> = charted.iter().map(of).collect();
        if sums.len() > charted.len() {
            let rest = (0..self.parts.len()).map(|at| {
                (1.0 - services.iter().map(|(_, shares)| shares[at]).sum::<f64>()).max(0.0)
            });
            let rest = rest.collect();
            services.push(("others".into(), rest));
        }
        let first = self.parts.keys().next().copied().unwrap_or(0);
        let seconds = |index: &i64| (index - first) as f64 * (self.width as f64 / 1e9);
        SharesOverTime { begins: self.parts.keys().map(seconds).collect(), services }
    }
}

/// Adds bytes of a service; beyond [`SERVICES`], to those of its protocol without a name.
fn add(part: &mut HashMap<(u8, u16), u64>, mut key: (u8, u16), bytes: u64) {
    if part.len() >= SERVICES && !part.contains_key(&key) {
        key.1 = 0;
    }
    *part.entry(key).or_default() += bytes;
}

fn name(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => xxh3_64(&address.octets()),
        IpAddr::V6(address) => xxh3_64(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::Made;

    #[test]
    fn hosts_are_counted_once_and_by_side() {
        let mut population = Population::new();
        let mut send = |source: &str, destination: &str, direction| {
            population.packet(&Made::tcp(source, destination).direction(direction).packet);
        };
        for _ in 0..3 {
            send("10.0.0.1:80", "192.0.2.1:4000", Direction::Outbound);
            send("192.0.2.1:4000", "10.0.0.1:80", Direction::Inbound);
            send("10.0.0.1:80", "192.0.2.2:4000", Direction::Outbound);
            send("10.0.0.1:80", "10.0.0.2:4000", Direction::Internal);
        }
        let hosts = population.hosts(true);
        assert_eq!((hosts.inside, hosts.others, hosts.flows), (Some(2), 2, 4));
        assert_eq!(population.hosts(false).inside, None);
    }

    #[test]
    fn services_of_joined_parts_are_bounded() {
        let mut population = Population::new();
        // A scan of all ports, for as long as parts are joined again and again.
        for port in 1..60_000u16 {
            let made = Made::udp(&format!("10.0.0.1:{port}"), "192.0.2.1:65000");
            population.packet(&made.at(f64::from(port) / 10.0).packet);
        }
        // One more for those without a name.
        assert!(population.parts.values().all(|part| part.len() <= SERVICES + 1));
        let bytes: u64 = population.parts.values().flatten().map(|(_, bytes)| bytes).sum();
        assert_eq!(bytes, 42 * 59_999);
    }

    #[test]
    fn parts_widen_and_shares_add_up() {
        let mut population = Population::new();
        // An hour of HTTP, then one of ten services in turns; and a clock that is years ahead.
        for minute in 0..120 {
            let port = if minute < 60 { 80 } else { 1000 + minute % 10 };
            let made = Made::tcp(&format!("10.0.0.1:{port}"), "192.0.2.1:40000");
            population.packet(&made.at(f64::from(minute) * 60.0).packet);
        }
        let shares = population.shares();
        assert!((20..=PARTS).contains(&shares.begins.len()), "{}", shares.begins.len());
        assert_eq!(shares.services.len(), CHARTED + 1);
        assert_eq!(shares.services[0].0, service::label(6, 80));
        assert_eq!((shares.services[0].1[0], shares.begins[0]), (1.0, 0.0));
        for at in 0..shares.begins.len() {
            let sum: f64 = shares.services.iter().map(|(_, shares)| shares[at]).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{at}: {sum}");
        }
        for years in 1..100 {
            let made = Made::tcp("10.0.0.1:80", "192.0.2.1:40000");
            population.packet(&made.at(f64::from(years) * 3e7).packet);
        }
        assert!(population.parts.len() <= PARTS);
    }
}
