//! `pack --store` and `unpack --store`: a base that grows. Each end keeps the content of the packs so
//! far on disk, and a pack goes on from there.
//!
//! A *point* is where a pack ends, by a name that content alone decides: both ends have the same
//! points. A pack says with length and digest of its base (`docs/FORMAT.md`) which point it goes on
//! from; `docs/STORE.md`, section 10, has what is kept.

use crate::args::PackStoreArgs;
use crate::failure::{Failure, Outcome, without_number};
use crate::quantity::binary;
use crate::tunnel::store_failure;
use oncewire_codec::pack::Base;
use oncewire_flash::store::{DiskLog, NewLog, Peer, Secret, Side, Store, StoreError};
use oncewire_net::store::StoreSecret;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

/// Content that a new store keeps, in bytes.
pub(crate) const DEFAULT_SIZE: u64 = 1 << 30;

/// What logs of packs say about themselves; those of tunnels say nothing.
const ABOUT: &[u8] = b"oncewire packs 1";

/// First number of the state. Those of tunnels begin with another one.
const VERSION: u64 = 2;

/// Most points that are kept, the newest.
const MOST_POINTS: usize = 10_000;

/// How much is read to find the point that a pack goes on from, in capacities of the store: a pack
/// may name any base.
const SOUGHT: u64 = 8;

/// Content is read in pieces of this size, in bytes.
const READ: usize = 1 << 20;

/// The name of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointName(u64);

impl PointName {
    /// Before the first pack.
    pub(crate) const START: PointName = PointName(0);

    /// After one more pack, whose content has this digest.
    fn after(self, content: &blake3::Hash) -> PointName {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0.to_le_bytes());
        hasher.update(content.as_bytes());
        let mut name = [0; 8];
        name.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        PointName(u64::from_le_bytes(name).max(1))
    }
}

impl fmt::Display for PointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PointName::START => f.write_str("start"),
            PointName(name) => write!(f, "{name:016x}"),
        }
    }
}

impl FromStr for PointName {
    type Err = String;

    fn from_str(text: &str) -> Result<PointName, String> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            _ if text == "start" => Ok(PointName::START),
            Ok(name) if digits && name != 0 => Ok(PointName(name)),
            _ => Err("a point is 16 hexadecimal digits, as `unpack --store` says, or start".into()),
        }
    }
}

/// Where a pack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    offset: u64,
    name: PointName,
}

/// Points, ascending. Content below the first one belongs to no pack that could be gone on from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Points(Vec<Point>);

impl Points {
    fn start(offset: u64) -> Points {
        Points(vec![Point { offset, name: PointName::START }])
    }

    fn read(state: &[u8]) -> Option<Points> {
        let (numbers, rest) = state.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        if !rest.is_empty() || numbers.next() != Some(VERSION) {
            return None;
        }
        let mut points = Vec::new();
        while let Some(offset) = numbers.next() {
            points.push(Point { offset, name: PointName(numbers.next()?) });
        }
        let is_ascending = points.is_sorted_by(|one, other| one.offset <= other.offset);
        (is_ascending && !points.is_empty()).then_some(Points(points))
    }

    fn write(&self) -> Vec<u8> {
        let points = self.0.iter().flat_map(|point| [point.offset, point.name.0]);
        std::iter::once(VERSION).chain(points).flat_map(u64::to_le_bytes).collect()
    }

    fn last(&self) -> Point {
        *self.0.last().expect("there is one from the beginning")
    }

    /// Where content begins that packs can go on from.
    fn first(&self) -> u64 {
        self.0[0].offset
    }

    fn push(&mut self, point: Point) {
        self.0.push(point);
        let most = self.0.len().saturating_sub(MOST_POINTS);
        self.0.drain(..most);
    }
}

/// The content of earlier packs.
pub(crate) struct PackStore {
    dir: PathBuf,
    log: DiskLog,
    points: Points,
    /// Where the next pack goes on, and what content is there already.
    from: Point,
    /// End of the content that was compared or appended since.
    at: u64,
    /// What comes now is compared with content that is there: nothing was written.
    follows: bool,
    hasher: blake3::Hasher,
    /// Locks the directory.
    _store: Store,
}

