//! What each service carried and cost: the connections to one target, of all sessions.

use crate::request::FlowRequest;
use crate::sync::lock;
use oncewire_session::{Residue, SentBlock, metrics};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Services that are counted by name; further ones are counted together.
pub const MOST_SERVICES: usize = 128;

/// Longest name of a service, in bytes. Longer ones are counted together: what exports counters cuts
/// labels, and names that begin alike must not become one.
const LONGEST_NAME: usize = 120;

/// The name of the services that are counted together. No target has a name like it: they end with a
/// port.
pub const OTHER_SERVICES: &str = "(other)";

metrics! {
    /// Counters of a service, since the process began or the service was last forgotten. Bytes on the
    /// wire are those of messages before encryption; what is sent again after an outage, and what
    /// keeps a session up, belongs to no service.
    pub struct ServiceCounters {
        /// Connections.
        flows: Counter, Count;
        /// Bytes of applications that this end sent.
        sent_bytes: Counter, Bytes;
        /// Bytes on the wire that carried them.
        wire_sent_bytes: Counter, Bytes;
        /// Bytes of applications that this end received.
        received_bytes: Counter, Bytes;
        /// Bytes on the wire that carried them.
        wire_received_bytes: Counter, Bytes;
        /// Of the bytes sent: sent as references to the log.
        matched_bytes: Counter, Bytes;
        /// Of the bytes sent: literal, on connections whose protocol encrypts them (TLS, SSH).
        encrypted_bytes: Counter, Bytes;
        /// Of the bytes sent: literal, and looked incompressible, on other connections.
        incompressible_bytes: Counter, Bytes;
        /// Of the bytes sent: literal, in blocks too small to be reduced.
        small_bytes: Counter, Bytes;
    }
}

impl ServiceCounters {
    /// Bytes of applications in both directions.
    pub fn content(&self) -> u64 {
        self.sent_bytes.saturating_add(self.received_bytes)
    }

    /// Bytes on the wire in both directions.
    pub fn wire(&self) -> u64 {
        self.wire_sent_bytes.saturating_add(self.wire_received_bytes)
    }

    /// Why most of what this end sent literally was not reduced. `None` if it sent hardly anything
    /// literally: less than a tenth.
    pub fn main_residue(&self) -> Option<&'static str> {
        let told = self.encrypted_bytes + self.incompressible_bytes + self.small_bytes;
        let new = self.sent_bytes.saturating_sub(self.matched_bytes).saturating_sub(told);
        let reasons = [
            (new, "not sent before"),
            (self.encrypted_bytes, "encrypted"),
            (self.incompressible_bytes, "looks compressed"),
            (self.small_bytes, "too small"),
        ];
        let (most, reason) = reasons.into_iter().max_by_key(|(bytes, _)| *bytes)?;
        (most > self.sent_bytes / 10).then_some(reason)
    }

    fn add(&mut self, other: &ServiceCounters) {
        use oncewire_session::Metrics;
        let sums = self.values().into_iter().zip(other.values()).map(|(a, b)| a.saturating_add(b));
        *self = ServiceCounters::from_values(sums);
    }
}

/// A service that is being counted.
#[derive(Debug, Default)]
pub(crate) struct Service(Mutex<ServiceCounters>);

impl Service {
    pub(crate) fn sent(&self, block: &SentBlock) {
        let mut of = lock(&self.0);
        of.sent_bytes += block.content;
        of.wire_sent_bytes += block.wire;
        of.matched_bytes += block.matched;
        match block.residue {
            Residue::New => {}
            Residue::Encrypted => of.encrypted_bytes += block.unmatched(),
            Residue::Incompressible => of.incompressible_bytes += block.unmatched(),
            Residue::Small => of.small_bytes += block.unmatched(),
        }
    }

    pub(crate) fn received(&self, content: u64, wire: u64) {
        let mut of = lock(&self.0);
        of.received_bytes += content;
        of.wire_received_bytes += wire;
    }

    pub(crate) fn counters(&self) -> ServiceCounters {
        *lock(&self.0)
    }
}

/// The services of a process. Peers and applications choose names, so there are never more than
/// [`MOST_SERVICES`]: the one that carried least and has no connection makes room for a new one.
#[derive(Debug, Default)]
pub(crate) struct Services {
    named: Mutex<HashMap<Box<str>, Arc<Service>>>,
    other: Arc<Service>,
}

