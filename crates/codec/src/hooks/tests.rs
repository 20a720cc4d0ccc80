use super::*;

#[test]
fn a_window_is_a_marker_by_its_bytes_alone() {
    for len in [0, 31, 32, 33, 159, 160, 10_007, 70_000] {
        let content = content(3, len);
        let is_marker =
            |window: &[u8]| window.iter().fold(0, |hash, &byte| gear(hash, byte)) < LIMIT;
        let expected: Vec<u32> = content
            .windows(WINDOW)
            .enumerate()
            .filter_map(|(at, window)| is_marker(window).then_some(at as u32))
            .collect();
        assert_eq!(rolled_positions(&content), expected, "{len} bytes");
    }
}

#[test]
fn a_candidate_is_a_marker_by_its_bytes_alone() {
    for len in [0, 31, 32, 33, 159, 160, 10_007, 300_000] {
        let content = content(6, len);
        // The hash of SAMPLEHASH, as it is defined.
        let low = |window: &[u8]| {
            let [low, high] = [0, 2].map(|at| u16::from_le_bytes([window[at], window[at + 1]]));
            low.wrapping_mul(0x9e37).wrapping_add(high.wrapping_mul(0xc2b3)) <= CANDIDATES
                && window[..4] != [0; 4]
        };
        let windows = content.windows(WINDOW).enumerate();
        let expected: Vec<u32> = windows
            .filter_map(|(at, window)| {
                (low(window) && window_hash(window) < CHOSEN).then_some(at as u32)
            })
            .collect();
        let found = sampled_positions(Kernels::detect(), &content);
        assert_eq!(found.unwrap_or_default(), expected, "{len} bytes");
        assert!(expected.len() >= len / 1500, "{} in {len} bytes", expected.len());
    }
}

/// Content whose letters make no candidate has as many markers as any other.
#[test]
fn content_of_few_letters_has_markers() {
    let bytes = content(7, 1 << 20);
    for letters in [b"01".as_slice(), b"ab", b"xy", b"ACGT", b"0123456789,\n", b"\x00\xff"] {
        let text: Vec<u8> =
            bytes.iter().map(|&byte| letters[usize::from(byte) % letters.len()]).collect();
        let found = markers(&text, Domain(5), 9).len();
        assert!((256..4096).contains(&found), "{found} markers of {letters:?}");
    }
}

fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn markers_of_a_part_are_those_of_its_content() {
    let all = content(4, 131_072);
    let mut rest = markers(&all, Domain(5), 9);
    for (start, end) in [(0, 40_000), (40_000, 40_010), (40_010, 105_546), (105_546, 131_072)] {
        let part = split_markers(&mut rest, end - start);
        assert_eq!(part, markers(&all[start..end], Domain(5), 9), "from {start} to {end}");
    }
    assert_eq!(rest, []);
}

fn noted(content: &[u8]) -> Hooks {
    let mut hooks = Hooks::new(64 << 20);
    for (nth, block) in content.chunks(65_536).enumerate() {
        hooks.note(&markers(block, Domain(5), 9), 1000 + nth as u64 * 65_536);
    }
    hooks
}

#[test]
fn hooks_are_few_and_lead_to_what_repeats_however_it_is_divided() {
    let stored = content(1, 4 << 20);
    let all = markers(&stored, Domain(5), 9);
    let chosen = choose(&all).count();
    assert!((2 << 20) / 8192 < chosen && chosen < (8 << 20) / 8192, "{chosen}");
    let hooks = noted(&stored);
    let lies_in = 1000..1000 + (4 << 20);
    let (mut missed, mut covered) = (0, 0);
    for nth in 0..40 {
        let at = 50_000 + nth * 99_991;
        let part = &stored[at..at + 40_000];
        let found =
            hooks.look(&markers(part, Domain(5), 9), part.len(), &lies_in, &mut None, 8, |_| true);
        missed += usize::from(found.is_empty());
        for (within, range) in &found {
            assert_eq!(1000 + at as u64 + within, range.start);
            assert!(range.start >= 1000 + at as u64 && range.end <= 1000 + (at + 40_000) as u64);
            covered += range.end - range.start;
        }
    }
    assert!(missed <= 1 && covered > 40 * 34_000, "{missed} {covered}");
}

