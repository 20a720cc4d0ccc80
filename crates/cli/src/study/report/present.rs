//! A study as a report for the presenters.

use crate::quantity::bytes;
use crate::terminal::Page;
use oncewire_report::format::{self, part};
use oncewire_report::{Block, Breakdown, Fact, Part, Report, Section, Summary, Unit};
use oncewire_trace::results::{self, Accounting, CostOf, Deploy, Input, Share, Unknown, Verdict};
use std::io;

/// What a report says whose reading was interrupted.
const PARTIAL: &str =
    "reading was interrupted, and the rest of the captures is not in this report.";

/// A difference between what two kinds of bills save that is worth mention.
const OTHERWISE_BILLED: f64 = 0.02;

/// The report of a study.
pub(crate) fn report(study: &results::Report) -> Report {
    let mut sections = vec![input(study), accounting(study)];
    sections.extend(study.figures.iter().map(Section::figure));
    Report {
        kind: "Redundancy study",
        title: title(&study.input),
        about: about(&study.input),
        summary: summary(&study.verdict),
        sections,
        footer: format!(
            "Made by oncewire {} study: {} figures. Shares are in percent; sizes have decimal prefixes (1 MB = \
             1,000,000 bytes), caches and memory binary ones if they are a multiple of 1 MiB (1,048,576 bytes). The \
             same numbers are in --json and --csv.",
            env!("CARGO_PKG_VERSION"),
            study.figures.len()
        ),
    }
}

/// Writes the input, a line for each figure and, last, the verdict: on a terminal, the end of the
/// output is what stays in sight.
pub(crate) fn overview<W: io::Write>(
    page: &mut Page<'_, W>,
    study: &results::Report,
) -> io::Result<()> {
    let input = &study.input;
    page.wrapped("", &format!("{}: {}{}", title(input), about(input), skipped(study)))?;
    for (name, why) in &input.damaged {
        page.wrapped("Damaged: ", &format!("{name}: {why}"))?;
    }
    if input.partial {
        page.wrapped("Partial: ", PARTIAL)?;
    }
    page.line("")?;
    page.figures(study.figures.iter())?;
    page.line("")?;
    page.summary(&summary(&study.verdict))?;
    page.dim("Tables and charts: --figures NAME, or all. For a browser: --report FILE.")
}

/// Writes everything that a terminal shows. The verdict is last here, too.
pub(crate) fn full<W: io::Write>(
    page: &mut Page<'_, W>,
    study: &results::Report,
) -> io::Result<()> {
    let report = report(study);
    page.sections(&Report { sections: report.sections, ..Report::default() })?;
    page.heading("", "Verdict")?;
    page.summary(&report.summary)
}

fn title(input: &Input) -> String {
    match &input.captures[..] {
        [] => "no capture".into(),
        // The section about the input shows the full path.
        [one] => one.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(one).to_owned(),
        many => format!("{} captures", many.len()),
    }
}

fn about(input: &Input) -> String {
    let size = format!(
        "{}, {} on the wire",
        format::counted(input.packets, "packet"),
        bytes(input.wire_bytes)
    );
    match when(input) {
        Some(when) => format!("{size}, in {when}."),
        None => format!("{size}."),
    }
}

/// `59.9 min from 2026-03-02 09:00:00 UTC`.
fn when(input: &Input) -> Option<String> {
    let start = input.start?;
    Some(format!("{} from {}", format::number(input.duration, Unit::Seconds), format::time(start)))
}

