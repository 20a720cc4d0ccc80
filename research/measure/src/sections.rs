//! The measured sections of `docs/ALGORITHMS.md`.

mod limits;

use crate::plots::{Line, draw};
use crate::support::{Corpus, Measured, measure, median, plain, table};
use cpu_time::ThreadTime;
use limits::{buckets, chunks, limits, training};
use oncewire_codec::matcher::{Density, Matcher};
use oncewire_codec::sampler::Sampling;
use oncewire_codec::table::{CompactTable, FingerprintTable, Markers};
use oncewire_codec::{
    ByteSet, CachePolicy, DEFAULT_BLOCK, EncoderBuilder, Entropy, Geometry, Kernels, Log,
};
use oncewire_family::chunk::ChunkForm;
use oncewire_family::optimal::{DEFAULT_POINTER, Filter, Optimal};
use oncewire_family::train::Training;
use oncewire_family::{BucketShape, BucketTable};
use oncewire_family::{FamilySearch, MatcherKind, SamplerKind, TableKind};
use oncewire_family::{Phase, Probe, PublishedMaxMatch};
use oncewire_kernels::random::SplitMix64;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

type Section = fn(&Corpus, &Path, &mut String) -> Result<(), Box<dyn Error>>;

pub(crate) const ALL: [(&str, Section); 10] = [
    ("phases", phases),
    ("speed", speed),
    ("samplers", samplers),
    ("windows", windows),
    ("matchers", matchers),
    ("policies", policies),
    ("buckets", buckets),
    ("limits", limits),
    ("chunks", chunks),
    ("training", training),
];

/// EndRE's cache between two hosts.
const SMALL: u64 = 10_000_000;
/// EndRE's cache of a busy server, 1 to 2 GB.
const LARGE: u64 = 1_500_000_000;
/// Payload of a full packet.
const PACKET: usize = 1448;

/// EndRE's four samplers, modern chunk boundaries, and ours.
const SAMPLERS: [&str; 8] =
    ["modp", "maxp", "fixed", "samplebyte", "gear", "fastcdc", "samplehash", "peaks"];

fn sampler(name: &str) -> SamplerKind {
    SamplerKind::named(name).expect("a known sampler")
}

fn published(builder: EncoderBuilder) -> EncoderBuilder {
    builder.search(FamilySearch::new(MatcherKind::Published { max_fingerprints: None }))
}

/// Time in each phase.
#[derive(Default)]
struct Stopwatch {
    seconds: [f64; 5],
    since: Option<(Phase, Instant)>,
}

impl Probe for Stopwatch {
    fn enter(&mut self, phase: Phase) {
        if let Some((before, start)) = self.since.take() {
            self.seconds[before as usize] += start.elapsed().as_secs_f64();
        }
        self.since = Some((phase, Instant::now()));
    }
}

/// EndRE, Table 3.
fn phases(corpus: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    // Seconds on the authors' trace: fingerprinting, matching and administration, at p = 32 and at
    // p = 512.
    let paper = [
        ("modp", [526.7, 9.6, 4.8], [496.7, 6.8, 0.6]),
        ("maxp", [306.3, 10.1, 5.2], [118.8, 7.7, 0.5]),
        ("fixed", [69.4, 7.1, 4.7], [14.2, 4.7, 0.4]),
        ("samplebyte", [76.8, 9.5, 3.0], [20.2, 6.1, 0.7]),
    ];
    let mut rows = Vec::new();
    for period in [32, 512] {
        for name in SAMPLERS {
            let mut runs: Vec<[f64; 4]> = Vec::new();
            for _ in 0..corpus.runs {
                runs.push(profile(corpus, name, period)?);
            }
            let part = |i: usize| median(&mut runs.iter().map(|run| run[i]).collect::<Vec<_>>());
            let ours: Vec<f64> = (0..4).map(part).collect();
            let total: f64 = ours.iter().sum();
            let shares = paper.iter().find(|(sampler, ..)| *sampler == name).map_or_else(
                || "-".to_string(),
                |(_, fine, coarse)| {
                    let seconds = if period == 32 { fine } else { coarse };
                    let total: f64 = seconds.iter().sum();
                    let shares = seconds.map(|part| format!("{:.0}", 100.0 * part / total));
                    format!(
                        "{} ({:.1}, {:.1}, {:.1} s)",
                        shares.join(" / "),
                        seconds[0],
                        seconds[1],
                        seconds[2]
                    )
                },
            );
            let fingerprint = ours[0] + ours[1];
            rows.push(vec![
                name.to_string(),
                period.to_string(),
                format!("{:.2}", ours[0]),
                format!("{:.2}", ours[1]),
                format!("{:.2}", ours[2]),
                format!("{:.2}", ours[3]),
                format!(
                    "{:.0} / {:.0} / {:.0}",
                    100.0 * fingerprint / total,
                    100.0 * ours[2] / total,
                    100.0 * ours[3] / total
                ),
                shares,
            ]);
        }
    }
    let head = ["sampler", "p", "markers", "hashing", "match", "admin", "ours, %", "EndRE, %"];
    writeln!(
        out,
        "Seconds per gigabyte; max-match as published, cache {} MB, blocks of {PACKET} bytes.\n",
        SMALL / 1_000_000
    )?;
    table(out, &head, &rows);
    Ok(())
}

