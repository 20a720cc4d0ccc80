//! Which file a name stands for: an input, an output, a new file, or neither.

use super::Output;
use super::unfinished::Pending;
use crate::failure::{Failure, Outcome};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most symbolic links followed from one name, as in Linux.
const LINKS_MAX: usize = 40;

/// Whether no file is named, or `-`.
pub(crate) fn is_standard(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path == Path::new("-"))
}

/// Identity of a file, to recognize two names of the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    /// A block device. Pipes, terminals and the like are not compared: writing to them destroys
    /// nothing.
    Disk {
        number: u64,
    },
    /// A file that does not exist yet: the directory, and the name in it.
    New {
        device: u64,
        inode: u64,
        name: OsString,
    },
}

impl Identity {
    fn of(meta: &Metadata) -> Option<Identity> {
        let kind = meta.file_type();
        if kind.is_file() {
            return Some(Identity::File { device: meta.dev(), inode: meta.ino() });
        }
        kind.is_block_device().then(|| Identity::Disk { number: meta.rdev() })
    }
}

/// A standard stream as a file, without the library's buffer.
fn standard(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// The inputs and outputs of one run. All outputs are checked here before the first one is opened.
pub(crate) struct Outputs {
    inputs: Vec<(Identity, String)>,
    outputs: Vec<(Identity, String)>,
}

impl Outputs {
    /// For a run that reads these files; `-` is standard input.
    ///
    /// Ignores an input without metadata: opening it will say why.
    ///
    /// # Errors
    ///
    /// If standard output was redirected to one of the inputs, or two are standard input.
    pub(crate) fn beside<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Outcome<Outputs> {
        let mut outputs = Outputs { inputs: Vec::new(), outputs: Vec::new() };
        let mut reads_stdin = false;
        for path in inputs {
            let stdin = path == Path::new("-");
            if stdin && std::mem::replace(&mut reads_stdin, true) {
                return Err(Failure::usage("standard input (-) can be read only once"));
            }
            let meta = if stdin {
                standard(&io::stdin()).and_then(|file| file.metadata())
            } else {
                fs::metadata(path)
            };
            if let Some(identity) = meta.ok().as_ref().and_then(Identity::of) {
                let name = if stdin { "standard input".into() } else { path.display().to_string() };
                outputs.inputs.push((identity, name));
            }
        }
        let stdout = standard(&io::stdout()).and_then(|file| file.metadata()).ok();
        if let Some(identity) = stdout.as_ref().and_then(Identity::of) {
            outputs.take(identity, "standard output".into())?;
        }
        Ok(outputs)
    }

    /// Adds an output, unless it is an input or another output.
    fn take(&mut self, identity: Identity, name: String) -> Outcome {
        if let Some((_, input)) = self.inputs.iter().find(|(other, _)| *other == identity) {
            return Err(Failure::usage(format!(
                "{name} would overwrite the input {input}; choose another output file"
            )));
        }
        if let Some((_, other)) = self.outputs.iter().find(|(other, _)| *other == identity) {
            return Err(Failure::usage(format!(
                "{other} and {name} are the same file; choose two output files"
            )));
        }
        self.outputs.push((identity, name));
        Ok(())
    }

    /// Checks the output of `option`: `path`, or standard output for `None` and `-`. Opens nothing.
    ///
    /// # Errors
    ///
    /// If it is an input, another output or a directory, or cannot be a file.
    pub(crate) fn file(&mut self, option: &str, path: Option<&Path>) -> Outcome<Destination> {
        let Some(path) = path.filter(|path| !is_standard(Some(path))) else {
            crate::stdout::check_open()?;
            return Ok(Destination { name: "standard output".into(), way: Way::Standard });
        };
        let name = path.display().to_string();
        let fail = |error: &io::Error| Failure::io("create", &name, error);
        let existing = match fs::metadata(path) {
            Ok(meta) => Some(meta),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(&error)),
        };
        if existing.as_ref().is_some_and(Metadata::is_dir) {
            return Err(Failure::failed(format!(
                "cannot write {name}: it is a directory; name a file in it"
            )));
        }
        if path.file_name().is_none() || name.ends_with('/') {
            return Err(Failure::failed(format!("cannot create {name}: it does not name a file")));
        }
        // Replaces the file that a link names, not the link.
        let target = follow(path).map_err(|error| fail(&error))?;
        let way = match &existing {
            _ if target == descriptors().join("1") => Way::Standard,
            Some(meta) if !meta.is_file() || is_descriptor(&target) => {
                Way::Direct { path: target, append: meta.is_file() }
            }
            _ => Way::Beside(target),
        };
        let identity = match (&existing, &way) {
            (Some(meta), Way::Direct { .. } | Way::Beside(_)) => Identity::of(meta),
            (None, Way::Beside(target)) => Some(new(target).map_err(|error| fail(&error))?),
            _ => None,
        };
        if let Some(identity) = identity {
            self.take(identity, format!("{option} {name}"))?;
        }
        Ok(Destination { name, way })
    }

    /// Checks the files that `option` writes to the directory `path`: those whose names are `ours`.
    /// Call it after the other outputs are checked.
    ///
    /// # Errors
    ///
    /// If one of them is an input or another output.
    pub(crate) fn directory(
        &mut self,
        option: &str,
        path: &Path,
        ours: impl Fn(&str) -> bool,
    ) -> Outcome {
        let (Ok(meta), Ok(entries)) = (fs::metadata(path), fs::read_dir(path)) else {
            return Ok(());
        };
        let inside = |name: &OsStr| format!("{option} {}", path.join(name).display());
        let mut found = Vec::new();
        for (identity, _) in &self.outputs {
            if let Identity::New { device, inode, name } = identity
                && (*device, *inode) == (meta.dev(), meta.ino())
                && name.to_str().is_some_and(&ours)
            {
                found.push((identity.clone(), inside(name)));
            }
        }
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(&ours)
                && let Some(identity) =
                    fs::metadata(entry.path()).ok().as_ref().and_then(Identity::of)
            {
                found.push((identity, inside(&name)));
            }
        }
        found.into_iter().try_for_each(|(identity, name)| self.take(identity, name))
    }
}