fn summary(verdict: &Verdict) -> Summary {
    let is_link = match verdict.deploy {
        Deploy::Link => true,
        Deploy::Tunnel | Deploy::Nothing => false,
        Deploy::CannotSay => verdict.savings > verdict.tunnel,
    };
    let by = match is_link {
        true => "of all wire bytes, by the packet link",
        false => "of all wire bytes, by the tunnel",
    };
    let least = match verdict.unknown {
        Some(Unknown::Doubled) => "at most ",
        Some(_) => "at least ",
        None => "",
    };
    let savings = format!("{least}{}", format::share(verdict.savings));
    let mut facts = vec![Fact::new("savings", savings, by)];
    if let Some(((low, high), width)) = verdict.spread.zip(verdict.spread_seconds) {
        let parts = match width {
            60.0 => "minutes".to_owned(),
            width => format!("parts of {}", format::number(width, Unit::Seconds)),
        };
        let note = format!(", 10th to 90th percentile of {parts}");
        facts.push(Fact::new("usual range", format::range(low, high), note));
    }
    if let Some((low, high)) = verdict.confidence {
        let note = ", 95 % interval, as parts of the trace differ";
        facts.push(Fact::new("confidence", format::range(low, high), note));
    }
    if let Some(cache) = verdict.cache {
        let of_traffic = verdict
            .cache_seconds
            .map(|seconds| format!(": {} of its traffic", format::number(seconds, Unit::Seconds)));
        let note = format!("for each direction{}", of_traffic.unwrap_or_default());
        facts.push(Fact::new("cache", format::cache(cache), note));
    }
    if let Some(billing) = &verdict.billing {
        let bucket = format::number(billing.bucket, Unit::Seconds);
        let saved = format::share(billing.savings);
        let not = match (billing.savings - verdict.savings).abs() >= OTHERWISE_BILLED {
            true => format!(", not {}", format::share(verdict.savings)),
            false => String::new(),
        };
        let note = format!("less if billed by it{not}; buckets of {bucket}");
        facts.push(Fact::new("95th percentile", saved, note));
    }
    if let Some(money) = &verdict.money {
        let [before, after, price] =
            [money.before, money.after, money.per_gigabyte].map(format::money);
        let saved = format::money(money.before - money.after);
        let name = match money.of {
            CostOf::Month => "saved in 30 days",
            CostOf::Terabyte => "saved per TB",
        };
        facts.push(Fact::new(
            name,
            saved,
            format!(": {after} instead of {before}, at {price} per GB"),
        ));
    }
    if let Some(time) = &verdict.time {
        let seconds = |value| format::number(value, Unit::Seconds);
        let link = format::number(time.link, Unit::BitsPerSecond);
        let note = format!("instead of {}, at {link}", seconds(time.busy_before));
        facts.push(Fact::new("link busy", seconds(time.busy_after), note));
    }
    Summary {
        headline: verdict.headline.clone(),
        positive: matches!(verdict.deploy, Deploy::Tunnel | Deploy::Link),
        facts,
        reasons: verdict.reasons.clone(),
    }
}

fn input(study: &results::Report) -> Section {
    let input = &study.input;
    let mut facts = vec![("captures".to_owned(), input.captures.clone())];
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), vec![value]));
    if let Some(when) = when(input) {
        fact("time", when);
    }
    fact("packets", format::count_of(input.packets));
    let captured = part(input.captured_bytes, input.wire_bytes);
    fact(
        "wire bytes",
        format!(
            "{} ({}), {captured} of them captured",
            bytes(input.wire_bytes),
            format::count_of(input.wire_bytes)
        ),
    );
    fact("hosts", hosts(&study.accounting.hosts));
    for (name, value) in &study.settings {
        fact(name, value.clone());
    }
    if input.partial {
        facts.push(("partial".to_owned(), vec![PARTIAL.to_owned()]));
    }
    let section = Section::new("input", "Input").with(Block::Facts(facts));
    if input.damaged.is_empty() {
        section
    } else {
        section.with(Block::Damage("damaged", input.damaged.clone()))
    }
}

/// `2 inside, 14 others; 420 flows`.
fn hosts(hosts: &results::Hosts) -> String {
    let count = |number: u64| match number < hosts.most {
        true => format::count_of(number),
        false => format!("{} or more", format::count_of(number)),
    };
    let flows = count(hosts.flows);
    match hosts.inside {
        Some(inside) => {
            format!("{} inside, {} others; {flows} flows", count(inside), count(hosts.others))
        }
        None => format!("{}; {flows} flows", count(hosts.others)),
    }
}

