//! The verdict: what to deploy, and what it would save.

use super::compare::share;
use super::plan::Key;
use super::{Pass, Settings};
use crate::algorithm::Algorithm;
use crate::batch::Direction;
use crate::figures::Finding;
use crate::figures::caches::Curve;
use crate::results::{Deploy, Input, LargeFlows, Money, Time, Verdict};
use crate::text::{bytes, count, percent};

/// Below this share nothing is worth deploying.
const WORTH: f64 = 0.05;
/// The tunnel is simpler to run than a packet link. It is chosen if it saves at least this share of
/// what the link would.
const TUNNEL_PREFERRED: f64 = 0.9;
/// A share of encrypted payload that is worth a sentence.
const MUCH_ENCRYPTED: f64 = 0.2;
/// Savings by opening deflate that are worth a sentence.
const MUCH_INSIDE: f64 = 0.005;
/// Seconds of a year.
const YEAR: f64 = 365.0 * 86_400.0;
/// Seconds of a month.
const MONTH: f64 = 30.0 * 86_400.0;

/// Savings as shares of all bytes on the wire.
#[derive(Clone, Copy, Debug)]
struct Savings {
    /// The reference algorithm.
    reference: f64,
    /// The tunnel, if it was measured.
    tunnel: Option<f64>,
    /// The packet link, if it was measured.
    link: Option<f64>,
}

impl Savings {
    /// The choice, and what it saves.
    fn choose(self) -> (Deploy, f64) {
        let Savings { reference, tunnel, link } = self;
        let best = [tunnel, link].into_iter().flatten().reduce(f64::max).unwrap_or(reference);
        if best < WORTH {
            return (Deploy::Nothing, best);
        }
        match (tunnel, link) {
            (Some(tunnel), Some(link)) if tunnel < link * TUNNEL_PREFERRED => {
                (Deploy::PacketLink, link)
            }
            (Some(tunnel), _) => (Deploy::Tunnel, tunnel),
            (None, Some(link)) => (Deploy::PacketLink, link),
            (None, None) => (Deploy::Tunnel, reference),
        }
    }

    /// A percentile of the reference's savings over time as one of a choice that saves `chosen` on
    /// average. The choice leaves a share of what the reference leaves, and is assumed to do so at
    /// all times.
    fn over_time(self, chosen: f64, at: f64) -> f64 {
        let left = (1.0 - chosen) / (1.0 - self.reference).max(f64::EPSILON);
        (1.0 - (1.0 - at) * left).clamp(0.0, 1.0)
    }
}

/// What the verdict reads of the figures. Each is `None` if its figure was not made.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// Tenth and ninetieth percentile of the reference's savings over time.
    spread: Option<(f64, f64)>,
    /// Share of the payload that is encrypted.
    encrypted: Option<f64>,
    /// Savings of caches at the hosts as a share of a shared cache's.
    hosts: Option<f64>,
    /// Share of the content of TCP flows that is deflate, and what opening it saves, as a share of
    /// all bytes on the wire.
    deflate: Option<(f64, f64)>,
}

impl Facts {
    fn of(findings: &[Finding]) -> Facts {
        let mut facts = Facts::default();
        for finding in findings {
            match finding {
                Finding::Temporal(found) => facts.spread = found.spread(),
                Finding::Irreducible(found) => facts.encrypted = found.total.encrypted_share(),
                Finding::Hosts(found) => facts.hosts = found.total.hosts_share(),
                Finding::Deflate(found) => {
                    facts.deflate = found.total.deflate_share().zip(found.on_top());
                }
                _ => {}
            }
        }
        facts
    }
}

pub(super) fn verdict(pass: &Pass, input: &Input, findings: &[Finding]) -> Verdict {
    let settings = &pass.settings;
    let facts = Facts::of(findings);
    let found = Savings {
        reference: pass.savings(&settings.reference()).unwrap_or(0.0),
        tunnel: pass.savings(&Key::Other(Algorithm::Tunnel)),
        link: pass.savings(&Key::Other(Algorithm::Packets)),
    };
    let (deploy, savings) = found.choose();
    let curve = pass.curve();
    let cache = if deploy == Deploy::Nothing { None } else { curve.knee() };
    let spread = facts.spread.filter(|_| found.reference > 0.0);
    let spread =
        spread.map(|(low, high)| (found.over_time(savings, low), found.over_time(savings, high)));
    let large_flows = pass.flow_sizes.larger_than(cache.unwrap_or(settings.cache));
    let payload = pass.volumes.iter().map(|volume| volume.payload).sum();

    let mut reasons = vec![choice(deploy, found)];
    reasons.extend(cache.map(|size| cache_size(size, &curve)));
    reasons.extend(large_flows.map(|flows| beyond_the_cache(&flows, &curve, payload)));
    reasons.extend(facts.deflate.and_then(deflate));
    reasons.extend(encryption(facts.encrypted));
    // Figure 12 says what caches at the hosts would save. Figure 7 only knows the most recent copy,
    // and older ones may be nearer.
    reasons.extend(facts.hosts.filter(|_| deploy != Deploy::Nothing).map(caches_at_hosts));
    reasons.extend(length_of_trace(input));
    reasons.extend(little_payload(input, payload));
    Verdict {
        deploy,
        headline: headline(deploy, found, savings, spread),
        reasons,
        cache,
        large_flows,
        savings,
        spread,
        money: money(settings, input, deploy, savings),
        time: time(pass, deploy, savings),
    }
}

