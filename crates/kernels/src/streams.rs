//! Whether standard output was closed when the process started.
//!
//! Before `main`, the standard library opens `/dev/null` in place of closed standard streams. What
//! is written there is lost without an error. The loader calls this module before that.

#[cfg(all(target_os = "linux", not(miri)))]
mod at_start {
    use std::ffi::c_int;
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// Standard output, and `F_GETFD` of fcntl(2).
    const STDOUT: c_int = 1;
    const F_GETFD: c_int = 1;

    // SAFETY: this is the signature of fcntl(2) in every C library.
    unsafe extern "C" {
        fn fcntl(file: c_int, command: c_int, ...) -> c_int;
    }

    extern "C" fn look() {
        // SAFETY: F_GETFD takes no argument and touches no memory; on a closed descriptor it fails.
        CLOSED.store(unsafe { fcntl(STDOUT, F_GETFD) } == -1, Ordering::Relaxed);
    }

    // SAFETY: the section holds pointers to functions of this type, which the loader calls once. The
    // function needs nothing of the standard library that is set up later.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    pub(super) fn closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }
}

/// Whether standard output was closed (`>&-`) when the process started. `false` on systems other
/// than Linux, where that is not known.
pub fn stdout_was_closed() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    return at_start::closed();
    #[cfg(not(all(target_os = "linux", not(miri))))]
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_standard_output_of_tests_is_open() {
        assert!(!super::stdout_was_closed());
    }
}
