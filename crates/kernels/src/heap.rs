//! Memory that was freed, and that the allocator keeps.

/// Gives memory that was freed back to the system, where the allocator keeps it between what is in
/// use: glibc's gives back only what lies at the end of a heap, and each thread has a heap of its own.
/// It walks all of them, which takes milliseconds where they hold hundreds of megabytes. Nothing
/// happens with other allocators.
pub fn give_back_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time by any thread (malloc_trim(3), "MT-Safe"), and changes no
    // memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