fn headline(deploy: Deploy, found: Savings, savings: f64, spread: Option<(f64, f64)>) -> String {
    let range = spread
        .map(|(low, high)| format!(" ({} to {} over time)", percent(low), percent(high)))
        .unwrap_or_default();
    let saved = percent(savings);
    match (deploy, found.tunnel) {
        (Deploy::Tunnel, _) => {
            format!("Deploy the tunnel: it would save {saved}{range} of all bytes on the wire.")
        }
        (Deploy::Nothing, _) => format!(
            "Deploy nothing here: at best, {saved} of all bytes on the wire would be saved."
        ),
        (Deploy::PacketLink, Some(tunnel)) if tunnel >= WORTH => format!(
            "Deploy the tunnel: it would save {} of all bytes on the wire. A packet link, which is not built yet, would save {saved}{range}.",
            percent(tunnel)
        ),
        (Deploy::PacketLink, Some(tunnel)) => format!(
            "Deploy nothing yet: the tunnel would save {} of all bytes on the wire. A packet link, which is not built yet, would save \
             {saved}{range}.",
            percent(tunnel)
        ),
        (Deploy::PacketLink, None) => format!(
            "A packet link, which is not built yet, would save {saved}{range} of all bytes on the wire. The tunnel was not measured."
        ),
    }
}

/// Why this choice, and the next step.
fn choice(deploy: Deploy, found: Savings) -> String {
    const NEXT: &str = "Next: run `oncewire serve` at one end and `oncewire connect` at the other.";
    const MEASURE: &str =
        "`oncewire study --figures algorithms --algorithms oncewire-tunnel,oncewire-link`";
    let Savings { reference, tunnel, link } = found;
    match (deploy, tunnel) {
        (Deploy::Tunnel, None) => format!(
            "Max-match, as published, saves {}. Oncewire's own codec was not measured; {MEASURE} does that.",
            percent(reference)
        ),
        (Deploy::Tunnel, Some(tunnel)) => format!(
            "Oncewire's codec over TCP flows saves {}; max-match alone, as published, saves {}. {NEXT}",
            percent(tunnel),
            percent(reference)
        ),
        (Deploy::PacketLink, tunnel) => {
            let next = match tunnel {
                Some(tunnel) if tunnel >= WORTH => {
                    format!("the tunnel saves {}. {NEXT}", percent(tunnel))
                }
                Some(tunnel) => format!(
                    "the tunnel saves {}, which is not worth two more hosts in the path.",
                    percent(tunnel)
                ),
                None => format!("the tunnel was not measured; {MEASURE} does that."),
            };
            format!(
                "A packet link would also reduce UDP and flows of few packets, and would save {}. It is not built yet; {next}",
                percent(link.unwrap_or(0.0))
            )
        }
        (Deploy::Nothing, _) => "Less than 5 % is not worth two more hosts in the path.".to_owned(),
    }
}

fn cache_size(size: u64, curve: &Curve) -> String {
    format!(
        "The knee of the curve is a cache of {} in each direction: max-match saves {} with it, and {} with the largest cache tried. \
         Configure at least that much, and more where memory is cheap.",
        bytes(size),
        percent(curve.at(size).unwrap_or(0.0)),
        percent(curve.most())
    )
}

fn beyond_the_cache(flows: &LargeFlows, curve: &Curve, payload: u64) -> String {
    let LargeFlows { cache, flows, bytes: carried, largest } = *flows;
    let points = &curve.points;
    let larger = points
        .iter()
        .find(|&&(size, _)| size >= largest)
        .or(points.last())
        .filter(|&&(size, _)| size > cache);
    let remedy = match (curve.at(cache), larger) {
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
                bytes(size)
            )
        }
        _ => format!(
            "That takes a cache larger than {}; figure 3 shows what larger caches save.",
            bytes(largest)
        ),
    };
    let of_payload = share(carried, payload).filter(|share| *share < 1.0);
    format!(
        "{} carried more than a cache of {} holds, {} together{}. When such content repeats, its first copy has just been evicted, so \
         all of it is sent again. {remedy}",
        count(flows, "flow"),
        bytes(cache),
        bytes(carried),
        of_payload.map(|share| format!(" ({} of the payload)", percent(share))).unwrap_or_default()
    )
}

