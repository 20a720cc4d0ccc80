//! What is passed through for a while: names that a client or an origin does not let be opened.

use super::lines::Reason;
use crate::sync::lock;
use crate::target::canonical;
use oncewire_session::Owner;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Entries that are kept; beyond that, the one that ends first is forgotten.
const MOST: usize = 4096;
/// Of these, how many one client may cause.
const MOST_OF_CLIENT: usize = 256;
/// How long a refusal is remembered that only people can change: a day.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// How long a refusal is remembered at first that is a guess, because the client gave no alert. Twice
/// as long each time the same is guessed again, up to [`LONG`]: one that probes a port without a
/// request, such as a health check, is not kept from being opened for long.
const GUESSED: Duration = Duration::from_secs(600);
/// How often a broken certificate of an origin is news.
const SHORT: Duration = Duration::from_secs(60);

/// Why the bytes of a connection to a named service passed untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Why {
    /// It was not TLS, or not TLS as it should be.
    NotTls,
    /// It was for no name, or another than the target's.
    OtherName,
    /// What it wants does not fit into a message of the tunnel.
    TooLong,
    /// The client has refused our certificate before.
    Client,
    /// The client has a certificate for the origin.
    ClientCertificate,
    /// The origin: now, or before.
    Origin(Reason),
}

impl Why {
    /// Whether the connection ends instead.
    fn ends(self) -> bool {
        matches!(self, Why::Origin(reason) if reason.alert().is_some())
    }

    /// As programs see it in `status`.
    pub(super) fn name(self) -> String {
        match self {
            Why::NotTls => "not_tls".into(),
            Why::OtherName => "other_name".into(),
            Why::TooLong => "too_long".into(),
            Why::Client => "client_refused_certificate".into(),
            Why::ClientCertificate => "client_has_certificate".into(),
            Why::Origin(reason) => format!("origin_{}", reason.name().replace('-', "_")),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotTls => f.write_str("the client does not speak TLS"),
            Why::OtherName => f.write_str("the client's TLS is for another name, or for none"),
            Why::TooLong => f.write_str("the client offers too many protocols"),
            Why::Client => f.write_str("the client refuses the certificate"),
            Why::ClientCertificate => f.write_str("the client has a certificate for the origin"),
            Why::Origin(reason) => reason.fmt(f),
        }
    }
}

/// Who a connection is from: its owner, and its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct From {
    pub(crate) owner: Owner,
    pub(crate) address: Option<IpAddr>,
}

impl From {
    /// Who a connection is from that `owner` owns.
    pub(crate) fn of(stream: &TcpStream, owner: &Owner) -> From {
        let address = stream.peer_addr().ok().map(|address| canonical(address).ip());
        From { owner: owner.clone(), address }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// `None` if it holds for all clients.
    from: Option<From>,
    name: String,
    port: u16,
}

/// How often a client must close a connection right after the handshake, one time after the other,
/// until that means that it refuses the certificate. Browsers open a connection or two in advance
/// that they do not use.
const CLOSES: u32 = 3;
/// What counts as right after the handshake. Whoever only keeps a connection ready does so longer.
pub(super) const RIGHT_AFTER: Duration = Duration::from_secs(5);
/// How long a close counts.
const CLOSES_TIME: Duration = Duration::from_secs(3600);

/// What is passed through, and until when.
#[derive(Debug, Default)]
pub(super) struct Passes {
    map: Mutex<HashMap<Key, (Why, Instant)>>,
    /// How often connections were closed right after the handshake, and the last time.
    closes: Mutex<HashMap<Key, Closes>>,
}

/// Connections of a client that were closed right after the handshake.
#[derive(Clone, Copy, Debug)]
struct Closes {
    /// One after the other, and the last time.
    count: u32,
    at: Instant,
    /// How long the client passes once these are enough.
    time: Duration,
}

impl Passes {
    /// Why a connection is to be passed through, if it is.
    pub(super) fn why(&self, from: &From, name: &str, port: u16, now: Instant) -> Option<Why> {
        let map = lock(&self.map);
        let key = |from| Key { from, name: name.to_owned(), port };
        let all = [Some(from.clone()), None].map(|from| map.get(&key(from)).copied());
        let lasting = all.into_iter().flatten().filter(|(_, until)| now < *until);
        lasting.map(|(why, _)| why).find(|why| !why.ends())
    }

