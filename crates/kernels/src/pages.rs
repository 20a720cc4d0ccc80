//! Large zeroed buffers, mapped from the operating system.
//!
//! Logs and tables have hundreds of megabytes and are accessed at random. They are mapped, not
//! allocated: pages take memory only once touched, so a log grows with use. Transparent huge pages
//! are requested, which avoids most TLB misses; without them only speed is lost.

use memmap2::MmapMut;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

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
        #[cfg(target_os = "linux")]
        if bytes >= HUGE {
            // A refusal (unsupported, disabled) is not an error.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Pages { map, len, element: PhantomData })
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
        #[cfg(target_arch = "x86_64")]
        if index < self.len {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the address lies inside the mapping, and a prefetch has no effect that a
            // program can see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.as_ptr().add(index).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }
}

/// Size of a huge page, in bytes. Smaller buffers do not request them.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

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
    fn absurd_sizes_are_errors() {
        assert!(Pages::<u64>::zeroed(usize::MAX / 4).is_err());
        assert!(Pages::<u8>::zeroed(isize::MAX as usize - 1).is_err());
    }
}
