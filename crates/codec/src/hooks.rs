//! Hooks: few fingerprints, all in memory, that lead to content which lies only on disk.
//!
//! A table of all fingerprints of a log on disk would be larger than memory. But content repeats in
//! order, so one hit is enough to bring back its neighborhood (Zhu et al., FAST 2008; Lillibridge
//! et al., FAST 2009). A *marker* is a window of 32 bytes that its hash chooses, one of about a
//! thousand, in text as in what is compressed; a *hook* is a marker whose fingerprint is the highest
//! among its neighbors: about one in 8 KiB, and never far from the next one. Who looks for content
//! looks up all markers, so it does not matter where the blocks are divided.

use crate::domain::Domain;
use oncewire_kernels::{Kernels, prefetch};
use std::ops::Range;

/// Bytes under a fingerprint.
const WINDOW: usize = 32;
/// A hook has the highest fingerprint among so many markers before it and after it.
const NEIGHBORS: usize = 4;
/// Slots of a bucket: two cache lines. With one, a hundredth of the objects of 15 KB were lost in a
/// table that was not half full, because some buckets were.
const BUCKET: usize = 16;
/// Largest log on disk whose hooks are kept, in bytes. A larger one has those of its newest part.
const MOST_STORED: u64 = 1 << 44;
/// Bytes of log for each slot.
const BYTES_PER_SLOT: u64 = 8 << 10;
/// Hits of one distance lead to content before the first one and after the last, at most so far.
const REACH: u64 = 64 << 10;
/// Shortest stretch that is worth a read, in bytes.
const WORTH: u64 = 512;

/// A marker and its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Position in the content, in bytes.
    pub at: u32,
    /// The fingerprint, under the key of the content's domain.
    pub fingerprint: u64,
}

/// Adds a byte to a hash of the last [`WINDOW`] ones, each of which is shifted out in the end: the
/// gear hash (Xia et al., Ddelta, 2014).
const GEAR: [u32; 256] = {
    let (mut gear, mut state, mut at) = ([0; 256], 0x6f6e_6365_7769_7265u64, 0);
    while at < gear.len() {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        gear[at] = (mixed ^ (mixed >> 31)) as u32;
        at += 1;
    }
    gear
};
/// A gear hash below this makes a marker: one of 1,024 windows. It takes twice as long as to look
/// for candidates, but does so whatever letters the content has.
const LIMIT: u32 = 1 << (32 - 10);
/// Parts of content that are hashed at once, because each byte waits for the one before it.
const PARTS: usize = 4;
/// Bytes of each part that are hashed before anything is compared.
const STEP: usize = 8;

fn gear(hash: u32, byte: u8) -> u32 {
    (hash << 1).wrapping_add(GEAR[usize::from(byte)])
}

/// A window whose first four bytes have a 16-bit hash up to this is a candidate: one of 32.
const CANDIDATES: u16 = (1 << (16 - 5)) - 1;
/// A candidate whose window has a hash below this is a marker: again one of 32.
const CHOSEN: u64 = 1 << (64 - 5);
/// Candidates that are found at once.
const AT_ONCE: usize = 512;
/// Buckets that are fetched before one of them is looked at: new content finds most of them neither
/// in a cache nor near each other.
const AHEAD: usize = 16;
/// Odd factors of the words of a window.
const FACTORS: [u64; WINDOW / 8] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xff51_afd7_ed55_8ccd];

/// The upper bits depend on the whole window.
fn window_hash(window: &[u8]) -> u64 {
    let words = window.as_chunks().0.iter().zip(FACTORS);
    words.fold(0, |hash, (word, factor)| {
        (hash ^ u64::from_le_bytes(*word)).wrapping_mul(factor).rotate_left(29)
    })
}

