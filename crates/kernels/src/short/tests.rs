use super::*;
use proptest::prelude::*;

/// Text of few words, with runs and with noise.
pub(super) fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => (0usize..12).prop_map(|word| {
            let words = ["the ", "wire ", "of ", "content", "log; ", "abcabcabc", "0", "--\n", "x", "sent once ", "block", ", "];
            words[word].as_bytes().to_vec()
        }),
        1 => (any::<u8>(), 1usize..400).prop_map(|(byte, len)| vec![byte; len]),
        1 => proptest::collection::vec(any::<u8>(), 1..200),
    ];
    let most = if cfg!(miri) { 8 } else { 400 };
    proptest::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

fn columns<'a>(found: &'a ShortMatches, literals: &'a [u8]) -> ShortColumns<'a> {
    let ShortMatches { tokens, high, low, runs, lens, large, .. } = found;
    ShortColumns { tokens, high, low, runs, lens, large, literals }
}

pub(super) fn effort() -> impl Strategy<Value = ShortEffort> {
    prop_oneof![Just(ShortEffort::Fast), Just(ShortEffort::Lazy), Just(ShortEffort::Deep)]
}

pub(super) fn with_slack(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0; SHORT_SLACK]].concat()
}

proptest! {
    #[test]
    fn every_level_finds_the_same_and_it_comes_back(content in content(), cut in 0usize..5000, position: u16, effort in effort()) {
        let cut = cut.min(content.len());
        let mut all = Vec::new();
        for kernels in Kernels::available() {
            let mut search = ShortSearch::new(12, effort);
            let (mut first, mut second) = (ShortMatches::default(), ShortMatches::default());
            let padded = with_slack(&content);
            search.search(kernels, &padded, 0, cut, position, &mut first);
            search.search(kernels, &padded, cut, content.len(), position, &mut second);
            let mut back = vec![0; content.len() + SHORT_SLACK];
            let mut last = SHORT_FIRST_DISTANCE;
            for (found, at, end) in [(&first, 0, cut), (&second, cut, content.len())] {
                let counts = ShortCounts::of(&found.tokens);
                prop_assert_eq!(counts.distances, found.low.len());
                prop_assert_eq!((counts.runs, counts.lens), (found.runs.len(), found.lens.len()));
                let literals = with_slack(&found.literals);
                prop_assert!(columns(found, &literals).execute(kernels, &mut back, at, end, &mut last));
            }
            prop_assert_eq!(&back[..content.len()], &content);
            all.push((format!("{second:?}"), last));
        }
        prop_assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }

    /// A search that is undone finds what a new copy finds.
    #[test]
    fn undo_leaves_nothing_behind(content in content(), cut in 0usize..5000, effort in effort(), bits in 8u32..14) {
        let cut = cut.min(content.len());
        for kernels in Kernels::available() {
            let padded = with_slack(&content);
            let mut before = ShortSearch::new(bits, effort);
            let mut found = ShortMatches::default();
            before.search(kernels, &padded, 0, cut, 0, &mut found);
            before.restart();
            let mut search = before.clone();
            search.search(kernels, &padded, cut, content.len(), 0, &mut found);
            search.undo(&before, &padded, cut, content.len());
            prop_assert_eq!(format!("{search:?}"), format!("{before:?}"));
        }
    }

    #[test]
    fn garbage_is_refused_or_gives_the_same_at_every_level(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 7),
        at in 0usize..300,
        len in 0usize..600,
        last: u16,
    ) {
        let literals = with_slack(&parts[6]);
        let low = &parts[2][..parts[1].len().min(parts[2].len())];
        let columns = ShortColumns {
            tokens: &parts[0],
            high: &parts[1][..low.len()],
            low,
            runs: &parts[3],
            lens: &parts[4],
            large: &parts[5],
            literals: &literals,
        };
        let results: Vec<_> = Kernels::available()
            .map(|kernels| {
                let mut last = last;
                let mut content = vec![7; at + len + SHORT_SLACK];
                let done = columns.execute(kernels, &mut content, at, at + len, &mut last);
                (done, done.then_some((last, content[..at + len].to_vec())))
            })
            .collect();
        prop_assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn what_is_too_much_or_too_little_is_refused() {
    let text = b"abcdefgh abcdefgh abcdefgh 12345 abcdefgh";
    let mut found = ShortMatches::default();
    let kernels = Kernels::detect();
    ShortSearch::new(12, ShortEffort::Fast).search(
        kernels,
        &with_slack(text),
        0,
        text.len(),
        0,
        &mut found,
    );
    assert!(!found.tokens.is_empty());
    let literals = with_slack(&found.literals);
    let run = |columns: ShortColumns<'_>, end: usize| {
        let mut content = vec![0; 400];
        let mut last = SHORT_FIRST_DISTANCE;
        columns.execute(kernels, &mut content, 0, end, &mut last)
    };
    let good = columns(&found, &literals);
    assert!(run(good, text.len()));
    assert!(!run(good, text.len() - 1) && !run(good, text.len() + 1));
    assert!(!run(ShortColumns { runs: &[0, 0, 0, 0, 0, 0, 0, 0], ..good }, text.len()));
    assert!(!run(ShortColumns { large: &[0], ..good }, text.len()));
    assert!(!run(ShortColumns { literals: &literals[1..], ..good }, text.len()));
    assert!(!run(ShortColumns { tokens: &good.tokens[1..], ..good }, text.len()));
}