impl PackStore {
    /// Opens the store of an end, or makes one, for a run with this output.
    pub(crate) fn open(
        args: &PackStoreArgs,
        side: Side,
        output: Option<&Path>,
    ) -> Outcome<Option<PackStore>> {
        let Some(dir) = &args.store else { return Ok(None) };
        if output.is_some_and(|output| is_in(output, dir)) {
            return Err(Failure::usage(format!(
                "-o would write into {}, the --store; name a file elsewhere",
                dir.display()
            )));
        }
        let secret = secret(args)?;
        let failed = |error: StoreError| store_failure(&error);
        let new = NewLog {
            side,
            capacity: args.store_size.unwrap_or(DEFAULT_SIZE),
            about: ABOUT.to_vec(),
            ..NewLog::default()
        };
        // One directory may have the content of packs that were sent, and that of received ones.
        let (store, files) = Store::open(dir, secret.as_ref(), u64::MAX).map_err(failed)?;
        let mut found = None;
        for file in files {
            let Ok(header) = &file.header else { continue };
            if header.peer != Peer::default() {
                return Err(Failure::usage(format!(
                    "{} has the caches of a tunnel; packs need a directory of their own",
                    dir.display()
                )));
            }
            if header.side == side {
                found = Some(store.open_log(file.name).map_err(failed)?);
            }
        }
        let start = Points::start(0);
        let log = match found {
            Some(log) => log,
            None => store.create(&new, &start.write(), now()).map_err(failed)?,
        };
        let capacity = log.header().shape.capacity;
        if args.store_size.is_some_and(|size| size != capacity) {
            return Err(Failure::usage(format!(
                "{} keeps {} of content, and cannot change that; leave --store-size out, or use another directory",
                dir.display(),
                binary(capacity)
            )));
        }
        let Some(points) = Points::read(log.owner_state()).filter(|_| log.about() == ABOUT) else {
            return Err(Failure::failed(format!(
                "{} was written by another version of oncewire; use another directory",
                dir.display()
            )));
        };
        let (from, dir) = (points.last(), dir.clone());
        let hasher = blake3::Hasher::new();
        let at = from.offset;
        let mut opened =
            PackStore { dir, log, points, from, at, follows: true, hasher, _store: store };
        opened.take_back()?;
        Ok(Some(opened))
    }

    /// Takes back what a run left that did not come to its end.
    fn take_back(&mut self) -> Outcome {
        let (fill, last) = (self.log.fill(), self.points.last());
        if fill.tail == last.offset {
            return Ok(());
        }
        if (fill.low..=fill.tail).contains(&last.offset) {
            self.log.truncate(last.offset).map_err(|error| self.failed(&error))?;
        } else {
            // It took the place of everything else.
            self.log.restart(fill.tail).map_err(|error| self.failed(&error))?;
            self.points = Points::start(fill.tail);
            self.goes_on_from(self.points.last());
        }
        self.commit()
    }

    fn goes_on_from(&mut self, from: Point) {
        (self.from, self.at, self.follows) = (from, from.offset, true);
    }

    /// The point that the next pack goes on from.
    pub(crate) fn from(&self) -> PointName {
        self.from.name
    }

    /// Goes back to a point.
    pub(crate) fn go_back(&mut self, name: PointName) -> Outcome {
        if name == PointName::START {
            // What is there stays until the pack is complete.
            let tail = self.log.fill().tail;
            self.goes_on_from(Point { offset: tail, name });
            self.follows = false;
            return Ok(());
        }
        let found = self.points.0.iter().rev().find(|point| point.name == name);
        let low = self.log.fill().low;
        let Some(&point) = found.filter(|point| point.offset >= low) else {
            return Err(Failure::usage(format!(
                "{} does not reach back to point {name}; --from start sends everything anew",
                self.dir.display()
            )));
        };
        self.goes_on_from(point);
        Ok(())
    }

    /// Content before the point, `most` bytes at most, as a base: `None` if there is none. Content
    /// that has become unreadable, and what is before it, is left out.
    pub(crate) fn base(&mut self, most: u64) -> Outcome<Option<(Base, Range<u64>)>> {
        let end = self.from.offset;
        let most = most.min(self.log.header().shape.capacity);
        let mut start = self.first().max(end.saturating_sub(most));
        if self.from.name == PointName::START {
            start = end;
        }
        while start < end {
            match self.digest(start..end) {
                Ok(digest) => return Ok(Some((Base { len: end - start, digest }, start..end))),
                Err(after) => start = after,
            }
        }
        Ok(None)
    }

    /// Finds the point that a pack with this base goes on from.
    pub(crate) fn find(&mut self, base: &Base) -> Outcome<Range<u64>> {
        let mut is_readable = true;
        let mut left = SOUGHT.saturating_mul(self.log.header().shape.capacity);
        for point in self.points.0.clone().into_iter().rev() {
            let Some(start) = point.offset.checked_sub(base.len) else { continue };
            if start < self.first() {
                continue;
            }
            let Some(rest) = left.checked_sub(base.len) else { break };
            left = rest;
            match self.digest(start..point.offset) {
                Ok(digest) if digest == base.digest => {
                    self.goes_on_from(point);
                    return Ok(start..point.offset);
                }
                Ok(_) => {}
                Err(_) => is_readable = false,
            }
        }
        let (dir, capacity) = (self.dir.display(), self.log.header().shape.capacity);
        let last = self.points.last().name;
        let advice = if base.len > capacity {
            format!(
                "pack it again with --from start, for a new directory with the --store-size of the other end: this one keeps {}",
                binary(capacity)
            )
        } else if is_readable {
            format!("pack it again with --from {last}")
        } else {
            "some cannot be read any more: pack it again with --from start".into()
        };
        Err(Failure::usage(format!(
            "the pack goes on from {} of earlier content, and {dir} does not have it; {advice}",
            binary(base.len)
        )))
    }

