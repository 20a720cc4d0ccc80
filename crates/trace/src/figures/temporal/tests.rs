use super::*;
use crate::batch::testing::{Made, find, noise, observe, value};
use crate::figures::tally::percentile;
use crate::results::{Cell, Figure, Table};
use proptest::prelude::*;

fn made(time: f64, payload: &[u8]) -> Made {
    Made::udp("10.0.0.1:80", "10.0.0.2:1000").at(time).payload(payload)
}

fn table<'a>(figure: &'a Figure, id: &str) -> &'a Table {
    figure.tables.iter().find(|table| table.id == id).unwrap()
}

fn close(cell: Cell, expected: f64) {
    match cell {
        Cell::Number(value) if (value - expected).abs() < 1e-9 => {}
        other => panic!("{other:?}, not {expected}"),
    }
}

/// Ten seconds: in each one a new packet of 958 bytes payload, 1,000 on the wire; in seconds 0, 2,
/// 4, 6, 8 also a repeat of it, which costs
/// 46. The last packet, at 10 s, completes the tenth second.
fn ten_seconds() -> Vec<Made> {
    let mut packets = Vec::new();
    for second in 0..10u64 {
        packets.push(made(second as f64, &noise(second, 958)));
        if second % 2 == 0 {
            packets.push(made(second as f64 + 0.5, &noise(second, 958)));
        }
    }
    packets.push(made(10.0, b""));
    packets
}

#[test]
fn statistics_of_the_two_series_are_compared() {
    let figure = observe(Box::new(Temporal::new(1 << 20)), &ten_seconds(), 1 << 20, 4);
    let percentiles = table(&figure, "percentiles");
    // 1 s and 2 s have ten and five buckets; 5 s has two: too few.
    assert_eq!(percentiles.rows.len(), 2);
    assert_eq!(value(percentiles, 0, "buckets"), Cell::Count(10));
    // Original 2,000 and 1,000 by turns; reduced 1,046 and 1,000.
    close(value(percentiles, 0, "mean"), 1.0 - 10_230.0 / 15_000.0);
    close(value(percentiles, 0, "median"), 0.0);
    close(value(percentiles, 0, "95th percentile"), 1.0 - 1046.0 / 2000.0);
    close(value(percentiles, 0, "peak"), 1.0 - 1046.0 / 2000.0);
    close(value(percentiles, 0, "original peak"), 16_000.0);
    close(value(percentiles, 1, "median"), 1.0 - 2046.0 / 3000.0);
    // Of the hundredths, 16 have packets: five repeats, eleven that save nothing.
    let spread_table = table(&figure, "spread");
    assert_eq!(spread_table.rows[0][..2], ["p10".into(), 0.0.into()]);
    assert_eq!(spread_table.rows[2][0], "p90".into());
    close(value(spread_table, 2, "savings"), 1.0 - 46.0 / 1000.0);
    let Finding::Temporal(found) =
        find(Box::new(Temporal::new(1 << 20)), &ten_seconds(), 1 << 20, 4)
    else {
        panic!()
    };
    assert_eq!(found.spread(), Some((0.0, 1.0 - 46.0 / 1000.0)));
    assert_eq!(figure.charts[0].id, "volume");
}

#[test]
fn an_incomplete_last_bucket_is_left_out_and_empty_ones_count() {
    // Packets at 0, 4 and 4.5 s: the bucket of 4 s is half covered.
    let packets = [made(0.0, &noise(1, 958)), made(4.0, &noise(2, 58)), made(4.5, &noise(3, 58))];
    let figure = observe(Box::new(Temporal::new(1 << 20)), &packets, 1 << 20, 4);
    let percentiles = table(&figure, "percentiles");
    assert_eq!(value(percentiles, 0, "buckets"), Cell::Count(4));
    assert_eq!(value(percentiles, 0, "empty"), Cell::Count(3));
    close(value(percentiles, 0, "original mean"), 2000.0);
    assert_eq!(value(percentiles, 0, "median"), Cell::None);
    close(value(percentiles, 0, "peak"), 0.0);
}

