//! Values that are read from files, and read again when these change.

use crate::sync::lock;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tracing::{info, warn};

/// How often files are looked at, at most.
const LOOK: Duration = Duration::from_secs(1);

/// What tells one state of a file from another: when it was changed, its length and its inode.
type Stamp = Vec<Option<(SystemTime, u64, u64)>>;

#[derive(Debug)]
pub(super) struct Watched<T> {
    files: Vec<PathBuf>,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    value: Arc<T>,
    stamp: Stamp,
    looked: Instant,
}

impl<T> Watched<T> {
    /// A value that `load` makes of these files.
    ///
    /// # Errors
    /// Those of `load`.
    pub(super) fn new<E>(
        files: Vec<PathBuf>,
        load: impl FnOnce() -> Result<T, E>,
    ) -> Result<Watched<T>, E> {
        // Before reading: what changes meanwhile is read again.
        let stamp = stamp(&files);
        let state = State { value: Arc::new(load()?), stamp, looked: Instant::now() };
        Ok(Watched { files, state: Mutex::new(state) })
    }

    /// The value, read again if a file has changed. If that fails, the old one stays until the files
    /// change again.
    pub(super) fn get<E: Display>(&self, load: impl FnOnce() -> Result<T, E>) -> Arc<T> {
        self.get_at(Instant::now(), load)
    }

    fn get_at<E: Display>(&self, now: Instant, load: impl FnOnce() -> Result<T, E>) -> Arc<T> {
        let mut state = lock(&self.state);
        if now.saturating_duration_since(state.looked) >= LOOK {
            state.looked = now;
            let stamp = stamp(&self.files);
            if stamp != state.stamp {
                state.stamp = stamp;
                let file = self.files.first().map(|file| file.display().to_string());
                match load() {
                    Ok(value) => {
                        state.value = Arc::new(value);
                        info!(file, "certificates have changed and were read again");
                    }
                    Err(error) => {
                        warn!(file, %error, "certificates have changed, but cannot be used; those before stay in use");
                    }
                }
            }
        }
        state.value.clone()
    }
}

fn stamp(files: &[PathBuf]) -> Stamp {
    let one = |file: &PathBuf| {
        let meta = file.metadata().ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&meta);
        #[cfg(not(unix))]
        let inode = 0;
        Some((meta.modified().ok()?, meta.len(), inode))
    };
    files.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_read_again_when_they_change_and_can_be_used() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("number");
        let load = || {
            let text = fs::read_to_string(&file).unwrap_or_default();
            text.parse::<u32>()
        };
        assert!(Watched::new(vec![file.clone()], load).is_err());
        fs::write(&file, "1").unwrap();
        let value = Watched::new(vec![file.clone()], load).unwrap();
        let mut now = Instant::now();
        let mut get = || {
            now += LOOK;
            *value.get_at(now, load)
        };
        assert_eq!(get(), 1);
        fs::write(&file, "22").unwrap();
        assert_eq!(get(), 22);
        fs::write(&file, "not yet").unwrap();
        assert_eq!(get(), 22);
        fs::remove_file(&file).unwrap();
        assert_eq!(get(), 22);
        fs::write(&file, "333").unwrap();
        assert_eq!((get(), get()), (333, 333));
        // Nobody looks more than once a second.
        fs::write(&file, "4444").unwrap();
        assert_eq!(*value.get_at(now, || Ok::<u32, String>(0)), 333);
    }
}
