//! Matches of a packet with what is stored.

use super::Store;
use crate::engine::{
    select::{Candidate, select, without_lesser},
    stored::{Found, Refusal, Stored, Worth, extent},
};

/// Sampling periods between two looks into the table within what was found already: other copies
/// may begin there.
const STRIDE: usize = 4;
/// Most copies that are compared for a packet.
const MOST: usize = 64;

/// Where a match lies in the virtual ring: what a packet has at `at`, before `end`, is at `base + at`.
#[derive(Clone, Copy)]
struct Line {
    base: u64,
    end: u32,
}

/// What a hit of the table was.
enum Hit {
    /// Bytes that are null: whether that alone is why nothing was found.
    Gap(bool),
    Other,
    Match(Found),
    /// One of those that are known already.
    Known,
}

impl Store {
    /// Looks for `payload` in the store. `judge` says what each match is worth, or why it is not
    /// used. Matches are disjoint, ascending, and go to `matches`: with one address for a fingerprint,
    /// the first at each place; with several, up to `most` parts of them that are worth most
    /// together. `settle` is called for each match that is used, and if none of the copies can be, for
    /// the newest, with why.
    pub(crate) fn search(
        &mut self,
        payload: &[u8],
        most: usize,
        matches: &mut Vec<Found>,
        judge: impl FnMut(&Self, &Stored, &Found, &[Found]) -> Worth,
        settle: impl FnMut(&Stored, &Found, Option<Refusal>),
    ) {
        self.sample(payload);
        let mut hits = std::mem::take(&mut self.hits);
        let (gaps, false_hits) = if self.index.several() {
            self.best_of_several(payload, most, &mut hits, matches, judge, settle)
        } else {
            self.first_of_each(payload, &mut hits, matches, judge, settle)
        };
        self.hits = hits;
        self.counts.gaps += gaps;
        self.counts.false_hits += false_hits;
    }

    /// What is at an address of the table, if the `marker` of the payload is there: no byte before
    /// `done` matches, nor one of what is `known`.
    fn grow_hit(
        &self,
        (payload, marker, done): (&[u8], usize, usize),
        address: u64,
        known: &[Line],
    ) -> Hit {
        // Most hits are of what other markers have found, which needs no look at the packet.
        let base = address.wrapping_sub(marker as u64);
        if known.iter().any(|line| line.base == base && marker < line.end as usize) {
            return Hit::Known;
        }
        let Some((slot, position)) = self.resolve(address) else { return Hit::Other };
        let stored = self.get(slot);
        let (low, high) = extent(stored, position);
        if high < position + self.window {
            return Hit::Gap(high < stored.payload.len());
        }
        let forward =
            self.kernels.common_prefix(&payload[marker..], &stored.payload[position..high]);
        if forward < self.window {
            return Hit::Other;
        }
        let back =
            self.kernels.common_suffix(&payload[done..marker], &stored.payload[low..position]);
        Hit::Match(Found {
            slot,
            at: (marker - back) as u32,
            offset: (position - back) as u32,
            length: (forward + back) as u32,
        })
    }

