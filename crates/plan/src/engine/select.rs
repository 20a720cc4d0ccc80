//! Which parts of which copies to refer to.

use super::stored::Found;

/// Bytes of a match in a shim, about.
const SPEC: f64 = 12.0;

/// A match that may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) found: Found,
    /// What all of it is worth; a part is worth as much less as it is shorter.
    pub(super) worth: u64,
}

/// A part of a candidate, and what comes before it in a selection.
#[derive(Clone, Copy)]
struct Part {
    candidate: usize,
    from: u32,
    to: u32,
    before: Option<usize>,
}

/// The best selection of some number of parts up to a place.
#[derive(Clone, Copy)]
struct Best {
    worth: f64,
    last: Option<usize>,
}

/// The best selection whose last part is of a certain candidate and goes on.
#[derive(Clone, Copy)]
struct Open {
    worth: f64,
    from: u32,
    before: Option<usize>,
}

const NEVER: f64 = f64::NEG_INFINITY;

/// Removes candidates whose every part another one has, and that are worth no more for a byte. For a
/// longer one, that means within the unit of worth by which copies as good differ.
pub(super) fn without_lesser(candidates: &mut Vec<Candidate>) {
    if candidates.len() < 2 {
        return;
    }
    let mut at = 0;
    while at < candidates.len() {
        let Candidate { found, worth } = candidates[at];
        let per_byte = |worth: u64, found: &Found| worth as f64 / f64::from(found.length);
        let rate = per_byte(worth, &found);
        let is_less = candidates.iter().enumerate().any(|(other, one)| {
            let other_rate = per_byte(one.worth, &one.found);
            let has_all = one.found.at <= found.at && found.end() <= one.found.end();
            let is_longer = one.found.length > found.length;
            other != at
                && has_all
                && match is_longer {
                    true => other_rate + 1.0 / f64::from(found.length) >= rate,
                    false => other_rate > rate || other_rate == rate && other < at,
                }
        });
        match is_less {
            true => {
                candidates.remove(at);
            }
            false => at += 1,
        }
    }
}