#[test]
fn a_full_table_finds_most_objects_and_half_of_the_oldest() {
    // 64 MiB of objects, each a block, as many as the table has room for.
    let mut hooks = Hooks::new(64 << 20);
    let objects = (64 << 20) / 15_000;
    for nth in 0..objects {
        let object = content(1000 + nth, 15_000);
        hooks.note(&markers(&object, Domain(5), 9), nth * 15_000);
    }
    let found = |objects: &mut dyn Iterator<Item = u64>| {
        let is_found = |nth: &u64| {
            let object = content(1000 + nth, 15_000);
            let all = markers(&object, Domain(5), 9);
            let found = hooks.look(&all, 15_000, &(0..64 << 20), &mut None, 8, |_| true);
            found.iter().any(|(_, range)| range.contains(&(nth * 15_000 + 7_500)))
        };
        objects.filter(is_found).count() as u64
    };
    let oldest = found(&mut (0..400));
    let all = found(&mut (0..objects).step_by(10)) * 10;
    assert!(oldest >= 400 * 5 / 10, "{oldest} of the oldest 400");
    assert!(all >= objects * 87 / 100, "{all} of {objects}");
}

#[test]
fn offsets_of_a_log_that_was_overwritten_many_times_are_found() {
    let mut hooks = Hooks::new(1 << 20);
    let last = content(2, 200_000);
    hooks.note(&markers(&content(1, 200_000), Domain(5), 9), 0);
    let at = (1 << 50) + 77;
    hooks.note(&markers(&last, Domain(5), 9), at);
    let look = |content: &[u8]| {
        let all = markers(content, Domain(5), 9);
        hooks.look(&all, content.len(), &(at - (1 << 20)..at + 200_000), &mut None, 8, |_| true)
    };
    let found = look(&last);
    let range = &found[0].1;
    assert!(range.start < at + 20_000 && range.end > at + 64_000, "{found:?}");
    // Older content, in any order, displaces nothing that is newer.
    let (mut there, mut back) = (Hooks::new(1 << 20), Hooks::new(1 << 20));
    let parts: Vec<_> = (0..40).map(|nth| (nth << 16, content(50 + nth, 1 << 16))).collect();
    for (at, part) in &parts {
        there.note(&markers(part, Domain(5), 9), *at);
    }
    for (at, part) in parts.iter().rev() {
        back.note(&markers(part, Domain(5), 9), *at);
    }
    let sorted = |hooks: &Hooks| {
        let mut buckets: Vec<_> = hooks.slots.chunks(BUCKET).map(<[u64]>::to_vec).collect();
        buckets.iter_mut().for_each(|bucket| bucket.sort());
        buckets
    };
    assert!(sorted(&there) == sorted(&back));
}

#[test]
fn hooks_of_text_are_as_few_and_runs_have_none() {
    let words = ["the ", "that ", "to ", "into ", "    return", " not ", "at the ", "self.test("];
    let text: Vec<u8> = content(9, 200_000)
        .into_iter()
        .flat_map(|byte| words[usize::from(byte >> 5)].bytes().chain([b'a' + byte % 26]))
        .collect();
    for stored in [&text[..1 << 20], &content(1, 1 << 20)] {
        let chosen = choose(&markers(stored, Domain(5), 9)).count();
        assert!((40..400).contains(&chosen), "{chosen} hooks of 1 MiB");
    }
    // Wherever content is divided, its windows are the same.
    let whole = markers(&text[..100_000], Domain(5), 9);
    let part = markers(&text[1001..100_000], Domain(5), 9);
    let later: Vec<_> = whole.iter().filter(|hook| hook.at >= 1001).collect();
    assert_eq!(later.len(), part.len());
    assert!(later.iter().zip(&part).all(|(one, other)| one.at == other.at + 1001));
    assert!((0..40).all(|len| markers(&text[..len], Domain(5), 9).len() <= 1));
    for run in [&b"\0"[..], b"ab", b"123", b"wxyz"] {
        let run: Vec<u8> = run.iter().copied().cycle().take(100_000).collect();
        assert_eq!(markers(&run, Domain(5), 9), []);
    }
}