/// Seconds per gigabyte for markers, hashing, matching and administration.
fn profile(corpus: &Corpus, name: &str, period: usize) -> Result<[f64; 4], Box<dyn Error>> {
    let geometry = Geometry::new(SMALL, 0)?;
    let mut log = Log::new(geometry)?;
    log.prefault();
    let table = CompactTable::<u32>::new(geometry, SMALL / (period as u64 / 2))?;
    let matcher =
        PublishedMaxMatch::new(sampler(name).boxed(), table, Kernels::detect(), 32, 0, None);
    let mut matcher = matcher.with_probe(Stopwatch::default());
    matcher.prefault();
    let mut matches = Vec::new();
    for block in corpus.data.chunks(PACKET) {
        let offset = geometry.place(log.end(), block.len());
        matches.clear();
        matcher.find(&log, block, offset, Density::Period(period), &mut matches);
        log.append(block);
    }
    let gigabytes = corpus.data.len() as f64 * 1e-9;
    let seconds = &matcher.probe().seconds;
    Ok([Phase::Markers, Phase::Fingerprints, Phase::Match, Phase::Admin]
        .map(|phase| seconds[phase as usize] / gigabytes))
}

/// EndRE, Figures 6 and 7, and the text on caches of 1 to 2 GB.
fn speed(corpus: &Corpus, figures: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let periods = [32usize, 64, 128, 256, 512];
    let paper_speed = [
        ("modp", "about 0.4"),
        ("maxp", "0.6 to 1.7"),
        ("fixed", "2.3 to 7.1"),
        ("samplebyte", "2.2 to 5.8 (1.5 to 4 at 1-2 GB)"),
    ];
    for (cache, label, large) in [(SMALL, "10 MB", false), (LARGE, "1.5 GB", true)] {
        let mut settings = Vec::new();
        for name in SAMPLERS {
            for period in periods {
                settings
                    .push(published(plain(cache, PACKET)).sampler(sampler(name)).period(period));
            }
            for period in periods {
                settings.push(plain(cache, DEFAULT_BLOCK).sampler(sampler(name)).period(period));
            }
        }
        // The two modes differ in block size, so they are measured separately.
        let (packets, blocks): (Vec<_>, Vec<_>) =
            settings.chunks(periods.len()).enumerate().partition(|(i, _)| i % 2 == 0);
        let collect = |parts: Vec<(usize, &[EncoderBuilder])>| -> Vec<EncoderBuilder> {
            parts.into_iter().flat_map(|(_, part)| part.to_vec()).collect()
        };
        let runs = if large { corpus.runs.min(3) } else { corpus.runs };
        let as_published = measure(&corpus.data, PACKET, runs, &collect(packets));
        let ours = measure(&corpus.data, DEFAULT_BLOCK, runs, &collect(blocks));
        for (form, title, measured) in [
            ("published", "max-match as published, packets", &as_published),
            ("ours", "our max-match, 64 KiB blocks", &ours),
        ] {
            let lines = |value: fn(&Measured) -> f64| -> Vec<Line> {
                SAMPLERS
                    .iter()
                    .zip(measured.chunks(periods.len()))
                    .map(|(name, row)| Line {
                        name: name.to_string(),
                        points: periods
                            .iter()
                            .zip(row)
                            .map(|(&p, m)| (p as f64, value(m)))
                            .collect(),
                    })
                    .collect()
            };
            let size = if large { "large" } else { "small" };
            let speed_file = format!("speed-{form}-{size}.svg");
            let savings_file = format!("savings-{form}-{size}.svg");
            let title = format!("{title}, cache {label}");
            draw(
                &figures.join(&speed_file),
                &title,
                "sampling period p, bytes",
                "Gbit/s of one core",
                &lines(Measured::gbit),
            )?;
            draw(
                &figures.join(&savings_file),
                &title,
                "sampling period p, bytes",
                "savings, %",
                &lines(Measured::savings),
            )?;
            writeln!(out, "**{}{}**\n", title[..1].to_uppercase(), &title[1..])?;
            let mut rows = Vec::new();
            for (name, row) in SAMPLERS.iter().zip(measured.chunks(periods.len())) {
                let mut cells = vec![name.to_string()];
                cells.extend(row.iter().map(|m| format!("{:.1}, {:.1} %", m.gbit(), m.savings())));
                let paper = paper_speed
                    .iter()
                    .find(|(sampler, _)| sampler == name)
                    .map_or("-", |(_, text)| text);
                cells.push(paper.to_string());
                rows.push(cells);
            }
            let head: Vec<String> = periods.iter().map(|p| format!("p = {p}")).collect();
            let mut head: Vec<&str> = head.iter().map(String::as_str).collect();
            head.insert(0, "Gbit/s, savings");
            head.push("EndRE, Gbit/s");
            table(out, &head, &rows);
            writeln!(out, "![speed](figures/{speed_file}) ![savings](figures/{savings_file})\n")?;
        }
    }
    Ok(())
}