#[test]
fn correlation_has_its_sign() {
    // Busy seconds repeat, quiet ones do not; then the other way round.
    for sign in [1.0, -1.0] {
        let mut packets = Vec::new();
        for second in 0..40u64 {
            let busy = second % 2 == 0;
            let repeats = busy == (sign > 0.0);
            for k in 0..if busy { 6 } else { 2 } {
                let seed = second * 100 + if repeats { 0 } else { k };
                packets.push(made(second as f64 + k as f64 / 10.0, &noise(seed, 958)));
            }
        }
        packets.push(made(40.0, b""));
        let figure = observe(Box::new(Temporal::new(1 << 20)), &packets, 1 << 20, 50);
        close(value(table(&figure, "correlation"), 0, "coefficient"), sign);
        assert_eq!(value(table(&figure, "correlation"), 0, "bucket"), Cell::Number(1.0));
        // Six packets of 1,000 bytes and two by turns, repeats reduced to 46.
        let percentiles = table(&figure, "percentiles");
        let (mean, p95) =
            if sign > 0.0 { (3230.0 / 8000.0, 2.0 / 6.0) } else { (7046.0 / 8000.0, 1.0) };
        close(value(percentiles, 0, "mean"), 1.0 - mean);
        close(value(percentiles, 0, "95th percentile"), 1.0 - p95);
        assert!(figure.finding.contains("strongly correlated"), "{}", figure.finding);
    }
}

#[test]
fn energies_of_a_known_series() {
    let mut packets = Vec::new();
    for n in 0..64u64 {
        if n % 2 == 0 {
            packets.push(made(n as f64 / 100.0, &noise(n, 958)));
        }
    }
    let figure = observe(Box::new(Temporal::new(1 << 20)), &packets, 1 << 20, 50);
    let burstiness = table(&figure, "burstiness");
    // 1,000 and 0 by turns: (1,000)^2 / 2 at 10 ms, nothing above.
    close(value(burstiness, 0, "time scale"), 0.01);
    close(value(burstiness, 0, "original"), 500_000f64.log2());
    assert_eq!(value(burstiness, 1, "original"), Cell::None);
    assert_eq!(value(burstiness, 1, "time scale"), Cell::Number(0.02));
}

#[test]
fn directions_and_their_total() {
    let mut packets = ten_seconds();
    packets.iter_mut().for_each(|made| made.packet.direction = Direction::Inbound);
    packets.push(made(10.0, &noise(99, 458)).direction(Direction::Outbound));
    let figure = observe(Box::new(Temporal::new(1 << 20)), &packets, 1 << 20, 4);
    let names: Vec<_> =
        table(&figure, "spread").columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["percentile", "outbound", "inbound", "savings"]);
    let directions: Vec<_> =
        table(&figure, "correlation").rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(directions, ["outbound".into(), "inbound".into(), "total".into()]);
    let ids: Vec<_> =
        figure.charts.iter().map(|chart| chart.id).filter(|id| id.starts_with("volume")).collect();
    assert_eq!(ids, ["volume-outbound", "volume-inbound", "volume"]);
    let total = figure.charts.iter().find(|chart| chart.id == "volume").unwrap();
    let bytes: f64 = total.series[0].points.iter().map(|(_, rate)| rate).sum::<f64>() / 8.0 / 20.0;
    assert!((bytes - 15_542.0).abs() < 1e-6, "{bytes}");
}

