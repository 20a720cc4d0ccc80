//! Filters in memory: which incarnations of a partition may have a key.

mod maplet;
mod sliced;

use crate::allowance::Allowance;
use crate::options::Filter;
pub(crate) use maplet::MOST as MOST_IN_MAPLET;
use maplet::Maplet;
use sliced::Sliced;
use std::fmt::Debug;

/// The filter of a partition.
pub(crate) trait IncarnationFilter: Debug + Send + Sync {
    /// Makes room for incarnation `count`. All but the `most - 1` before it have left.
    fn enter(&mut self, count: u64);

    /// Adds keys of incarnation `count`, by their hashes.
    ///
    /// # Errors
    ///
    /// If there is no room for one of them until an older incarnation leaves: its number. Those
    /// before it were added.
    fn add(&mut self, count: u64, hashes: &[u64], allowance: &Allowance) -> Result<(), usize>;

    /// Adds a key for which there is no room although no other incarnation is left.
    fn force(&mut self, count: u64, hash: u64, allowance: &Allowance);

    /// Removes an incarnation.
    fn leave(&mut self, count: u64, allowance: &Allowance);

    /// The incarnations that may have a key.
    fn candidates(&self, hash: u64) -> Candidates;
}

/// The part of the memory for filters that is not divided between partitions: maplets have keys
/// there that are in many incarnations.
pub(crate) fn shared(filter: Filter, bytes: u64) -> u64 {
    match filter {
        Filter::Sliced => 0,
        Filter::Maplet => bytes / 64,
    }
}

/// What all filters of an index have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Incarnations of a partition at most.
    pub(crate) most: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sliced(sliced::Shape),
    Maplet(maplet::Shape),
}

impl Shape {
    /// The shape for a partition with `bytes` of memory.
    ///
    /// # Errors
    ///
    /// If these are too few: how many are needed.
    pub(crate) fn new(
        filter: Filter,
        bytes: u64,
        most: u32,
        window: u32,
        entries: u32,
    ) -> Result<Shape, u64> {
        let kind = match filter {
            Filter::Sliced => sliced::Shape::new(bytes, most, window, entries)
                .map(Kind::Sliced)
                .ok_or_else(|| sliced::Shape::least(most, window, entries)),
            Filter::Maplet => maplet::Shape::new(bytes, most, entries)
                .map(Kind::Maplet)
                .ok_or_else(|| maplet::Shape::least(most, entries)),
        };
        Ok(Shape { most, kind: kind? })
    }

    /// Bytes of memory for a partition.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.kind {
            Kind::Sliced(shape) => shape.bytes() as u64,
            Kind::Maplet(shape) => shape.bytes(),
        }
    }

    /// Bits for each incarnation.
    pub(crate) fn bits(&self) -> u32 {
        match &self.kind {
            Kind::Sliced(shape) => shape.slices,
            Kind::Maplet(shape) => (8 * shape.bytes() / u64::from(self.most.max(1))) as u32,
        }
    }

    /// Hash functions of a Bloom filter; buckets of a cuckoo filter that may have a key.
    pub(crate) fn hashes(&self) -> u32 {
        match &self.kind {
            Kind::Sliced(shape) => shape.hashes,
            Kind::Maplet(_) => 2,
        }
    }

    /// An empty filter.
    pub(crate) fn filter(&self) -> Box<dyn IncarnationFilter> {
        match &self.kind {
            Kind::Sliced(shape) => Box::new(Sliced::new(shape)),
            Kind::Maplet(shape) => Box::new(Maplet::new(shape)),
        }
    }

    /// Bytes of memory for a filter without its entries.
    pub(crate) fn fixed() -> u64 {
        size_of::<Sliced>().max(size_of::<Maplet>()) as u64
    }
}

/// Bits of a word of candidates, so that a slice can be read 8 bytes at a time wherever it starts.
const STRIDE: u32 = 56;
const ALL: u64 = (1 << STRIDE) - 1;
/// Words of candidates without an allocation.
const FEW: usize = 4;

/// Incarnations that may have a key, as bits: number `count` has bit `count mod columns`.
pub(crate) struct Candidates {
    columns: u32,
    /// Words that are in use.
    len: usize,
    few: [u64; FEW],
    /// All words, if there are more than `few` has.
    many: Vec<u64>,
}

impl Candidates {
    fn all(columns: u32) -> Candidates {
        let len = columns.div_ceil(STRIDE) as usize;
        let many = if len > FEW { vec![ALL; len] } else { Vec::new() };
        Candidates { columns, len, few: [ALL; FEW], many }
    }

    /// These bits, of at most 64 columns.
    fn of(columns: u32, bits: u64) -> Candidates {
        let few = [bits & ALL, bits >> STRIDE, 0, 0];
        Candidates { columns, len: 2, few, many: Vec::new() }
    }

    /// Whether no incarnation has the key.
    pub(crate) fn is_empty(&self) -> bool {
        let words = if self.len > FEW { &self.many[..] } else { &self.few[..self.len] };
        words.iter().all(|word| *word == 0)
    }

    /// Whether incarnation `count` may have the key.
    pub(crate) fn may_have(&self, count: u64) -> bool {
        let column = (count % u64::from(self.columns)) as u32;
        let words = if self.len > FEW { &self.many[..] } else { &self.few };
        words[(column / STRIDE) as usize] >> (column % STRIDE) & 1 == 1
    }

    fn words(&mut self) -> &mut [u64] {
        if self.len > FEW { &mut self.many } else { &mut self.few[..self.len] }
    }
}
