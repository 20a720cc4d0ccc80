//! What a certificate says of itself: the fields of X.509 (RFC 5280) that decide whether it can
//! issue certificates for a name. Only files of this machine's administrator are read here; TLS
//! verifies the certificates of others.

use std::ops::Range;
use time::{Date, Month, OffsetDateTime, Time};

/// What a certificate says.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The content of its subject.
    pub(super) subject: Vec<u8>,
    pub(super) not_before: OffsetDateTime,
    pub(super) not_after: OffsetDateTime,
    /// Whether it may issue certificates.
    pub(super) is_ca: bool,
    /// The identifier of its key.
    pub(super) key_id: Option<Vec<u8>>,
    /// Names that it permits and excludes; empty without constraints of DNS names.
    pub(super) permitted: Vec<String>,
    pub(super) excluded: Vec<String>,
}

const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `dNSName` of GeneralName.
const DNS: u8 = 0x82;

/// Extensions, as the content of their object identifiers: 2.5.29.14, .19, .30.
const KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];

/// Elements of DER that follow each other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The tag and the content of the next element.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The next element, with its tag and length.
    fn whole(&mut self) -> Option<&'a [u8]> {
        let before = self.0;
        self.any()?;
        before.get(..before.len() - self.0.len())
    }

    /// The content of the next element, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.any().filter(|&(found, _)| found == tag).map(|(_, content)| content)
    }

    /// The content of the next element, if it has this tag.
    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.expect(tag) } else { None }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Facts {
    /// What this certificate says, or `None` if it is no X.509 certificate of version 3.
    pub(super) fn of(certificate: &[u8]) -> Option<Facts> {
        let mut outer = Der(Der(certificate).expect(SEQUENCE)?);
        let mut body = Der(outer.expect(SEQUENCE)?);
        body.optional(0xa0)?;
        body.expect(INTEGER)?;
        // Algorithm and issuer.
        body.expect(SEQUENCE)?;
        body.expect(SEQUENCE)?;
        let mut validity = Der(body.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.any()?)?, time(validity.any()?)?);
        let subject = body.expect(SEQUENCE)?.to_vec();
        // The key, and two fields that nobody uses.
        body.expect(SEQUENCE)?;
        body.optional(0x81);
        body.optional(0x82);
        let mut facts = Facts {
            subject,
            not_before,
            not_after,
            is_ca: false,
            key_id: None,
            permitted: Vec::new(),
            excluded: Vec::new(),
        };
        let Some(extensions) = body.optional(0xa3) else { return Some(facts) };
        let mut extensions = Der(Der(extensions).expect(SEQUENCE)?);
        while !extensions.is_empty() {
            let mut extension = Der(extensions.expect(SEQUENCE)?);
            let kind = extension.expect(OID)?;
            // Whether it is critical.
            extension.optional(0x01);
            let value = extension.expect(OCTETS)?;
            match kind {
                KEY_ID => facts.key_id = Some(Der(value).expect(OCTETS)?.to_vec()),
                BASIC_CONSTRAINTS => {
                    let mut basic = Der(Der(value).expect(SEQUENCE)?);
                    facts.is_ca = basic.optional(0x01).is_some_and(|ca| ca != [0]);
                }
                NAME_CONSTRAINTS => {
                    let mut names = Der(Der(value).expect(SEQUENCE)?);
                    facts.permitted = subtrees(names.optional(0xa0).unwrap_or_default())?;
                    facts.excluded = subtrees(names.optional(0xa1).unwrap_or_default())?;
                }
                _ => {}
            }
        }
        Some(facts)
    }

    /// Whether it says which DNS names it may issue certificates for.
    pub(super) fn is_constrained(&self) -> bool {
        !self.permitted.is_empty()
    }

    /// Whether its constraints let it issue a certificate for a name.
    pub(super) fn permits(&self, name: &str) -> bool {
        let under = |base: &String| {
            let base = base.trim_start_matches('.');
            let before = name.strip_suffix(base);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        (self.permitted.is_empty() || self.permitted.iter().any(under))
            && !self.excluded.iter().any(under)
    }
}

