//! What a shared cache may do with a response, by its fields (RFC 9111), and a simulated one.

use super::message::Fields;
use crate::lru::{LruCache, entry_bytes};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

const SECOND: i64 = 1_000_000_000;

/// Longest lifetime that is kept, in seconds: RFC 9111, section 1.2.2, lets a larger one be this.
const LONGEST: i64 = 1 << 31;

/// What is kept of a request until its response comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Hash of host and target.
    pub(crate) key: u128,
    /// Hash of what encodings it accepts.
    encoding: u64,
    authorized: bool,
    no_store: bool,
    no_cache: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Connect,
    Other,
}

impl Request {
    pub(crate) fn new(method: &str, target: &str, fields: Fields<'_>) -> Request {
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "CONNECT" => Method::Connect,
            _ => Method::Other,
        };
        // The absolute form names the host itself (RFC 9112, section 3.2.2).
        let mut name = match target
            .split_once("://")
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http"))
        {
            Some((_, rest)) => {
                let slash = rest.find('/').unwrap_or(rest.len());
                let mut name = rest[..slash].to_ascii_lowercase().into_bytes();
                name.push(0);
                name.extend_from_slice(if slash == rest.len() {
                    b"/"
                } else {
                    &rest.as_bytes()[slash..]
                });
                name
            }
            None => {
                let mut name = fields.get("host").unwrap_or(b"").to_ascii_lowercase();
                name.push(0);
                name.extend_from_slice(target.as_bytes());
                name
            }
        };
        let key = xxh3_128(&name);
        name.clear();
        for value in fields.members("accept-encoding") {
            name.extend(value.iter().map(u8::to_ascii_lowercase));
            name.push(b',');
        }
        let control = Control::of(fields);
        let pragma = fields.get("cache-control").is_none()
            && fields.members("pragma").any(|value| value.eq_ignore_ascii_case(b"no-cache"));
        Request {
            method,
            key,
            encoding: xxh3_64(&name),
            authorized: fields.get("authorization").is_some(),
            no_store: control.no_store,
            no_cache: control.no_cache || control.max_age == Some(0) || pragma,
        }
    }
}

/// The directives of Cache-Control that matter to a shared cache.
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    no_store: bool,
    no_cache: bool,
    private: bool,
    public: bool,
    must_revalidate: bool,
    max_age: Option<i64>,
    s_maxage: Option<i64>,
}

impl Control {
    fn of(fields: Fields<'_>) -> Control {
        let mut control = Control::default();
        for directive in fields.members("cache-control") {
            let (name, value) = match directive.iter().position(|&byte| byte == b'=') {
                Some(at) => (directive[..at].trim_ascii(), Some(directive[at + 1..].trim_ascii())),
                None => (directive, None),
            };
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            // A lifetime that cannot be read is none at all: stale (section 4.2.1).
            let seconds = || Some(value.and_then(seconds).unwrap_or(0));
            match () {
                () if is("no-store") => control.no_store = true,
                () if is("no-cache") => control.no_cache = true,
                () if is("private") => control.private = true,
                () if is("public") => control.public = true,
                () if is("must-revalidate") || is("proxy-revalidate") => {
                    control.must_revalidate = true
                }
                () if is("max-age") => control.max_age = control.max_age.or_else(seconds),
                () if is("s-maxage") => control.s_maxage = control.s_maxage.or_else(seconds),
                () => {}
            }
        }
        control
    }
}

fn seconds(value: &[u8]) -> Option<i64> {
    let value =
        value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // All digits: what does not fit is large.
    Some(std::str::from_utf8(value).ok()?.parse().unwrap_or(LONGEST).min(LONGEST))
}

