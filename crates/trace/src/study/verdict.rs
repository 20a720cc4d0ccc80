//! The verdict: whether to deploy the tunnel or the packet link, and what it would save. All its
//! numbers are of the product that it names, the tunnel if it recommends nothing; a sentence about
//! something else names it.

use super::plan::Key;
use super::{Pass, Settings};
use crate::algorithm::Algorithm;
use crate::batch::Direction;
use crate::figures::Finding;
use crate::figures::caches::Curve;
use crate::results::{Billing, CostOf, Deploy, Input, LargeFlows, Money, Time, Verdict};
use oncewire_report::Unit;
use oncewire_report::format::{bytes, cache, counted, number, points, share as percent};

/// Below this share nothing is worth deploying.
const WORTH: f64 = 0.05;
/// What the packet link must save beyond the tunnel: it takes more of the host, and each of its
/// datagrams has headers and a seal.
const MUCH_MORE: f64 = 0.02;
/// Share of bytes outside the networks of `--inside` that is worth a sentence.
const MUCH_OUTSIDE: f64 = 0.05;
/// The same for bytes of a family of which no network is inside.
const FAMILY_OUTSIDE: f64 = 0.01;
/// Seconds of a trace that stands for a month.
const A_DAY: f64 = 0.9 * 86_400.0;
/// A share of encrypted payload that is worth a sentence.
const MUCH_ENCRYPTED: f64 = 0.2;
/// A share of what a shared cache saves that makes caches at the hosts worth a sentence.
const MUCH_AT_HOSTS: f64 = 0.9;
/// Savings by opening deflate that are worth a sentence.
const MUCH_INSIDE: f64 = 0.005;
/// Seconds of a year.
const YEAR: f64 = 365.0 * 86_400.0;
/// Seconds of a month.
const MONTH: f64 = 30.0 * 86_400.0;

/// What the verdict reads of the figures. Each is `None` if its figure was not made.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// Share of the payload that is encrypted.
    encrypted: Option<f64>,
    /// Savings of caches at the hosts as a share of a shared cache's.
    hosts: Option<f64>,
    /// What opening compressed streams saves, as a share of all bytes on the wire.
    deflate: Option<f64>,
}

impl Facts {
    fn of(findings: &[Finding]) -> Facts {
        let mut facts = Facts::default();
        for finding in findings {
            match finding {
                Finding::Irreducible(found) => facts.encrypted = found.total.encrypted_share(),
                Finding::Hosts(found) => facts.hosts = found.total.hosts_share(),
                Finding::Deflate(found) => facts.deflate = found.on_top(),
                _ => {}
            }
        }
        facts
    }
}

/// What a study of these results recommends.
pub(super) fn verdict(pass: &Pass, input: &Input, findings: &[Finding]) -> Verdict {
    let settings = &pass.settings;
    let facts = Facts::of(findings);
    let tunnel = pass.savings(&Key::Other(Algorithm::Tunnel)).unwrap_or(0.0);
    let packet_link = pass.savings(&Key::Other(Algorithm::Packets));
    let deploy = choose(tunnel, packet_link);
    let product = Key::Other(match deploy {
        Deploy::Link => Algorithm::Packets,
        Deploy::Tunnel | Deploy::Nothing => Algorithm::Tunnel,
    });
    let savings = pass.savings(&product).unwrap_or(0.0);
    let over_time = pass.over_time(&product).unwrap_or_default();
    let curve = pass.curve();
    let knee = curve.knee().filter(|_| deploy != Deploy::Nothing);
    let large_flows = pass.flow_sizes.larger_than(knee.unwrap_or(settings.cache));
    let payload = pass.volumes.iter().map(|volume| volume.payload).sum();
    let billing = over_time.billed.map(|of| Billing {
        bucket: of.bucket,
        before: of.before,
        after: of.after,
        savings: of.savings(),
    });

    let mut reasons = vec![next(deploy)];
    reasons.extend(directions(pass));
    reasons.extend((deploy == Deploy::Link).then(|| beyond_the_tunnel(tunnel)));
    reasons.extend(large_flows.map(|flows| beyond_the_cache(&flows, &curve, payload)));
    // The link does not open them.
    reasons.extend(facts.deflate.filter(|_| deploy != Deploy::Link).and_then(deflate));
    reasons.extend(encryption(facts.encrypted));
    // Figure 12 says what caches at the hosts would save. Figure 7 only knows the most recent copy,
    // and older ones may be nearer.
    reasons.extend(facts.hosts.filter(|_| deploy != Deploy::Nothing).and_then(caches_at_hosts));
    reasons.extend(length_of_trace(input));
    reasons.extend(little_payload(input, payload));
    Verdict {
        deploy,
        headline: headline(deploy, savings),
        reasons,
        cache: knee,
        large_flows,
        savings,
        spread: over_time.range,
        billing,
        money: money(settings, input, savings),
        time: time(pass, &product),
        packet_link,
    }
}

/// What to deploy, by the savings of tunnel and packet link.
fn choose(tunnel: f64, link: Option<f64>) -> Deploy {
    match link {
        Some(link) if link >= WORTH && link >= tunnel + MUCH_MORE => Deploy::Link,
        _ if tunnel >= WORTH => Deploy::Tunnel,
        _ => Deploy::Nothing,
    }
}

fn headline(deploy: Deploy, savings: f64) -> String {
    let what = match deploy {
        Deploy::Tunnel => "the tunnel: it",
        Deploy::Link => "the packet link: it",
        Deploy::Nothing => "nothing: the tunnel",
    };
    format!("Deploy {what} would save {} of all bytes on the wire.", percent(savings))
}

