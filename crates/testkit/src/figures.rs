//! Figures of invented numbers, with every kind of chart, missing cells and hostile names: what
//! reports are tested with.
//!
//! One file, because it is a list.

use oncewire_kernels::random::SplitMix64;
use oncewire_report::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};

/// A name that would run a script in a careless page or drawing, and clear a careless terminal.
pub const HOSTILE: &str = "</text></svg></script><script>alert(1)</script><img src=http://192.0.2.1/x onerror=alert(2)><!--{{data}}\u{1b}[2J\u{202e}\"'&amp;.pcap";

fn column(name: &str, unit: Unit) -> Column {
    Column::new(name, unit)
}

fn chart(
    id: &'static str,
    caption: &str,
    kind: ChartKind,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
) -> Chart {
    Chart { id, caption: caption.into(), kind, x, y, right: None, series }
}

fn line(name: &str, count: usize, point: impl Fn(f64) -> (f64, f64)) -> Series {
    Series::new(name, (0..count).map(|at| point(at as f64 / (count - 1).max(1) as f64)).collect())
}

/// Pseudo-random numbers in 0..1.
pub fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut random = SplitMix64(seed);
    move || random.unit()
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.into()).collect()
}

/// Fifteen figures with every kind of chart; some have no content, and the last has hostile names.
pub fn figures() -> Vec<Figure> {
    let mut figures = vec![
        algorithms(),
        cache(),
        time(),
        sizes(),
        locality(),
        popularity(),
        applications(),
        directions(),
        gaps(),
        scatter(),
        encrypted(),
        many(),
    ];
    figures.push(Figure {
        number: 13,
        id: "empty",
        title: "A figure that had nothing to show",
        source: "SIGMETRICS 2009, Section 5.3",
        brief: "a line for an overview".into(),
        definition: "What would be here if there were anything.".into(),
        notes: vec!["No flow lasted long enough.".into()],
        ..Figure::default()
    });
    figures.push(Figure {
        number: 14,
        id: "hollow",
        title: "Tables without rows, charts without points",
        definition: "Nothing.".into(),
        tables: vec![Table {
            id: "none",
            caption: "No rows".into(),
            columns: vec![column("name", Unit::Text), column("bytes", Unit::Bytes)],
            rows: vec![],
        }],
        charts: vec![
            chart(
                "none",
                "No series",
                ChartKind::Line,
                Axis::new("time", Unit::Seconds),
                Axis::new("savings", Unit::Share),
                vec![],
            ),
            chart(
                "one",
                "A single point",
                ChartKind::Line,
                Axis::log("cache size", Unit::Bytes),
                Axis::log("matches", Unit::Count),
                vec![Series::new("one", vec![(1e6, 5.0)]), Series::new("none", vec![])],
            ),
        ],
        ..Figure::default()
    });
    figures.push(hostile());
    figures
}

/// A figure whose names mean harm.
pub fn hostile() -> Figure {
    Figure {
        number: 15,
        id: "hostile",
        title: "Names that mean harm",
        source: "nobody",
        brief: "a line for an overview".into(),
        definition: HOSTILE.into(),
        finding: HOSTILE.into(),
        tables: vec![Table {
            id: "names",
            caption: HOSTILE.into(),
            columns: vec![
                column(HOSTILE, Unit::Text),
                column("bytes", Unit::Bytes),
                column("flows", Unit::Count),
            ],
            rows: vec![
                vec![HOSTILE.into(), 1u64.into(), Cell::None],
                vec!["W".repeat(300).into(), 2_000_000u64.into(), 7u64.into()],
                vec!["=HYPERLINK(\"http://192.0.2.1\")".into(), Cell::None, 8u64.into()],
            ],
        }],
        charts: vec![chart(
            "names",
            HOSTILE,
            ChartKind::Bars,
            Axis::of(
                HOSTILE,
                vec![HOSTILE.into(), "W".repeat(300), "日本語のとても長いカテゴリー名です".into()],
            ),
            Axis::new(HOSTILE, Unit::Bytes),
            vec![
                Series::new(HOSTILE, vec![(0.0, 5e6), (1.0, 2e6), (2.0, 9e5)]),
                Series::new("W".repeat(300), vec![(0.0, 1e6), (2.0, 3e6)]),
            ],
        )],
        notes: vec![HOSTILE.into()],
        ..Figure::default()
    }
}

