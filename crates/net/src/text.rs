//! Small text files, read within a limit.

use std::io::{self, Read};

/// What a file held.
pub(crate) enum Bounded {
    Text(String),
    TooLong,
    NotText,
}

/// Reads at most `limit` bytes of UTF-8.
pub(crate) fn read_bounded(file: impl Read, limit: usize) -> io::Result<Bounded> {
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Ok(Bounded::TooLong);
    }
    Ok(String::from_utf8(bytes).map_or(Bounded::NotText, Bounded::Text))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory that goes with the test.
    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Scratch {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("oncewire-net-{}-{count}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            // Whatever the mask is: keys in a directory that others can write are refused.
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
            Scratch(path)
        }

        pub(crate) fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