    /// With one address for a fingerprint. Returns gaps and false hits.
    fn first_of_each(
        &self,
        payload: &[u8],
        hits: &mut Vec<u64>,
        matches: &mut Vec<Found>,
        mut judge: impl FnMut(&Self, &Stored, &Found, &[Found]) -> Worth,
        mut settle: impl FnMut(&Stored, &Found, Option<Refusal>),
    ) -> (u64, u64) {
        let start = self.geometry.place(self.end, payload.len() + 1);
        let (mut gaps, mut false_hits) = (0, 0);
        let mut done = 0;
        // A match that was not used: its other fingerprints find it again.
        let mut refused: Option<Line> = None;
        for (&fingerprint, &marker) in self.fingerprints.iter().zip(&self.markers) {
            let marker = marker as usize;
            if marker < done {
                continue;
            }
            hits.clear();
            // In the ring, the packet's own markers come after everything that is known.
            self.index.look_up(fingerprint, start + marker as u64, hits);
            for &hit in &*hits {
                match self.grow_hit((payload, marker, done), hit, refused.as_slice()) {
                    Hit::Known => {}
                    Hit::Gap(null) => {
                        gaps += u64::from(null);
                        false_hits += u64::from(!null);
                    }
                    Hit::Other => false_hits += 1,
                    Hit::Match(found) => {
                        let stored = self.get(found.slot);
                        match judge(self, stored, &found, matches) {
                            Ok(_) => {
                                settle(stored, &found, None);
                                done = found.end() as usize;
                                matches.push(found);
                                refused = None;
                            }
                            Err(refusal) => {
                                settle(stored, &found, Some(refusal));
                                // Counted again if another comes between, as ever.
                                refused = Some(self.line(&found));
                            }
                        }
                    }
                }
            }
        }
        (gaps, false_hits)
    }

    fn line(&self, found: &Found) -> Line {
        let at = self.get(found.slot).start + u64::from(found.offset);
        Line { base: at.wrapping_sub(found.at.into()), end: found.end() }
    }

    /// With several addresses for a fingerprint. Returns gaps and false hits.
    fn best_of_several(
        &self,
        payload: &[u8],
        most: usize,
        hits: &mut Vec<u64>,
        matches: &mut Vec<Found>,
        mut judge: impl FnMut(&Self, &Stored, &Found, &[Found]) -> Worth,
        mut settle: impl FnMut(&Stored, &Found, Option<Refusal>),
    ) -> (u64, u64) {
        let start = self.geometry.place(self.end, payload.len() + 1);
        let (mut gaps, mut false_hits) = (0, 0);
        let mut candidates: Vec<Candidate> = Vec::new();
        // Those of the candidates, and of what was refused.
        let mut known: Vec<Line> = Vec::new();
        // The newest of those refused at a place where none could be used, and the place.
        let mut newest: Vec<(usize, Refusal, Found)> = Vec::new();
        let mut next = 0;
        // Each is a random access to memory, and so is each that is stored later.
        self.fingerprints.iter().for_each(|&fingerprint| self.index.prefetch(fingerprint));
        for (&fingerprint, &marker) in self.fingerprints.iter().zip(&self.markers) {
            let marker = marker as usize;
            if marker < next {
                continue;
            }
            hits.clear();
            self.index.look_up(fingerprint, start + marker as u64, hits);
            let mut first = None;
            for &hit in &*hits {
                match self.grow_hit((payload, marker, 0), hit, &known) {
                    Hit::Known => {}
                    Hit::Gap(null) => {
                        gaps += u64::from(null);
                        false_hits += u64::from(!null);
                    }
                    Hit::Other => false_hits += 1,
                    Hit::Match(found) if known.len() < MOST => {
                        known.push(self.line(&found));
                        match judge(self, self.get(found.slot), &found, &[]) {
                            Ok(worth) => candidates.push(Candidate { found, worth }),
                            Err(refusal) => first = first.or(Some((refusal, found))),
                        }
                    }
                    Hit::Match(_) => {}
                }
            }
            let here = candidates.iter().map(|one| one.found);
            let here = here.filter(|found| (found.at..found.end()).contains(&(marker as u32)));
            if let Some(end) = here.map(|found| found.end() as usize).min() {
                next = end.min(marker + STRIDE * self.period);
            } else if let Some((refusal, found)) = first {
                newest.push((marker, refusal, found));
            }
        }
        without_lesser(&mut candidates);
        select(&candidates, most, matches);
        for found in &*matches {
            settle(self.get(found.slot), found, None);
        }
        let used = |at: usize| {
            matches.iter().any(|found| (found.at as usize..found.end() as usize).contains(&at))
        };
        for (marker, refusal, found) in newest {
            if !used(marker) {
                settle(self.get(found.slot), &found, Some(refusal));
            }
        }
        (gaps, false_hits)
    }
}