impl Services {
    /// The service that a flow to `target` belongs to, which counts it. `None` if it stands for a
    /// listener.
    pub(crate) fn enter(&self, target: &[u8]) -> Option<Arc<Service>> {
        let service = match FlowRequest::parse(target) {
            Some(FlowRequest::Listen(_)) => return None,
            Some(FlowRequest::Tcp(target) | FlowRequest::Tls(target)) => {
                self.named(&target.to_string())
            }
            Some(from @ FlowRequest::From(_)) => {
                self.named(&String::from_utf8_lossy(&from.target()))
            }
            None => self.other.clone(),
        };
        lock(&service.0).flows += 1;
        Some(service)
    }

    fn named(&self, name: &str) -> Arc<Service> {
        if name.len() > LONGEST_NAME {
            return self.other.clone();
        }
        let mut named = lock(&self.named);
        if let Some(service) = named.get(name) {
            return service.clone();
        }
        if named.len() >= MOST_SERVICES {
            let idle = named.iter().filter(|(_, service)| Arc::strong_count(service) == 1);
            let least = idle.min_by_key(|(name, service)| (service.counters().content(), *name));
            let Some(least) = least.map(|(name, _)| name.clone()) else {
                return self.other.clone();
            };
            if let Some(service) = named.remove(&least) {
                lock(&self.other.0).add(&service.counters());
            }
        }
        named.entry(name.into()).or_default().clone()
    }

    /// Names and counters, those that carried most first; what is counted together is last.
    pub(crate) fn list(&self) -> Vec<(String, ServiceCounters)> {
        let mut list: Vec<_> = {
            let named = lock(&self.named);
            named.iter().map(|(name, of)| (name.to_string(), of.counters())).collect()
        };
        list.sort_by(|(name, a), (other, b)| (b.content(), name).cmp(&(a.content(), other)));
        let other = self.other.counters();
        if other != ServiceCounters::default() {
            list.push((OTHER_SERVICES.into(), other));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(content: u64) -> SentBlock {
        SentBlock { content, wire: content / 2, matched: content / 4, residue: Residue::Encrypted }
    }

    #[test]
    fn flows_of_a_target_are_one_service() {
        let services = Services::default();
        for target in ["tcp:origin.example:80", "tcp:origin.example:443", "tcp:Origin.example:80"] {
            services.enter(target.as_bytes()).unwrap().sent(&block(100));
        }
        assert!(services.enter(b"listen:127.0.0.1:9000").is_none());
        services.enter(b"from:127.0.0.1:9000").unwrap().received(7, 8);
        let list = services.list();
        let names: Vec<_> = list.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["origin.example:80", "origin.example:443", "from:127.0.0.1:9000"]);
        let first = list[0].1;
        assert_eq!(first.main_residue(), Some("encrypted"));
        assert_eq!(list[2].1.main_residue(), None);
        assert_eq!((first.flows, first.sent_bytes, first.wire_sent_bytes), (2, 200, 100));
        assert_eq!((first.matched_bytes, first.encrypted_bytes), (50, 150));
        assert_eq!((list[2].1.content(), list[2].1.wire()), (7, 8));
    }

    #[test]
    fn names_are_bounded_and_what_carried_much_keeps_its_name() {
        let services = Services::default();
        let busy = services.enter(b"tcp:busy.example:80").unwrap();
        busy.sent(&block(1 << 20));
        drop(busy);
        let open = services.enter(b"tcp:open.example:80").unwrap();
        for number in 0..10_000 {
            let service = services.enter(format!("tcp:h{number}.example:80").as_bytes());
            service.unwrap().sent(&block(8));
        }
        services.enter(b"\xff").unwrap().sent(&block(8));
        let long = format!("tcp:{}.example:80", ["a".repeat(60), "b".repeat(60)].join("."));
        services.enter(long.as_bytes()).unwrap().sent(&block(8));
        open.sent(&block(4));
        let list = services.list();
        assert_eq!(list.len(), MOST_SERVICES + 1);
        assert_eq!(list[0].0, "busy.example:80");
        assert!(list.iter().any(|(name, of)| name == "open.example:80" && of.sent_bytes == 4));
        let (last, other) = list.last().unwrap();
        assert_eq!(last, OTHER_SERVICES);
        // Nothing is lost with a name.
        let all: u64 = list.iter().map(|(_, of)| of.sent_bytes).sum();
        assert_eq!(all, (1 << 20) + 10_000 * 8 + 8 + 8 + 4);
        assert_eq!(other.flows, 10_000 - (MOST_SERVICES as u64 - 2) + 2);
    }

    #[test]
    fn when_every_name_has_a_connection_the_next_is_counted_with_others() {
        let services = Services::default();
        let all: Vec<_> = (0..MOST_SERVICES + 3)
            .map(|number| services.enter(format!("tcp:h{number}.example:80").as_bytes()))
            .collect();
        assert_eq!(services.list().len(), MOST_SERVICES + 1);
        assert_eq!(services.list().last().unwrap().1.flows, 3);
        drop(all);
    }
}
