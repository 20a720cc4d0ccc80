//! The verdict: whether to deploy the tunnel or the packet link, and what it would save. All its
//! numbers are of the product that it names, the tunnel if it recommends nothing; a sentence about
//! something else names it.
//!
//! It reads what every study measures, so it does not depend on the figures that were asked for.

mod reasons;

use super::plan::Key;
use super::{Pass, Settings};
use crate::algorithm::Algorithm;
use crate::batch::Direction;
use crate::figures::Finding;
use crate::figures::caches::Curve;
use crate::figures::irreducible::Reducibility;
use crate::results::{Accounting, Billing, CostOf, Deploy, Input, Money, Time, Unknown, Verdict};
use oncewire_report::format::share as percent;

/// Below this share nothing is worth deploying.
const WORTH: f64 = 0.05;
/// What the packet link must save beyond the tunnel: it takes more of the host, and each of its
/// datagrams has headers and a seal.
const MUCH_MORE: f64 = 0.02;
/// Share of the bytes that a capture may lack, and still be judged.
const LITTLE_CUT: f64 = 0.1;
/// Share of the bytes in link types that are not read above which nothing is judged.
const MUCH_UNREAD: f64 = 0.5;
/// Share of the bytes of TCP segments that a capture may have twice, and still be judged. Where each
/// is there twice, it is a half.
const MUCH_DOUBLED: f64 = 0.05;
/// Seconds of a trace that stands for a month.
const A_DAY: f64 = 0.9 * 86_400.0;
/// Seconds of a year.
pub(super) const YEAR: f64 = 365.0 * 86_400.0;
/// Seconds of a month.
const MONTH: f64 = 30.0 * 86_400.0;

/// What the sentences of a verdict are made of.
struct Facts<'a> {
    pass: &'a Pass,
    input: &'a Input,
    deploy: Deploy,
    /// Savings of the product that the verdict is about.
    savings: f64,
    tunnel: f64,
    link: f64,
    curve: Curve,
    /// Share of all bytes on the wire that were not captured.
    cut: f64,
    /// Why nothing can be said.
    unknown: Option<Unknown>,
    confidence: Option<(f64, f64)>,
    reducibility: Option<&'a Reducibility>,
}

/// What a study of these results recommends.
pub(super) fn verdict(
    pass: &Pass,
    input: &Input,
    accounting: &Accounting,
    findings: &[Finding],
) -> Verdict {
    let settings = &pass.settings;
    let of = |algorithm| pass.savings(&Key::Other(algorithm)).unwrap_or(0.0);
    let (tunnel, link) = (of(Algorithm::Tunnel), of(Algorithm::Packets));
    let choice = choose(tunnel, link);
    let (algorithm, savings) = match choice {
        Deploy::Link => (Algorithm::Packets, link),
        _ => (Algorithm::Tunnel, tunnel),
    };
    let product = Key::Other(algorithm);
    let cut = share(input.wire_bytes.saturating_sub(input.captured_bytes), input.wire_bytes);
    let cut = cut.unwrap_or(0.0);
    let unread = share(accounting.unsupported, input.wire_bytes).unwrap_or(0.0);
    let doubled = pass.doubled.share().unwrap_or(0.0);
    let unknown = unknown(savings, cut, unread, doubled);
    let deploy = if unknown.is_some() { Deploy::CannotSay } else { choice };
    // Of a part of the bytes, or by clocks that are wrong, nothing is known over time.
    let is_known = unknown.is_none() && input.duration <= YEAR;
    let over_time = pass.over_time(&product).filter(|_| is_known).unwrap_or_default();
    let curve = pass.curve();
    let has_cache = matches!(deploy, Deploy::Tunnel | Deploy::Link);
    let knee = curve.knee().filter(|_| has_cache);
    let large_flows = pass
        .flow_sizes
        .larger_than(knee.unwrap_or(settings.cache))
        .filter(|flows| unknown.is_none() && reasons::cost_savings(flows, &curve));
    let reducibility = findings.iter().find_map(|finding| match finding {
        Finding::Irreducible(found) => Some(found),
        _ => None,
    });
    let headline = match unknown {
        Some(Unknown::LinkType) => {
            format!(
                "Cannot say: {} of the bytes are of a link type that is not read.",
                percent(unread)
            )
        }
        Some(Unknown::Cut) => {
            format!("Cannot say: {} of the bytes were not captured.", percent(cut))
        }
        Some(Unknown::Doubled) => {
            format!(
                "Cannot say: {} of the bytes of TCP are copies of a packet just before.",
                percent(doubled)
            )
        }
        None => headline(deploy, savings),
    };
    let facts = Facts {
        pass,
        input,
        deploy,
        savings,
        tunnel,
        link,
        curve,
        cut,
        unknown,
        confidence: over_time.confidence,
        reducibility,
    };
    Verdict {
        deploy,
        unknown,
        headline,
        reasons: facts.reasons(large_flows.as_ref()),
        cache: knee,
        cache_seconds: knee.and_then(|cache| Some(cache as f64 / pass.rate(input)?)),
        large_flows,
        savings,
        spread: over_time.range,
        spread_seconds: over_time.range.map(|_| over_time.width),
        confidence: over_time.confidence,
        billing: over_time.billed.map(|of| Billing {
            bucket: of.bucket,
            before: of.before,
            after: of.after,
            savings: of.savings(),
        }),
        money: money(settings, input, savings).filter(|_| deploy != Deploy::CannotSay),
        time: time(pass, &product).filter(|_| deploy != Deploy::CannotSay),
        tunnel,
        packet_link: link,
    }
}