/// Speed of the marker search alone in bytes per second, and bytes per marker.
fn search(corpus: &Corpus, kind: &SamplerKind, period: usize) -> (f64, f64) {
    let (sampler, data) = (kind.boxed(), corpus.front(64 << 20));
    let mut markers = vec![0; DEFAULT_BLOCK];
    let (mut times, mut count) = (Vec::new(), 0);
    for _ in 0..corpus.runs {
        count = 0;
        let start = ThreadTime::now();
        for block in data.chunks(DEFAULT_BLOCK) {
            let sampling =
                Sampling { kernels: Kernels::detect(), block, window: 32, period, from: 0 };
            count += sampler.sample(sampling, &mut markers).count;
        }
        times.push(start.elapsed().as_secs_f64());
    }
    (data.len() as f64 * 1e-9 / median(&mut times), data.len() as f64 / count.max(1) as f64)
}

/// The period at which a sampler achieves about `rate` bytes per marker.
fn period_for(corpus: &Corpus, kind: &SamplerKind, rate: f64) -> usize {
    let one = Corpus::sample(corpus);
    let (mut low, mut high) = (4, 1024);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if search(&one, kind, middle).1 < rate { low = middle } else { high = middle }
    }
    let miss = |period| (search(&one, kind, period).1 / rate).ln().abs();
    if miss(low) <= miss(high) { low } else { high }
}

