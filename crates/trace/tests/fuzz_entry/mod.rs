//! What the fuzz target `study` does, so that tests can do it as well.

use oncewire_family::SamplerKind;
use oncewire_packet::{LinkType, Record};
use oncewire_trace::prefix::Prefixes;
use oncewire_trace::results::{Axis, Cell, Chart, ChartKind, Report, Share, Table, Unit};
use oncewire_trace::{Algorithm, FigureId, Settings, Study, Survey};

/// Most records of one input.
const RECORDS: usize = 400;

/// The input as numbers; zeros when it has ended.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn long(&mut self) -> u64 {
        u64::from_be_bytes([(); 8].map(|()| self.byte()))
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (first, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        first.to_vec()
    }
}

/// A record that owns its bytes.
struct Made {
    time: i64,
    link: LinkType,
    wire_len: u32,
    data: Vec<u8>,
}

/// Settings (figures and algorithms as bits, none for all; then memory), then records.
///
/// A record is what it is, how its time follows, hosts and ports, and its payload in pieces: as
/// given, as noise, and from earlier payloads, so that matches happen.
///
/// # Panics
/// When a promise of the results is broken.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut settings = settings(&mut input);
    let mut payloads: Vec<Vec<u8>> = Vec::new();
    let mut records: Vec<Made> = Vec::new();
    let mut time = 1_700_000_000_000_000_000_i64;
    while !input.0.is_empty() && records.len() < RECORDS {
        let what = input.byte();
        time = next_time(&mut input, time);
        let record = match what % 8 {
            0 => {
                let link =
                    LinkType::SUPPORTED[usize::from(input.byte()) % LinkType::SUPPORTED.len()];
                let len = usize::from(input.byte());
                let data = input.bytes(len);
                Made { time, link, wire_len: data.len() as u32, data }
            }
            1 if !records.is_empty() => {
                let earlier = &records[usize::from(input.short()) % records.len()];
                Made {
                    time,
                    link: earlier.link,
                    wire_len: earlier.wire_len,
                    data: earlier.data.clone(),
                }
            }
            kind => {
                let payload = payload(&mut input, &payloads);
                let data = packet(&mut input, kind, &payload);
                payloads.push(payload);
                // Cut off by a snapshot length, or so says the capture.
                let wire_len = match what >> 3 {
                    31 => u32::MAX,
                    30 => 0,
                    more => data.len() as u32 + u32::from(more / 8) * 500,
                };
                let len = if what >> 3 == 29 { data.len() / 2 } else { data.len() };
                Made { time, link: LinkType::RAW, wire_len, data: data[..len].to_vec() }
            }
        };
        records.push(record);
    }
    let bytes = records.iter().map(|record| record.data.len() as u64).sum();
    let huge = settings.figures.contains(&FigureId::Hosts)
        || settings.algorithms.contains(&Algorithm::Shared);
    if huge || settings.survey.is_some() {
        settings.survey = Some(Survey::all(bytes));
    }
    check(settings, &records);
}

fn settings(input: &mut Input<'_>) -> Settings {
    let (figures, algorithms) =
        (input.short(), u32::from(input.short()) << 8 | u32::from(input.byte()));
    let (memory, more) = (input.byte(), input.byte());
    let chosen = |bits: u32, index: usize| bits == 0 || bits >> index & 1 == 1;
    let pick = |of: [u64; 4], shift: u8| of[usize::from(memory >> shift & 3)];
    let samplers = [
        SamplerKind::Maxp,
        SamplerKind::SampleHash,
        SamplerKind::sample_byte(),
        SamplerKind::Fixed,
    ];
    let tables = Prefixes::parse("10.0.0.0/30 near\n2001:db8::/126\n::/0 all").expect("a table");
    Settings {
        window: [32, 12, 64, 33][usize::from(more & 3)],
        period: [32, 4, 64, 37][usize::from(more >> 2 & 3)],
        cache: pick([64 << 10, 100_001, 1 << 18, 1 << 20], 0),
        sampler: samplers[usize::from(more >> 4 & 3)].clone(),
        shim: [12, 0, 1, u32::MAX][usize::from(more >> 6)],
        inside: (memory & 64 != 0)
            .then(|| Prefixes::parse("10.0.0.0/31\n2001:db8::/127").expect("prefixes")),
        prefixes: (memory & 128 != 0).then_some(tables),
        figures: FigureId::ALL
            .into_iter()
            .enumerate()
            .filter(|&(i, _)| chosen(figures.into(), i))
            .map(|(_, id)| id)
            .collect(),
        algorithms: Algorithm::ALL
            .into_iter()
            .enumerate()
            .filter(|&(i, _)| chosen(algorithms, i))
            .map(|(_, id)| id)
            .collect(),
        survey: (more & 1 == 0).then(Survey::new),
        figure_memory: pick([64 << 20, 0, 1000, 100_000], 2),
        pair_memory: pick([16 << 20, 0, 100_000, 1 << 20], 4),
        price: (more & 2 != 0).then_some(0.09),
        link: (more & 4 != 0).then_some(1e8),
        threads: 1,
        ..Settings::default()
    }
}

