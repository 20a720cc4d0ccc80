//! The sentences of a verdict: the next step, reasons and caveats.

use super::{A_DAY, Facts, WORTH, YEAR, share};
use crate::algorithm::Algorithm;
use crate::batch::Direction;
use crate::figures::caches::Curve;
use crate::results::{Deploy, Input, LargeFlows, Unknown};
use crate::study::Pass;
use crate::study::plan::Key;
use oncewire_report::Unit;
use oncewire_report::format::{bytes, cache, counted, number, points, share as percent};

/// Share of bytes outside the networks of `--inside` that is worth a sentence.
const MUCH_OUTSIDE: f64 = 0.05;
/// The same for bytes of a family of which no network is inside.
const FAMILY_OUTSIDE: f64 = 0.01;
/// A share of encrypted payload that is worth a sentence.
const MUCH_ENCRYPTED: f64 = 0.2;
/// A share of compressed content that is worth a sentence.
const MUCH_COMPRESSED: f64 = 0.05;
/// Savings of max-match beyond the product's that are worth an explanation.
const A_GAP: f64 = 0.05;
/// A part of such a gap, and of the bytes, that is worth a clause.
const A_PART: f64 = 0.01;
/// A missing share of the bytes that is worth a sentence.
const SOME_CUT: f64 = 0.005;

/// Ports of services that are always encrypted: ssh, HTTPS, and mail, directory and names over TLS.
const ENCRYPTED_PORTS: [u16; 9] = [22, 443, 465, 636, 853, 990, 993, 995, 8443];
/// Least share of the content of TCP flows of a service that stands for others.
const STANDS_FOR_OTHERS: f64 = 0.01;

/// UDP's number.
const UDP: u8 = 17;

