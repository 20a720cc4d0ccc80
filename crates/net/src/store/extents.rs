//! Where content of a log lies on disk: a map from offsets, which both ends of a tunnel agree on, to
//! *addresses*, which are this end's own. An address counts bytes that were written.
//!
//! Content that repeats what lies on this disk is not written again: an extent says where it lies.
//! All other content has the address at which it was written, so nothing is noted of it.

use std::ops::Range;

/// Most extents: what there is room for in a state of the store. Beyond that, all is written.
pub(super) const MOST_EXTENTS: usize = 40_000;
/// Shorter stretches are written, in bytes, unless they go on where the newest extent ends. An extent
/// takes 24 bytes in each commit as long as its content is kept: in a log of 10 GB, of which at most
/// 32 MiB are in one commit, 7 KB. Where flows take turns, blocks have this length.
pub(super) const LEAST: u64 = 16 << 10;

/// A stretch of content that was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    offset: u64,
    len: u64,
    /// Address of the content that it repeats, which was written.
    source: u64,
    /// Bytes of the log below it that were not written.
    before: u64,
}

impl Extent {
    fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Bytes of the log below its end that were not written.
    fn after(&self) -> u64 {
        self.before + self.len
    }

    /// Address of the content that was written behind it.
    fn address(&self) -> u64 {
        self.offset - self.before
    }
}

/// The extents of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extents {
    /// Bytes that were not written, below the first one.
    base: u64,
    /// Ascending and disjoint.
    list: Vec<Extent>,
}

impl Extents {
    /// Bytes of the log below an offset that were written: the address of what is written there.
    pub(super) fn address(&self, offset: u64) -> u64 {
        let next = self.list.partition_point(|extent| extent.offset < offset);
        let unwritten = match next.checked_sub(1).map(|last| self.list[last]) {
            Some(last) => last.before + (offset - last.offset).min(last.len),
            None => self.base,
        };
        offset.saturating_sub(unwritten)
    }

    /// The lowest offset below which as many bytes were written as an address says.
    pub(super) fn offset(&self, address: u64) -> u64 {
        let next = self.list.partition_point(|extent| extent.address() < address);
        address + next.checked_sub(1).map_or(self.base, |last| self.list[last].after())
    }

    /// Where the byte at an offset lies, and how many lie there one after the other with it.
    pub(super) fn find(&self, offset: u64) -> (u64, u64) {
        let next = self.list.partition_point(|extent| extent.offset <= offset);
        if let Some(extent) = next.checked_sub(1).map(|last| self.list[last])
            && offset < extent.end()
        {
            return (extent.source + (offset - extent.offset), extent.end() - offset);
        }
        let end = self.list.get(next).map_or(u64::MAX, |extent| extent.offset);
        (self.address(offset), end - offset)
    }

    /// The stretches on disk that a range consists of: addresses and lengths.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let (address, len) = (at < range.end).then(|| self.find(at))?;
            let len = len.min(range.end - at);
            at += len;
            Some((address, len))
        })
    }

    /// Whether content at `offset`, which lies at address `source`, goes on where the newest extent
    /// ends.
    pub(super) fn goes_on(&self, offset: u64, source: u64) -> bool {
        let goes_on = |last: &Extent| last.end() == offset && last.source + last.len == source;
        self.list.last().is_some_and(goes_on)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The newest content, at `offset`, is not written, and lies at address `source`, which is below
    /// [`Extents::address`] of the offset.
    pub(super) fn push(&mut self, offset: u64, len: u64, source: u64) {
        if self.goes_on(offset, source)
            && let Some(last) = self.list.last_mut()
        {
            last.len += len;
            return;
        }
        let before = self.list.last().map_or(self.base, Extent::after);
        self.list.push(Extent { offset, len, source, before });
    }

    /// The log ends at `offset` now.
    pub(super) fn rewind(&mut self, offset: u64) {
        self.list.truncate(self.list.partition_point(|extent| extent.offset < offset));
        if let Some(last) = self.list.last_mut() {
            last.len = last.len.min(offset - last.offset);
        }
    }

    /// Nothing below an offset is asked for any more.
    pub(super) fn trim(&mut self, low: u64) {
        let useless = self.list.partition_point(|extent| extent.end() <= low);
        if let Some(last) = useless.checked_sub(1).map(|last| self.list[last]) {
            self.base = last.after();
            self.list.drain(..useless);
        }
    }

    /// What cannot be read any more, ascending, once what lies at these addresses is overwritten.
    pub(super) fn overwritten(&self, addresses: Range<u64>) -> Vec<Range<u64>> {
        let within = |extent: &Extent| {
            let start = extent.source.max(addresses.start);
            let end = (extent.source + extent.len).min(addresses.end);
            let offset = |address| extent.offset + (address - extent.source);
            (start < end).then(|| offset(start)..offset(end))
        };
        self.list.iter().filter_map(within).collect()
    }

    /// Bytes that were not written, below the first extent.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Three numbers of each extent, for a state of the store.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.list.iter().flat_map(|one| [one.offset, one.len, one.source])
    }

    /// Reads the base and the numbers of a log that ends at `end`. `None` if they contradict themselves.
    pub(super) fn read(base: u64, extents: &[[u64; 3]], end: u64) -> Option<Extents> {
        let mut read = Extents { base, list: Vec::new() };
        let mut before = base;
        let mut from = base;
        for &[offset, len, source] in extents {
            let extent = Extent { offset, len, source, before };
            let is_whole = len > 0 && offset >= from && offset.checked_add(len)? <= end;
            // Below what was written when it was noted.
            if !is_whole || source.checked_add(len)? > offset.checked_sub(before)? {
                return None;
            }
            (before, from) = (extent.after(), extent.end());
            read.list.push(extent);
        }
        (before <= end && read.list.len() <= MOST_EXTENTS).then_some(read)
    }
}

#[cfg(test)]
#[path = "extents/tests.rs"]
mod tests;