/// A certificate with another issuer, a name in DER, signed again by `sign`. `None` if it is no
/// certificate, or cannot be signed.
pub(super) fn reissue(
    certificate: &[u8],
    issuer: &[u8],
    sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut outer = Der(Der(certificate).expect(SEQUENCE)?);
    let mut body = Der(outer.expect(SEQUENCE)?);
    let algorithm = outer.whole()?;
    let [version, serial, kind] = [body.whole()?, body.whole()?, body.whole()?];
    body.expect(SEQUENCE)?;
    let issuer = element(SEQUENCE, &[issuer]);
    let signed = element(SEQUENCE, &[version, serial, kind, &issuer, body.0]);
    let signature = sign(&signed)?;
    // All of its bits are used.
    let signature = element(BITS, &[&[0], &signature]);
    Some(element(SEQUENCE, &[&signed, algorithm, &signature]))
}

/// An element with this tag and content.
fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let len = content.len().to_be_bytes();
    let len = &len[len.iter().take_while(|&&byte| byte == 0).count()..];
    let mut all = vec![tag];
    match *len {
        [] => all.push(0),
        [short @ ..0x80] => all.push(short),
        _ => {
            all.push(0x80 | len.len() as u8);
            all.extend_from_slice(len);
        }
    }
    all.extend_from_slice(&content);
    all
}

/// The DNS names of a list of subtrees.
fn subtrees(list: &[u8]) -> Option<Vec<String>> {
    let mut list = Der(list);
    let mut names = Vec::new();
    while !list.is_empty() {
        let (tag, base) = Der(list.expect(SEQUENCE)?).any()?;
        if tag == DNS {
            names.push(str::from_utf8(base).ok()?.to_ascii_lowercase());
        }
    }
    Some(names)
}

/// A time in one of the two forms that RFC 5280 allows, both of which end in `Z`.
fn time((tag, text): (u8, &[u8])) -> Option<OffsetDateTime> {
    let number = |range: Range<usize>| {
        let digits = str::from_utf8(text.get(range)?).ok()?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let (year, at): (i32, usize) = match (tag, text.len()) {
        (UTC_TIME, 13) => match number(0..2)? {
            year @ 0..50 => (2000 + i32::from(year), 2),
            year => (1900 + i32::from(year), 2),
        },
        (GENERALIZED_TIME, 15) => (100 * i32::from(number(0..2)?) + i32::from(number(2..4)?), 4),
        _ => return None,
    };
    let part = |n: usize| number(at + 2 * n..at + 2 * n + 2);
    let month: Month = part(0)?.try_into().ok()?;
    let date = Date::from_calendar_date(year, month, part(1)?).ok()?;
    let time = Time::from_hms(part(2)?, part(3)?, part(4)?).ok()?;
    (text.last() == Some(&b'Z')).then(|| date.with_time(time).assume_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        let read = |tag, text: &str| {
            time((tag, text.as_bytes())).map(|time| (time.year(), time.month() as u8, time.hour()))
        };
        assert_eq!(read(UTC_TIME, "491231235959Z"), Some((2049, 12, 23)));
        assert_eq!(read(UTC_TIME, "500101000000Z"), Some((1950, 1, 0)));
        assert_eq!(read(GENERALIZED_TIME, "20500102030405Z"), Some((2050, 1, 3)));
        for bad in ["", "491231235959", "491331235959Z", "49123123595+Z", "20500102030405Z"] {
            assert_eq!(read(UTC_TIME, bad), None, "{bad}");
        }
    }

    #[test]
    fn elements_of_any_length_are_read_as_written() {
        for len in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; len];
            let all = element(OCTETS, &[&content[..len / 2], &content[len / 2..]]);
            let mut der = Der(&all);
            assert_eq!((der.expect(OCTETS), der.is_empty()), (Some(&content[..]), true), "{len}");
        }
    }

    #[test]
    fn truncated_certificates_are_none() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.example".to_string()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let der = certificate.der().as_ref();
        let facts = Facts::of(der).unwrap();
        assert!(!facts.is_ca && !facts.is_constrained() && facts.permits("a.example"));
        // With its own issuer, it is the same.
        let signature = &der[der.len() - 8..];
        let same = reissue(der, &facts.subject, |signed| {
            assert!(der.windows(signed.len()).any(|part| part == signed));
            Some(signature.to_vec())
        });
        assert!(same.unwrap().ends_with(signature));
        for len in 0..der.len() {
            assert!(Facts::of(&der[..len]).is_none(), "{len} bytes");
            assert_eq!(reissue(&der[..len], b"", |_| Some(Vec::new())), None, "{len} bytes");
        }
    }
}