#[test]
fn nothing_one_packet_and_wild_clocks() {
    let figure = observe(Box::new(Temporal::new(1 << 20)), &[], 1 << 20, 4);
    assert!(figure.tables.is_empty() && figure.charts.is_empty() && figure.finding.is_empty());
    assert_eq!(OverTime::default().spread(), None);
    let figure = observe(Box::new(Temporal::new(1 << 20)), &[made(5.0, b"x")], 1 << 20, 4);
    assert_eq!(value(table(&figure, "spread"), 1, "savings"), Cell::Number(0.0));
    let mut packets =
        vec![made(5.0, b"x"), made(5.0, b"x"), made(6.0, b"x"), made(0.0, b"x"), made(7.0, b"x")];
    packets[1].packet.time = i64::MAX;
    packets[3].packet.time = i64::MIN;
    let figure = observe(Box::new(Temporal::new(0)), &packets, 1 << 20, 4);
    assert!(figure.charts[0].series[0].points.len() <= PLACES as usize);
    assert!(figure.notes.iter().any(|note| note.contains("steps back")), "{:?}", figure.notes);
}

#[test]
fn memory_is_bounded_and_wide_buckets_stay_exact() {
    // 20 hours, a packet every 37 s.
    let packets: Vec<Made> =
        (0..1946u64).map(|n| made(n as f64 * 37.0, &noise(n % 7, 100))).collect();
    let budget = 60_000;
    let small = observe(Box::new(Temporal::new(budget)), &packets, 1 << 20, 100);
    let large = observe(Box::new(Temporal::new(1 << 24)), &packets, 1 << 20, 100);
    assert!(small.memory <= budget, "{}", small.memory);
    assert!(
        small.notes.iter().any(|note| note.contains("uses buckets of 10 min")),
        "{:?}",
        small.notes
    );
    let (small, large) = (table(&small, "percentiles"), table(&large, "percentiles"));
    assert_eq!(large.rows.len(), 13);
    assert_eq!(small.rows, large.rows[8..]);
}

proptest! {
    #[test]
    fn buckets_and_statistics_are_those_of_the_definition(
        packets in proptest::collection::vec((-3_000i64..60_000, 1u64..1500, 0u64..1500, any::<bool>()), 1..300),
        memory in prop_oneof![Just(0u64), Just(1 << 20)],
        width in prop_oneof![Just(1i64), Just(2), Just(5), Just(10)],
    ) {
        let mut sums = Sums::new(memory);
        for (ms, original, saved, inbound) in &packets {
            let direction = if *inbound { Direction::Inbound } else { Direction::Outbound };
            sums.add(ms * 1_000_000, direction, *original, original.saturating_sub(*saved));
        }
        sums.flush();
        sums.put_together();
        prop_assert!(sums.buckets.capacity() <= 256.max(memory as usize / BUCKET_BYTES as usize));
        let span = (packets.iter().map(|p| p.0).min().unwrap() * 1_000_000, packets.iter().map(|p| p.0).max().unwrap() * 1_000_000);
        let clock = Clock { span, base: sums.width };
        let width = width * SECOND;
        let (first, last) = clock.complete(width);
        if clock.has(width) && last >= first {
            let got = clock.percentiles_of(&total_of(&sums.buckets), width);
            let mut original = vec![0u64; (last - first + 1) as usize];
            let mut reduced = original.clone();
            for (ms, bytes, saved, _) in &packets {
                let index = (ms * 1_000_000).div_euclid(width) - first;
                if (0..original.len() as i64).contains(&index) {
                    original[index as usize] += bytes;
                    reduced[index as usize] += bytes.saturating_sub(*saved);
                }
            }
            for (series, get) in [(&mut original, (|r| r.0) as fn((f64, f64)) -> f64), (&mut reduced, |r| r.1)] {
                series.sort_unstable();
                let rate = |bytes: f64| bytes * 8.0 / (width / SECOND) as f64;
                let mean = rate(series.iter().sum::<u64>() as f64 / series.len() as f64);
                prop_assert!((get(got. rates[0]) - mean).abs() <= 1e-9 * mean.max(1.0));
                for (i, share) in [(1, 0.5), (2, 0.95), (3, 1.0)] {
                    prop_assert_eq!(get(got. rates[i]), rate(percentile(series, share).unwrap() as f64));
                }
            }
        }
    }
}
