//! What must hold for every figure on any trace.

use super::Observer;
use super::{destinations, hits, lengths, locality, origins, temporal};
use crate::batch::Direction;
use crate::batch::testing::{Made, noise, observe};
use crate::results::{Axis, Cell, Figure, Unit};
use proptest::prelude::*;

fn observers(memory: u64) -> Vec<Box<dyn Observer>> {
    vec![
        Box::new(temporal::Temporal::new(memory)),
        Box::new(origins::Origins::new(memory)),
        Box::new(lengths::Lengths::new(memory)),
        Box::new(locality::Locality::new(memory)),
        Box::new(hits::Hits::new(memory)),
        Box::new(destinations::Destinations::new(memory, None)),
    ]
}

fn check(figure: &Figure) {
    assert!((1..=15).contains(&figure.number));
    for words in [figure.id, figure.title, figure.source, &figure.definition] {
        assert!(!words.is_empty());
        assert!(!words.contains("  "), "{words}");
    }
    for words in figure.notes.iter().chain([&figure.finding]) {
        assert!(
            !words.contains("  ") && !words.contains("NaN") && !words.contains("inf "),
            "{words}"
        );
    }
    for table in &figure.tables {
        assert!(!table.caption.is_empty(), "{}", table.id);
        for row in &table.rows {
            assert_eq!(row.len(), table.columns.len(), "{}: {row:?}", table.id);
            for (cell, column) in row.iter().zip(&table.columns) {
                match cell {
                    Cell::Text(_) => {
                        assert_eq!(column.unit, Unit::Text, "{}: {}", table.id, column.name)
                    }
                    Cell::Number(number) => {
                        assert!(number.is_finite());
                        let share =
                            column.unit != Unit::Share || (-1e-9..=1.0 + 1e-9).contains(number);
                        assert!(share, "{}: {} {number}", table.id, column.name);
                    }
                    Cell::Count(_) | Cell::None => assert_ne!(column.unit, Unit::Text),
                }
            }
        }
    }
    let in_range = |axis: &Axis, value: f64| value.is_finite() && (!axis.log || value > 0.0);
    for chart in &figure.charts {
        for series in &chart.series {
            assert!(!series.name.is_empty() && series.points.len() <= 4000);
            assert!(
                series.points.is_sorted_by(|a, b| a.0 <= b.0),
                "{}: {:?}",
                chart.id,
                series.points
            );
            assert!(
                series.points.iter().all(|(x, y)| in_range(&chart.x, *x) && in_range(&chart.y, *y)),
                "{}",
                chart.id
            );
        }
    }
}

/// A packet by seed of content, length, times 100 ms, hosts and direction.
type Seeds = ((u64, usize), i64, (u8, u8, u16), bool);

fn made(&((content, len), time, (source, destination, port), inbound): &Seeds) -> Made {
    let made = Made::udp(&format!("10.{source}.0.1:{port}"), &format!("10.{destination}.0.1:1000"));
    let direction = if inbound { Direction::Inbound } else { Direction::Outbound };
    let mut payload = noise(content, 1000);
    payload.truncate(len);
    made.at(time as f64 / 10.0).direction(direction).payload(&payload)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn figures_are_sound_bounded_and_blind_to_batches(
        packets in proptest::collection::vec(
            ((0u64..12, 0usize..1000), -50i64..20_000, (0u8..4, 0u8..4, 1u16..4), any::<bool>()),
            0..150,
        ),
        sorted in any::<bool>(),
        directions in any::<bool>(),
        cache in prop_oneof![Just(5_000u64), Just(1 << 20)],
        memory in prop_oneof![Just(0u64), Just(100_000), Just(16 << 20)],
        per_batch in 1usize..40,
    ) {
        let mut packets = packets;
        if sorted {
            packets.sort_by_key(|packet| packet.1);
        }
        let mut packets: Vec<Made> = packets.iter().map(made).collect();
        if !directions {
            packets.iter_mut().for_each(|made| made.packet.direction = Direction::All);
        }
        for (observer, again) in observers(memory).into_iter().zip(observers(memory)) {
            let figure = observe(observer, &packets, cache, per_batch);
            check(&figure);
            prop_assert!(figure.memory <= memory.max(100_000), "figure {}: {}", figure.number, figure.memory);
            prop_assert_eq!(figure, observe(again, &packets, cache, 1));
        }
    }
}