/// A figure of savings, with a table and bars.
pub fn algorithms() -> Figure {
    let rows = [
        "MAXP",
        "MODP",
        "FIXED",
        "SAMPLEBYTE",
        "chunk-match",
        "payload-match",
        "zstd -1 --long=27",
    ]
    .iter()
    .enumerate()
    .flat_map(|(at, &name)| {
        ["inbound", "outbound"].map(|way| {
            let bytes = if way == "inbound" { 9_804_331_220 } else { 2_929_538_892u64 };
            let savings = 0.43 - 0.037 * at as f64 - if way == "inbound" { 0.0 } else { 0.12 };
            vec![
                name.into(),
                way.into(),
                bytes.into(),
                ((bytes as f64 * (1.0 - savings)) as u64).into(),
                savings.into(),
                if at == 6 { Cell::None } else { (savings - 0.006).into() },
                (1_800_000u64 / (at as u64 + 1)).into(),
                if at == 6 { Cell::None } else { (523.4 / (at as f64 + 1.0)).into() },
            ]
        })
    })
    .collect();
    Figure {
        number: 1,
        id: "algorithms",
        title: "Savings by algorithm and direction",
        source: "thesis, Tables 2.2 and 2.3; EndRE, Table 4",
        brief: "MAXP saves 43.0 % inbound, 31.0 % outbound".into(),
        definition: "Savings are 1 − bytes after encoding / bytes before, over all payload of TCP and UDP, each direction with its own cache of 250 MB; encoded bytes include a shim of 12 bytes per match.".into(),
        finding: "MAXP saves most, 43.0 % inbound and 31.0 % outbound; SAMPLEBYTE loses 11 points of it and takes a third of the time.".into(),
        tables: vec![Table {
            id: "savings",
            caption: "Bytes before and after, by algorithm and direction".into(),
            columns: vec![
                column("algorithm", Unit::Text),
                column("direction", Unit::Text),
                column("bytes in", Unit::Bytes),
                column("bytes out", Unit::Bytes),
                column("savings", Unit::Share),
                column("of payload", Unit::Share),
                column("matches", Unit::Count),
                column("mean match", Unit::Bytes),
            ],
            rows,
        }],
        charts: vec![chart(
            "savings",
            "Savings by algorithm",
            ChartKind::Bars,
            Axis::of("algorithm", names(&["MAXP", "MODP", "FIXED", "SAMPLEBYTE", "chunk-match", "payload-match", "zstd -1 --long=27"])),
            Axis::new("savings", Unit::Share),
            vec![
                Series::new("inbound", (0..7).map(|at| (at as f64, 0.43 - 0.037 * at as f64)).collect()),
                Series::new("outbound", (0..7).map(|at| (at as f64, 0.31 - 0.04 * at as f64)).collect()),
            ],
        )],
        notes: vec!["Content of TLS flows was not looked at: it counts as unsaved.".into()],
        memory: 512 << 20,
    }
}

fn cache() -> Figure {
    let curve = |top: f64| move |t: f64| (1e6 * 4096f64.powf(t), top * (1.0 - (-4.0 * t).exp()));
    let mut one = chart(
        "savings",
        "Savings over cache size, and what the fingerprint table takes",
        ChartKind::Line,
        Axis::log("cache size", Unit::Bytes),
        Axis::new("savings", Unit::Share),
        vec![
            line("inbound", 13, curve(0.44)),
            line("outbound", 13, curve(0.29)),
            line("both directions", 13, curve(0.39)),
            Series {
                right: true,
                ..line("memory of the table", 13, |t| {
                    (1e6 * 4096f64.powf(t), 3e4 * 4096f64.powf(t))
                })
            },
        ],
    );
    one.right = Some(Axis::log("memory", Unit::Bytes));
    Figure {
        number: 2,
        id: "cache",
        title: "Savings by cache size",
        source: "SIGMETRICS 2009, Figure 2; thesis, Figure 2.4",
        brief: "a line for an overview".into(),
        definition:
            "Savings of MAXP, w = 32, p = 32, with a FIFO cache of that many bytes of payload for each direction, started empty."
                .into(),
        finding: "The knee of the curve is at 64 MB; beyond it each doubling adds less than one percent.".into(),
        tables: vec![Table {
            id: "savings",
            caption: "Savings by cache size".into(),
            columns: vec![column("cache size", Unit::Bytes), column("inbound", Unit::Share), column("outbound", Unit::Share)],
            rows: (0..13)
                .map(|at| {
                    vec![
                        (1_000_000u64 << at).into(),
                        curve(0.44)(at as f64 / 12.0).1.into(),
                        curve(0.29)(at as f64 / 12.0).1.into(),
                    ]
                })
                .collect(),
        }],
        charts: vec![one],
        ..Figure::default()
    }
}

