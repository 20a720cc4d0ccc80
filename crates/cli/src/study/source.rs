//! Sources of packets: captures by name, in directories and by pattern, and standard input.

use crate::failure::{Failure, Outcome, note};
use crate::output;
use oncewire_packet::{CaptureError, CaptureReader};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A capture to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file that was named, or that a pattern named.
    File(PathBuf),
    /// A file found in a directory: skipped if it is not a capture.
    Found(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// Its name for people.
    pub(crate) fn name(&self) -> String {
        match self {
            Source::File(path) | Source::Found(path) => path.display().to_string(),
            Source::Stdin => "standard input".to_owned(),
        }
    }

    /// Its path; `-` is standard input.
    pub(super) fn path(&self) -> &Path {
        match self {
            Source::File(path) | Source::Found(path) => path,
            Source::Stdin => Path::new("-"),
        }
    }

    /// Opens it for reading.
    pub(crate) fn open(&self) -> Outcome<Box<dyn Read>> {
        self.open_until(&Arc::default())
    }

    /// [`Source::open`]; a pipe ends early when `cancel` is set.
    pub(super) fn open_until(&self, cancel: &Arc<AtomicBool>) -> Outcome<Box<dyn Read>> {
        let failed = |error| Failure::io("read", self.name(), &error);
        let file = match self {
            Source::File(path) | Source::Found(path) => File::open(path).map_err(failed)?,
            #[cfg(unix)]
            Source::Stdin => File::from(
                std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned().map_err(failed)?,
            ),
            #[cfg(not(unix))]
            Source::Stdin => return Ok(Box::new(io::stdin().lock())),
        };
        #[cfg(unix)]
        if !file.metadata().map_err(failed)?.is_file() {
            return Ok(Box::new(Cancelable { file, cancel: Arc::clone(cancel) }));
        }
        Ok(Box::new(file))
    }

    /// Opens a file and reads its header.
    fn reader(&self, path: &Path) -> Outcome<Result<CaptureReader<File>, CaptureError>> {
        let file = File::open(path).map_err(|error| Failure::io("read", path.display(), &error))?;
        match CaptureReader::new(file) {
            Err(CaptureError::Io(error)) => Err(Failure::io("read", path.display(), &error)),
            Err(error @ CaptureError::NotACapture { .. }) if matches!(self, Source::File(_)) => {
                Err(self.not_a_capture(&error))
            }
            other => Ok(other),
        }
    }

    /// The failure for a named file that is not a capture.
    pub(super) fn not_a_capture(&self, error: &CaptureError) -> Failure {
        Failure::damaged(format!("cannot read the capture {}: {error}", self.name()))
    }

    /// Its stored size in bytes; `None` for standard input, pipes and devices.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Source::File(path) | Source::Found(path) => {
                path.metadata().ok().filter(|about| about.is_file()).map(|about| about.len())
            }
            Source::Stdin => None,
        }
    }
}

/// Reads the header of every file, so that a missing or wrong one is found before hours of work on
/// the others.
///
/// Returns the paths that will be read, `-` for standard input.
pub(crate) fn check(sources: &[Source]) -> Outcome<Vec<&Path>> {
    let mut captures = Vec::new();
    for source in sources {
        let path = source.path();
        // A pipe can be read only once.
        let regular = *source != Source::Stdin && (!path.exists() || path.is_file());
        if !regular || !matches!(source.reader(path)?, Err(CaptureError::NotACapture { .. })) {
            captures.push(path);
        }
    }
    Ok(captures)
}

/// Deepest directory that is searched.
const MAX_DEPTH: usize = 32;