/// Appends the disjoint parts of candidates, ascending and at most `most`, that are worth most
/// together: bytes may be in several copies of different extent and worth, and each part takes some
/// bytes of the shim. Of candidates that are as good, the first is used.
pub(super) fn select(candidates: &[Candidate], most: usize, out: &mut Vec<Found>) {
    if let [one] = candidates {
        out.extend((most > 0).then_some(one.found));
        return;
    }
    let mut places: Vec<u32> =
        candidates.iter().flat_map(|one| [one.found.at, one.found.end()]).collect();
    places.sort_unstable();
    places.dedup();
    let rates: Vec<f64> =
        candidates.iter().map(|one| one.worth as f64 / f64::from(one.found.length)).collect();
    let most = most.min(candidates.len() * 2);
    let mut parts: Vec<Part> = Vec::new();
    let mut best = vec![Best { worth: NEVER, last: None }; most + 1];
    best[0].worth = 0.0;
    let mut open = vec![vec![Open { worth: NEVER, from: 0, before: None }; candidates.len()]; most];
    for (&from, to) in places.iter().zip(places.iter().skip(1).map(Some).chain([None])) {
        // Parts that end here.
        for count in 1..=most {
            let ends = open[count - 1].iter().enumerate();
            let better = ends.fold(None, |best: Option<(usize, &Open)>, (candidate, open)| {
                if open.worth > best.map_or(NEVER, |best| best.1.worth) {
                    Some((candidate, open))
                } else {
                    best
                }
            });
            if let Some((candidate, &Open { worth, from: begun, before })) = better
                && worth > best[count].worth
            {
                parts.push(Part { candidate, from: begun, to: from, before });
                best[count] = Best { worth, last: Some(parts.len() - 1) };
            }
        }
        let Some(&to) = to else { break };
        for count in (1..=most).rev() {
            let before = best[count - 1];
            for (number, candidate) in candidates.iter().enumerate() {
                let of = &mut open[count - 1][number];
                if candidate.found.at > from || candidate.found.end() < to {
                    of.worth = NEVER;
                    continue;
                }
                let anew = before.worth - rates[number] * SPEC;
                if anew > of.worth {
                    *of = Open { worth: anew, from, before: before.last };
                }
                of.worth += rates[number] * f64::from(to - from);
            }
        }
    }
    let first = out.len();
    let whole = best.iter().fold(Best { worth: 0.0, last: None }, |best, one| {
        if one.worth > best.worth { *one } else { best }
    });
    let mut at = whole.last;
    while let Some(part) = at.map(|at| parts[at]) {
        let Found { slot, at: begin, offset, .. } = candidates[part.candidate].found;
        let offset = offset + (part.from - begin);
        out.push(Found { slot, at: part.from, offset, length: part.to - part.from });
        at = part.before;
    }
    out[first..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(slot: u32, at: u32, end: u32, rate: u64) -> Candidate {
        let length = end - at;
        let found = Found { slot, at, offset: at + 7, length };
        Candidate { found, worth: rate * u64::from(length) }
    }

    fn parts(candidates: &[Candidate], most: usize) -> Vec<(u32, u32, u32)> {
        let mut out = Vec::new();
        select(candidates, most, &mut out);
        assert!(out.iter().all(|found| found.offset == found.at + 7));
        out.iter().map(|found| (found.slot, found.at, found.end())).collect()
    }

    #[test]
    fn a_far_copy_of_a_part_leaves_the_rest_to_a_near_one() {
        let both = [candidate(0, 0, 1000, 1), candidate(1, 300, 600, 3)];
        assert_eq!(parts(&both, 3), [(0, 0, 300), (1, 300, 600), (0, 600, 1000)]);
        assert_eq!(parts(&both, 2), [(1, 300, 600), (0, 600, 1000)]);
        assert_eq!(parts(&both, 1), [(0, 0, 1000)]);
        assert_eq!(parts(&both, 0), []);
        // No part that saves less than it takes.
        let little = [candidate(0, 0, 1000, 2), candidate(1, 995, 1005, 3)];
        assert_eq!(parts(&little, 3), [(0, 0, 1000)]);
        // The first of two that are as good.
        assert_eq!(parts(&[candidate(4, 5, 80, 2), candidate(3, 5, 80, 2)], 3), [(4, 5, 80)]);
        assert_eq!(parts(&[candidate(4, 5, 80, 2)], 3), [(4, 5, 80)]);
        assert_eq!(parts(&[], 3), []);
    }

    /// The most that parts from `from` on are worth, by trying all.
    fn tried(candidates: &[Candidate], places: &[u32], from: usize, most: usize) -> f64 {
        let Some(rest) = places.len().checked_sub(from + 1) else { return 0.0 };
        if rest == 0 || most == 0 {
            return 0.0;
        }
        let mut best = tried(candidates, places, from + 1, most);
        for one in candidates {
            for to in from + 1..places.len() {
                if one.found.at <= places[from] && places[to] <= one.found.end() {
                    let rate = one.worth as f64 / f64::from(one.found.length);
                    let here = rate * (f64::from(places[to] - places[from]) - SPEC);
                    best = best.max(here + tried(candidates, places, to, most - 1));
                }
            }
        }
        best
    }

    #[test]
    fn no_other_selection_is_worth_more() {
        let (mut random, mut removed) = (fastrand::Rng::with_seed(1), 0);
        for _ in 0..500 {
            let candidates: Vec<Candidate> = (0..random.u32(1..6))
                .map(|slot| {
                    let at = random.u32(0..80);
                    candidate(slot, at, at + random.u32(13..80), random.u64(1..5))
                })
                .collect();
            let mut places: Vec<u32> =
                candidates.iter().flat_map(|one| [one.found.at, one.found.end()]).collect();
            places.sort_unstable();
            places.dedup();
            let most = random.usize(1..4);
            let mut out = Vec::new();
            select(&candidates, most, &mut out);
            assert!(out.len() <= most && out.windows(2).all(|two| two[0].end() <= two[1].at));
            let worth: f64 = out
                .iter()
                .map(|found| {
                    let one = &candidates[found.slot as usize];
                    let rate = one.worth as f64 / f64::from(one.found.length);
                    assert!(one.found.at <= found.at && found.end() <= one.found.end());
                    rate * (f64::from(found.length) - SPEC)
                })
                .sum();
            let best = tried(&candidates, &places, 0, most);
            assert!((worth - best).abs() < 1e-9, "{worth} of {best}: {candidates:?}");
            // Nor without those that others make useless.
            let mut fewer = candidates.clone();
            without_lesser(&mut fewer);
            removed += candidates.len() - fewer.len();
            let best_of_fewer = tried(&fewer, &places, 0, most);
            assert!(
                (best_of_fewer - best).abs() < 1e-9,
                "{best_of_fewer} of {best}: {candidates:?}"
            );
        }
        assert!(removed > 100, "{removed}");
    }
}
