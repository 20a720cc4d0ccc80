//! The search, at every effort.

#[cfg(target_arch = "x86_64")]
use super::probe::Avx2;
use super::probe::{Probe, index};
use super::{
    BATCH, Ends, HASHED, HASHED_LONG, HASHED_SHORT, LONG_ENOUGH, SHORT_LEAST, ShortEffort,
    ShortMatches, ShortSearch,
};

/// # Safety
/// The machine must have AVX2, BMI1, BMI2 and LZCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
pub(super) unsafe fn search_avx2(
    state: &mut ShortSearch,
    content: &[u8],
    from: usize,
    end: usize,
    position: u16,
    out: &mut ShortMatches,
) {
    search_all::<Avx2>(state, content, from, end, position, out);
}

/// The search, of which the caller has checked the arguments.
#[inline(always)]
pub(super) fn search_all<P: Probe>(
    state: &mut ShortSearch,
    content: &[u8],
    from: usize,
    end: usize,
    position: u16,
    out: &mut ShortMatches,
) {
    match state.effort {
        ShortEffort::Fast => fast::<P>(state, content, from, end, position, out),
        ShortEffort::Lazy => lazy::<P, false>(state, content, from, end, position, out),
        ShortEffort::Deep => lazy::<P, true>(state, content, from, end, position, out),
    }
}

/// Makes the entries of all positions of `entered`, but the last few, equal to those of `before`.
pub(super) fn undo<const H: usize>(table: &mut [u32], before: &[u32], bits: u32, entered: &[u8]) {
    if entered.len() >= table.len() {
        table.copy_from_slice(before);
        return;
    }
    for window in entered.windows(8) {
        let Some(window) = window.first_chunk() else { break };
        let index = index::<H>(window, bits);
        if let (Some(entry), Some(&old)) = (table.get_mut(index), before.get(index)) {
            *entry = old;
        }
    }
}

/// As many bytes as agree before `a` and `b`, at most 8 and `most`.
#[inline(always)]
pub(super) fn agree_before(content: &[u8], a: usize, b: usize, most: usize) -> usize {
    let most = most.min(b);
    if let (Some(x), Some(y)) = (content[..a].last_chunk::<8>(), content[..b].last_chunk::<8>()) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        (difference.leading_zeros() as usize / 8).min(most)
    } else {
        (0..most).take_while(|&back| content[a - 1 - back] == content[b - 1 - back]).count()
    }
}

/// As many bytes as agree from `a` and from `b` below it on, before `a` reaches `end`.
#[inline(always)]
pub(super) fn agree_from<P: Probe>(content: &[u8], a: usize, b: usize, end: usize) -> usize {
    let mut len = 0;
    while let (Some(x), Some(y)) =
        (content[a + len..].first_chunk(), content[b + len..].first_chunk())
    {
        let agree = P::agree(x, y);
        len += agree;
        if agree < 32 || a + len >= end {
            break;
        }
    }
    len.min(end - a)
}

/// Appends the match of the bytes at `(position, length)`, which is grown backwards as far as
/// `done`, after the literals from there on.
///
/// # Safety
/// As of [`Ends::push`]: there is room, and `content` has 31 bytes after the match.
#[inline(always)]
unsafe fn append(
    ends: &mut Ends,
    content: &[u8],
    done: usize,
    (at, len): (usize, usize),
    distance: usize,
    last_distance: &mut usize,
) {
    let back = agree_before(content, at, at - distance, at - done);
    let run = at - back - done;
    // SAFETY: by the caller.
    unsafe {
        let literals = content.as_ptr().add(done);
        ends.push(literals, run, len + back, distance, distance != *last_distance);
    }
    *last_distance = distance;
}

/// From which positions of the batch 4 bytes are as `distance` before.
#[inline(always)]
pub(super) fn repeats<P: Probe>(
    content: &[u8],
    batch: usize,
    here: &[u8; BATCH],
    distance: usize,
) -> u64 {
    if distance > batch {
        return 0;
    }
    match content[batch - distance..].first_chunk() {
        Some(there) => P::repeats(here, there),
        None => 0,
    }
}

#[inline(always)]
fn fast<P: Probe>(
    state: &mut ShortSearch,
    content: &[u8],
    from: usize,
    end: usize,
    position: u16,
    out: &mut ShortMatches,
) {
    let ShortSearch { bits, table, last, .. } = state;
    let bits = *bits;
    let mut old = [0; BATCH];
    let mut ends = Ends::of(out);
    let mut last_distance = usize::from(*last);
    // Up to where all is written, and the first position of the batch.
    let mut done = from;
    let mut batch = from;
    while batch < end {
        // There are as many: the slack has more.
        let Some(bytes) = content[batch..].first_chunk() else { break };
        let at_batch = position.wrapping_add(batch as u16);
        let mut found = P::probe::<HASHED>(table, bits, bytes, at_batch, &mut old);
        let Some(here) = bytes.first_chunk::<BATCH>() else { break };
        let left = left(batch, done, end);
        found &= left;
        let mut again = repeats::<P>(content, batch, here, last_distance) & left;
        while found | again != 0 {
            let nth = (found | again).trailing_zeros() as usize;
            let at = batch + nth;
            let distance = if again >> nth & 1 == 1 {
                last_distance
            } else {
                usize::from(at_batch.wrapping_add(nth as u16).wrapping_sub(old[nth] as u16))
            };
            let len = if distance.wrapping_sub(1) < at {
                agree_from::<P>(content, at, at - distance, end)
            } else {
                0
            };
            if len < SHORT_LEAST {
                let others = !(1u64 << nth);
                found &= others;
                again &= others;
                continue;
            }
            // SAFETY: matches and literals are those of `content[from..end]`, for which there is
            // room, and `end` has more than 31 bytes after it.
            unsafe { append(&mut ends, content, done, (at, len), distance, &mut last_distance) };
            done = at + len;
            let passed = done - batch;
            if passed >= BATCH {
                break;
            }
            let after = left & u64::MAX << passed;
            found &= after;
            again = repeats::<P>(content, batch, here, last_distance) & after;
        }
        batch = next_batch(batch, done);
    }
    // SAFETY: as above; the rest are literals.
    unsafe { ends.end(content.as_ptr().add(done), end - done, out) };
    *last = last_distance as u16;
}