#[test]
fn short_pieces_without_hooks_go_on_where_the_last_one_was_found() {
    let stored = content(6, 1 << 20);
    let hooks = noted(&stored);
    let lies_in = 1000..1000 + (1 << 20);
    let covered = |goes_on: bool| {
        let mut next = None;
        let mut covered = 0;
        for (nth, piece) in stored.chunks(2048).enumerate() {
            if !goes_on {
                next = None;
            }
            let found = hooks.look(
                &markers(piece, Domain(5), 9),
                piece.len(),
                &lies_in,
                &mut next,
                8,
                |_| true,
            );
            let at = 1000 + nth as u64 * 2048;
            for (within, range) in found {
                assert_eq!(at + within, range.start);
                assert!(range.end <= at + 2048, "{range:?} at {at}");
                covered += range.end - range.start;
            }
        }
        covered
    };
    assert!(covered(true) > (1 << 20) - 40_000, "{}", covered(true));
    assert!(covered(false) < (1 << 19), "{}", covered(false));
    // Other content ends it after a while.
    let (mut next, other) = (Some(500_000), content(7, 200_000));
    let pieces = other.chunks(100_000).map(|piece| {
        hooks
            .look(&markers(piece, Domain(5), 9), piece.len(), &lies_in, &mut next, 8, |_| true)
            .len()
    });
    assert_eq!(pieces.collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn another_domain_or_key_or_place_finds_nothing() {
    let stored = content(2, 1 << 20);
    let hooks = noted(&stored);
    let all = 1000..1000 + (1 << 20);
    let look = |domain, key, range: &Range<u64>| {
        hooks
            .look(&markers(&stored, domain, key), stored.len(), range, &mut None, 1000, |_| true)
            .len()
    };
    assert!(look(Domain(5), 9, &all) > 0);
    assert_eq!(look(Domain(6), 9, &all), 0);
    assert_eq!(look(Domain(5), 8, &all), 0);
    assert_eq!(look(Domain(5), 9, &(0..1000)), 0, "not on disk any more");
    assert_eq!(
        hooks.look(
            &markers(&content(3, 1 << 20), Domain(5), 9),
            1 << 20,
            &all,
            &mut None,
            9,
            |_| true
        ),
        []
    );
}

/// Content that is read from disk again and again, in pieces between other content, is found where
/// it was first, as a whole.
#[test]
fn what_comes_again_in_pieces_is_found_in_one() {
    let old = content(8, 1 << 20);
    let mut hooks = noted(&old);
    let look = |hooks: &Hooks, end: u64, bad: Range<u64>| {
        let (mut next, mut found, mut covered) = (None, Vec::new(), 0);
        for part in old.chunks(131_072) {
            let all = markers(part, Domain(5), 9);
            let is_readable = |place: u64| !bad.contains(&place);
            found.extend(hooks.look(&all, part.len(), &(0..end), &mut next, 32, is_readable));
        }
        found.iter().for_each(|(_, range)| covered += range.end - range.start);
        (found.len(), covered)
    };
    assert_eq!(look(&hooks, 2 << 20, 0..0).0, 8, "one for each look");
    let mut end = 2 << 20;
    for turn in 0..3 {
        for piece in old.chunks(10_000 + turn * 777) {
            hooks.note_again(&markers(piece, Domain(5), 9), end);
            // It is read, and sent.
            end += 2 * piece.len() as u64;
        }
        let (ranges, covered) = look(&hooks, end, 0..0);
        assert!(ranges <= 10 && covered > 1_000_000, "{ranges} {covered}");
        // Where it was first cannot be read any more.
        let (ranges, covered) = look(&hooks, end, 0..2 << 20);
        assert!(ranges > 50 && covered > 500_000, "{ranges} {covered}");
        // It is in memory.
        let (_, covered) = look(&hooks, 2 << 20, 0..0);
        assert!(covered < 200_000, "{covered}");
    }
    // Half of the log later, the newest place is left.
    hooks.note(&markers(&old, Domain(5), 9), 40 << 20);
    let found = look(&hooks, 60 << 20, 0..30 << 20);
    assert!(found.1 > 1_000_000, "{found:?}");
}

#[test]
fn the_newest_copy_is_found_and_what_is_in_memory_is_left_alone() {
    let (old, new) = (content(4, 200_000), content(5, 100_000));
    let mut hooks = noted(&[&old[..], &new[..]].concat());
    let part = [&old[..100_000], &new[..50_000]].concat();
    let stored = 1000..201_000;
    let look = |hooks: &Hooks| {
        hooks.look(&markers(&part, Domain(5), 9), part.len(), &stored, &mut None, 100, |_| true)
    };
    assert!(look(&hooks).iter().all(|(_, range)| range.end <= 101_000 + REACH));
    assert!(!look(&hooks).is_empty());
    hooks.note(&markers(&old, Domain(5), 9), 500_000);
    let left: u64 = look(&hooks).iter().map(|(_, range)| range.end - range.start).sum();
    assert!(left < 70_000, "{left}");
}