/// The next step.
fn next(deploy: Deploy) -> String {
    match deploy {
        Deploy::Tunnel => {
            "Next: run `oncewire serve` at one end and `oncewire connect` at the other."
        }
        Deploy::Link => "Next: run `oncewire link` at both ends.",
        Deploy::Nothing => "Less than 5 % is not worth two more hosts in the path.",
    }
    .to_owned()
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

/// What the tunnel would save, if the packet link is recommended.
fn beyond_the_tunnel(tunnel: f64) -> String {
    format!(
        "The link carries whole packets, UDP too, and its encryption is counted. The tunnel, for TCP only, would save {}.",
        percent(tunnel)
    )
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
            "That takes a cache larger than {}; figure 3 shows what larger caches save.",
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

/// What of the tunnel's savings comes from opening compressed streams, if that is worth a sentence.
fn deflate(on_top: f64) -> Option<String> {
    (on_top >= MUCH_INSIDE)
        .then(|| format!("{} of the savings come from opening compressed content.", points(on_top)))
}

fn encryption(encrypted: Option<f64>) -> Option<String> {
    let encrypted = encrypted.filter(|share| *share >= MUCH_ENCRYPTED)?;
    Some(format!(
        "{} of the payload is encrypted. Only a tunnel in front of the encryption can reduce it.",
        percent(encrypted)
    ))
}

/// Where caches could be as well. Figure 12 has the numbers.
fn caches_at_hosts(share: f64) -> Option<String> {
    let saved = match share {
        share if share < MUCH_AT_HOSTS => return None,
        share if share < 1.0 => format!("{} of what a shared one saves", percent(share)),
        _ => "as much as a shared one".to_owned(),
    };
    Some(format!("Caches for each pair of hosts would save {saved}."))
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
            "By its timestamps, the trace lasts {:.0} years: it contains several traces, or some clocks are wrong. Figure 4, the range over \
             time and the 95th percentile are meaningless.",
            input.duration / YEAR
        )
    })
}

fn little_payload(input: &Input, payload: u64) -> Option<String> {
    let share =
        share(payload, input.wire_bytes).filter(|share| *share < 0.5 && input.packets > 0)?;
    Some(format!(
        "Only {} of the bytes are readable payload. The rest is headers, other protocols, or was not captured (capture with `-s 0`).",
        percent(share)
    ))
}

/// The cost of 30 days only if the trace can stand for them.
fn money(settings: &Settings, input: &Input, savings: f64) -> Option<Money> {
    let per_gigabyte = settings.price?;
    let (of, gigabytes) = if (A_DAY..=YEAR).contains(&input.duration) {
        (CostOf::Month, input.wire_bytes as f64 / input.duration * MONTH / 1e9)
    } else {
        (CostOf::Terabyte, 1000.0)
    };
    let before = gigabytes * per_gigabyte;
    Some(Money { per_gigabyte, of, before, after: before * (1.0 - savings) })
}

fn time(pass: &Pass, tunnel: &Key) -> Option<Time> {
    let link = pass.settings.link.filter(|&link| link > 0.0)?;
    let tally = pass.tally(tunnel)?;
    let directions = Direction::ALL.into_iter().map(|direction| {
        let wire = pass.volumes[direction.index()].wire;
        (wire, wire - tally.of(direction).min(wire))
    });
    let (before, after) = directions.max_by_key(|&(wire, _)| wire)?;
    Some(Time {
        link,
        busy_before: before as f64 * 8.0 / link,
        busy_after: after as f64 * 8.0 / link,
    })
}

/// Part of a whole. `None` if the whole is zero.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_link_is_recommended_if_it_saves_much_more() {
        assert_eq!(choose(0.40, Some(0.419)), Deploy::Tunnel);
        assert_eq!(choose(0.40, Some(0.421)), Deploy::Link);
        assert_eq!(choose(0.04, Some(0.049)), Deploy::Nothing);
        assert_eq!(choose(0.01, Some(0.05)), Deploy::Link);
        assert_eq!((choose(0.05, None), choose(0.049, None)), (Deploy::Tunnel, Deploy::Nothing));
    }

    #[test]
    fn encryption_is_mentioned_when_there_is_much() {
        assert_eq!(encryption(None), None);
        assert_eq!(encryption(Some(0.19)), None);
        assert!(encryption(Some(0.2)).unwrap().starts_with("20.0 % of the payload is encrypted"));
    }

    #[test]
    fn caches_at_hosts_are_mentioned_when_they_would_do() {
        assert_eq!((caches_at_hosts(0.58), caches_at_hosts(0.89)), (None, None));
        assert!(caches_at_hosts(0.9).unwrap().contains("would save 90.0 % of what a shared"));
        assert!(caches_at_hosts(1.2).unwrap().contains("as much as a shared"));
    }

    #[test]
    fn a_short_trace_has_no_month() {
        let settings = Settings { price: Some(0.1), ..Settings::default() };
        let of = |duration| {
            let input = Input { duration, wire_bytes: 2_000_000_000, ..Input::default() };
            money(&settings, &input, 0.5).unwrap()
        };
        for short in [0.0, 69.0, 70_000.0, 2.0 * YEAR] {
            assert_eq!(
                (of(short).of, of(short).before, of(short).after),
                (CostOf::Terabyte, 100.0, 50.0)
            );
        }
        // 2 GB a day.
        let month = of(86_400.0);
        assert_eq!(month.of, CostOf::Month);
        assert!((month.before - 6.0).abs() < 1e-9 && (month.after - 3.0).abs() < 1e-9, "{month:?}");
    }
}