/// An IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT`, in seconds since the Unix epoch. The obsolete
/// formats count as not readable.
fn date(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, rest) = text.split_once(", ")?;
    let mut parts = rest.split(' ');
    let number = |text: &str| -> Option<i64> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let day = number(parts.next()?).filter(|day| (1..=31).contains(day))?;
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = parts.next()?;
    let month = MONTHS.iter().position(|&name| name == month)? as i64 + 1;
    let year = number(parts.next()?).filter(|year| (1900..=9999).contains(year))?;
    let mut clock = parts.next()?.split(':');
    let (hour, minute, second) =
        (number(clock.next()?)?, number(clock.next()?)?, number(clock.next()?)?);
    if parts.next()? != "GMT" || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days from 1970-01-01 in the proleptic Gregorian calendar, years beginning in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// What a response may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Class {
    Explicit,
    Heuristic,
    Validate,
    NoValidator,
    NoStore,
    Private,
    Authorized,
    Vary,
    Status,
    Method,
    NotModified,
    NoRequest,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 12] = [
        Class::Explicit,
        Class::Heuristic,
        Class::Validate,
        Class::NoValidator,
        Class::NoStore,
        Class::Private,
        Class::Authorized,
        Class::Vary,
        Class::Status,
        Class::Method,
        Class::NotModified,
        Class::NoRequest,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Class::Explicit => "cacheable: s-maxage, max-age or Expires",
            Class::Heuristic => "cacheable: by the heuristic",
            Class::Validate => "stored, but to be validated for each use",
            Class::NoValidator => "neither fresh nor with a validator",
            Class::NoStore => "no-store",
            Class::Private => "private",
            Class::Authorized => "request with Authorization",
            Class::Vary => "Vary by more than Accept-Encoding",
            Class::Status => "status that is not cached",
            Class::Method => "method other than GET",
            Class::NotModified => "304: the client's copy was validated",
            Class::NoRequest => "request not seen",
        }
    }
}

/// What a cache makes of a response's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) class: Class,
    /// Until when a stored copy is fresh, in nanoseconds since the Unix epoch.
    fresh_until: i64,
    /// Hash of ETag, or else Last-Modified.
    validator: Option<u64>,
    vary_encoding: bool,
    status: u16,
}

impl Policy {
    /// For a response whose head was seen at `now`, in nanoseconds since the Unix epoch.
    pub(crate) fn new(
        status: u16,
        fields: Fields<'_>,
        request: Option<&Request>,
        now: i64,
    ) -> Policy {
        let control = Control::of(fields);
        let time = |name| fields.get(name).and_then(date);
        let sent = time("date").unwrap_or(now.div_euclid(SECOND));
        let explicit = control.s_maxage.or(control.max_age).or_else(|| {
            // An Expires that cannot be read lies in the past (section 5.3).
            fields.get("expires").map(|value| date(value).map_or(0, |expires| expires - sent))
        });
        // RFC 9110, section 15.1, without 206: parts are not put together here.
        let by_default =
            matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501);
        let heuristic = time("last-modified")
            .filter(|_| by_default)
            .map(|modified| (sent - modified).max(0) / 10);
        let age = fields.get("age").and_then(seconds).unwrap_or(0);
        let lifetime = explicit.or(heuristic).unwrap_or(0).min(LONGEST) - age;
        let validator = fields.get("etag").or_else(|| fields.get("last-modified")).map(xxh3_64);
        let mut vary_encoding = false;
        let mut vary_other = false;
        for name in fields.members("vary") {
            let encoding = name.eq_ignore_ascii_case(b"accept-encoding");
            vary_encoding |= encoding;
            vary_other |= !encoding;
        }
        let shareable = control.public || control.s_maxage.is_some() || control.must_revalidate;
        let fresh = lifetime > 0 && !control.no_cache;
        let class = match request {
            None => Class::NoRequest,
            Some(request) if request.method != Method::Get => Class::Method,
            Some(_) if status == 304 => Class::NotModified,
            Some(request) if control.no_store || request.no_store => Class::NoStore,
            Some(_) if control.private => Class::Private,
            Some(request) if request.authorized && !shareable => Class::Authorized,
            Some(_) if vary_other => Class::Vary,
            Some(_)
                if status < 200
                    || status == 206
                    || !(by_default || explicit.is_some() || control.public) =>
            {
                Class::Status
            }
            Some(_) if fresh && explicit.is_some() => Class::Explicit,
            Some(_) if fresh => Class::Heuristic,
            Some(_) if validator.is_some() => Class::Validate,
            Some(_) => Class::NoValidator,
        };
        let fresh_until = if fresh { now.saturating_add(lifetime * SECOND) } else { i64::MIN };
        Policy { class, fresh_until, validator, vary_encoding, status }
    }

    fn key(&self, request: &Request) -> u128 {
        if self.vary_encoding { varied(request) } else { request.key }
    }
}