/// What to deploy, by the savings of tunnel and packet link.
fn choose(tunnel: f64, link: f64) -> Deploy {
    match () {
        () if link >= WORTH && link >= tunnel + MUCH_MORE => Deploy::Link,
        () if tunnel >= WORTH => Deploy::Tunnel,
        () => Deploy::Nothing,
    }
}

/// Why nothing can be said, if the capture lacks too much or shows too much twice: by what was saved
/// of the rest, and shares of bytes that were cut off, are of a link type that is not read, and are
/// copies among TCP segments.
fn unknown(savings: f64, cut: f64, unread: f64, doubled: f64) -> Option<Unknown> {
    // What repeats in the rest may, or may not, repeat in what is missing.
    let decides = savings < WORTH && savings + cut >= WORTH;
    match () {
        () if unread >= MUCH_UNREAD => Some(Unknown::LinkType),
        () if cut >= LITTLE_CUT || decides => Some(Unknown::Cut),
        () if doubled >= MUCH_DOUBLED => Some(Unknown::Doubled),
        () => None,
    }
}

fn headline(deploy: Deploy, savings: f64) -> String {
    let what = match deploy {
        Deploy::Tunnel => "the tunnel: it",
        Deploy::Link => "the packet link: it",
        Deploy::Nothing | Deploy::CannotSay => "nothing: the tunnel",
    };
    format!("Deploy {what} would save {} of all bytes on the wire.", percent(savings))
}

/// The cost of 30 days only if the trace can stand for them.
fn money(settings: &Settings, input: &Input, savings: f64) -> Option<Money> {
    let per_gigabyte = settings.price?;
    let is_whole = (A_DAY..=YEAR).contains(&input.duration) && !settings.is_sample;
    let (of, gigabytes) = if is_whole {
        (CostOf::Month, input.wire_bytes as f64 / input.duration * MONTH / 1e9)
    } else {
        (CostOf::Terabyte, 1000.0)
    };
    let before = gigabytes * per_gigabyte;
    Some(Money { per_gigabyte, of, before, after: before * (1.0 - savings) })
}

fn time(pass: &Pass, product: &Key) -> Option<Time> {
    let link = pass.settings.link.filter(|&link| link > 0.0)?;
    let tally = pass.tally(product)?;
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
        assert_eq!(choose(0.40, 0.419), Deploy::Tunnel);
        assert_eq!(choose(0.40, 0.421), Deploy::Link);
        assert_eq!(choose(0.04, 0.049), Deploy::Nothing);
        assert_eq!(choose(0.01, 0.05), Deploy::Link);
        assert_eq!((choose(0.05, 0.0), choose(0.049, 0.0)), (Deploy::Tunnel, Deploy::Nothing));
    }

    #[test]
    fn nothing_is_said_about_what_was_not_captured() {
        assert_eq!(unknown(0.3, 0.09, 0.4, 0.04), None);
        assert_eq!(unknown(0.3, 0.1, 0.0, 0.0), Some(Unknown::Cut));
        assert_eq!(unknown(0.3, 0.0, 0.5, 0.0), Some(Unknown::LinkType));
        assert_eq!(unknown(0.3, 0.0, 0.0, 0.5), Some(Unknown::Doubled));
        // A little is enough where it decides.
        assert_eq!(unknown(0.02, 0.04, 0.0, 0.0), Some(Unknown::Cut));
        let enough = (unknown(0.02, 0.02, 0.0, 0.0), unknown(0.06, 0.04, 0.0, 0.0));
        assert_eq!(enough, (None, None));
    }

    #[test]
    fn a_short_trace_or_a_sample_has_no_month() {
        let settings = Settings { price: Some(0.1), ..Settings::default() };
        let of = |settings: &Settings, duration| {
            let input = Input { duration, wire_bytes: 2_000_000_000, ..Input::default() };
            money(settings, &input, 0.5).unwrap()
        };
        for short in [0.0, 69.0, 70_000.0, 2.0 * YEAR] {
            let money = of(&settings, short);
            assert_eq!((money.of, money.before, money.after), (CostOf::Terabyte, 100.0, 50.0));
        }
        // 2 GB a day.
        let month = of(&settings, 86_400.0);
        assert_eq!(month.of, CostOf::Month);
        assert!((month.before - 6.0).abs() < 1e-9 && (month.after - 3.0).abs() < 1e-9, "{month:?}");
        let sample = Settings { is_sample: true, ..settings };
        assert_eq!(of(&sample, 86_400.0).of, CostOf::Terabyte);
    }
}