/// All samplers at equal p and at equal achieved rates, as a share of the optimum.
fn samplers(corpus: &Corpus, figures: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let cache = corpus.data.len() as u64 + (1 << 20);
    let mut optimal = Optimal::new(32, cache, DEFAULT_POINTER, Filter::Bloom)?;
    for block in corpus.data.chunks(DEFAULT_BLOCK) {
        optimal.add_block(block);
    }
    let totals = optimal.totals();
    let most = 100.0 * totals.saved_bytes as f64 / totals.bytes as f64;
    let bias = optimal.false_positive_bias(1, 4 << 20);
    writeln!(
        out,
        "Optimal, w = 32, 64 KiB blocks, {DEFAULT_POINTER} bytes a match: {most:.2} % (false positives {:.3} % of windows, {:.3} % expected, \
         which makes {:.2} % of random data seem redundant).\n",
        100.0 * bias.measured_per_window,
        100.0 * bias.expected_per_window,
        100.0 * bias.apparent_redundancy
    )?;
    let mut lines: Vec<Line> =
        SAMPLERS.iter().map(|name| Line { name: name.to_string(), points: Vec::new() }).collect();
    for (title, periods) in [
        ("Equal p = 32", SAMPLERS.map(|_| 32)),
        ("Equal p = 64", SAMPLERS.map(|_| 64)),
        (
            "Equal rate, about 20 bytes per fingerprint",
            SAMPLERS.map(|name| period_for(corpus, &sampler(name), 20.0)),
        ),
        (
            "Equal rate, about 32 bytes per fingerprint",
            SAMPLERS.map(|name| period_for(corpus, &sampler(name), 32.0)),
        ),
        (
            "Equal rate, about 64 bytes per fingerprint",
            SAMPLERS.map(|name| period_for(corpus, &sampler(name), 64.0)),
        ),
        (
            "Equal rate, about 200 bytes per fingerprint",
            SAMPLERS.map(|name| period_for(corpus, &sampler(name), 200.0)),
        ),
    ] {
        let settings = |form: fn(EncoderBuilder) -> EncoderBuilder| -> Vec<EncoderBuilder> {
            SAMPLERS
                .iter()
                .zip(periods)
                // A table of the size that the rate requires, the same for all samplers at equal
                // rates.
                .map(|(name, period)| {
                    let rate = search(&Corpus::sample(corpus), &sampler(name), period).1;
                    form(plain(cache, DEFAULT_BLOCK))
                        .sampler(sampler(name))
                        .period(period)
                        .table_entries((cache as f64 / rate) as u64)
                })
                .collect()
        };
        let ours = measure(&corpus.data, DEFAULT_BLOCK, corpus.runs, &settings(|builder| builder));
        let plain_form = measure(&corpus.data, DEFAULT_BLOCK, 1, &settings(published));
        let mut rows = Vec::new();
        for (i, name) in SAMPLERS.iter().enumerate() {
            let (gigabytes, rate) = search(corpus, &sampler(name), periods[i]);
            if title.starts_with("Equal rate") {
                lines[i].points.push((rate, ours[i].savings()));
            }
            rows.push(vec![
                name.to_string(),
                periods[i].to_string(),
                format!("{rate:.1}"),
                format!("{gigabytes:.2}"),
                format!("{:.2}", ours[i].gbit()),
                format!("{:.2} %", ours[i].savings()),
                format!("{:.1} %", 100.0 * ours[i].savings() / most),
                format!("{:.2} %", plain_form[i].savings()),
                format!("{:.1} %", 100.0 * plain_form[i].savings() / most),
            ]);
        }
        writeln!(out, "**{title}**\n")?;
        let head = [
            "sampler",
            "p",
            "bytes/fp",
            "search GB/s",
            "encode Gbit/s",
            "savings",
            "of optimal",
            "published form",
            "of optimal",
        ];
        table(out, &head, &rows);
    }
    let file = "samplers-equal-rate.svg";
    draw(
        &figures.join(file),
        "Our max-match at equal achieved rates",
        "bytes per fingerprint",
        "savings, %",
        &lines,
    )?;
    writeln!(out, "![savings at equal rates](figures/{file})\n")?;
    Ok(())
}