fn varied(request: &Request) -> u128 {
    request.key ^ u128::from(request.encoding) << 1 | 1
}

/// What the cache would have done for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A fresh copy would have been served; the hash of its body.
    Hit(u128),
    /// The stored copy was stale, but its validator still the same: a 304 would have done.
    Validated,
    Miss,
}

#[derive(Debug)]
struct Stored {
    body: u128,
    fresh_until: i64,
    validator: Option<u64>,
}

/// A shared cache without bound on its content; it remembers `max` responses by hash.
#[derive(Debug)]
pub(crate) struct Proxy {
    stored: LruCache<u128, Stored>,
    max: usize,
    most: usize,
    pub(crate) evicted: u64,
}

impl Proxy {
    pub(crate) const ENTRY: usize = entry_bytes::<u128, Stored>();

    pub(crate) fn new(max: usize) -> Proxy {
        Proxy { stored: LruCache::unbounded(), max: max.max(1), most: 0, evicted: 0 }
    }

    pub(crate) fn memory(&self) -> u64 {
        (self.most * Proxy::ENTRY) as u64
    }

    /// What it does at the head of a response.
    pub(crate) fn ask(&mut self, request: &Request, policy: &Policy, now: i64) -> Outcome {
        if request.method != Method::Get {
            return Outcome::Miss;
        }
        for key in [request.key, varied(request)] {
            let Some(stored) = self.stored.get_mut(&key) else { continue };
            if now < stored.fresh_until && !request.no_cache && !request.no_store {
                return Outcome::Hit(stored.body);
            }
            if stored.validator.is_some()
                && stored.validator == policy.validator
                && matches!(policy.status, 200 | 304)
            {
                stored.fresh_until = policy.fresh_until;
                return if policy.status == 200 { Outcome::Validated } else { Outcome::Miss };
            }
        }
        Outcome::Miss
    }

    /// Stores a whole response, if it may.
    pub(crate) fn store(&mut self, request: &Request, policy: &Policy, body: u128) {
        if !matches!(policy.class, Class::Explicit | Class::Heuristic | Class::Validate) {
            return;
        }
        let key = policy.key(request);
        if self.stored.peek(&key).is_none() {
            while self.stored.len() >= self.max {
                self.stored.pop_lru();
                self.evicted += 1;
            }
        }
        self.stored.put(
            key,
            Stored { body, fresh_until: policy.fresh_until, validator: policy.validator },
        );
        self.most = self.most.max(self.stored.len());
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Framing, Head, Messages, Parser};
    use super::*;

    /// Calls back with the fields of a head.
    struct With<F>(F);
    impl<F: FnMut(Head<'_>)> Messages for With<F> {
        fn head(&mut self, head: Head<'_>) -> Framing {
            (self.0)(head);
            Framing::Length(0)
        }
        fn body(&mut self, _: &[u8]) {}
        fn lost(&mut self, _: u64) {}
        fn end(&mut self, _: bool) {}
    }

    fn request(fields: &str) -> Request {
        let mut made = None;
        Parser::new(true).data(
            format!("GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes(),
            &mut With(|head: Head<'_>| {
                if let Head::Request { method, target, fields } = head {
                    made = Some(Request::new(method, target, fields));
                }
            }),
        );
        made.unwrap()
    }