impl Facts<'_> {
    /// The sentences, the most important first.
    pub(super) fn reasons(&self, large_flows: Option<&LargeFlows>) -> Vec<String> {
        let Facts { pass, input, deploy, ref curve, .. } = *self;
        let payload = pass.volumes.iter().map(|volume| volume.payload).sum();
        let is_judged = deploy != Deploy::CannotSay;
        let mut reasons = Vec::new();
        reasons.extend(input.partial.then(|| {
            format!(
                "Partial: reading was interrupted after {}; the rest of the captures is not in this.",
                counted(input.packets, "packet")
            )
        }));
        reasons.push(self.next());
        reasons.extend(self.not_captured());
        reasons.extend(self.doubled().filter(|_| is_judged));
        reasons.extend(self.doubt());
        reasons.extend(directions(pass));
        reasons.extend((deploy == Deploy::Link).then(|| self.without_the_link()));
        reasons.extend(large_flows.map(|flows| beyond_the_cache(flows, curve, payload)));
        reasons.extend(rises(curve).filter(|_| matches!(deploy, Deploy::Tunnel | Deploy::Link)));
        reasons.extend(self.gap().filter(|_| is_judged));
        reasons.extend(self.compressed());
        reasons.extend(self.encrypted());
        reasons.extend(length_of_trace(input).filter(|_| is_judged));
        reasons.extend(little_payload(self.cut, input, payload).filter(|_| is_judged));
        reasons
    }

    /// The next step.
    fn next(&self) -> String {
        match self.deploy {
            Deploy::Tunnel => {
                "Next: run `oncewire serve` at one end and `oncewire connect` at the other."
            }
            Deploy::Link => "Next: run `oncewire link` at both ends, on Linux and as root.",
            Deploy::Nothing => "Less than 5 % is not worth two more hosts in the path.",
            Deploy::CannotSay if self.unknown == Some(Unknown::Doubled) => {
                "Next: capture where each packet passes once: one interface, or a mirror port that copies what comes in or what goes out. Or remove \
                 the copies, as with `editcap -d twice.pcap once.pcap`, and study the rest."
            }
            Deploy::CannotSay if self.cut >= A_PART => {
                "Next: capture whole packets, without a snap length and before a packet broker cuts them, as with \
                 `tcpdump -i eth0 -s 0 -w whole.pcap`, and study those."
            }
            Deploy::CannotSay => {
                "Next: capture at an interface with Ethernet or IP, as with `tcpdump -i eth0 -s 0 -w whole.pcap`."
            }
        }
        .to_owned()
    }

    /// What a capture that lacks bytes says all the same.
    fn not_captured(&self) -> Option<String> {
        let (saved, cut) = (percent(self.savings), percent(self.cut));
        let product = self.product();
        match self.deploy {
            Deploy::CannotSay if self.unknown == Some(Unknown::Doubled) => Some(format!(
                "With the copies, {product} would save {saved} of all bytes: the copies look like repeats, and nobody knows how much is left \
                 without them."
            )),
            Deploy::CannotSay => Some(format!(
                "Of what was captured, {product} would save {saved} of all bytes: at least that much, and nobody knows how much more."
            )),
            _ if self.cut >= SOME_CUT => Some(format!(
                "{cut} of the bytes were not captured: {product} may save more than {saved}."
            )),
            _ => None,
        }
    }

    /// A few packets that the capture has twice.
    fn doubled(&self) -> Option<String> {
        let doubled = self.pass.doubled.share().filter(|share| *share >= A_PART)?;
        Some(format!(
            "{} of the bytes of TCP are copies of a packet just before, as a mirror port may show them; what they repeat is in the savings.",
            percent(doubled)
        ))
    }

    fn product(&self) -> &'static str {
        match self.savings == self.link && self.link > self.tunnel {
            true => "the packet link",
            false => "the tunnel",
        }
    }

    /// Whether the parts of the trace differ so much that the recommendation is not sure.
    fn doubt(&self) -> Option<String> {
        let (low, high) = self.confidence?;
        (low < WORTH && high >= WORTH && high - low >= A_PART).then(|| {
            format!(
                "Not sure: parts of the trace differ so much that traffic like this may save {} to {}. Capture for longer.",
                percent(low),
                percent(high)
            )
        })
    }

    /// What there is where the packet link cannot run.
    fn without_the_link(&self) -> String {
        let worth = if self.tunnel < WORTH { ": too little" } else { "" };
        format!(
            "The link carries whole packets, UDP too, and its encryption is counted. The tunnel, for TCP only, would save {}{worth}.",
            percent(self.tunnel)
        )
    }

    /// Why max-match as published finds more than the product, if it does.
    fn gap(&self) -> Option<String> {
        let reference = self.pass.tally(&self.pass.settings.reference())?;
        let wire = self.pass.wire();
        let found = share(reference.total(), wire)?;
        if found < self.savings + A_GAP {
            return None;
        }
        let mut why = Vec::new();
        let udp = share(reference.of_protocol(UDP), wire).filter(|udp| *udp >= A_PART);
        let udp = udp.filter(|_| self.product() == "the tunnel");
        why.extend(
            udp.map(|udp| format!("{} of them are UDP, which it does not carry", points(udp))),
        );
        let dense = self.reducibility.and_then(|found| {
            share(found.total.encrypted.repeated + found.total.high.repeated, wire)
        });
        why.extend(dense.filter(|dense| *dense >= A_PART).map(|dense| {
            format!(
                "{} of the bytes repeat in content that looks compressed or encrypted, where it samples one position in 1,024 and misses short \
                 repeats",
                percent(dense)
            )
        }));
        let why = match why.is_empty() {
            true => String::new(),
            false => format!(": {}", why.join("; ")),
        };
        Some(format!(
            "Max-match alone finds {}, {} more than {}{why}.",
            percent(found),
            points(found - self.savings),
            self.product()
        ))
    }

    /// How much of what the tunnel carries it opens.
    fn compressed(&self) -> Option<String> {
        if self.product() != "the tunnel" || self.deploy == Deploy::CannotSay {
            return None;
        }
        let content = self.pass.content(&Key::Other(Algorithm::Tunnel))?;
        let (mut all, mut compressed) = (0, 0);
        for service in content.services.values() {
            all += service.content;
            compressed += (service.opened + service.passed).min(service.content);
        }
        let compressed = share(compressed, all).filter(|share| *share >= MUCH_COMPRESSED)?;
        Some(format!(
            "{} of the content of TCP flows is gzip, zip, zstd and the like, which the tunnel opens to find what repeats in it.",
            percent(compressed)
        ))
    }

    fn encrypted(&self) -> Option<String> {
        let total = &self.reducibility?.total;
        let of_wire = share(total.encrypted.payload, self.pass.wire())?;
        let gain = self.plain_services().map(|(low, high)| (low * of_wire, high * of_wire));
        encryption(total.encrypted_share(), gain)
    }

    /// Least and most that the tunnel saves of the content of a service that is not encrypted.
    fn plain_services(&self) -> Option<(f64, f64)> {
        let services = &self.pass.content(&Key::Other(Algorithm::Tunnel))?.services;
        let all = services.values().map(|service| service.content).sum();
        let stands = |content| share(content, all).is_some_and(|of| of >= STANDS_FOR_OTHERS);
        let plain = services.iter().filter(|((_, port), service)| {
            !ENCRYPTED_PORTS.contains(port) && stands(service.content)
        });
        let saved = plain.filter_map(|(_, service)| {
            share(service.content.saturating_sub(service.sent), service.content)
        });
        saved.fold(None, |range, saved| match range {
            None => Some((saved, saved)),
            Some((low, high)) => Some((saved.min(low), saved.max(high))),
        })
    }
}

