use super::*;
use crate::batch::testing::{Made, noise, observe};
use crate::results::{Cell, Figure};
use proptest::prelude::*;

fn cell(figure: &Figure, table: usize, key: &[&str], column: usize) -> Cell {
    let row = figure.tables[table]
        .rows
        .iter()
        .find(|row| row.iter().zip(key).all(|(cell, key)| *cell == Cell::from(*key)))
        .unwrap_or_else(|| panic!("no row {key:?}"));
    row[column].clone()
}

#[test]
fn shares_lengths_and_intervals_of_a_known_trace() {
    let web = Made::tcp("10.0.0.1:80", "10.0.0.2:2000").direction(Direction::Outbound);
    let dns = Made::udp("10.0.0.9:4000", "10.0.0.8:53").direction(Direction::Inbound);
    let packets = [
        web.clone().payload(&noise(1, 1000)),
        web.clone().payload(&noise(2, 400)),
        web.clone(),
        // The same payload the other way is new there.
        dns.clone().payload(&noise(1, 1000)),
        web.clone().payload(&noise(1, 1000)),
        web.clone().payload(&noise(1, 1000)),
        // Part of a payload is not replicated.
        web.clone().payload(&noise(1, 1000)[..600]),
        web.clone().payload(&noise(2, 400)),
        dns.clone().payload(&noise(3, 100)),
        dns.payload(&noise(3, 100)),
    ];
    let mut truncated = web.payload(&noise(1, 1000));
    truncated.packet.missing = 5;
    let packets: Vec<_> = packets.into_iter().chain([truncated]).collect();
    for per_batch in [1, 3, 20] {
        let figure = observe(Box::new(Replicated::new(1 << 30)), &packets, 1 << 20, per_batch);
        let volume = |key: &[&str], column| cell(&figure, 0, key, column);
        assert_eq!(volume(&["outbound", "all"], 2), Cell::Count(6));
        assert_eq!(volume(&["outbound", "all"], 3), Cell::Count(4400));
        assert_eq!(volume(&["outbound", "HTTP, by port"], 5), Cell::Count(2400));
        assert_eq!(volume(&["outbound", "all"], 6), Cell::Number(2400.0 / 4400.0));
        assert_eq!(volume(&["inbound", "UDP 53"], 5), Cell::Count(100));
        assert_eq!(volume(&["total", "all"], 4), Cell::Count(4));
        assert_eq!(cell(&figure, 1, &["outbound"], 1), Cell::Number(2400.0 / 4400.0));
        let outbound = &figure.charts[0].series[0];
        assert_eq!(
            (outbound.name.as_str(), &outbound.points[..]),
            ("outbound", &[(400.0, 400.0 / 2400.0), (1000.0, 1.0)][..])
        );
        // Intervals 1400, 1000 and 3000, in bins of an eighth of an octave.
        let points: Vec<_> = figure.charts[1].series[0]
            .points
            .iter()
            .map(|&(x, y)| (x as u64, (y * 4400.0).round() as u64))
            .collect();
        assert_eq!(points, [(1023, 1000), (1407, 2000), (3071, 2400)]);
        assert!(
            figure.notes.iter().any(|note| note.starts_with("1 packet (1.00 kB")),
            "{:?}",
            figure.notes
        );
        assert!(figure.finding.starts_with("44.6 % of"), "{}", figure.finding);
    }
}

#[test]
fn an_empty_trace_has_no_shares() {
    let figure = observe(
        Box::new(Replicated::new(1 << 20)),
        &[Made::tcp("10.0.0.1:80", "10.0.0.2:2000")],
        1 << 20,
        1,
    );
    assert_eq!(cell(&figure, 0, &["total", "all"], 6), Cell::None);
    assert!(figure.charts.iter().all(|chart| chart.series.is_empty()));
}

#[test]
fn beyond_its_memory_it_samples_and_stays_right() {
    let base = Made::udp("10.0.0.1:1", "10.0.0.2:2");
    // Each payload twice: half of the volume is replicated.
    let packets: Vec<_> = (0..20_000u64).map(|i| base.clone().payload(&noise(i / 2, 20))).collect();
    let budget = Way::BYTES + (100 << 10);
    let figure = observe(Box::new(Replicated::new(budget)), &packets, 1 << 20, 1000);
    assert!(figure.memory <= budget, "{} > {budget}", figure.memory);
    let Cell::Number(share) = cell(&figure, 0, &["all", "all"], 6) else { panic!() };
    assert!((share - 0.5).abs() < 0.1, "{share}");
    assert!(figure.notes.iter().any(|note| note.contains("sampled by their hash")));
}

proptest! {
    #[test]
    fn bins_cover_every_interval_in_order(interval in prop_oneof![0..5000u64, any::<u64>()]) {
        prop_assert!(interval <= bin_end(bin(interval)));
        prop_assert!(bin(interval) == 0 || interval > bin_end(bin(interval) - 1));
        prop_assert!(bin(interval) < BINS);
    }
}