fn accounting(study: &results::Report) -> Section {
    let Accounting { used, unused, bytes, layers, .. } = &study.accounting;
    let whole = study.input.wire_bytes;
    let parts_of = |shares: &[Share], counted: fn(&Share) -> bool| -> Vec<Part> {
        let part = |share: &Share| Part {
            name: share.name.clone(),
            packets: counted(share).then_some(share.packets),
            bytes: share.bytes,
        };
        shares.iter().map(part).collect()
    };
    let mut breakdowns = vec![Breakdown {
        caption: "Packets by kind, and why some were skipped",
        whole,
        complete: true,
        groups: vec![("used", parts_of(used, |_| true)), ("not used", parts_of(unused, |_| true))],
    }];
    if !layers.is_empty() {
        breakdowns.push(Breakdown {
            caption: "Encapsulations; a packet may have several",
            whole,
            complete: false,
            groups: vec![("within (a packet may have several)", parts_of(layers, |_| true))],
        });
    }
    breakdowns.push(Breakdown {
        caption: "Bytes of the used packets",
        whole: bytes.iter().map(|share| share.bytes).sum(),
        complete: true,
        groups: vec![("bytes of the used packets", parts_of(bytes, |share| share.packets > 0))],
    });
    let text = match skipped(study).trim() {
        "" => "No packet was skipped.".to_owned(),
        text => text.to_owned(),
    };
    Section::new("accounting", "Accounting")
        .with(Block::Text(text))
        .with(Block::Breakdown(breakdowns))
}

/// ` 25 packets, 0.13 % of the bytes, were skipped.` Empty if there are none.
fn skipped(study: &results::Report) -> String {
    let unused = &study.accounting.unused;
    let (count, bytes) =
        unused.iter().fold((0, 0), |sum, share| (sum.0 + share.packets, sum.1 + share.bytes));
    if count == 0 {
        return String::new();
    }
    format!(
        " {}, {} of the bytes, {} skipped.",
        format::counted(count, "packet"),
        part(bytes, study.input.wire_bytes),
        if count == 1 { "was" } else { "were" }
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use crate::terminal::{Page, columns};
    use oncewire_report::html;

    #[test]
    fn html_shows_the_verdict_the_input_and_every_figure() {
        let study = sample::report();
        let page = html::render(&super::report(&study));
        for id in ["verdict", "input", "accounting", "algorithms", "hostile"] {
            assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
        }
        let headline = study.verdict.headline.replace(" %", "\u{a0}%");
        for text in [&headline[..], "41.2", "18,345,112", "3 captures", "Figure 1"] {
            assert!(page.contains(text), "{text}");
        }
        for bad in ["<script>alert", "<img", "onerror=alert(2)>", "\u{1b}", "\u{202e}"] {
            assert!(!page.contains(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_overview_ends_with_the_verdict_and_has_a_line_for_each_figure() {
        let study = sample::report();
        for width in [80, 97, 120] {
            let mut out = Vec::new();
            super::overview(&mut Page::new(&mut out, width, false), &study).unwrap();
            let text = String::from_utf8(out).unwrap();
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
            for part in [
                "18,345,112 packets",
                "\nDamaged: ",
                "\n  1  algorithms  MAXP saves",
                "\n  2  hostile",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            let verdict = text.find("\nDeploy the tunnel").expect("a verdict");
            assert!(verdict > text.find("hostile").expect("a figure"), "{text}");
            assert!(!text.contains(['\u{1b}', '\u{202e}']));
        }
    }

    #[test]
    fn text_shows_the_same_and_fits_the_terminal() {
        for width in [80, 97, 120] {
            let mut out = Vec::new();
            super::full(&mut Page::new(&mut out, width, false), &sample::report()).unwrap();
            let text = String::from_utf8(out).unwrap();
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
            let facts = [
                "savings           41.2 % of all wire bytes, by the tunnel",
                "95th percentile   30.0 % less if billed by it, not 41.2 %; buckets of 5 min",
                "usual range       22 to 58 %, 10th to 90th percentile of minutes",
                "cache             64 MB for each direction",
                "saved in 30 days  85.10: 121.20 instead of 206.30, at 0.09 per GB",
                "link busy         80.2 min instead of 2.28 h, at 10.0 Mbit/s",
                "wire bytes       12.7 GB (12,733,870,112), 99.74 % of them captured",
            ];
            for fact in facts {
                assert!(text.contains(fact), "{fact}: {text}");
            }
            for part in [
                "\nVerdict\nDeploy the tunnel",
                "\nInput\n",
                "\nAccounting\n",
                "IPsec",
                "damaged: ",
                "\nFigure 1  Savings by algorithm",
            ] {
                assert!(text.contains(part), "{part}");
            }
            assert!(!text.contains(['\u{1b}', '\u{202e}']));
        }
    }
}
