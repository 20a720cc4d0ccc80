//! Where a study's packets come from: captures by name, in directories and by pattern, and standard input.

use crate::failure::{Failure, Outcome};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A capture to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A file that was named, or that a pattern named.
    File(PathBuf),
    /// A file found in a directory: passed over if it is no capture.
    Found(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// Its name for people.
    pub(super) fn name(&self) -> String {
        match self {
            Source::File(path) | Source::Found(path) => path.display().to_string(),
            Source::Stdin => "standard input".to_owned(),
        }
    }

    pub(super) fn open(&self) -> Outcome<Box<dyn Read>> {
        Ok(match self {
            Source::File(path) | Source::Found(path) => {
                Box::new(File::open(path).map_err(|error| Failure::io("read", path.display(), &error))?)
            }
            Source::Stdin => Box::new(io::stdin().lock()),
        })
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
            std::process::exit(130);
        }
        eprintln!("oncewire: reading ends here, what was read is reported; once more to stop at once");
    });
    enough
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