/// How much is encrypted, and what a tunnel in front of the encryption would save more, at least and
/// at most, if it repeats as what is plain here does.
fn encryption(encrypted: Option<f64>, gain: Option<(f64, f64)>) -> Option<String> {
    let encrypted = encrypted.filter(|share| *share >= MUCH_ENCRYPTED)?;
    let gain = gain.filter(|(_, high)| *high >= A_PART).map(|(low, high)| {
        let range = match percent(low) == percent(high) {
            true => percent(low),
            false => format!("{} to {}", percent(low), percent(high)),
        };
        format!(": {range} of all bytes more, if it repeats as the services here do that are plain")
    });
    Some(format!(
        "{} of the payload is encrypted. Only a tunnel in front of the encryption can reduce it{}.",
        percent(encrypted),
        gain.unwrap_or_default()
    ))
}

/// What `--inside` leaves out.
fn directions(pass: &Pass) -> Option<String> {
    let inside = pass.settings.inside.as_ref()?;
    let wire = |direction: Direction| pass.volumes[direction.index()].wire;
    let known = [Direction::Outbound, Direction::Inbound, Direction::Internal].map(wire);
    let (known, transit) = (known.iter().sum::<u64>(), wire(Direction::Transit));
    if known == 0 && transit > 0 {
        return Some(
            "No packet has an address in the networks of --inside, so all count as transit. Check these networks.".to_owned(),
        );
    }
    // A site whose networks are named has addresses of the other family, too.
    for (ipv6, family) in [(true, "IPv6"), (false, "IPv4")] {
        let of_family = share(pass.transit[usize::from(ipv6)], pass.wire());
        if let Some(share) = of_family.filter(|share| *share >= FAMILY_OUTSIDE)
            && !inside.has_family(ipv6)
        {
            return Some(format!(
                "{} of the bytes are {family}, and transit, because --inside names no {family} network: add the site's.",
                percent(share)
            ));
        }
    }
    let outside = share(transit, pass.wire()).filter(|share| *share >= MUCH_OUTSIDE)?;
    Some(format!("{} of the bytes are transit: neither address is in --inside.", percent(outside)))
}

/// Whether flows larger than a cache cost savings: not if a cache that holds them saves as little.
pub(super) fn cost_savings(flows: &LargeFlows, curve: &Curve) -> bool {
    let larger = curve.points.iter().find(|&&(size, _)| size >= flows.largest);
    match (curve.at(flows.cache), larger) {
        (Some(now), Some(&(_, then))) => then >= now + A_PART,
        _ => true,
    }
}

