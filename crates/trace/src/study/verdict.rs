//! The verdict: what to deploy, and what it would bring.

use super::compare::{bytes, knee, larger, percent, share};
use super::plan::Key;
use super::{Algorithm, Pass};
use crate::results::{Cell, Deploy, Figure, Input, LargeFlows, Money, Time, Verdict};

/// Below this share nothing is worth deploying.
const WORTH: f64 = 0.05;
/// The tunnel is simpler to run than the packet link; it is advised if it saves at least this share of what the link would.
const TUNNEL_PREFERRED: f64 = 0.9;
/// Seconds of a year.
const YEAR: f64 = 365.0 * 86_400.0;
/// Seconds of a month.
const MONTH: f64 = 30.0 * 86_400.0;

/// A number from a figure's table: of the row that begins with `row`, in the column of that name.
fn cell(figures: &[Figure], figure: &str, table: &str, row: &str, column: &str) -> Option<f64> {
    let figure = figures.iter().find(|candidate| candidate.id == figure)?;
    let table = figure.tables.iter().find(|candidate| candidate.id == table)?;
    let column = table.columns.iter().position(|candidate| candidate.name == column)?;
    let row = table.rows.iter().find(|candidate| candidate.first() == Some(&Cell::from(row)))?;
    match row.get(column)? {
        Cell::Number(number) => Some(*number),
        Cell::Count(count) => Some(*count as f64),
        _ => None,
    }
}

