//! The filters against an exact set, and the runs against their definition.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::Config;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    Noise(SplitMix64(seed)).take(len).collect()
}

fn optimal(window: usize, cache: u64, filter: Filter) -> Optimal {
    Optimal::new(window, cache, DEFAULT_POINTER, filter).unwrap()
}

/// Blocks of few letters and of repeats, so that windows repeat at all distances.
fn blocks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let piece = prop_oneof![
        (any::<u64>(), 0usize..120).prop_map(|(seed, len)| noise(seed, len)),
        (0u64..4, 0usize..200).prop_map(|(seed, len)| noise(seed, len)),
        (any::<u64>(), 0usize..200)
            .prop_map(|(seed, len)| noise(seed, len).iter().map(|b| b & 1).collect()),
        (any::<u8>(), 0usize..100).prop_map(|(byte, len)| vec![byte; len]),
    ];
    let block = proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
    proptest::collection::vec(block, 1..8)
}

/// Whether each window that lies inside the last block begins a copy of one that begins up to
/// `cache` bytes back: said plainly.
fn naive_hits(stream: &[u8], block: usize, window: usize, cache: usize) -> Vec<usize> {
    (block..(stream.len() + 1).saturating_sub(window).max(block))
        .filter(|&at| {
            (at.saturating_sub(cache)..at)
                .any(|past| stream[past..past + window] == stream[at..at + window])
        })
        .map(|at| at - block)
        .collect()
}

/// What greedy parsing with the longest match at each position saves: matches of at least a window.
fn greedy_saves(stream: &[u8], block: usize, window: usize, cache: usize, pointer: usize) -> usize {
    let (mut at, mut saved) = (block, 0);
    while at < stream.len() {
        let longest = (at.saturating_sub(cache)..at)
            .map(|past| {
                stream[past..].iter().zip(&stream[at..]).take_while(|(a, b)| a == b).count()
            })
            .max()
            .unwrap_or(0);
        if longest >= window && longest > pointer {
            saved += longest - pointer;
            at += longest;
        } else {
            at += 1;
        }
    }
    saved
}

proptest! {
    #![proptest_config(Config { cases: 64, failure_persistence: None, ..Config::default() })]

    #[test]
    fn exact_is_the_plain_definition_and_bounds_a_greedy_parse(
        blocks in blocks(),
        window in 12usize..=40,
        cache in prop_oneof![1usize..300, Just(1 << 16)],
        pointer in prop_oneof![Just(4u64), 0u64..60],
    ) {
        let mut exact = Optimal::new(window, cache as u64, pointer, Filter::Exact).unwrap();
        let mut stream = Vec::new();
        for block in blocks {
            let start = stream.len();
            stream.extend_from_slice(&block);
            let figures = exact.add_block(&block);
            let hits = naive_hits(&stream, start, window, cache);
            prop_assert_eq!(figures.hits, hits.len() as u64);
            prop_assert_eq!(figures.windows, (block.len() + 1).saturating_sub(window) as u64);
            let covered = (0..block.len()).filter(|&at| hits.iter().any(|&hit| (hit..hit + window).contains(&at))).count();
            if pointer < window as u64 {
                prop_assert_eq!(figures.run_bytes, covered as u64);
            }
            prop_assert_eq!(figures.saved_bytes, figures.run_bytes - pointer * figures.runs);
            let greedy = greedy_saves(&stream, start, window, cache, pointer as usize);
            prop_assert!(greedy as u64 <= figures.saved_bytes, "greedy {} above {}", greedy, figures.saved_bytes);
        }
    }

    #[test]
    fn filters_find_what_is_there_and_little_more(blocks in blocks(), window in 12usize..=64, evict in 100u64..2000) {
        let held = 1 << 15;
        let mut filters = [
            (optimal(window, held, Filter::Bloom), optimal(window, held, Filter::Exact)),
            (optimal(window, held, Filter::CountingBloom), optimal(window, held, Filter::Exact)),
            (optimal(window, evict, Filter::CountingBloom), optimal(window, evict, Filter::Exact)),
        ];
        for block in &blocks {
            for (filter, exact) in &mut filters {
                // Window by window: no hit of the exact filter is missed.
                for at in 0..(block.len() + 1).saturating_sub(window) {
                    prop_assert!(filter.holds(&block[at..at + window]) >= exact.holds(&block[at..at + window]));
                }
                let (found, truth) = (filter.add_block(block), exact.add_block(block));
                prop_assert!(found.hits >= truth.hits && found.run_bytes >= truth.run_bytes, "{:?} {:?}", found, truth);
                prop_assert!(found.saved_bytes >= truth.saved_bytes);
            }
        }
        let (found, truth) = (filters[0].0.totals(), filters[0].1.totals());
        // At most an eighth full: less than one false hit in a million windows is expected.
        prop_assert!(found.hits <= truth.hits + 1);
    }

    #[test]
    fn block_limits_do_not_matter_for_what_is_inserted(blocks in blocks(), probe in any::<u64>()) {
        let mut apart = optimal(20, 700, Filter::CountingBloom);
        let mut joined = optimal(20, 700, Filter::CountingBloom);
        for block in &blocks {
            apart.add_block(block);
        }
        joined.add_block(&blocks.concat());
        let (Store::Counting(a), Store::Counting(b)) = (&apart.filter, &joined.filter) else { unreachable!() };
        prop_assert!(a.words[..] == b.words[..] && a.used == b.used);
        prop_assert_eq!(a.used as usize, (0..a.len).filter(|&i| a.get::<4>(i) != 0).count());
        prop_assert_eq!(apart.false_positive_bias(probe, 500), joined.false_positive_bias(probe, 500));
    }
}