fn beyond_the_cache(flows: &LargeFlows, curve: &Curve, payload: u64) -> String {
    let LargeFlows { cache: held, flows, bytes: carried, largest } = *flows;
    let points = &curve.points;
    let larger = points
        .iter()
        .find(|&&(size, _)| size >= largest)
        .or(points.last())
        .filter(|&&(size, _)| size > held);
    let remedy = match (curve.at(held), larger) {
        (Some(now), Some(&(size, then))) => {
            let still = if size < largest {
                format!(", still less than the largest flow's {}", bytes(largest))
            } else {
                String::new()
            };
            format!(
                "Max-match saves {} with that cache, and {} with one of {}{still}.",
                percent(now),
                percent(then),
                cache(size)
            )
        }
        _ => format!(
            "That takes a cache larger than {}; figure 3 shows what other caches save.",
            bytes(largest)
        ),
    };
    let of_payload = share(carried, payload).filter(|share| *share < 1.0);
    format!(
        "{} carried more than a cache of {} holds, {} together{}. Repeats of such content are sent again. {remedy}",
        counted(flows, "flow"),
        cache(held),
        bytes(carried),
        of_payload.map(|share| format!(" ({} of the payload)", percent(share))).unwrap_or_default()
    )
}

/// Why there is no advice on the cache, where savings still rise with its size.
fn rises(curve: &Curve) -> Option<String> {
    let &(largest, _) = curve.points.last().filter(|_| curve.rises())?;
    Some(format!(
        "Savings still rise at a cache of {}, the largest that was tried: try a larger one (--cache).",
        cache(largest)
    ))
}

fn length_of_trace(input: &Input) -> Option<String> {
    let length = number(input.duration, Unit::Seconds);
    if input.duration < 600.0 {
        return Some(format!(
            "The trace of {length} and {} is too short to represent a day: capture for hours.",
            bytes(input.wire_bytes)
        ));
    }
    if input.duration < A_DAY {
        return Some(
            "The trace is shorter than a day, and savings change with the hour.".to_owned(),
        );
    }
    (input.duration > YEAR).then(|| {
        format!(
            "By its timestamps, the trace lasts {:.0} years: it contains several traces, or some clocks are wrong. Figure 4 is \
             meaningless, and so would be a range over time.",
            input.duration / YEAR
        )
    })
}

fn little_payload(cut: f64, input: &Input, payload: u64) -> Option<String> {
    let share =
        share(payload, input.wire_bytes).filter(|share| *share < 0.5 && input.packets > 0)?;
    let rest = if cut > 0.0 {
        "headers, other protocols, or was not captured"
    } else {
        "headers and other protocols"
    };
    Some(format!("Only {} of the bytes are readable payload. The rest is {rest}.", percent(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_is_mentioned_when_there_is_much() {
        assert_eq!(encryption(None, None), None);
        assert_eq!(encryption(Some(0.19), Some((0.1, 0.2))), None);
        let said = |gain| encryption(Some(0.2), gain).unwrap();
        assert!(said(None).starts_with("20.0 % of the payload is encrypted"));
        assert!(said(None).ends_with("can reduce it.") && said(Some((0.0, 0.009))) == said(None));
        assert!(
            said(Some((0.05, 0.1))).contains("reduce it: 5.0 % to 10.0 % of all bytes more, if")
        );
        assert!(said(Some((0.1, 0.1))).contains("reduce it: 10.0 % of all bytes more, if"));
    }

    #[test]
    fn a_curve_that_still_rises_gives_no_advice() {
        let curve = |last, is_complete| Curve {
            points: vec![(64 << 10, 0.1), (128 << 10, 0.3), (256 << 10, last)],
            is_complete,
        };
        assert!(rises(&curve(0.4, false)).unwrap().contains("a cache of 262 kB"));
        assert_eq!(curve(0.4, false).knee(), None);
        for level in [curve(0.305, false), curve(0.4, true)] {
            assert!(rises(&level).is_none() && level.knee().is_some(), "{level:?}");
        }
    }
}