pub(super) fn verdict(pass: &Pass, input: &Input, figures: &[Figure]) -> Verdict {
    let settings = &pass.settings;
    let reference = pass.savings(&settings.reference()).unwrap_or(0.0);
    let tunnel = pass.savings(&Key::Other(Algorithm::Tunnel));
    let link = pass.savings(&Key::Other(Algorithm::Packets));
    let best = larger(tunnel, link).unwrap_or(reference);
    let (deploy, savings) = if best < WORTH {
        (Deploy::Nothing, best)
    } else {
        match (tunnel, link) {
            (Some(tunnel), Some(link)) if tunnel < link * TUNNEL_PREFERRED => (Deploy::PacketLink, link),
            (Some(tunnel), _) => (Deploy::Tunnel, tunnel),
            (None, Some(link)) => (Deploy::PacketLink, link),
            (None, None) => (Deploy::Tunnel, reference),
        }
    };
    let curve = pass.curve();
    let cache = if deploy == Deploy::Nothing { None } else { knee(&curve) };
    let spread = cell(figures, "temporal", "spread", "p10", "savings").zip(cell(figures, "temporal", "spread", "p90", "savings"));
    // The spread was measured on the reference algorithm. What is advised leaves a share of what that leaves, and is taken to do so at all times.
    let left = (1.0 - savings) / (1.0 - reference).max(f64::EPSILON);
    let advised = |at: f64| (1.0 - (1.0 - at) * left).clamp(0.0, 1.0);
    let spread = spread.filter(|_| reference > 0.0).map(|(low, high)| (advised(low), advised(high)));
    let range = spread.map(|(low, high)| format!(" ({} to {} over time)", percent(low), percent(high))).unwrap_or_default();
    let headline = match deploy {
        Deploy::Tunnel => format!("Deploy the tunnel: it would save {}{range} of all bytes on the wire.", percent(savings)),
        Deploy::PacketLink => {
            format!("Deploy the packet link: it would save {}{range} of all bytes on the wire.", percent(savings))
        }
        Deploy::Nothing => format!("Deploy nothing here: at best {} of all bytes on the wire would be saved.", percent(savings)),
    };
    let mut reasons = Vec::new();
    match deploy {
        Deploy::Tunnel if tunnel.is_none() => reasons.push(format!(
            "Max-match, as the papers have it, saves {}. Our own codec was not measured: with figure 1 and the algorithms oncewire-tunnel and \
             oncewire-link, the study says what it would save, and whether the packet link does better.",
            percent(savings)
        )),
        Deploy::Tunnel => reasons.push(format!(
            "Our codec over TCP flows saves {}; max-match alone, as the papers have it, {}. Next: `oncewire serve` at one end and `oncewire \
             connect` at the other.",
            percent(savings),
            percent(reference)
        )),
        Deploy::PacketLink => reasons.push(format!(
            "The packet link reduces UDP and flows of few packets too: {}; the tunnel {}. It needs packets to be routed through it at both ends, and is \
             not part of this version yet: until then, the tunnel.",
            percent(savings),
            tunnel.map_or("was not measured".to_owned(), |tunnel| format!("would save {}", percent(tunnel)))
        )),
        Deploy::Nothing => reasons.push("Less than 5 % is not worth two more boxes in the path.".to_owned()),
    }
    if let Some(size) = cache {
        let at = |wanted| curve.iter().find(|&&(size, _)| size == wanted).map_or(0.0, |&(_, savings)| savings);
        reasons.push(format!(
            "The knee of the curve is a cache of {} in each direction: max-match saves {} with it, {} with the largest tried. Give it that much \
             at least, and more where memory is cheap.",
            bytes(size),
            percent(at(size)),
            percent(curve.last().map_or(0.0, |&(_, savings)| savings))
        ));
    }
    let large_flows = pass.flow_sizes.larger_than(cache.unwrap_or(settings.cache));
    if let Some(LargeFlows { cache, flows, bytes: carried, largest }) = large_flows {
        let payload = pass.volumes.iter().map(|volume| volume.payload).sum();
        let more = curve.iter().find(|&&(size, _)| size >= largest).or(curve.last()).filter(|&&(size, _)| size > cache);
        let at = |wanted| curve.iter().find(|&&(size, _)| size == wanted).map(|&(_, savings)| savings);
        reasons.push(format!(
            "{} carried more than a cache of {} holds, {} in all{}: when their content comes again, what follows has just been dropped, and is sent \
             as if it were new.{}",
            if flows == 1 { "One flow".to_owned() } else { format!("{flows} flows") },
            bytes(cache),
            bytes(carried),
            share(carried, payload).filter(|share| *share < 1.0).map_or(String::new(), |share| format!(" ({} of the payload)", percent(share))),
            match (at(cache), more) {
                (Some(now), Some(&(size, then))) => format!(
                    " Max-match saves {} with that cache, and {} with one of {}{}.",
                    percent(now),
                    percent(then),
                    bytes(size),
                    if size < largest { format!(", still less than the largest flow's {}", bytes(largest)) } else { String::new() }
                ),
                _ => format!(" It takes a cache larger than {}; figure 3 says what larger ones save.", bytes(largest)),
            }
        ));
    }
    if let Some(encrypted) = cell(figures, "irreducible", "classes", "recognised encryption", "share of payload")
        && encrypted >= 0.2
    {
        reasons.push(format!(
            "{} of the payload is encrypted: neither end of a link can reduce it. Where you hold the servers, put the tunnel in front of the \
             encryption: what repeats inside is not seen from here.",
            percent(encrypted)
        ));
    }
    // What caches at the hosts would get is figure 12's to say. Figure 7 knows the most recent copy only, and older ones may be nearer.
    if let Some(hosts) = cell(figures, "hosts", "savings", "total", "hosts / middlebox")
        && deploy != Deploy::Nothing
    {
        reasons.push(format!(
            "Caches at the hosts, one for each pair, would get {} of what max-match saves with a cache that all share: {}",
            percent(hosts),
            if hosts > 0.75 {
                "a tunnel between the hosts themselves is worth a thought."
            } else {
                "it is the cache that many hosts share, at the edge of the network, that pays."
            }
        ));
    }
    if input.duration < 600.0 {
        let digits = usize::from(input.duration < 10.0);
        reasons.push(format!(
            "The trace lasts {:.digits$} s and has {}: too little to know a day of this link. Repeat with hours of it: a first copy costs its \
             bytes, so a longer trace mostly saves more.",
            input.duration,
            bytes(input.wire_bytes)
        ));
    } else if input.duration < 0.9 * 86_400.0 {
        reasons.push("The trace is shorter than a day: savings change with the hour.".to_owned());
    } else if input.duration > YEAR {
        reasons.push(format!(
            "The packets' clocks say that the trace lasts {:.0} years: it is several traces, or some clocks are wrong. What depends on time (figure \
             4, the range, money) means nothing here.",
            input.duration / YEAR
        ));
    }
    let money = settings.price.filter(|_| input.duration >= 1.0).map(|per_gigabyte| {
        let month = input.wire_bytes as f64 / input.duration * MONTH / 1e9 * per_gigabyte;
        let saved = if deploy == Deploy::Nothing { 0.0 } else { savings };
        Money { per_gigabyte, month_before: month, month_after: month * (1.0 - saved) }
    });
    let time = settings.link.filter(|&link| link > 0.0).and_then(|rate| {
        let key = match deploy {
            Deploy::Tunnel => tunnel.map(|_| Key::Other(Algorithm::Tunnel)),
            Deploy::PacketLink => Some(Key::Other(Algorithm::Packets)),
            Deploy::Nothing => None,
        };
        let tally = key.as_ref().and_then(|key| pass.tally(key));
        let directions = crate::Direction::ALL.into_iter().map(|direction| {
            let wire = pass.volumes[direction.index()].wire;
            let saved = match (tally, deploy) {
                (Some(tally), _) => tally.of(direction),
                (None, Deploy::Nothing) => 0,
                (None, _) => (wire as f64 * savings) as u64,
            };
            (wire, wire - saved.min(wire))
        });
        directions.max_by_key(|&(wire, _)| wire).map(|(before, after)| Time {
            link: rate,
            busy_before: before as f64 * 8.0 / rate,
            busy_after: after as f64 * 8.0 / rate,
        })
    });
    if let Some(payload) = share(pass.volumes.iter().map(|volume| volume.payload).sum(), input.wire_bytes)
        && payload < 0.5
        && input.packets > 0
    {
        reasons.push(format!(
            "Only {} of the bytes are payload that could be read; the rest is headers, other protocols, or was not captured (capture with `-s 0`).",
            percent(payload)
        ));
    }
    Verdict { deploy, headline, reasons, cache, large_flows, savings, spread, money, time }
}