/// Cost and benefit of a small window.
fn windows(corpus: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let cache = corpus.data.len() as u64 + (1 << 20);
    for (title, block) in [("64 KiB blocks", DEFAULT_BLOCK), ("packets of 1,448 bytes", PACKET)] {
        let windows = [12usize, 16, 24, 32, 48, 64];
        let of = |entropy: Entropy| -> Vec<EncoderBuilder> {
            windows.map(|window| plain(cache, block).entropy(entropy).window(window)).to_vec()
        };
        let none = measure(&corpus.data, block, corpus.runs, &of(Entropy::None));
        let coded = measure(&corpus.data, block, corpus.runs.min(3), &of(Entropy::DEFAULT));
        let rows: Vec<_> = windows
            .iter()
            .enumerate()
            .map(|(i, window)| {
                vec![
                    window.to_string(),
                    format!("{:.2} %", none[i].savings()),
                    format!("{:.2}", none[i].gbit()),
                    none[i].stats.matches.to_string(),
                    format!("{:.0}", none[i].stats.mean_match_len().unwrap_or(0.0)),
                    none[i].stats.matcher.false_hits.to_string(),
                    format!("{:.3} %", coded[i].savings()),
                    format!("{:.2}", coded[i].gbit()),
                ]
            })
            .collect();
        writeln!(out, "**{title}**, SAMPLEHASH, p = 32\n")?;
        let head = [
            "w",
            "savings",
            "Gbit/s",
            "matches",
            "mean bytes",
            "false hits",
            "with coded-3",
            "Gbit/s",
        ];
        table(out, &head, &rows);
    }
    Ok(())
}

/// Our max-match compared with that of the papers.
fn matchers(corpus: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let cache = corpus.data.len() as u64 + (1 << 20);
    let mut rows = Vec::new();
    for (blocks, block) in [("64 KiB", DEFAULT_BLOCK), ("1,448 bytes", PACKET)] {
        let settings = [plain(cache, block), published(plain(cache, block))];
        let cold = measure(&corpus.data, block, corpus.runs, &settings);
        let twice = [&corpus.data[..], &corpus.data[..]].concat();
        let roomy = 2 * cache;
        let settings = [plain(roomy, block), published(plain(roomy, block))];
        let both = measure(&twice, block, corpus.runs.min(3), &settings);
        for (i, name) in ["ours", "published"].into_iter().enumerate() {
            let warm = both[i].wire - cold[i].wire.min(both[i].wire);
            rows.push(vec![
                format!("{name}, blocks of {blocks}"),
                format!("{:.2}", cold[i].gbit()),
                format!("{:.2} %", cold[i].savings()),
                cold[i].stats.matches.to_string(),
                warm.to_string(),
                format!(
                    "{:.2}",
                    corpus.data.len() as f64 * 8e-9 / (both[i].seconds - cold[i].seconds).max(1e-9)
                ),
            ]);
        }
    }
    writeln!(out, "SAMPLEHASH, p = 32.\n")?;
    table(
        out,
        &["max-match", "cold, Gbit/s", "savings", "matches", "repeat, bytes", "repeat, Gbit/s"],
        &rows,
    );
    Ok(())
}

/// Martynov: all data or new data only.
fn policies(corpus: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let policies = [
        ("all", CachePolicy::All),
        ("new-runs", CachePolicy::NewRuns { straddle: true }),
        ("new-runs-apart", CachePolicy::NewRuns { straddle: false }),
        ("new-blocks:50", CachePolicy::NewBlocks { below_percent: 50 }),
        ("new-blocks:90", CachePolicy::NewBlocks { below_percent: 90 }),
        ("new-blocks:100", CachePolicy::NewBlocks { below_percent: 100 }),
    ];
    for cache in [corpus.data.len() as u64 + (1 << 20), 64 << 20, 16 << 20] {
        let settings: Vec<_> = policies
            .iter()
            .map(|(_, policy)| plain(cache, DEFAULT_BLOCK).policy(*policy))
            .collect();
        let coded: Vec<_> =
            settings.iter().map(|setting| setting.clone().entropy(Entropy::DEFAULT)).collect();
        let none = measure(&corpus.data, DEFAULT_BLOCK, corpus.runs, &settings);
        let coded = measure(&corpus.data, DEFAULT_BLOCK, 1, &coded);
        let rows: Vec<_> = policies
            .iter()
            .enumerate()
            .map(|(i, (name, _))| {
                vec![
                    name.to_string(),
                    format!("{:.2} %", none[i].savings()),
                    format!("{:.2}", none[i].gbit()),
                    none[i].stats.matches.to_string(),
                    format!("{:.2} %", coded[i].savings()),
                ]
            })
            .collect();
        writeln!(out, "**Cache of {:.0} MiB**\n", cache as f64 / (1 << 20) as f64)?;
        table(out, &["policy", "savings", "Gbit/s", "matches", "with coded-3"], &rows);
    }
    Ok(())
}
