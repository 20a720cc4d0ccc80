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
    /// memory. Nothing is verified. Not every offset of `stored` may be readable.
    ///
    /// `next` is where content goes on that precedes this one, if it was found; it becomes where this
    /// content goes on.
    ///
    /// Returns each range with where it begins in the content.
    pub fn look(
        &self,
        markers: &[Hook],
        len: usize,
        stored: &Range<u64>,
        next: &mut Option<u64>,
        most: usize,
        is_readable: impl Fn(u64) -> bool,
    ) -> Vec<(u64, Range<u64>)> {
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
                found.push((range.start - distance, range));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