fn next_time(input: &mut Input<'_>, time: i64) -> i64 {
    match input.byte() {
        255 => i64::MAX,
        254 => i64::MIN,
        253 => 0,
        252 => input.long() as i64,
        251 => 1_700_000_000_000_000_000,
        back @ 240..=250 => time.saturating_sub(1 << (5 * (back - 240))),
        // From nanoseconds to hours.
        forth => time.saturating_add(i64::from(forth & 7) << (forth >> 3)),
    }
}

fn payload(input: &mut Input<'_>, earlier: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..input.byte() % 4 {
        let (kind, len) = (input.byte(), usize::from(input.short()) % 3000);
        match kind % 6 {
            0 | 1 if !earlier.is_empty() => {
                let from = &earlier[earlier.len() - 1 - usize::from(input.byte()) % earlier.len()];
                let at = usize::from(input.short()) % (from.len() + 1);
                payload.extend_from_slice(&from[at..][..len.min(from.len() - at)]);
            }
            2 => payload.extend(input.bytes(len % 64)),
            3 => payload.extend(std::iter::repeat_n(kind, len)),
            4 => {
                let text: [&[u8]; 6] = [
                    b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 900\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n",
                    b"HEAD /b HTTP/1.0\r\n\r\n",
                    b"\x16\x03\x03\x02\x00\x01\x00\x01\xfc\x03\x03",
                    b"HTTP/1.1 206 Partial Content\r\nContent-Length: 18446744073709551615\r\n\r\n",
                ];
                payload.extend_from_slice(text[len % text.len()]);
            }
            _ => {
                let mut state = u64::from(input.byte());
                payload.extend(
                    std::iter::repeat_with(|| {
                        state = state
                            .wrapping_mul(0x5851_f42d_4c95_7f2d)
                            .wrapping_add(0x1405_7b7e_f767_814f);
                        (state >> 56) as u8
                    })
                    .take(len),
                );
            }
        }
    }
    payload
}

