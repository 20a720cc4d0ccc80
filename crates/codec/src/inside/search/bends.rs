//! Finds bends: where distances change by the same amount. For the search for runs, which uses an
//! [`Alignment`].

use crate::deflate::Token;
use crate::inside::wire::alignment::Alignment;

/// Tokens examined to see whether distances change by the same amount.
pub(in crate::inside) const SEEN: usize = 96;
/// Tokens that show whether examining more is worthwhile.
const SOON: usize = 24;
/// Copies whose distances a bend must correct.
const WORTH_BENDING: i32 = 3;

/// Bytes that tokens inflate to.
pub(in crate::inside) fn inflated(tokens: &[Token]) -> u64 {
    tokens.iter().map(|token| u64::from(token.len())).sum()
}

/// How many tokens of a block are what those of a source are expected to become.
pub(in crate::inside) fn follow(
    alignment: &mut Alignment,
    here: &[Token],
    there: &[Token],
) -> usize {
    let mut same = 0;
    let most = here.len().min(there.len());
    while same < most && alignment.is_bent() {
        if here[same] != alignment.expected(there[same]) {
            return same;
        }
        alignment.advance(u64::from(there[same].len()));
        same += 1;
    }
    let pairs = here[same..].iter().zip(&there[same..]);
    let more = pairs.take_while(|(here, there)| here == there).count();
    alignment.advance(inflated(&there[same..same + more]));
    same + more
}

/// The bend that corrects most distances, if the first distance is not as expected and others
/// change by the same amount: its distance back, and the change.
pub(in crate::inside) fn bend(
    alignment: &Alignment,
    here: &[Token],
    there: &[Token],
) -> Option<(u32, i32)> {
    let change_of = |at: &Alignment, here: Token, there: Token| {
        here.distance() as i32 - at.expected(there).distance() as i32
    };
    let mut at = alignment.clone();
    at.make_room();
    let change = change_of(&at, *here.first()?, *there.first()?);
    if change == 0 {
        return None;
    }
    // Start of each copy, and whether a bend after it corrects or spoils the copy.
    let mut votes = [(0i64, 0i32); SEEN];
    let mut count = 0;
    let mut right = 0;
    for (nth, (&here, &there)) in here.iter().zip(there).take(SEEN).enumerate() {
        // Most changes affect one copy only, which is soon apparent.
        if here.shape() != there.shape() || (nth == SOON && right < 2) {
            break;
        }
        if there.is_copy() {
            let of = change_of(&at, here, there);
            if of == change || of == 0 {
                let vote = if of == change { 1 } else { -1 };
                votes[count] = (at.at() - i64::from(there.distance()), vote);
                count += 1;
                right += i32::from(vote == 1);
            }
        }
        at.advance(u64::from(there.len()));
    }
    if right < WORTH_BENDING {
        return None;
    }
    let first = votes[0].0;
    let votes = &mut votes[..count];
    votes.sort_unstable();
    let (mut sum, mut best) = (0, (0, 0));
    for (nth, &(from, vote)) in votes.iter().enumerate() {
        sum += vote;
        // Half way to the next start that it must not reach.
        let next = votes.get(nth + 1).map_or(from + 1, |next| next.0);
        if from >= first && next > from && sum > best.0 {
            best = (sum, from + 1 + (next - from - 1) / 2);
        }
    }
    let back = u32::try_from(alignment.at() - best.1).ok()?;
    let mut bent = alignment.clone();
    bent.bend(back, change);
    // Changes add up, and the sum may be an invalid distance.
    let is_right = bent.expected(*there.first()?) == *here.first()?;
    (is_right && best.0 >= WORTH_BENDING).then_some((back, change))
}