    fn policy(status: u16, fields: &str, asked: &str) -> Policy {
        let mut made = None;
        let request = request(asked);
        Parser::new(true).data(
            format!("HTTP/1.1 {status} x\r\n{fields}\r\n").as_bytes(),
            &mut With(|head: Head<'_>| {
                if let Head::Response { status, fields } = head {
                    made = Some(Policy::new(status, fields, Some(&request), 1000 * SECOND));
                }
            }),
        );
        made.unwrap()
    }

    #[test]
    fn classes_and_lifetimes() {
        const DATE: &str = "Date: Thu, 01 Jan 1970 00:16:40 GMT\r\n";
        let check = |status, fields: &str, asked: &str, class, seconds: Option<i64>| {
            let policy = policy(status, fields, asked);
            assert_eq!(policy.class, class, "{fields}");
            assert_eq!(
                policy.fresh_until,
                seconds.map_or(i64::MIN, |seconds| (1000 + seconds) * SECOND),
                "{fields}"
            );
        };
        check(
            200,
            "Cache-Control: max-age=60, s-maxage=\"90\"\r\nAge: 30\r\n",
            "",
            Class::Explicit,
            Some(60),
        );
        check(
            200,
            "Cache-Control: max-age=60\r\nAge: 60\r\nETag: x\r\n",
            "",
            Class::Validate,
            None,
        );
        check(
            200,
            &format!("{DATE}Expires: Thu, 01 Jan 1970 00:17:40 GMT\r\n"),
            "",
            Class::Explicit,
            Some(60),
        );
        check(200, &format!("{DATE}Expires: 0\r\n"), "", Class::NoValidator, None);
        check(
            200,
            &format!("{DATE}Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
            "",
            Class::Heuristic,
            Some(100),
        );
        check(
            302,
            &format!("{DATE}Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
            "",
            Class::Status,
            None,
        );
        check(302, "Cache-Control: max-age=5\r\n", "", Class::Explicit, Some(5));
        check(200, "Cache-Control: max-age=5, no-cache\r\nETag: x\r\n", "", Class::Validate, None);
        check(200, "Cache-Control: NO-STORE\r\n", "", Class::NoStore, None);
        check(200, "", "Cache-Control: no-store\r\n", Class::NoStore, None);
        check(200, "Cache-Control: private, max-age=5\r\n", "", Class::Private, Some(5));
        check(
            200,
            "Cache-Control: max-age=5\r\n",
            "Authorization: x\r\n",
            Class::Authorized,
            Some(5),
        );
        check(
            200,
            "Cache-Control: max-age=5, public\r\n",
            "Authorization: x\r\n",
            Class::Explicit,
            Some(5),
        );
        check(
            200,
            "Cache-Control: max-age=5\r\nVary: Accept-Encoding, Cookie\r\n",
            "",
            Class::Vary,
            Some(5),
        );
        check(
            200,
            "Cache-Control: max-age=5\r\nVary: accept-encoding\r\n",
            "",
            Class::Explicit,
            Some(5),
        );
        check(206, "Cache-Control: max-age=5\r\n", "", Class::Status, Some(5));
        check(
            200,
            "Cache-Control: max-age=99999999999999999999\r\n",
            "",
            Class::Explicit,
            Some(LONGEST),
        );
    }

    #[test]
    fn dates() {
        assert_eq!(date(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(date(b"Tue, 29 Feb 2000 00:00:00 GMT"), Some(951_782_400));
        for bad in [
            "0",
            "",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, -6 Nov 1994 08:49:37 GMT",
            "x, 99999999999999999999 ",
        ] {
            assert_eq!(date(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_cache_serves_what_is_fresh_and_validates_what_is_not() {
        let mut proxy = Proxy::new(10);
        let at = |seconds: i64| (1000 + seconds) * SECOND;
        let (plain, fresh) =
            (request(""), policy(200, "Cache-Control: max-age=60\r\nETag: a\r\n", ""));
        assert_eq!(proxy.ask(&plain, &fresh, at(0)), Outcome::Miss);
        proxy.store(&plain, &fresh, 7);
        assert_eq!(proxy.ask(&plain, &fresh, at(59)), Outcome::Hit(7));
        assert_eq!(
            proxy.ask(&request("Host: other\r\n"), &fresh, at(59)),
            Outcome::Hit(7),
            "the first Host counts"
        );
        assert_eq!(proxy.ask(&request("Pragma: no-cache\r\n"), &fresh, at(59)), Outcome::Validated);
        let other = policy(200, "Cache-Control: max-age=60\r\nETag: b\r\n", "");
        assert_eq!(proxy.ask(&plain, &other, at(60)), Outcome::Miss);
        // With Vary, only requests that accept the same encodings share it.
        let mut proxy = Proxy::new(10);
        let varies = policy(200, "Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\n", "");
        proxy.store(&request("Accept-Encoding: gzip\r\n"), &varies, 8);
        assert_eq!(proxy.ask(&plain, &varies, at(1)), Outcome::Miss);
        assert_eq!(
            proxy.ask(&request("accept-encoding:  GZIP\r\n"), &varies, at(1)),
            Outcome::Hit(8)
        );
        for i in 0..100 {
            proxy.store(&Request { key: i, ..plain }, &fresh, 0);
        }
        assert_eq!((proxy.stored.len(), proxy.evicted), (10, 91));
    }
}