#[test]
fn after_eviction_only_false_hits_differ() {
    // Noise of five caches; of each part some comes again soon (found) and some late (evicted).
    let cache = 100_000;
    let mut counting = optimal(32, cache, Filter::CountingBloom);
    let mut exact = optimal(32, cache, Filter::Exact);
    for seed in 0..25u64 {
        let again = |back: u64| noise(seed.wrapping_sub(back), 2000);
        for part in [noise(seed, 20_000), again(2), again(9)] {
            for block in part.chunks(1448) {
                counting.add_block(block);
                exact.add_block(block);
            }
        }
    }
    let (found, truth) = (counting.totals(), exact.totals());
    assert!((23 * 1800..23 * 2000).contains(&truth.hits), "{truth:?}");
    let false_hits = (found.hits - truth.hits) as f64;
    let rate = false_hits / (truth.windows - truth.hits) as f64;
    assert!((0.0003..0.0007).contains(&rate), "{rate}");
    assert!(
        (false_hits / found.expected_false_hits - 1.0).abs() < 0.3,
        "{false_hits} {}",
        found.expected_false_hits
    );
}

#[test]
fn saturated_counters_stay() {
    let mut counting = optimal(12, 100, Filter::CountingBloom);
    counting.add_block(&[7; 90]);
    assert!(counting.holds(&[7; 12]));
    // Counted 79 times and forgotten as often.
    counting.add_block(&noise(1, 1000));
    assert!(counting.holds(&[7; 12]), "15 means 15 or more");
}

#[test]
fn a_full_filter_has_the_thesis_bias() {
    for filter in [Filter::Bloom, Filter::CountingBloom] {
        let cache = 400_000;
        let mut full = optimal(32, cache, filter);
        full.add_block(&noise(1, cache as usize));
        let bias = full.false_positive_bias(2, 2_000_000);
        // 1 - e^(-8/16), and its eighth power.
        assert!((bias.fill - 0.3935).abs() < 0.002, "{bias:?}");
        assert!((bias.expected_per_window - 0.000575).abs() < 0.00003, "{bias:?}");
        assert!(
            (bias.measured_per_window / bias.expected_per_window - 1.0).abs() < 0.15,
            "{bias:?}"
        );
        assert!((0.015..0.021).contains(&bias.apparent_redundancy), "{bias:?}");
        assert!((0.013..bias.apparent_redundancy).contains(&bias.apparent_savings), "{bias:?}");
    }
}