fn time() -> Figure {
    let mut random = noise(7);
    let mut level = 0.4;
    let points: Vec<(f64, f64)> = (0..1440)
        .map(|at| {
            level = (level + (random() - 0.5) * 0.06f64).clamp(0.05, 0.8);
            (at as f64 * 10.0, level)
        })
        .collect();
    let rate = points
        .iter()
        .map(|&(x, y)| (x, 4e6 + 9e6 * (1.0 - y) * (1.0 + (x / 2_000.0).sin() * 0.4)))
        .collect();
    let mut one = chart(
        "minutes",
        "Savings and load through the trace, in buckets of 10 s",
        ChartKind::Line,
        Axis::new("time since the first packet", Unit::Seconds),
        Axis::new("savings", Unit::Share),
        vec![Series::new("savings", points), Series { right: true, ..Series::new("load", rate) }],
    );
    one.right = Some(Axis::new("load", Unit::BitsPerSecond));
    Figure {
        number: 3,
        id: "time",
        title: "Savings through the trace",
        source: "SIGMETRICS 2009, Figure 4",
        brief: "a line for an overview".into(),
        definition: "Savings of the bytes of each bucket, with the cache as it was then.".into(),
        finding: "Savings swing between 22 % and 58 %; they are highest when the link is busiest."
            .into(),
        charts: vec![one],
        ..Figure::default()
    }
}

fn sizes() -> Figure {
    let cdf = |shape: f64| move |t: f64| (32.0 * 2000f64.powf(t), t.powf(shape));
    Figure {
        number: 4,
        id: "sizes",
        title: "Sizes of matches",
        source: "SIGMETRICS 2009, Figure 6",
        brief: "a line for an overview".into(),
        definition:
            "The share of matches, and of matched bytes, in matches of at most that many bytes."
                .into(),
        finding:
            "Half of the matches are shorter than 150 bytes but bring only 11 % of the savings."
                .into(),
        charts: vec![chart(
            "cdf",
            "Cumulative distribution of match sizes",
            ChartKind::Step,
            Axis::log("match size", Unit::Bytes),
            Axis::new("cumulative share", Unit::Share),
            vec![line("matches", 40, cdf(0.4)), line("matched bytes", 40, cdf(2.2))],
        )],
        ..Figure::default()
    }
}

fn locality() -> Figure {
    let hours: Vec<String> = (0..24).map(|hour| format!("{hour:02}:00")).collect();
    let mut random = noise(3);
    let mut series = |name: &str| {
        Series::new(name, (0..24).map(|at| (at as f64, 1e8 + 4e8 * random())).collect())
    };
    Figure {
        number: 5,
        id: "locality",
        title: "Where repeated bytes come from",
        source: "SIGMETRICS 2009, Section 5.1",
        brief: "a line for an overview".into(),
        definition: "Matched bytes by what the match and its content have in common.".into(),
        finding: "Most repeats are between flows of different hosts: a cache on each host would find less than half of them."
            .into(),
        tables: vec![Table {
            id: "origins",
            caption: "Matched bytes by origin".into(),
            columns: vec![column("origin", Unit::Text), column("matched bytes", Unit::Bytes), column("of all", Unit::Share)],
            rows: vec![
                vec!["same flow".into(), 820_000_000u64.into(), 0.161.into()],
                vec!["same pair of hosts".into(), 1_420_000_000u64.into(), 0.279.into()],
                vec!["other hosts".into(), 2_850_000_000u64.into(), 0.56.into()],
            ],
        }],
        charts: vec![chart(
            "hours",
            "Matched bytes by hour and origin",
            ChartKind::StackedBars,
            Axis::of("hour of day", hours),
            Axis::new("matched bytes", Unit::Bytes),
            vec![series("same flow"), series("same pair of hosts"), series("other hosts")],
        )],
        ..Figure::default()
    }
}