    /// A client has closed a connection right after the handshake, without a request. If it has done so
    /// often enough to mean something, returns how long its connections should pass.
    pub(super) fn closed(
        &self,
        from: &From,
        name: &str,
        port: u16,
        now: Instant,
    ) -> Option<Duration> {
        let mut closes = lock(&self.closes);
        let key = Key { from: Some(from.clone()), name: name.to_owned(), port };
        if closes.len() >= MOST && !closes.contains_key(&key) {
            let oldest =
                closes.iter().min_by_key(|(_, closes)| closes.at).map(|(key, _)| key.clone());
            oldest.map(|oldest| closes.remove(&oldest));
        }
        let new = Closes { count: 0, at: now, time: GUESSED };
        let of = closes.entry(key).or_insert(new);
        let since = now.saturating_duration_since(of.at);
        if since >= CLOSES_TIME.max(of.time) + LONG {
            *of = new;
        } else if since >= CLOSES_TIME {
            of.count = 0;
        }
        (of.count, of.at) = (of.count + 1, now);
        (of.count >= CLOSES).then(|| {
            let time = of.time;
            (of.count, of.time) = (0, LONG.min(time * 2));
            time
        })
    }

    /// A client has used a connection: it accepts the certificate.
    pub(super) fn used(&self, from: &From, name: &str, port: u16) {
        let mut closes = lock(&self.closes);
        if !closes.is_empty() {
            closes.remove(&Key { from: Some(from.clone()), name: name.to_owned(), port });
        }
    }

    /// A client does not let its connections to a name be opened: for a day. Returns whether that is
    /// news.
    pub(super) fn client(&self, from: From, name: &str, port: u16, why: Why, now: Instant) -> bool {
        self.client_for(LONG, from, name, port, why, now)
    }

    /// The same, for this time.
    pub(super) fn client_for(
        &self,
        time: Duration,
        from: From,
        name: &str,
        port: u16,
        why: Why,
        now: Instant,
    ) -> bool {
        let key = Key { from: Some(from), name: name.to_owned(), port };
        self.remember(key, why, now + time, now)
    }

    /// TLS with an origin has failed. Returns whether that is news. If nobody should talk to the
    /// origin, nothing passes: the next connection tries again.
    pub(super) fn origin_failed(
        &self,
        name: &str,
        port: u16,
        reason: Reason,
        now: Instant,
    ) -> bool {
        let time = match reason {
            Reason::ClientCertificate | Reason::Refused | Reason::Protocol => LONG,
            Reason::Expired | Reason::Issuer | Reason::Name | Reason::Pin | Reason::Certificate => {
                SHORT
            }
            // The next attempt may succeed.
            Reason::Timeout | Reason::Failed => Duration::ZERO,
        };
        let key = Key { from: None, name: name.to_owned(), port };
        self.remember(key, Why::Origin(reason), now + time, now)
    }

    fn remember(&self, key: Key, why: Why, until: Instant, now: Instant) -> bool {
        let mut map = lock(&self.map);
        let known = map.get(&key).is_some_and(|&(old, until)| old == why && now < until);
        if until <= now {
            return !known;
        }
        if !map.contains_key(&key) {
            let of_client = |other: &Key| match (&other.from, &key.from) {
                (Some(other), Some(from)) => {
                    other.owner.client == from.owner.client && other.address == from.address
                }
                _ => false,
            };
            let first_of = |map: &HashMap<Key, (Why, Instant)>, of: &dyn Fn(&Key) -> bool| {
                let all = map.iter().filter(|(key, _)| of(key));
                all.min_by_key(|(_, (_, until))| *until).map(|(key, _)| key.clone())
            };
            if map.len() >= MOST_OF_CLIENT
                && map.keys().filter(|other| of_client(other)).count() >= MOST_OF_CLIENT
                && let Some(first) = first_of(&map, &of_client)
            {
                map.remove(&first);
            }
            if map.len() >= MOST
                && let Some(first) = first_of(&map, &|_| true)
            {
                map.remove(&first);
            }
        }
        map.insert(key, (why, until));
        !known
    }