/// The sources that the arguments name, in their order; files of a directory or a pattern are
/// sorted by name.
pub(super) fn sources(arguments: &[PathBuf]) -> Outcome<Vec<Source>> {
    let mut sources = Vec::new();
    for argument in arguments {
        if argument.as_os_str() == "-" {
            if sources.contains(&Source::Stdin) {
                return Err(Failure::usage("standard input can be read once only; name `-` once"));
            }
            sources.push(Source::Stdin);
        } else if argument.is_dir() {
            let before = sources.len();
            search(argument, 0, &mut sources)?;
            if sources.len() == before {
                return Err(Failure::failed(format!(
                    "{} has no files; name a directory with captures",
                    argument.display()
                )));
            }
        } else if argument.exists() || !argument.to_string_lossy().contains(['*', '?', '[']) {
            sources.push(Source::File(argument.clone()));
        } else {
            let pattern = argument.to_string_lossy();
            let wrong = |reason: &dyn std::fmt::Display| {
                Failure::usage(format!("cannot search for {pattern}: {reason}"))
            };
            let before = sources.len();
            for path in glob::glob(&pattern).map_err(|error| wrong(&error))? {
                let path =
                    path.map_err(|error| Failure::io("search for", &pattern, error.error()))?;
                if path.is_file() {
                    sources.push(Source::File(path));
                }
            }
            if sources.len() == before {
                return Err(Failure::failed(format!(
                    "no file matches {pattern}; check the pattern"
                )));
            }
        }
    }
    Ok(sources)
}

fn search(directory: &Path, depth: usize, sources: &mut Vec<Source>) -> Outcome {
    let failed = |error: &io::Error| Failure::io("search", directory.display(), error);
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| failed(&error))? {
        entries.push(entry.map_err(|error| failed(&error))?.path());
    }
    entries.sort();
    for path in entries {
        // Links can form cycles: follow those to files, not those to directories.
        let kind = path
            .symlink_metadata()
            .map_err(|error| Failure::io("read the metadata of", path.display(), &error))?;
        if kind.is_dir() && depth < MAX_DEPTH {
            search(&path, depth + 1, sources)?;
        } else if path.is_file() {
            sources.push(Source::Found(path));
        }
    }
    Ok(())
}

/// Set by Ctrl-C, which ends reading; a second one ends the program.
pub(super) fn cancel_on_signal() -> Arc<AtomicBool> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            output::end(130);
        }
        note(
            "reading ends here; the report covers what was read. Press Ctrl-C again to stop at once",
        );
    });
    cancel
}

/// A pipe or a terminal, which ends when the user cancels while it is silent.
#[cfg(unix)]
struct Cancelable {
    file: File,
    cancel: Arc<AtomicBool>,
}

#[cfg(unix)]
impl Read for Cancelable {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use nix::errno::Errno;
        use nix::poll::{PollFd, PollFlags, poll};
        use std::os::fd::AsFd;

        /// Milliseconds between checks of `cancel`.
        const PAUSE: u8 = 100;
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(0);
            }
            match poll(&mut [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)], PAUSE) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return self.file.read(out),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A reader that advances a progress bar.
pub(super) struct Counted<R> {
    pub(super) inner: R,
    pub(super) bar: indicatif::ProgressBar,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.bar.inc(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_patterns_and_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(path("sub/deep")).unwrap();
        for name in ["b.pcap", "a.pcap", "sub/c.pcapng.gz", "sub/deep/d.txt"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let found = sources(&[directory.path().to_owned()]).unwrap();
        let names = ["a.pcap", "b.pcap", "sub/c.pcapng.gz", "sub/deep/d.txt"];
        assert_eq!(found, names.map(|name| Source::Found(path(name))));
        assert_eq!(
            sources(&[path("*.pcap")]).unwrap(),
            ["a.pcap", "b.pcap"].map(|name| Source::File(path(name)))
        );
        // A missing file is reported when it is opened.
        assert_eq!(
            sources(&[path("none"), "-".into()]).unwrap(),
            [Source::File(path("none")), Source::Stdin]
        );
        assert!(sources(&["-".into(), "-".into()]).is_err());
        assert!(sources(&[path("*.none")]).unwrap_err().message.contains("no file matches"));
        assert_eq!(sources(&[path("a.pcap")]).unwrap()[0].size(), Some(1));
    }
}
