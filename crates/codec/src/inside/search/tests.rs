//! What the parts of the search promise each other.

use crate::deflate::{Code, Token};
use crate::inside::search::bends::{bend, follow, inflated};
use crate::inside::search::index::{Stretch, TokenIndex};
use crate::inside::search::names::Names;
use crate::inside::search::plan::Described;
use crate::inside::search::rolling::{Rolling, WINDOW};
use crate::inside::wire::alignment::Alignment;
use crate::inside::wire::section::MAX_CODES;
use proptest::prelude::*;

fn token() -> impl Strategy<Value = Token> {
    prop_oneof![
        any::<u8>().prop_map(Token::literal),
        (0u32..12, 1u32..200).prop_map(|(length, distance)| Token::copy(length, 0, distance)),
    ]
}

fn fingerprints(tokens: &[Token], key: u64) -> Vec<Option<u64>> {
    let mut rolling = Rolling::default();
    tokens.iter().map(|&token| rolling.push(token, key)).collect()
}

proptest! {
    /// Neither distances count, nor what is before the window.
    #[test]
    fn fingerprints_depend_on_the_shapes_of_a_window(
        before in proptest::collection::vec(token(), 0..20),
        window in proptest::collection::vec(token(), WINDOW..200),
        change in 1i32..50,
        key: u64,
    ) {
        let moved: Vec<Token> =
            window.iter().map(|token| token.moved(change).unwrap_or(*token)).collect();
        let alone = fingerprints(&window, key);
        let behind = fingerprints(&[&before[..], &moved].concat(), key);
        prop_assert_eq!(&alone[WINDOW - 1..], &behind[before.len() + WINDOW - 1..]);
        prop_assert!(alone[..WINDOW - 1].iter().all(Option::is_none));
        // Another key chooses the same windows, and names them otherwise.
        let other = fingerprints(&window, !key);
        let pairs = alone.iter().zip(&other);
        prop_assert!(pairs.clone().all(|(one, other)| one.is_some() == other.is_some()));
        prop_assert!(pairs.clone().all(|(one, other)| one.is_none() || one != other));
    }
}

#[test]
fn one_window_in_sixteen_is_chosen() {
    let mut rng = fastrand::Rng::with_seed(1);
    let tokens: Vec<Token> = (0..16_000).map(|_| Token::literal(rng.u8(..))).collect();
    let chosen = fingerprints(&tokens, 1).into_iter().flatten().count();
    assert!((900..1100).contains(&chosen), "{chosen}");
}

/// Copies of four bytes, each from this far back, between literals.
fn copies(distances: impl IntoIterator<Item = u32>) -> Vec<Token> {
    distances
        .into_iter()
        .flat_map(|distance| [Token::literal(b'x'), Token::copy(1, 0, distance)])
        .collect()
}

#[test]
fn a_change_of_many_distances_is_a_bend() {
    // Behind an insertion of seven bytes, what reaches back across it has another distance.
    let there = copies((0..30).map(|nth| 100 + 5 * nth));
    let here = copies((0..30).map(|nth| 107 + 5 * nth));
    let (back, change) = bend(&Alignment::default(), &here[1..], &there[1..]).expect("a bend");
    assert_eq!(change, 7);
    let mut bent = Alignment::default();
    assert_eq!(follow(&mut bent.clone(), &here[1..], &there[1..]), 0);
    bent.bend(back, change);
    assert_eq!(follow(&mut bent, &here[1..], &there[1..]), there.len() - 1);
    assert_eq!(bent.at() as u64, inflated(&there[1..]));

    // One or two other distances are none, nor are equal ones, nor other shapes.
    let cases = [
        copies([107, 105, 110, 115, 120]),
        copies([107, 112, 110, 115, 120]),
        copies((0..30).map(|nth| 100 + 5 * nth)),
        vec![Token::literal(b'x'); 60],
    ];
    for (nth, other) in cases.iter().enumerate() {
        let there = &there[1..other.len()];
        assert_eq!(bend(&Alignment::default(), &other[1..], there), None, "case {nth}");
    }
}

fn stretch(first: u64, end: u64, header: Option<(u64, u64)>) -> Stretch {
    Stretch { first, end, header, next: 0 }
}

#[test]
fn fingerprints_of_a_block_are_found_after_it() {
    let mut index = TokenIndex::new(1 << 20).expect("memory");
    index.note(0x1234_5678_9abc_def0, 900);
    assert_eq!(index.find(0x1234_5678_9abc_def0, 1000), None, "of this block");
    index.settle();
    assert_eq!(index.find(0x1234_5678_9abc_def0, 1000), Some(900));
    assert_eq!(index.find(0x1234_5678_9abc_def0 ^ 1 << 63, 1000), None, "another fingerprint");
    // The newest is found, and only below the block.
    index.note(0x1234_5678_9abc_def0, 70_000);
    index.settle();
    assert_eq!(index.find(0x1234_5678_9abc_def0, 10_000), Some(70_000));
    assert_eq!(index.find(0x1234_5678_9abc_def0, 1000), None);
}

#[test]
fn stretches_join_and_follow_those_of_their_domain() {
    let mut index = TokenIndex::new(1 << 20).expect("memory");
    let header = Some((0, 70));
    index.add(stretch(80, 400, header), 1, |_| true);
    index.add(stretch(420, 800, header), 1, |_| true);
    assert_eq!(index.around(410).map(|found| found.end), Some(800), "across a seam");
    index.add(stretch(900, 1000, header), 2, |_| false);
    index.add(stretch(1010, 1200, None), 1, |_| true);
    assert_eq!((index.around(850), index.around(1200)).0.map(|found| found.first), None);
    let first = index.around(80).expect("a stretch");
    let next = index.behind(&first).expect("the next one");
    assert_eq!((next.first, next.header), (1010, None), "not the other domain's");
    assert!(index.behind(&next).is_none());
    assert_eq!(index.tokens_in(0..200), (720 + 100 + 190) / 8);
    assert_eq!(index.tokens_in(20..50), 30);
    // What is taken back is nobody's next.
    index.rewind(130);
    assert!(index.around(1010).is_none());
    assert!(index.behind(&index.around(80).expect("still there")).is_none());
}

#[test]
fn named_codes_are_counted_once_and_taken_back() {
    let mut names = Names::default();
    names.begin(64 << 10);
    let code = Code::fixed();
    assert!(names.has(Described::Fixed) && !names.has(Described::Log(1, 2)));
    names.add(Described::Log(1, 2), code);
    let mark = names.mark();
    names.add(Described::Log(1, 2), code);
    assert!(names.may_add(MAX_CODES - 1, 0, 0) && !names.may_add(MAX_CODES, 0, 0));
    names.add(Described::Here(5), code);
    assert!(!names.may_add(MAX_CODES - 1, 0, 0));
    names.restore(mark);
    assert!(names.may_add(MAX_CODES - 1, 0, 0) && !names.has(Described::Here(5)));
    // A block bounds the tokens that a decoder writes one by one.
    let fits = |tokens: usize| names.may_add(0, 0, tokens);
    assert!(fits(1000) && !fits(100 << 20));
    names.run(1 << 20, true);
    let after = names.may_add(0, 0, 1000);
    names.begin(64 << 10);
    assert!(!after && names.may_add(MAX_CODES, 0, 0));
}