fn popularity() -> Figure {
    Figure {
        number: 6,
        id: "popularity",
        title: "Popularity of chunks",
        source: "SIGMETRICS 2009, Figure 8",
        brief: "a line for an overview".into(),
        definition: "How often each distinct chunk occurs, the most frequent first, and the Zipf law that fits best.".into(),
        finding: "Popularity follows a Zipf law with exponent 0.87.".into(),
        tables: vec![Table {
            id: "fit",
            caption: "The fit".into(),
            columns: vec![column("exponent", Unit::Number), column("residual", Unit::Number), column("chunks", Unit::Count)],
            rows: vec![vec![0.8731.into(), 0.0123.into(), 48_112_003u64.into()]],
        }],
        charts: vec![chart(
            "rank",
            "Occurrences by rank",
            ChartKind::Line,
            Axis::log("rank", Unit::Count),
            Axis::log("occurrences", Unit::Count),
            vec![
                line("measured", 200, |t| (1e7f64.powf(t), 2e5 * 1e7f64.powf(-0.87 * t) * (1.0 + 0.3 * (t * 40.0).sin()) + 0.5)),
                line("Zipf, exponent 0.87", 2, |t| (1e7f64.powf(t), 2e5 * 1e7f64.powf(-0.87 * t) + 0.5)),
            ],
        )],
        ..Figure::default()
    }
}

fn applications() -> Figure {
    let list = [
        "HTTP",
        "TLS",
        "SMB",
        "RTSP",
        "SSH",
        "IMAP",
        "PostgreSQL",
        "rsync",
        "NFS",
        "DNS",
        "SIP",
        "NTP",
        "Redis",
        "FTP",
        "LDAP",
        "Kerberos",
        "MQTT",
        "SNMP",
        "Syslog",
        "unknown, by port 50123",
    ];
    Figure {
        number: 7,
        id: "applications",
        title: "Savings by application",
        source: "EndRE, Figure 3",
        brief: "a line for an overview".into(),
        definition: "The application is known by content where it can be, else by port.".into(),
        finding: "HTTP and SMB bring 88 % of the savings.".into(),
        tables: vec![Table {
            id: "applications",
            caption: "Applications by bytes saved".into(),
            columns: vec![
                column("application", Unit::Text),
                column("flows", Unit::Count),
                column("bytes", Unit::Bytes),
                column("of all", Unit::Share),
                column("savings", Unit::Share),
                column("median flow", Unit::Seconds),
                column("peak", Unit::BitsPerSecond),
            ],
            rows: (0..120)
                .map(|at| {
                    let name = list.get(at).map_or_else(
                        || format!("TCP port {}", 30_000 + at * 17),
                        |name| (*name).into(),
                    );
                    vec![
                        name.into(),
                        (90_000u64 / (at as u64 + 1)).into(),
                        (4_000_000_000u64 / (at as u64 + 1)).into(),
                        (0.31 / (at as f64 + 1.0)).into(),
                        if at % 9 == 4 {
                            Cell::None
                        } else {
                            (0.6 / (1.0 + at as f64 / 3.0)).into()
                        },
                        (0.003 * 1.2f64.powi(at as i32)).into(),
                        (4e7 / (at as f64 + 1.0)).into(),
                    ]
                })
                .collect(),
        }],
        charts: vec![chart(
            "savings",
            "Bytes saved, sent and encrypted by application",
            ChartKind::StackedBars,
            Axis::of("application", names(&list)),
            Axis::new("bytes", Unit::Bytes),
            vec![
                Series::new(
                    "saved",
                    (0..20).map(|at| (at as f64, 2e9 / (at as f64 + 1.0))).collect(),
                ),
                Series::new(
                    "sent",
                    (0..20).map(|at| (at as f64, 1.7e9 / (at as f64 + 1.0))).collect(),
                ),
                Series::new(
                    "encrypted",
                    (0..20)
                        .map(|at| {
                            (at as f64, if at % 3 == 1 { 3e9 / (at as f64 + 1.0) } else { 0.0 })
                        })
                        .collect(),
                ),
            ],
        )],
        ..Figure::default()
    }
}

fn directions() -> Figure {
    Figure {
        number: 8,
        id: "directions",
        title: "Gain and loss by size of packet",
        source: "thesis, Section 2.4",
        brief: "a line for an overview".into(),
        definition:
            "Savings by payload of the packet. Negative where the shim takes more than it saves."
                .into(),
        charts: vec![chart(
            "packets",
            "Savings by size of packet",
            ChartKind::Bars,
            Axis::of(
                "payload",
                names(&["1–63", "64–127", "128–255", "256–511", "512–1023", "1024+"]),
            ),
            Axis::new("savings", Unit::Share),
            vec![Series::new(
                "savings",
                vec![(0.0, -0.04), (1.0, 0.01), (2.0, 0.12), (3.0, 0.19), (4.0, 0.32), (5.0, 0.44)],
            )],
        )],
        ..Figure::default()
    }
}