/// Positions of markers in content, in ascending order. `None` if it has so few candidates that it
/// must be made of few letters in turn: no four of them may have a low hash.
fn sampled_positions(kernels: Kernels, content: &[u8]) -> Option<Vec<u32>> {
    let windows = (content.len() + 1).saturating_sub(WINDOW);
    let (mut found, mut candidates) = (Vec::new(), 0);
    let (mut from, mut markers) = (0, [0; AT_ONCE]);
    while from < windows {
        let all = usize::MAX;
        let sampled = kernels.sample_hash(CANDIDATES, content, WINDOW, 0, all, from, &mut markers);
        for &at in &markers[..sampled.count] {
            let window = &content[at as usize..][..WINDOW];
            // Zeros have a low hash, and much content has many of them.
            if window[..4] != [0; 4] {
                candidates += 1;
                if window_hash(window) < CHOSEN {
                    found.push(at);
                }
            }
        }
        if sampled.count < AT_ONCE {
            break;
        }
        from = sampled.resume;
    }
    (candidates >= windows / 128).then_some(found)
}

/// Positions of markers in content of any letters, in ascending order.
fn rolled_positions(content: &[u8]) -> Vec<u32> {
    let windows = (content.len() + 1).saturating_sub(WINDOW);
    let len = windows / PARTS / STEP * STEP;
    let mut found: [Vec<u32>; PARTS] = Default::default();
    let mut hashes = [0; PARTS];
    // A part's windows: all bytes of the first one but its last, and a byte for each.
    let parts: [&[[u8; STEP]]; PARTS] = std::array::from_fn(|part| {
        let bytes = content.get(part * len..).unwrap_or_default();
        let (first, bytes) = bytes.split_at(bytes.len().min(WINDOW - 1));
        hashes[part] = first.iter().fold(0, |hash, &byte| gear(hash, byte));
        bytes.get(..len).unwrap_or_default().as_chunks().0
    });
    let [one, two, three, four] = parts;
    for (nth, (((p, q), r), s)) in one.iter().zip(two).zip(three).zip(four).enumerate() {
        let (mut all, mut least) = ([[0; PARTS]; STEP], u32::MAX);
        for (at, now) in all.iter_mut().enumerate() {
            let [a, b, c, d] = hashes;
            hashes = [gear(a, p[at]), gear(b, q[at]), gear(c, r[at]), gear(d, s[at])];
            *now = hashes;
            least = hashes.into_iter().fold(least, u32::min);
        }
        if least < LIMIT {
            for (at, hashes) in all.into_iter().enumerate() {
                for (part, hash) in hashes.into_iter().enumerate() {
                    if hash < LIMIT {
                        found[part].push((part * len + nth * STEP + at) as u32);
                    }
                }
            }
        }
    }
    let mut found = found.concat();
    // The few that are left.
    for at in len * PARTS..windows {
        if content[at..at + WINDOW].iter().fold(0, |hash, &byte| gear(hash, byte)) < LIMIT {
            found.push(at as u32);
        }
    }
    found
}

/// All markers of `content`, which belongs to `domain`, where the encoder's fingerprints have this
/// `key`.
pub fn markers(content: &[u8], domain: Domain, key: u64) -> Vec<Hook> {
    // Another key than that of the table in memory: one must not tell of the other.
    let key = domain.key(key ^ 0x686f_6f6b);
    let kernels = Kernels::detect();
    let sampled = sampled_positions(kernels, content);
    let mut positions = sampled.unwrap_or_else(|| rolled_positions(content));
    // Runs of a byte, or of a few in turn, lie everywhere and lead nowhere.
    positions.retain(|&at| {
        let window = &content[at as usize..][..WINDOW];
        (1..=4).all(|period| window[period..] != window[..WINDOW - period])
    });
    let mut fingerprints = vec![0; positions.len()];
    kernels.fingerprints(content, &positions, WINDOW, key, &mut fingerprints);
    let hooks = positions.into_iter().zip(fingerprints);
    hooks.map(|(at, fingerprint)| Hook { at, fingerprint }).collect()
}

/// Takes the markers of the first `len` bytes off those of longer content; the rest becomes that of
/// what follows. A marker that lies across the end is of neither.
pub fn split_markers(markers: &mut Vec<Hook>, len: usize) -> Vec<Hook> {
    let inside = markers.partition_point(|hook| hook.at as usize + WINDOW <= len);
    let across = markers.partition_point(|hook| (hook.at as usize) < len);
    let mut first: Vec<Hook> = markers.drain(..across).collect();
    first.truncate(inside);
    markers.iter_mut().for_each(|hook| hook.at -= len as u32);
    first
}