/// Which positions of the batch are not below `done` and not from `end` on.
#[inline(always)]
pub(super) fn left(batch: usize, done: usize, end: usize) -> u64 {
    let from_done = match done.saturating_sub(batch) {
        passed @ 0..BATCH => u64::MAX << passed,
        _ => 0,
    };
    match end - batch {
        before @ 0..BATCH => from_done & ((1 << before) - 1),
        _ => from_done,
    }
}

/// The batch after `batch`, if all up to `done` is in matches.
#[inline(always)]
pub(super) fn next_batch(mut batch: usize, done: usize) -> usize {
    // Where nothing was found for long, look at less.
    if done + 2048 < batch {
        return batch + BATCH * (1 + ((batch - done) >> 11).min(8));
    }
    batch += BATCH;
    while done >= batch + BATCH {
        batch += BATCH;
    }
    batch
}

/// A match that could be taken.
#[derive(Clone, Copy)]
struct Candidate {
    len: usize,
    distance: usize,
    /// What it saves, roughly, in quarters of a byte.
    gain: i32,
}

/// The lazy and the deep search: they prefer what saves more to what comes first.
#[inline(always)]
fn lazy<P: Probe, const DEEP: bool>(
    state: &mut ShortSearch,
    content: &[u8],
    from: usize,
    end: usize,
    position: u16,
    out: &mut ShortMatches,
) {
    let ShortSearch { bits, table, long, last, .. } = state;
    let bits = *bits;
    let (mut old, mut old_long) = ([0; BATCH], [0; BATCH]);
    let mut ends = Ends::of(out);
    let mut last_distance = usize::from(*last);
    let mut done = from;
    let mut batch = from;
    while batch < end {
        let Some(bytes) = content[batch..].first_chunk() else { break };
        let at_batch = position.wrapping_add(batch as u16);
        let (mut found, mut found_long) = if DEEP {
            (
                P::probe::<HASHED_SHORT>(table, bits, bytes, at_batch, &mut old),
                P::probe::<HASHED_LONG>(long, bits, bytes, at_batch, &mut old_long),
            )
        } else {
            (P::probe::<HASHED>(table, bits, bytes, at_batch, &mut old), 0)
        };
        let Some(here) = bytes.first_chunk::<BATCH>() else { break };
        let left = left(batch, done, end);
        found &= left;
        found_long &= left;
        let mut again = repeats::<P>(content, batch, here, last_distance) & left;
        // The best match at the `nth` position.
        macro_rules! best {
            ($nth:expr) => {{
                let nth: usize = $nth;
                let (at, low) = (batch + nth, at_batch.wrapping_add(nth as u16));
                let mut best = Candidate { len: 0, distance: 0, gain: 0 };
                if again >> nth & 1 == 1 {
                    let len = agree_from::<P>(content, at, at - last_distance, end);
                    if len >= SHORT_LEAST {
                        let gain = 4 * len as i32 + 4;
                        best = Candidate { len, distance: last_distance, gain };
                    }
                }
                for (found, old) in [(found_long, &old_long), (found, &old)] {
                    let distance = usize::from(low.wrapping_sub(old[nth] as u16));
                    if found >> nth & 1 == 1
                        && distance.wrapping_sub(1) < at
                        && distance != best.distance
                    {
                        let len = agree_from::<P>(content, at, at - distance, end);
                        let gain = 4 * len as i32 - distance.ilog2() as i32;
                        if len > SHORT_LEAST && gain > best.gain {
                            best = Candidate { len, distance, gain };
                            // The other table rarely has a longer one.
                            break;
                        }
                    }
                }
                best
            }};
        }
        loop {
            let any = found | found_long | again;
            if any == 0 {
                break;
            }
            let mut nth = any.trailing_zeros() as usize;
            let mut best = best!(nth);
            if best.gain <= 0 {
                let others = !(1u64 << nth);
                (found, found_long, again) = (found & others, found_long & others, again & others);
                continue;
            }
            // Whether to begin later is better.
            let mut tries = 0;
            while tries < 2 && nth + tries + 1 < BATCH && best.len < LONG_ENOUGH {
                tries += 1;
                if any >> (nth + tries) & 1 == 1 {
                    let next = best!(nth + tries);
                    if next.gain > best.gain + 3 * tries as i32 {
                        best = next;
                        nth += tries;
                        tries = 0;
                    }
                }
            }
            let at = batch + nth;
            let Candidate { len, distance, .. } = best;
            // SAFETY: matches and literals are those of `content[from..end]`, for which there is
            // room, and `end` has more than 31 bytes after it.
            unsafe { append(&mut ends, content, done, (at, len), distance, &mut last_distance) };
            done = at + len;
            let passed = done - batch;
            if passed >= BATCH {
                break;
            }
            let after = left & u64::MAX << passed;
            found &= after;
            found_long &= after;
            again = repeats::<P>(content, batch, here, last_distance) & after;
        }
        batch = next_batch(batch, done);
    }
    // SAFETY: as above; the rest are literals.
    unsafe { ends.end(content.as_ptr().add(done), end - done, out) };
    *last = last_distance as u16;
}