fn gaps() -> Figure {
    Figure {
        number: 9,
        id: "gaps",
        title: "Time between repeats",
        source: "SIGMETRICS 2009, Figure 7",
        brief: "a line for an overview".into(),
        definition: "Time from content to its next occurrence.".into(),
        finding: "80 % of repeats come within two minutes.".into(),
        charts: vec![chart(
            "cdf",
            "Time between repeats",
            ChartKind::Step,
            Axis::log("time between repeats", Unit::Seconds),
            Axis::new("cumulative share of repeats", Unit::Share),
            vec![
                line("intra-flow", 60, |t| (1e-5 * 1e9f64.powf(t), t.powf(0.5))),
                line("inter-flow", 60, |t| (1e-4 * 4e8f64.powf(t), t.powf(1.5))),
                line("inter-host", 60, |t| (1e-2 * 1e7f64.powf(t), t.powf(3.0))),
            ],
        )],
        ..Figure::default()
    }
}

fn scatter() -> Figure {
    let cloud = |name: &str, seed| {
        let mut random = noise(seed);
        let mut points: Vec<(f64, f64)> =
            (0..150).map(|_| (1e3 * 1e7f64.powf(random()), 0.9 * random().powi(2))).collect();
        points.push((1e6, 0.5));
        points.push((1e6, 0.7));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(name, points)
    };
    Figure {
        number: 10,
        id: "hosts",
        title: "Savings by host",
        source: "EndRE, Figure 9",
        brief: "a line for an overview".into(),
        definition: "Each dot is a host with at least 1 kB.".into(),
        finding: "Large hosts do not save more than small ones.".into(),
        charts: vec![chart(
            "hosts",
            "Savings by bytes of a host",
            ChartKind::Points,
            Axis::log("bytes of the host", Unit::Bytes),
            Axis::new("savings", Unit::Share),
            vec![cloud("clients", 1), cloud("servers", 2), cloud("both", 3)],
        )],
        ..Figure::default()
    }
}

fn encrypted() -> Figure {
    let mut one = chart(
        "ports",
        "Bytes and entropy by port",
        ChartKind::Bars,
        Axis::of("port", names(&["443", "993", "22", "8443", "5061"])),
        Axis::log("bytes", Unit::Bytes),
        vec![
            Series::new("bytes", vec![(0.0, 4e9), (1.0, 2e8), (2.0, 8e6), (3.0, 3e5), (4.0, 2e3)]),
            Series {
                right: true,
                ..Series::new(
                    "entropy",
                    vec![(0.0, 7.99), (1.0, 7.9), (2.0, 7.95), (3.0, 6.1), (4.0, 5.0)],
                )
            },
        ],
    );
    one.right = Some(Axis::new("entropy of a byte, in bits", Unit::Number));
    Figure {
        number: 11,
        id: "encrypted",
        title: "What is encrypted",
        source: "thesis, Section 2.6",
        brief: "a line for an overview".into(),
        definition: "Flows by their first bytes.".into(),
        finding: "31 % of all bytes are TLS.".into(),
        charts: vec![one],
        ..Figure::default()
    }
}

fn many() -> Figure {
    let series = (0..14)
        .map(|at| {
            line(&format!("period p = {}", 4 << at), 9, |t| {
                (1.0 + 8.0 * t, 0.5 - 0.03 * at as f64 - 0.02 * t)
            })
        })
        .collect();
    let bars = (0..9)
        .map(|at| {
            Series::new(
                format!("class {at}"),
                (0..4).map(|x| (x as f64, 1e6 * (at + x + 1) as f64)).collect(),
            )
        })
        .collect();
    Figure {
        number: 12,
        id: "many",
        title: "Many series at once",
        source: "EndRE, Figure 5",
        brief: "a line for an overview".into(),
        definition: "Savings by sampling period and release.".into(),
        finding: "Finer sampling saves more, at four times the time.".into(),
        charts: vec![
            chart(
                "lines",
                "Savings by release",
                ChartKind::Line,
                Axis::new("release", Unit::Count),
                Axis::new("savings", Unit::Share),
                series,
            ),
            chart(
                "bars",
                "Bytes by quarter and class",
                ChartKind::StackedBars,
                Axis::of("quarter", names(&["Q1", "Q2", "Q3", "Q4"])),
                Axis::new("bytes", Unit::Bytes),
                bars,
            ),
        ],
        ..Figure::default()
    }
}