/// What of the tunnel's savings comes from opening deflate streams, if that is worth a sentence.
fn deflate((share, on_top): (f64, f64)) -> Option<String> {
    (on_top >= MUCH_INSIDE).then(|| {
        format!(
            "{} of the content of TCP flows was compressed by its sender (deflate or zstd). The tunnel looks inside, which saves {} of all bytes on \
             the wire, counted above; with `--inside off` that is lost.",
            percent(share),
            percent(on_top)
        )
    })
}

fn encryption(encrypted: Option<f64>) -> Option<String> {
    let encrypted = encrypted.filter(|share| *share >= MUCH_ENCRYPTED)?;
    Some(format!(
        "{} of the payload is encrypted, and no device on the path can reduce it. If you run the servers, put the tunnel in front of the \
         encryption. This study cannot see what repeats inside.",
        percent(encrypted)
    ))
}

fn caches_at_hosts(share: f64) -> String {
    format!(
        "Caches at the hosts, one for each pair, would save {} of what max-match saves with one shared cache: {}",
        percent(share),
        if share > 0.75 {
            "consider a tunnel between the hosts themselves."
        } else {
            "the benefit comes from a cache that many hosts share, at the edge of the network."
        }
    )
}

fn length_of_trace(input: &Input) -> Option<String> {
    let seconds = input.duration;
    if seconds < 600.0 {
        let digits = usize::from(seconds < 10.0);
        return Some(format!(
            "The trace lasts {seconds:.digits$} s and has {}, too little to represent a day of this link. Capture for hours: the first copy \
             of content saves nothing, so a longer trace usually saves more.",
            bytes(input.wire_bytes)
        ));
    }
    if seconds < 0.9 * 86_400.0 {
        return Some(
            "The trace is shorter than a day, and savings change with the hour.".to_owned(),
        );
    }
    (seconds > YEAR).then(|| {
        format!(
            "By its timestamps, the trace lasts {:.0} years: it contains several traces, or some clocks are wrong. Results that depend on \
             time (figure 4, the range over time, money) are meaningless.",
            seconds / YEAR
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

fn money(settings: &Settings, input: &Input, deploy: Deploy, savings: f64) -> Option<Money> {
    let per_gigabyte = settings.price.filter(|_| input.duration >= 1.0)?;
    let month = input.wire_bytes as f64 / input.duration * MONTH / 1e9 * per_gigabyte;
    let saved = if deploy == Deploy::Nothing { 0.0 } else { savings };
    Some(Money { per_gigabyte, month_before: month, month_after: month * (1.0 - saved) })
}

fn time(pass: &Pass, deploy: Deploy, savings: f64) -> Option<Time> {
    let link = pass.settings.link.filter(|&link| link > 0.0)?;
    let tally = match deploy {
        Deploy::Tunnel => pass.tally(&Key::Other(Algorithm::Tunnel)),
        Deploy::PacketLink => pass.tally(&Key::Other(Algorithm::Packets)),
        Deploy::Nothing => None,
    };
    let directions = Direction::ALL.into_iter().map(|direction| {
        let wire = pass.volumes[direction.index()].wire;
        let saved = match (tally, deploy) {
            (Some(tally), _) => tally.of(direction),
            (None, Deploy::Nothing) => 0,
            (None, _) => (wire as f64 * savings) as u64,
        };
        (wire, wire - saved.min(wire))
    });
    let (before, after) = directions.max_by_key(|&(wire, _)| wire)?;
    Some(Time {
        link,
        busy_before: before as f64 * 8.0 / link,
        busy_after: after as f64 * 8.0 / link,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_link_is_never_something_to_deploy() {
        let commands = ["serve", "connect", "study"];
        for tunnel in [None, Some(0.01), Some(0.2)] {
            let found = Savings { reference: 0.3, tunnel, link: Some(0.4) };
            let (deploy, savings) = found.choose();
            assert_eq!((deploy, savings), (Deploy::PacketLink, 0.4));
            for text in [headline(deploy, found, savings, None), choice(deploy, found)] {
                assert!(
                    !text.contains("Deploy the packet link") && text.contains("not built yet"),
                    "{text}"
                );
                for command in text.split("`oncewire ").skip(1) {
                    assert!(commands.iter().any(|known| command.starts_with(known)), "{text}");
                }
            }
        }
        let found = Savings { reference: 0.3, tunnel: Some(0.2), link: Some(0.4) };
        assert!(
            headline(Deploy::PacketLink, found, 0.4, None)
                .starts_with("Deploy the tunnel: it would save 20.0 %")
        );
    }

    #[test]
    fn encryption_is_mentioned_when_there_is_much() {
        assert_eq!(encryption(None), None);
        assert_eq!(encryption(Some(0.19)), None);
        assert!(encryption(Some(0.2)).unwrap().starts_with("20.0 % of the payload is encrypted"));
    }
}