/// An IP packet between some of a few hosts.
fn packet(input: &mut Input<'_>, kind: u8, payload: &[u8]) -> Vec<u8> {
    let (hosts, ports) = (input.byte(), input.byte());
    let (source, destination) = (hosts & 3, hosts >> 2 & 3);
    let port = |bits: u8| [80_u16, 443, 40_000, 53, 0, 65_535, 40_001, 8080][usize::from(bits & 7)];
    let mut segment = Vec::new();
    segment.extend(port(ports).to_be_bytes());
    segment.extend(port(ports >> 3).to_be_bytes());
    let protocol = if kind == 2 {
        segment.extend((8 + payload.len() as u16).to_be_bytes());
        segment.extend([0, 0]);
        17
    } else {
        // Sequence numbers that follow each other, and others.
        let seq = if ports & 64 == 0 {
            u32::from(input.short())
        } else {
            u32::MAX - u32::from(input.byte())
        };
        segment.extend(seq.to_be_bytes());
        segment.extend([0, 0, 0, 1, 0x50, input.byte() & 0x17, 0xff, 0xff, 0, 0, 0, 0]);
        6
    };
    segment.extend(payload);
    let mut packet = Vec::new();
    if hosts & 128 == 0 {
        packet.extend([0x45, 0]);
        packet.extend((20 + segment.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
    } else {
        packet.extend([0x60, 0, 0, 0]);
        packet.extend((segment.len() as u16).to_be_bytes());
        packet.extend([protocol, 64]);
        for host in [source, destination] {
            packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
    }
    packet.extend(segment);
    packet
}

fn check(settings: Settings, records: &[Made]) {
    let window = settings.window as u32;
    let sink: oncewire_trace::MatchSink = Box::new(move |rows| {
        for row in rows {
            assert!(
                row.length <= row.packet_length && row.length >= window && row.distance > 0,
                "{row:?}"
            );
        }
        Ok(())
    });
    let figures = settings.figures.len();
    let mut study = Study::new(settings, Some(sink)).expect("these settings can work");
    let mut wire = 0;
    for Made { time, link, wire_len, data } in records {
        let record = Record { time: *time, link: *link, wire_len: *wire_len, data };
        wire += u64::from(record.unsliced().wire_bytes());
        study.push(&record).expect("it takes a packet");
    }
    let report = study.finish(vec!["made".into()], Vec::new()).expect("it ends well");
    assert_eq!(report.figures.len(), figures);
    assert_eq!((report.input.packets, report.input.wire_bytes), (records.len() as u64, wire));
    promises(&report);
}

/// What every report promises, whatever the traffic.
pub(crate) fn promises(report: &Report) {
    let sum = |shares: &[Share]| {
        shares.iter().fold((0, 0), |sum, share| (sum.0 + share.packets, sum.1 + share.bytes))
    };
    let (used, unused) = (sum(&report.accounting.used), sum(&report.accounting.unused));
    assert_eq!(
        (used.0 + unused.0, used.1 + unused.1),
        (report.input.packets, report.input.wire_bytes)
    );
    assert_eq!(sum(&report.accounting.bytes).1, used.1, "bytes of the used packets");
    assert!(report.input.duration >= 0.0 && report.input.duration.is_finite());

    let verdict = &report.verdict;
    assert!((0.0..=1.0).contains(&verdict.savings), "savings {}", verdict.savings);
    if let Some((low, high)) = verdict.spread {
        assert!(0.0 <= low && low <= high && high <= 1.0, "spread {low} to {high}");
    }
    if let Some(billing) = &verdict.billing {
        assert!(
            billing.before.is_finite() && (0.0..=billing.before).contains(&billing.after),
            "{billing:?}"
        );
    }
    if let Some(money) = &verdict.money {
        assert!(
            money.before.is_finite() && (0.0..=money.before).contains(&money.after),
            "{money:?}"
        );
    }
    if let Some(time) = &verdict.time {
        assert!(
            time.busy_before.is_finite() && (0.0..=time.busy_before).contains(&time.busy_after),
            "{time:?}"
        );
    }
    for figure in &report.figures {
        figure.tables.iter().for_each(|table| of_table(figure.id, table));
        figure.charts.iter().for_each(|chart| of_chart(figure.id, chart));
    }
}

fn of_table(figure: &str, table: &Table) {
    for row in &table.rows {
        assert_eq!(row.len(), table.columns.len(), "{figure}/{}: {row:?}", table.id);
        for (cell, column) in row.iter().zip(&table.columns) {
            let Cell::Number(number) = *cell else { continue };
            assert!(number.is_finite(), "{figure}/{}: {row:?}", table.id);
            // Quotients of two savings.
            let quotient = matches!(&column.name[..], "share of optimal" | "hosts / middlebox");
            if column.unit == Unit::Share && !quotient {
                assert!(
                    (0.0..=1.0 + 1e-9).contains(&number),
                    "{figure}/{}: {} is {number} in {row:?}",
                    table.id,
                    column.name
                );
            }
        }
    }
}

fn of_chart(figure: &str, chart: &Chart) {
    let name = chart.id;
    let on = |axis: &Axis, value: f64| value.is_finite() && (!axis.log || value > 0.0);
    for series in &chart.series {
        let y = if series.right {
            chart.right.as_ref().expect("an axis for the series")
        } else {
            &chart.y
        };
        for (index, &point) in series.points.iter().enumerate() {
            assert!(
                on(&chart.x, point.0) && on(y, point.1),
                "{figure}/{name}: {point:?} of {}",
                series.name
            );
            assert!(
                index == 0 || series.points[index - 1].0 <= point.0,
                "{figure}/{name}: {point:?} of {} goes back",
                series.name
            );
            if matches!(chart.kind, ChartKind::Bars | ChartKind::StackedBars) {
                let place = point.0;
                assert!(
                    place.fract() == 0.0
                        && place >= 0.0
                        && (place as usize) < chart.x.categories.len(),
                    "{figure}/{name}: {point:?}"
                );
            }
            if y.unit == Unit::Share {
                assert!(
                    (0.0..=1.0 + 1e-9).contains(&point.1),
                    "{figure}/{name}: {point:?} of {}",
                    series.name
                );
            }
        }
    }
}