    /// Lowest offset whose content can be used.
    fn first(&self) -> u64 {
        self.points.first().max(self.log.fill().low)
    }

    /// BLAKE3 of content, or the end of what of it cannot be read.
    fn digest(&mut self, range: Range<u64>) -> Result<[u8; 32], u64> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; READ];
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(READ as u64) as usize;
            if let Err(lost) = self.log.read(at, &mut buffer[..len]) {
                return Err(lost.end.clamp(at + 1, range.end));
            }
            hasher.update(&buffer[..len]);
            at += len as u64;
        }
        Ok(*hasher.finalize().as_bytes())
    }

    /// Calls `take` with content, in parts of exactly `block` bytes; the last may be shorter.
    pub(crate) fn each_block(
        &mut self,
        range: Range<u64>,
        block: usize,
        mut take: impl FnMut(&[u8]) -> Outcome,
    ) -> Outcome {
        let mut buffer = vec![0; block];
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(block as u64) as usize;
            self.log.read(at, &mut buffer[..len]).map_err(|_| {
                Failure::failed(format!(
                    "cannot read {} any more: run this again, and it does without",
                    self.dir.display()
                ))
            })?;
            take(&buffer[..len])?;
            at += len as u64;
        }
        Ok(())
    }

    /// The content of the pack goes on.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Outcome {
        self.hasher.update(bytes);
        if self.follows {
            let held = (self.log.fill().tail - self.at).min(bytes.len() as u64) as usize;
            let mut there = vec![0; held];
            let is_there = self.log.read(self.at, &mut there).is_ok() && there == bytes[..held];
            if is_there && held == bytes.len() {
                self.at += held as u64;
                return Ok(());
            }
            let same = if is_there { held } else { 0 };
            self.at += same as u64;
            bytes = &bytes[same..];
            self.cut()?;
        }
        while !bytes.is_empty() {
            let room = self.log.limit().saturating_sub(self.at).min(bytes.len() as u64) as usize;
            if room == 0 {
                self.commit()?;
                continue;
            }
            let (now, rest) = bytes.split_at(room);
            self.log.append(self.at, now).map_err(|error| self.failed(&error))?;
            self.at += room as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// What is there from here on is given up.
    fn cut(&mut self) -> Outcome {
        self.follows = false;
        if self.at == self.log.fill().tail {
            return Ok(());
        }
        self.log.truncate(self.at).map_err(|error| self.failed(&error))?;
        self.points.0.retain(|point| point.offset <= self.at);
        self.commit()
    }

    /// The pack is complete and wherever it was to go. Returns the point at its end.
    pub(crate) fn finish(mut self) -> Outcome<PointName> {
        let name = self.from.name.after(&self.hasher.finalize());
        let is_there = self.follows
            && self.points.0.iter().any(|point| point.offset == self.at && point.name == name);
        if !is_there {
            if self.follows {
                self.cut()?;
            }
            if self.from.name == PointName::START {
                self.points = Points(vec![self.from]);
            }
            self.points.push(Point { offset: self.at, name });
        }
        self.commit()?;
        Ok(name)
    }

    fn commit(&mut self) -> Outcome {
        let committed = self.log.commit(&self.points.write(), now());
        committed.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn std::error::Error) -> Failure {
        Failure::failed(format!("cannot write to {}: {error}", self.dir.display()))
    }
}

/// Whether a file is, or would be, in a directory.
fn is_in(file: &Path, dir: &Path) -> bool {
    let parent = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    matches!((parent.canonicalize(), dir.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())
}

/// What the store is encrypted with; `None` for nothing.
fn secret(args: &PackStoreArgs) -> Outcome<Option<Secret>> {
    let Some(path) = &args.store_key else {
        return if args.store_plain {
            Ok(None)
        } else {
            Err(Failure::usage(
                "--store keeps content on disk: encrypt it with --store-key FILE, a file of 32 random bytes or more, or pass --store-plain",
            ))
        };
    };
    match StoreSecret::load(path) {
        Ok(StoreSecret::Other(secret)) => Ok(Some(secret)),
        Ok(_) => Ok(None),
        Err(error) => Err(Failure::failed(without_number(&error))),
    }
}
