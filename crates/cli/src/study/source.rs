//! Where a study's packets come from: captures by name, in directories and by pattern, and standard input.

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
    /// A file found in a directory: passed over if it is no capture.
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

    /// The same for the program: `-` is standard input.
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

    /// The same; a pipe ends early when `enough` is set.
    pub(super) fn open_until(&self, enough: &Arc<AtomicBool>) -> Outcome<Box<dyn Read>> {
        let failed = |error| Failure::io("read", self.name(), &error);
        let file = match self {
            Source::File(path) | Source::Found(path) => File::open(path).map_err(failed)?,
            #[cfg(unix)]
            Source::Stdin => File::from(std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned().map_err(failed)?),
            #[cfg(not(unix))]
            Source::Stdin => return Ok(Box::new(io::stdin().lock())),
        };
        #[cfg(unix)]
        if !file.metadata().map_err(failed)?.is_file() {
            return Ok(Box::new(Waiting { file, enough: Arc::clone(enough) }));
        }
        Ok(Box::new(file))
    }

    /// Opens a file and reads its head.
    fn reader(&self, path: &Path) -> Outcome<Result<CaptureReader<File>, CaptureError>> {
        let file = File::open(path).map_err(|error| Failure::io("read", path.display(), &error))?;
        match CaptureReader::new(file) {
            Err(CaptureError::Io(error)) => Err(Failure::io("read", path.display(), &error)),
            Err(error @ CaptureError::NotACapture { .. }) if matches!(self, Source::File(_)) => Err(self.no_capture(&error)),
            other => Ok(other),
        }
    }

    /// Says that a file that was named cannot be studied.
    pub(super) fn no_capture(&self, error: &CaptureError) -> Failure {
        Failure::damaged(format!("cannot study {}: {error}", self.name()))
    }

    /// Its size in bytes as it is stored, if it has one.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Source::File(path) | Source::Found(path) => {
                path.metadata().ok().filter(|about| about.is_file()).map(|about| about.len())
            }
            Source::Stdin => None,
        }
    }
}

/// Looks at the head of every file, before hours go into those before one that is missing or something else.
///
/// Gives the names of those that will be read, `-` for standard input.
pub(crate) fn check(sources: &[Source]) -> Outcome<Vec<&Path>> {
    let mut captures = Vec::new();
    for source in sources {
        let path = source.path();
        // What is read of a pipe is gone.
        let regular = *source != Source::Stdin && (!path.exists() || path.is_file());
        if !regular || !matches!(source.reader(path)?, Err(CaptureError::NotACapture { .. })) {
            captures.push(path);
        }
    }
    Ok(captures)
}

/// Deepest directory that is searched.
const MAX_DEPTH: usize = 32;

/// What the arguments name, in their order; files of a directory and of a pattern by name.
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
                return Err(Failure::failed(format!("there are no files in {}; name captures", argument.display())));
            }
        } else if argument.exists() || !argument.to_string_lossy().contains(['*', '?', '[']) {
            sources.push(Source::File(argument.clone()));
        } else {
            let pattern = argument.to_string_lossy();
            let wrong = |reason: &dyn std::fmt::Display| Failure::usage(format!("cannot search for {pattern}: {reason}"));
            let before = sources.len();
            for path in glob::glob(&pattern).map_err(|error| wrong(&error))? {
                let path = path.map_err(|error| Failure::io("search for", &pattern, error.error()))?;
                if path.is_file() {
                    sources.push(Source::File(path));
                }
            }
            if sources.len() == before {
                return Err(Failure::failed(format!("no file is named like {pattern}; check the pattern")));
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
        // Links may lead in circles: files behind them are taken, directories are not.
        let kind = path.symlink_metadata().map_err(|error| Failure::io("look at", path.display(), &error))?;
        if kind.is_dir() && depth < MAX_DEPTH {
            search(&path, depth + 1, sources)?;
        } else if path.is_file() {
            sources.push(Source::Found(path));
        }
    }
    Ok(())
}

/// Set when the user has seen enough: the first Ctrl-C ends the reading, a second one the program.
pub(super) fn enough_on_signal() -> Arc<AtomicBool> {
    let enough = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&enough);
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            output::end(130);
        }
        note("reading ends here, what was read is reported; once more to stop at once");
    });
    enough
}

/// A pipe or a terminal, which may stay quiet when the user has had enough: then it has ended.
#[cfg(unix)]
struct Waiting {
    file: File,
    enough: Arc<AtomicBool>,
}

#[cfg(unix)]
impl Read for Waiting {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use nix::errno::Errno;
        use nix::poll::{PollFd, PollFlags, poll};
        use std::os::fd::AsFd;

        /// Milliseconds between looks at `enough`.
        const PAUSE: u8 = 100;
        loop {
            if self.enough.load(Ordering::Relaxed) {
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

/// Counts what passes through it for a progress bar.
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
        assert_eq!(sources(&[path("*.pcap")]).unwrap(), ["a.pcap", "b.pcap"].map(|name| Source::File(path(name))));
        // A name that is not there is reported when it is opened.
        assert_eq!(sources(&[path("none"), "-".into()]).unwrap(), [Source::File(path("none")), Source::Stdin]);
        assert!(sources(&["-".into(), "-".into()]).is_err());
        assert!(sources(&[path("*.none")]).unwrap_err().message.contains("no file is named like"));
        assert_eq!(sources(&[path("a.pcap")]).unwrap()[0].size(), Some(1));
    }
}