/// The directory of this process's open files; an empty path if the system has none.
fn descriptors() -> PathBuf {
    fs::canonicalize("/proc/self/fd").unwrap_or_default()
}

fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/proc") && path.parent().and_then(Path::file_name) == Some(OsStr::new("fd"))
}

/// The file at the end of all links, which need not exist. Does not follow an open file of a
/// process.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = fs::canonicalize(parent)?;
        path = directory.join(name);
        if is_descriptor(&path) {
            return Ok(path);
        }
        match fs::read_link(&path) {
            Ok(link) => path = directory.join(link),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// The identity of a file that does not exist yet.
fn new(target: &Path) -> io::Result<Identity> {
    let directory = fs::metadata(target.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    Ok(Identity::New { device: directory.dev(), inode: directory.ino(), name })
}

/// An output, checked and not yet opened.
#[derive(Debug)]
pub(crate) struct Destination {
    name: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Standard,
    /// A pipe, a device or an open file of a process: written in place; a file is appended to.
    Direct {
        path: PathBuf,
        append: bool,
    },
    /// A regular file, written next to its place.
    Beside(PathBuf),
}

impl Destination {
    /// A file of a directory that was checked by [`Outputs::directory`].
    ///
    /// # Errors
    ///
    /// If it cannot be a file.
    pub(crate) fn within(directory: &Path, name: &str) -> Outcome<Destination> {
        Outputs { inputs: Vec::new(), outputs: Vec::new() }.file("", Some(&directory.join(name)))
    }

    /// Opens it. [`Output::finish`] moves a regular file to its place; dropping the output without
    /// that removes the file.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub(crate) fn open(self) -> Outcome<Output> {
        let Destination { name, way } = self;
        let fail = |error: io::Error| Failure::io("create", &name, &error);
        let target = match way {
            Way::Standard => {
                return Ok(Output::over(Box::new(standard(&io::stdout()).map_err(fail)?), name));
            }
            Way::Direct { path, append } => {
                let file =
                    OpenOptions::new().write(true).append(append).open(path).map_err(fail)?;
                return Ok(Output::over(Box::new(file), name));
            }
            Way::Beside(target) => target,
        };
        let existing = fs::metadata(&target).ok();
        let pending = Pending::beside(target).map_err(fail)?;
        if let Some(meta) = existing {
            let now = pending.file.metadata().map_err(fail)?;
            if (now.uid(), now.gid()) != (meta.uid(), meta.gid()) {
                // As root, keep the owner. Other users cannot change it.
                let _ =
                    std::os::unix::fs::fchown(&pending.file, Some(meta.uid()), Some(meta.gid()));
            }
            pending.file.set_permissions(meta.permissions()).map_err(fail)?;
        }
        let writer = pending.file.try_clone().map_err(fail)?;
        Ok(Output { pending: Some(pending), ..Output::over(Box::new(writer), name) })
    }
}
