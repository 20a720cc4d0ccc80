//! How content that lies only on disk is found with little memory: a dense index on flash, hooks in memory,
//! or hooks in an index on flash (docs/STORE.md, section 9). Counts savings and reads; measures no time.
//!
//!     cargo run --release -p oncewire-codec --example disk-index -- FILES
//!
//! The files are one log, in the order of the command line. A sixteenth of it is in memory, all of it
//! on disk. Indexes of all that is in memory, or was read, have a marker of 32 bytes on average.

use oncewire_codec::Domain;
use oncewire_codec::hooks::{Hooks, markers};
use std::collections::HashMap;
use std::ops::Range;

const WINDOW: usize = 32;
/// Content that is looked up at once, and what is read around a hit, in bytes.
const LOOK: usize = 128 << 10;
const REACH: usize = 64 << 10;
/// Ranges that one look may find.
const MOST: usize = 32;
/// Bytes of memory of an entry of an index on flash (docs/FLASH.md), and of a hook.
const ENTRY: f64 = 2.5;
const HOOK: f64 = 8.0;

/// How content on disk is found.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Only what is in memory is found.
    Memory,
    /// Everything is in memory.
    All,
    /// One of so many markers is in an index on flash. Each hit reads a page of it, and what repeats.
    Dense(u64),
    /// The hooks of this implementation, in memory.
    Hooks,
    /// One of so many markers leads to what lies around it: in memory, or in an index on flash.
    Around { one_in: u64, on_flash: bool },
}

/// A range of the log that is looked up at once, and its markers.
type Look = (Range<usize>, Vec<(usize, u64)>);

/// Windows that a rolling hash chooses, one of 32, with their fingerprints.
fn sampled(content: &[u8]) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    let mut hash = 0u64;
    for (at, &byte) in content.iter().enumerate() {
        let mixed = (u64::from(byte) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        // What is shifted out is older than a window.
        hash = (hash << 2).wrapping_add(mixed);
        if at + 1 >= WINDOW && hash >> 59 == 0 {
            let start = at + 1 - WINDOW;
            let words = content[start..=at].as_chunks::<8>().0;
            let print = words.iter().fold(7u64, |print, word| {
                let word = u64::from_le_bytes(*word);
                (print ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31)
            });
            found.push((start, print ^ (print >> 29)));
        }
    }
    found
}

/// What was counted.
#[derive(Default)]
struct Counts {
    covered: usize,
    index_reads: usize,
    reads: usize,
    read_bytes: usize,
}

/// The log, and what is known of it.
struct Run<'a> {
    log: &'a [u8],
    way: Way,
    memory: usize,
    /// Newest place of each fingerprint, and of those that lead to the disk.
    newest: HashMap<u64, usize>,
    disk: HashMap<u64, usize>,
    hooks: Hooks,
    next: Option<u64>,
    counts: Counts,
}

impl Run<'_> {
    /// The range of content around `at` that equals what lies at `place`: within `look`, and `within`
    /// of the log.
    fn extend(
        &self,
        look: &Range<usize>,
        at: usize,
        place: usize,
        within: &Range<usize>,
    ) -> Range<usize> {
        let same = |(one, other): &(&u8, &u8)| one == other;
        let (ahead, there) = (&self.log[at..look.end], &self.log[place..within.end]);
        let after = ahead.iter().zip(there).take_while(same).count();
        let (back, there) = (&self.log[look.start..at], &self.log[within.start..place]);
        let before = back.iter().rev().zip(there.iter().rev()).take_while(same).count();
        at - before..at + after
    }

    /// Ranges on disk that hits of markers at these places lead to.
    fn around(
        &mut self,
        look: &Range<usize>,
        begin: usize,
        one_in: u64,
        on_flash: bool,
        own: &[(usize, u64)],
    ) -> Vec<Range<usize>> {
        let mut found: Vec<(Range<usize>, usize)> = Vec::new();
        for &(at, print) in own.iter().filter(|(_, print)| print % one_in == 0) {
            // What memory has is not read.
            let is_near = self.newest.get(&print).is_some_and(|newest| *newest >= begin);
            let Some(&place) = self.disk.get(&print).filter(|_| !is_near) else { continue };
            let distance = look.start + at - place;
            match found.last_mut().filter(|(_, known)| *known == distance) {
                // It is known to go on there.
                Some((range, _)) => range.end = at + WINDOW,
                None => {
                    self.counts.index_reads += usize::from(on_flash);
                    found.push((at..at + WINDOW, distance));
                }
            }
        }
        let mut ranges = Vec::new();
        for (nth, (hit, distance)) in found.iter().enumerate() {
            let before = nth.checked_sub(1).map_or(0, |nth| found[nth].0.end);
            let after = found.get(nth + 1).map_or(look.len(), |next| next.0.start);
            let start = hit.start.saturating_sub(REACH).max(before.min(hit.start));
            let end = (hit.end + REACH).min(after.max(hit.end)).min(look.len());
            let place = (look.start + start).saturating_sub(*distance);
            ranges.push(place..place + (end - start));
        }
        ranges
    }

    fn look(&mut self, look: Range<usize>, own: &[(usize, u64)]) {
        let begin = match self.way {
            Way::All => 0,
            _ => look.start.saturating_sub(self.memory),
        };
        let ranges = match self.way {
            Way::Hooks => {
                let content = &self.log[look.clone()];
                let found = markers(content, Domain(0), 1);
                let stored = 0..begin as u64;
                let ranges =
                    self.hooks.look(&found, content.len(), &stored, &mut self.next, MOST, |_| true);
                self.hooks.note(&found, look.start as u64);
                ranges
                    .into_iter()
                    .map(|(_, range)| range.start as usize..range.end as usize)
                    .collect()
            }
            Way::Around { one_in, on_flash } => self.around(&look, begin, one_in, on_flash, own),
            _ => Vec::new(),
        };
        let mut read = HashMap::new();
        for range in &ranges {
            let range = range.start..range.end.min(begin);
            if range.is_empty() {
                continue;
            }
            self.counts.reads += range.len().div_ceil(64 << 10);
            self.counts.read_bytes += range.len();
            for (at, print) in sampled(&self.log[range.clone()]) {
                read.insert(print, (range.start + at, range.clone()));
            }
        }
        let mut done = look.start;
        for &(at, print) in own {
            let at = look.start + at;
            if at < done {
                continue;
            }
            let rest = done..look.end;
            let memory = self.newest.get(&print).filter(|place| **place >= begin);
            let mut best = memory.map(|&place| self.extend(&rest, at, place, &(begin..look.start)));
            if let Some((place, range)) = read.get(&print) {
                let other = self.extend(&rest, at, *place, range);
                best = best.filter(|best| best.len() >= other.len()).or(Some(other));
            }
            if let Way::Dense(one_in) = self.way
                && best.is_none()
                && print % one_in == 0
                && let Some(&place) = self.disk.get(&print)
            {
                let found = self.extend(&rest, at, place, &(0..begin));
                self.counts.index_reads += 1;
                self.counts.reads += found.len().div_ceil(64 << 10).max(1);
                self.counts.read_bytes += found.len();
                best = Some(found);
            }
            if let Some(best) = best.filter(|best| best.len() >= WINDOW) {
                self.counts.covered += best.len();
                done = best.end;
            }
        }
        for &(at, print) in own {
            self.newest.insert(print, look.start + at);
        }
    }

    /// Content leaves memory.
    fn leave(&mut self, range: Range<usize>, own: &[(usize, u64)]) {
        let one_in = match self.way {
            Way::Dense(one_in) | Way::Around { one_in, .. } => one_in,
            _ => return,
        };
        for &(at, print) in own.iter().filter(|(_, print)| print % one_in == 0) {
            self.disk.insert(print, range.start + at);
        }
    }
}

