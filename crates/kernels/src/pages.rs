//! Large zeroed buffers, mapped from the operating system.
//!
//! Logs and tables have hundreds of megabytes and are accessed at random. They are mapped, not
//! allocated: pages take memory only once touched, so a log grows with use. Transparent huge pages
//! are requested, which avoids most TLB misses; without them only speed is lost.
//!
//! A huge page takes 0.1 to 0.2 ms to clear. A hypervisor that has taken the memory back needs
//! milliseconds more for it, and several times less for as much memory in small pages. So the first
//! touches of huge pages are timed (`times`), and once they are slow, the process requests no more of
//! them.

mod times;

use cpu_time::ThreadTime;
use memmap2::{Advice, MmapMut};
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use times::PageTimes;

/// Of all buffers of the process.
static TIMES: PageTimes = PageTimes::new();

mod sealed {
    /// # Safety
    /// Every bit pattern is a value, there is no padding, and the alignment divides a page.
    pub unsafe trait Plain: Copy {}
    // SAFETY: integers have no padding and no invalid values, and align to at most 8 bytes.
    unsafe impl Plain for u8 {}
    // SAFETY: as above.
    unsafe impl Plain for u32 {}
    // SAFETY: as above.
    unsafe impl Plain for u64 {}
}

/// Element types of [`Pages`]: plain integers.
pub trait Element: sealed::Plain {}
impl Element for u8 {}
impl Element for u32 {}
impl Element for u64 {}

/// A fixed number of zero-initialised integers in anonymous mapped memory.
pub struct Pages<T: Element> {
    map: MmapMut,
    len: usize,
    /// Huge pages are requested for what was not touched.
    huge: bool,
    /// Bytes at the front for which none are.
    small: usize,
    /// Bytes at the front for which [`Pages::fill`] has committed memory.
    committed: usize,
    element: PhantomData<T>,
}

impl<T: Element> Pages<T> {
    /// Maps `len` zeros. Memory is committed as it is touched.
    ///
    /// # Errors
    /// The system's error if it refuses address space or memory, and
    /// [`io::ErrorKind::InvalidInput`] if the size does not fit an address.
    pub fn zeroed(len: usize) -> io::Result<Pages<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(io::ErrorKind::InvalidInput)?;
        // Some systems refuse an empty mapping; one byte costs one page.
        let map = MmapMut::map_anon(bytes.max(1))?;
        // A refusal (unsupported, disabled) is not an error.
        let huge = cfg!(target_os = "linux")
            && bytes >= HUGE
            && !TIMES.are_slow()
            && map.advise(HUGE_PAGES).is_ok();
        Ok(Pages { map, len, huge, small: 0, committed: 0, element: PhantomData })
    }

    /// Requests no huge pages for the first 4 MiB. For buffers of which often no
    /// more is used, from the front on: a part of a huge page takes all of its memory.
    #[must_use]
    pub fn with_small_front(mut self) -> Pages<T> {
        if self.huge {
            self.small = SMALL_FRONT.min(self.map.len());
            // A refusal costs memory, not results.
            #[cfg(target_os = "linux")]
            let _ = self.map.advise_range(Advice::NoHugePage, 0, self.small);
        }
        self
    }

    /// Commits memory for the elements at `range`, and a little more, before they are written. For
    /// buffers that are filled from front to back: a range far behind what was filled before is left
    /// to itself. Calling it is never necessary, and changes no element.
    #[inline]
    pub fn fill(&mut self, range: Range<usize>) {
        if range.end.saturating_mul(size_of::<T>()) > self.committed {
            self.commit(range.start * size_of::<T>()..range.end.saturating_mul(size_of::<T>()));
        }
    }

    /// Finds out whether huge pages are slow by touching up to four of them at the front. For buffers
    /// that are soon touched everywhere.
    pub fn try_huge(&mut self) {
        while self.huge && self.committed < self.map.len().min(TRIALS * HUGE) {
            self.commit_huge();
        }
    }

    #[cold]
    fn commit(&mut self, bytes: Range<usize>) {
        let end = bytes.end.min(self.map.len());
        if bytes.start > self.committed + HUGE {
            return;
        }
        while self.committed < end {
            if self.huge && self.committed >= self.small {
                self.commit_huge();
                continue;
            }
            let last = if self.huge { self.small } else { self.map.len() };
            let next = end.next_multiple_of(SMALL_STEP).min(last);
            // In a single call that is a fifth faster than as many faults. Kernels before 5.14
            // refuse.
            #[cfg(target_os = "linux")]
            let _ =
                self.map.advise_range(Advice::PopulateWrite, self.committed, next - self.committed);
            self.committed = next;
        }
    }

    /// Touches the next huge page, and requests no more if that is slow.
    fn commit_huge(&mut self) {
        let address = self.map.as_ptr() as usize;
        let at = self.committed;
        let next = (address + at + 1).next_multiple_of(HUGE) - address;
        // Not the time of day: another thread may get the processor meanwhile.
        let begun = ThreadTime::try_now();
        // SAFETY: `at` is inside the mapping, which is exclusively borrowed. A volatile write cannot
        // be left out by the compiler, and keeps the content.
        unsafe { std::ptr::write_volatile(self.map.as_mut_ptr().add(at), self.map[at]) };
        self.committed = next.min(self.map.len());
        // Parts at the ends are no huge pages.
        if (address + at).is_multiple_of(HUGE) && next <= self.map.len() {
            TIMES.note(begun.and_then(|begun| begun.try_elapsed()).unwrap_or_default());
        }
        if TIMES.are_slow() {
            self.huge = false;
            // Where the system uses huge pages unasked.
            #[cfg(target_os = "linux")]
            let _ = self.map.advise_range(
                Advice::NoHugePage,
                self.committed,
                self.map.len() - self.committed,
            );
        }
    }

    /// Touches every page, so that later timing does not include page faults.
    pub fn prefault(&mut self) {
        for page in self.map.chunks_mut(4096) {
            // A volatile write cannot be left out by the compiler, and keeps the content.
            // SAFETY: the pointer comes from a non-empty exclusive slice.
            unsafe { std::ptr::write_volatile(page.as_mut_ptr(), page[0]) };
        }
    }

    /// Prefetches the cache line of element `index`. Ignores an index out of range.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        prefetch(self, index);
    }
}