/// Those of `markers` that are hooks.
fn choose(markers: &[Hook]) -> impl Iterator<Item = Hook> + '_ {
    markers.iter().enumerate().filter_map(|(at, hook)| {
        let near = at.saturating_sub(NEIGHBORS)..(at + NEIGHBORS + 1).min(markers.len());
        markers[near].iter().all(|other| other.fingerprint <= hook.fingerprint).then_some(*hook)
    })
}

/// Hooks are the highest of their neighbors, so their fingerprints are high numbers: half of them
/// are in the uppermost thirteenth. Spreads them evenly (the finalizer of MurmurHash3).
fn mix(fingerprint: u64) -> u64 {
    let mut mixed = fingerprint;
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

/// The hooks of a log on disk, by fingerprint. The newest replace the oldest.
///
/// Of one fingerprint, the newest place is kept, and the first one in the newer half of the log. What
/// is read from disk is appended to the log in pieces, between others, and so is what is sent of it;
/// if only the newest place counted, it would be in smaller pieces whenever it comes again.
///
/// A slot has the low bits of an offset, enough for four times the log, and as many bits of the
/// fingerprint as there is room for: 22 with a log of 1 TB, so that new content has a false hit
/// every 250 MB.
#[derive(Debug)]
pub struct Hooks {
    /// Buckets of slots; 0 is empty.
    slots: Vec<u64>,
    /// Mask of an offset's bits in a slot.
    offsets: u64,
    /// Where the content ends that was noted last. No hook lies above.
    end: u64,
    /// Half of the bytes that the log keeps.
    half: u64,
}

impl Hooks {
    /// Of a log that keeps `stored` bytes on disk. Takes a thousandth of that in memory, as it fills.
    pub fn new(stored: u64) -> Hooks {
        let stored = stored.min(MOST_STORED);
        let buckets = (stored / BYTES_PER_SLOT / BUCKET as u64).max(32);
        let offsets = (stored.max(1 << 20) * 4).next_power_of_two() - 1;
        Hooks { slots: vec![0; buckets as usize * BUCKET], offsets, end: 0, half: stored / 2 }
    }

    /// Memory in bytes, once it is full.
    pub fn memory(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }

    /// The slots for a fingerprint, and its bits in one of them.
    fn bucket(&self, fingerprint: u64) -> (Range<usize>, u64) {
        let buckets = self.slots.len() / BUCKET;
        let mixed = mix(fingerprint);
        let bucket = ((u128::from(mixed) * buckets as u128) >> 64) as usize * BUCKET;
        (bucket..bucket + BUCKET, mixed << self.offsets.count_ones())
    }

    fn prefetch(&self, fingerprint: u64) {
        let (bucket, _) = self.bucket(fingerprint);
        prefetch(&self.slots, bucket.start);
        prefetch(&self.slots, bucket.start + BUCKET / 2);
    }

    /// How far before the end a slot's hook lies.
    fn age(&self, slot: u64) -> u64 {
        self.end.wrapping_sub(slot) & self.offsets
    }

    /// Content whose markers these are lies at `offset` of the log. Older content may be noted
    /// after newer one: what was there of a log on disk before a restart.
    pub fn note(&mut self, markers: &[Hook], offset: u64) {
        for hook in choose(markers) {
            self.note_hook(hook.fingerprint, offset + u64::from(hook.at));
        }
    }

    /// As [`Hooks::note`], of content that repeats what the log has: nothing is noted that was not
    /// before. Markers at the ends of pieces have few neighbors, so more of them are hooks there.
    pub fn note_again(&mut self, markers: &[Hook], offset: u64) {
        for hook in choose(markers) {
            if self.find(hook.fingerprint).is_some() {
                self.note_hook(hook.fingerprint, offset + u64::from(hook.at));
            }
        }
    }

    fn note_hook(&mut self, fingerprint: u64, place: u64) {
        self.end = self.end.max(place);
        let (bucket, tag) = self.bucket(fingerprint);
        let (age, slot) = (self.end - place, tag | (place & self.offsets));
        let slots = bucket.clone().map(|at| (self.slots[at], at));
        let ages = slots.map(|(slot, at)| (if slot == 0 { u64::MAX } else { self.age(slot) }, at));
        let is_same = |at: usize| self.slots[at] != 0 && self.slots[at] & !self.offsets == tag;
        let mut same: Vec<(u64, usize)> = ages.clone().filter(|(_, at)| is_same(*at)).collect();
        same.sort_unstable();
        let oldest = ages.filter(|(_, at)| !is_same(*at)).max();
        // Whether it takes the place of another fingerprint.
        let room = oldest.filter(|(oldest, _)| *oldest >= age).map(|(_, at)| at);
        let at = match *same {
            [] => room,
            [(known, _), ..] if known == age => None,
            // The first place counts as long as it will stay for a while.
            [(known, at)] if known.max(age) > self.half => (age < known).then_some(at),
            [(known, at)] => room.or((age < known).then_some(at)),
            [(newest, _), (first, at), ..] if age < newest && first > self.half => Some(at),
            [(newest, at), ..] if age < newest => Some(at),
            [_, (first, at), ..] => (first < age && age <= self.half).then_some(at),
        };
        if let Some(at) = at {
            self.slots[at] = slot;
        }
    }

    /// The first and the newest place of a fingerprint.
    fn find(&self, fingerprint: u64) -> Option<(u64, u64)> {
        let (bucket, tag) = self.bucket(fingerprint);
        let slots = &self.slots[bucket];
        // New content has none of them: a loop without branches.
        let has_one = |found: bool, slot: &u64| found | (slot & !self.offsets == tag);
        if !slots.iter().fold(false, has_one) {
            return None;
        }
        let same = slots.iter().filter(|slot| **slot != 0 && **slot & !self.offsets == tag);
        let places = same.filter_map(|slot| self.end.checked_sub(self.age(*slot)));
        places.fold(None, |found, place| match found {
            None => Some((place, place)),
            Some((first, newest)) => Some((place.min(first), place.max(newest))),
        })
    }

    /// Ranges of the log that probably hold what content of `len` bytes repeats, whose markers these
    /// are: at most `most`, disjoint in the content, each within `stored`. Hits above `stored` are in
    /// memory. Nothing is verified.
    ///
    /// `next` is where content goes on that precedes this one, if it was found; it becomes where this
    /// content goes on.
    pub fn look(
        &self,
        markers: &[Hook],
        len: usize,
        stored: &Range<u64>,
        next: &mut Option<u64>,
        most: usize,
    ) -> Vec<Range<u64>> {
        self.look_at(markers, len, stored, next, most, |_| true)
    }

    /// As [`Hooks::look`], where not every offset of `stored` can be read.
    pub fn look_at(
        &self,
        markers: &[Hook],
        len: usize,
        stored: &Range<u64>,
        next: &mut Option<u64>,
        most: usize,
        is_readable: impl Fn(u64) -> bool,
    ) -> Vec<Range<u64>> {
        // Where hits at the same distance begin and end in the content, and that distance.
        let mut stretches: Vec<(u64, u64, Option<u64>)> = Vec::new();
        // Where pieces are short, some have no hook.
        stretches.extend(
            next.take().filter(|next| stored.contains(next)).map(|next| (0, 0, Some(next))),
        );
        markers.iter().take(AHEAD).for_each(|hook| self.prefetch(hook.fingerprint));
        for (nth, hook) in markers.iter().enumerate() {
            if let Some(later) = markers.get(nth + AHEAD) {
                self.prefetch(later.fingerprint);
            }
            let Some((first, newest)) = self.find(hook.fingerprint) else { continue };
            let at = u64::from(hook.at);
            let goes_on = stretches.last().and_then(|(_, _, distance)| *distance);
            // Rather where content goes on; if nowhere, where it was first.
            let is_newest = newest >= stored.end || newest.checked_sub(at) == goes_on;
            let is_there = stored.contains(&first) && is_readable(first);
            let offset = if !is_newest && is_there { first } else { newest };
            let Some(start) = offset.checked_sub(at) else { continue };
            let start = stored.contains(&offset).then_some(start);
            match stretches.last_mut() {
                Some((_, end, distance)) if *distance == start => *end = at + WINDOW as u64,
                _ => stretches.push((at, at + WINDOW as u64, start)),
            }
        }
        let len = len as u64;
        *next = stretches
            .last()
            .filter(|(_, last, _)| last + REACH >= len)
            .and_then(|(_, _, distance)| Some((*distance)? + len));
        let mut found = Vec::new();
        for (nth, &(first, last, distance)) in stretches.iter().enumerate() {
            let Some(distance) = distance else { continue };
            let before = nth.checked_sub(1).map_or(0, |before| stretches[before].1);
            let after = stretches.get(nth + 1).map_or(len, |after| after.0);
            let start = before.min(first).max(first.saturating_sub(REACH));
            let end = after.max(last).min(last + REACH).min(len);
            let range = (distance + start).max(stored.start)..(distance + end).min(stored.end);
            if found.len() < most && range.start + WORTH <= range.end {
                found.push(range);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
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
                hooks.look(&markers(part, Domain(5), 9), part.len(), &lies_in, &mut None, 8);
            missed += usize::from(found.is_empty());
            for range in &found {
                assert!(
                    range.start >= 1000 + at as u64 && range.end <= 1000 + (at + 40_000) as u64
                );
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
                let range = hooks.look(&all, 15_000, &(0..64 << 20), &mut None, 8);
                range.iter().any(|range| range.contains(&(nth * 15_000 + 7_500)))
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
            hooks.look(&all, content.len(), &(at - (1 << 20)..at + 200_000), &mut None, 8)
        };
        let found = look(&last);
        assert!(found[0].start < at + 20_000 && found[0].end > at + 64_000, "{found:?}");
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
        let words =
            ["the ", "that ", "to ", "into ", "    return", " not ", "at the ", "self.test("];
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
                let found =
                    hooks.look(&markers(piece, Domain(5), 9), piece.len(), &lies_in, &mut next, 8);
                let at = 1000 + nth as u64 * 2048;
                for range in found {
                    assert!(at <= range.start && range.end <= at + 2048, "{range:?} at {at}");
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
            hooks.look(&markers(piece, Domain(5), 9), piece.len(), &lies_in, &mut next, 8).len()
        });
        assert_eq!(pieces.collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn another_domain_or_key_or_place_finds_nothing() {
        let stored = content(2, 1 << 20);
        let hooks = noted(&stored);
        let all = 1000..1000 + (1 << 20);
        let look = |domain, key, range: &Range<u64>| {
            hooks.look(&markers(&stored, domain, key), stored.len(), range, &mut None, 1000).len()
        };
        assert!(look(Domain(5), 9, &all) > 0);
        assert_eq!(look(Domain(6), 9, &all), 0);
        assert_eq!(look(Domain(5), 8, &all), 0);
        assert_eq!(look(Domain(5), 9, &(0..1000)), 0, "not on disk any more");
        assert_eq!(
            hooks.look(&markers(&content(3, 1 << 20), Domain(5), 9), 1 << 20, &all, &mut None, 9),
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
                found.extend(hooks.look_at(
                    &all,
                    part.len(),
                    &(0..end),
                    &mut next,
                    32,
                    is_readable,
                ));
            }
            found.iter().for_each(|range| covered += range.end - range.start);
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
            hooks.look(&markers(&part, Domain(5), 9), part.len(), &stored, &mut None, 100)
        };
        assert!(look(&hooks).iter().all(|range| range.end <= 101_000 + REACH));
        assert!(!look(&hooks).is_empty());
        hooks.note(&markers(&old, Domain(5), 9), 500_000);
        let left: u64 = look(&hooks).iter().map(|range| range.end - range.start).sum();
        assert!(left < 70_000, "{left}");
    }
}