#[test]
fn an_empty_or_exact_filter_has_no_bias() {
    let mut exact = optimal(32, 50_000, Filter::Exact);
    exact.add_block(&noise(1, 10_000));
    let lines = optimal(32, 50_000, Filter::Lines);
    for filter in [exact, optimal(32, 50_000, Filter::Bloom), lines] {
        let bias = filter.false_positive_bias(2, 10_000);
        assert_eq!(
            (bias.measured_per_window, bias.apparent_redundancy, bias.apparent_savings),
            (0.0, 0.0, 0.0)
        );
    }
}

#[test]
fn lines_have_fewer_false_hits_than_a_plain_filter() {
    let cache = 400_000;
    let mut full = optimal(32, cache, Filter::Lines);
    full.add_block(&noise(1, cache as usize));
    let bias = full.false_positive_bias(2, 4_000_000);
    // 1 - e^(-8/24), and its eighth power. Lines fill unevenly, so that false hits are more.
    assert!((bias.fill - 0.2835).abs() < 0.002, "{bias:?}");
    let false_hits = bias.measured_per_window / bias.expected_per_window;
    assert!((1.0..3.5).contains(&false_hits), "{bias:?}");
    assert!(bias.measured_per_window < 0.00058 / 4.0, "{bias:?}");
}

#[test]
fn windows_that_straddle_blocks_are_found_but_not_looked_up() {
    let data = noise(5, 100);
    for filter in [Filter::Bloom, Filter::Lines, Filter::CountingBloom, Filter::Exact] {
        let mut optimal = optimal(32, 1000, filter);
        assert_eq!(optimal.add_block(&data[..50]).windows, 19);
        assert_eq!(optimal.add_block(&data[50..]).windows, 19);
        let found = optimal.add_block(&data[34..66]);
        assert_eq!((found.windows, found.hits, found.run_bytes, found.saved_bytes), (1, 1, 32, 28));
        assert_eq!(optimal.totals().bytes, 132);
    }
}

#[test]
fn windows_that_overlap_are_one_run_and_those_that_touch_are_two() {
    let data = noise(6, 100);
    for (second, runs) in [(31, 1), (32, 2), (33, 2)] {
        let mut all = Runs::new(32, 4);
        all.hit(0);
        all.hit(second);
        assert_eq!(
            all.finish(),
            (runs, 64 - 32u64.saturating_sub(second), 64 - 32u64.saturating_sub(second) - 4 * runs)
        );
    }
    // Two copies from different places, side by side.
    let mut exact = optimal(32, 1000, Filter::Exact);
    exact.add_block(&data);
    let found = exact.add_block(&[&data[60..100], &data[..40]].concat());
    assert_eq!((found.hits, found.runs, found.run_bytes, found.saved_bytes), (18, 2, 80, 72));
}

#[test]
fn a_run_refers_to_its_own_block_from_a_distance_of_one() {
    let mut optimal = optimal(16, 1000, Filter::Exact);
    let found = optimal.add_block(&[9; 100]);
    assert_eq!((found.hits, found.runs, found.run_bytes), (84, 1, 99));
}

#[test]
fn of_earlier_blocks_it_finds_nothing_within_one() {
    let part = noise(7, 100);
    let twice = [&part[..], &part].concat();
    for filter in [Filter::Exact, Filter::Bloom, Filter::Lines, Filter::CountingBloom] {
        let mut earlier = optimal(16, 1000, filter).of_earlier_blocks();
        let first = earlier.add_block(&twice);
        assert_eq!((first.windows, first.hits, first.saved_bytes), (185, 0, 0));
        // Both copies, and what straddles them: all of it was in the block before.
        let again = earlier.add_block(&twice);
        assert_eq!((again.hits, again.run_bytes, again.saved_bytes), (185, 200, 196));
    }
}

#[test]
fn parameters_are_checked() {
    let error =
        |window, cache| Optimal::new(window, cache, DEFAULT_POINTER, Filter::Exact).unwrap_err();
    assert!(matches!(error(11, 100), ConfigError::Window { window: 11 }));
    assert!(matches!(error(65, 100), ConfigError::Window { window: 65 }));
    assert!(matches!(error(32, 0), ConfigError::Capacity { .. }));
    assert!(matches!(error(32, u64::MAX), ConfigError::Capacity { .. }));
}