    /// How many clients are passed through, by name and port.
    pub(super) fn clients(&self, now: Instant) -> Vec<(String, u16)> {
        let map = lock(&self.map);
        let lasting = map.iter().filter(|(key, (_, until))| key.from.is_some() && now < *until);
        lasting.map(|(key, _)| (key.name.clone(), key.port)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(client: &str) -> From {
        From { owner: client.as_bytes().into(), address: Some([10, 0, 0, 1].into()) }
    }

    #[test]
    fn refusals_are_remembered_for_a_day_by_client_and_name() {
        let (passes, now) = (Passes::default(), Instant::now());
        assert!(passes.client(from("a"), "x.example", 443, Why::Client, now));
        assert!(!passes.client(from("a"), "x.example", 443, Why::Client, now), "no news");
        let why = |client, name, port, at| passes.why(&from(client), name, port, now + at);
        let short = Duration::from_secs(1);
        assert_eq!(why("a", "x.example", 443, short), Some(Why::Client));
        assert_eq!(why("b", "x.example", 443, short), None);
        assert_eq!(why("a", "y.example", 443, short), None);
        assert_eq!(why("a", "x.example", 444, short), None);
        assert_eq!(why("a", "x.example", 443, LONG - short), Some(Why::Client));
        assert_eq!(why("a", "x.example", 443, LONG), None);
        assert_eq!(passes.clients(now), [("x.example".to_owned(), 443)]);
        assert!(passes.clients(now + LONG).is_empty());
    }

    #[test]
    fn origins_are_passed_through_as_long_as_the_reason_may_last() {
        let (passes, now) = (Passes::default(), Instant::now());
        for (reason, time) in [
            (Reason::ClientCertificate, LONG),
            (Reason::Refused, LONG),
            (Reason::Failed, Duration::ZERO),
        ] {
            let name = format!("{}.example", reason.name());
            assert!(passes.origin_failed(&name, 443, reason, now));
            let why = |at| passes.why(&from("a"), &name, 443, now + at);
            assert_eq!(why(time), None, "{reason:?}");
            let before = time.checked_sub(Duration::from_millis(1));
            assert_eq!(before.and_then(why), before.map(|_| Why::Origin(reason)), "{reason:?}");
        }
        // What nobody should talk to never passes, and is news once a minute.
        for reason in [Reason::Expired, Reason::Issuer, Reason::Name, Reason::Pin] {
            let name = format!("{}.example", reason.name());
            let failed = |at| passes.origin_failed(&name, 443, reason, now + at);
            assert!(failed(Duration::ZERO) && !failed(SHORT / 2), "{reason:?}");
            assert_eq!(passes.why(&from("a"), &name, 443, now), None, "{reason:?}");
            assert!(failed(2 * SHORT), "{reason:?}");
        }
    }

    #[test]
    fn closes_in_a_row_mean_a_refusal_for_longer_each_time() {
        let (passes, now) = (Passes::default(), Instant::now());
        let closed = |name: &str, at| passes.closed(&from(name), "x.example", 443, now + at);
        let short = Duration::from_secs(1);
        let in_a_row = |name: &str, at| {
            assert_eq!((closed(name, at), closed(name, at)), (None, None));
            closed(name, at)
        };
        assert_eq!(
            (closed("a", short), closed("a", short), closed("b", short)),
            (None, None, None)
        );
        passes.used(&from("a"), "x.example", 443);
        assert_eq!(in_a_row("a", short), Some(GUESSED));
        assert_eq!((closed("a", short), closed("a", short)), (None, None), "counted anew");
        let later = short + CLOSES_TIME;
        assert_eq!(in_a_row("a", later), Some(2 * GUESSED), "an hour later");
        assert_eq!(in_a_row("a", 2 * later), Some(4 * GUESSED));
        passes.used(&from("a"), "x.example", 443);
        assert_eq!(in_a_row("a", 2 * later), Some(GUESSED), "it has used one since");
        for _ in 0..12 {
            in_a_row("a", 2 * later);
        }
        assert_eq!(in_a_row("a", 2 * later), Some(LONG), "at most");
        assert_eq!(in_a_row("a", 3 * later + 2 * LONG), Some(GUESSED), "long ago");
        for n in 0..10_000 {
            closed(&n.to_string(), short);
        }
        assert_eq!(lock(&passes.closes).len(), MOST);
    }

    #[test]
    fn memory_is_bounded_and_one_client_takes_no_others_place() {
        let (passes, now) = (Passes::default(), Instant::now());
        passes.client(from("honest"), "x.example", 443, Why::Client, now);
        for n in 0..10_000 {
            passes.client(from("hostile"), &format!("{n}.example"), 443, Why::Client, now);
        }
        assert_eq!(lock(&passes.map).len(), MOST_OF_CLIENT + 1);
        assert!(passes.why(&from("honest"), "x.example", 443, now).is_some());
        for n in 0..10_000 {
            passes.client(from(&format!("{n}")), "x.example", 443, Why::Client, now);
        }
        assert_eq!(lock(&passes.map).len(), MOST);
    }
}