fn run(log: &[u8], looks: &[Look], way: Way) -> Counts {
    let memory = log.len() / 16;
    let mut run = Run {
        log,
        way,
        memory,
        newest: HashMap::new(),
        disk: HashMap::new(),
        hooks: Hooks::new(log.len() as u64),
        next: None,
        counts: Counts::default(),
    };
    let mut gone = 0;
    for (range, own) in looks {
        while looks[gone].0.end + memory <= range.start {
            run.leave(looks[gone].0.clone(), &looks[gone].1);
            gone += 1;
        }
        run.look(range.clone(), own);
    }
    run.counts
}

fn main() -> Result<(), String> {
    let mut log = Vec::new();
    for path in std::env::args().skip(1) {
        log.extend(std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?);
    }
    if log.len() < 16 * LOOK {
        return Err("give files of 2 MiB or more together: disk-index FILES".into());
    }
    let looks: Vec<Look> = (0..log.len())
        .step_by(LOOK)
        .map(|start| {
            let range = start..(start + LOOK).min(log.len());
            (range.clone(), sampled(&log[range]))
        })
        .collect();
    let all = run(&log, &looks, Way::All).covered;
    let memory = run(&log, &looks, Way::Memory).covered;
    let (total, mb) = (log.len() as f64, |bytes: usize| bytes as f64 / 1e6);
    println!(
        "{:.1} MB; found with all of it in memory: {:.2} %",
        mb(log.len()),
        100.0 * all as f64 / total
    );
    println!(
        "with a sixteenth in memory, and nothing on disk: {:.2} %",
        100.0 * memory as f64 / total
    );
    println!(
        "| memory | way | one in | found | of what memory finds | reads of the index, of content, per MB found there | read bytes for each |"
    );
    println!("|---|---|---:|---:|---:|---|---:|");
    for part in [1024.0, 64.0] {
        let one_in = |entry: f64| (entry * part / 32.0).round().max(1.0) as u64;
        let mut ways = vec![
            ("dense on flash", Way::Dense(one_in(ENTRY))),
            ("hooks in memory", Way::Around { one_in: one_in(HOOK), on_flash: false }),
            ("hooks on flash", Way::Around { one_in: one_in(ENTRY), on_flash: true }),
        ];
        if part == 1024.0 {
            ways.insert(1, ("hooks in memory, ours", Way::Hooks));
        }
        for (name, way) in ways {
            let counts = run(&log, &looks, way);
            let found = counts.covered.saturating_sub(memory).max(1);
            let one_in = match way {
                Way::Dense(one_in) | Way::Around { one_in, .. } => one_in * 32,
                _ => 8192,
            };
            println!(
                "| 1/{part} | {name} | {one_in} | {:.2} % | {:.1} % | {:.1}, {:.1} | {:.2} |",
                100.0 * counts.covered as f64 / total,
                100.0 * counts.covered as f64 / all as f64,
                counts.index_reads as f64 / mb(found),
                counts.reads as f64 / mb(found),
                counts.read_bytes as f64 / found as f64,
            );
        }
    }
    Ok(())
}