/// Prefetches the cache line of element `index`. Ignores an index out of range.
#[inline(always)]
pub fn prefetch<T: Element>(elements: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if index < elements.len() {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address lies inside the slice, and a prefetch has no effect that a program
        // can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(elements.as_ptr().add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, index);
}

/// Size of a huge page, in bytes. Smaller buffers do not request them.
const HUGE: usize = 2 << 20;
#[cfg(target_os = "linux")]
const HUGE_PAGES: Advice = Advice::HugePage;
#[cfg(not(target_os = "linux"))]
const HUGE_PAGES: Advice = Advice::Normal;
/// Most huge pages that [`Pages::try_huge`] touches.
const TRIALS: usize = 4;
/// Bytes of [`Pages::with_small_front`]: two to four huge pages, as the first one begins where the system
/// maps it.
const SMALL_FRONT: usize = 4 << 20;
/// Small pages are committed in steps of this many bytes.
const SMALL_STEP: usize = 256 << 10;

impl<T: Element> Deref for Pages<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds at least `len` elements, is page-aligned, zero-initialised and
        // lives as long as `self`; `Plain` makes every bit pattern a valid element.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Pages<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and the exclusive borrow of `self` is an exclusive borrow of the
        // mapping.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.len) }
    }
}

impl<T: Element> std::fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages")
            .field("len", &self.len)
            .field("element_bytes", &size_of::<T>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_writable_and_of_the_asked_length() {
        for len in [0, 1, 4097, (3 << 20) + 5] {
            let mut pages = Pages::<u32>::zeroed(len).unwrap();
            pages.prefault();
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|&x| x == 0));
            if let Some(last) = pages.last_mut() {
                *last = 7;
            }
            pages.prefault();
            pages.prefetch(len);
            pages.prefetch(0);
            assert_eq!(pages.last().copied().unwrap_or(7), 7);
        }
    }

    #[test]
    fn memory_that_is_committed_ahead_keeps_its_content() {
        let len = (6 << 20) + 5;
        for (tried, huge, front) in
            [(false, true, false), (true, true, false), (false, false, false), (false, true, true)]
        {
            let mut pages = Pages::<u32>::zeroed(len).unwrap();
            if front {
                pages = pages.with_small_front();
                assert!(!pages.huge || pages.small == SMALL_FRONT);
            }
            pages.huge &= huge;
            if tried {
                pages.try_huge();
                assert!(!pages.huge || pages.committed >= TRIALS * HUGE);
            }
            // Far behind the front: left to itself.
            let before = pages.committed;
            pages.fill(len - 1..len);
            assert_eq!(pages.committed, before);
            for at in (0..len - 1000).step_by(997) {
                pages.fill(at..at + 1000);
                assert!(pages.committed >= (at + 1000) * 4);
                pages[at] = at as u32 + 1;
            }
            // A range beyond the end is no reason to fail.
            pages.fill(len - 1..len + 7);
            let content = |(at, &value): (usize, &u32)| {
                let written = at % 997 == 0 && at < len - 1000;
                value == if written { at as u32 + 1 } else { 0 }
            };
            assert!(pages.iter().enumerate().all(content));
        }
    }

    #[test]
    fn absurd_sizes_are_errors() {
        assert!(Pages::<u64>::zeroed(usize::MAX / 4).is_err());
        assert!(Pages::<u8>::zeroed(isize::MAX as usize - 1).is_err());
    }
}
