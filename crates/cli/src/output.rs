//! Files that a run writes, for every command.
//!
//! [`Outputs`] compares all outputs with all inputs, by device and inode, before anything is opened
//! for writing. A regular file is then written next to its place, under a name of ours, and moved
//! there once it is complete: an error, a full disk or a signal leaves the earlier file in place.
//! Where there is one, the new file is on the disk before it takes its place; otherwise a power
//! failure can lose nothing that was there before.
//! The next run that writes to the same directory removes what a killed run left there.

mod names;
mod unfinished;

use crate::failure::{Failure, Outcome};
pub(crate) use names::{Destination, Outputs, is_standard};
use oncewire_codec::FilePages;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use unfinished::{Pending, unfinished};
pub(crate) use unfinished::{clean_up_on_signal, end};

/// Size of the write buffer, in bytes.
const BUFFER: usize = 1 << 20;

/// Ends the program at once: another thread may be blocked on an input that stays silent.
pub(crate) fn give_up(failure: &Failure) -> ! {
    failure.tell();
    end(failure.exit as i32)
}

/// An open output, buffered. Call [`Output::flush`] if a reader waits for the bytes.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: String,
    /// For a regular file.
    pending: Option<Pending>,
    /// What the file gets in the end, if others may write to it then.
    permissions: Option<Permissions>,
    written: u64,
}

impl Output {
    /// An output that is already open.
    pub(crate) fn over(writer: Box<dyn Write + Send>, name: String) -> Output {
        let writer = BufWriter::with_capacity(BUFFER, writer);
        Output { writer, name, pending: None, permissions: None, written: 0 }
    }

    /// What will be written, in memory, of a regular file that nothing was written to: each call of
    /// [`Output::write`] then goes to the file at once. `None` for anything else, or where the
    /// system does not have it.
    pub(crate) fn pages(&mut self) -> Option<FilePages> {
        let pending = self.pending.as_ref().filter(|_| self.written == 0)?;
        let permissions = pending.file.metadata().ok()?.permissions();
        let mode = permissions.mode();
        if mode & OTHERS_WRITE != 0 {
            // Nobody else may change or cut it short meanwhile.
            pending.file.set_permissions(Permissions::from_mode(mode & !OTHERS_WRITE)).ok()?;
            self.permissions = Some(permissions);
        }
        let (pages, writer) = FilePages::growing(pending.file.try_clone().ok()?).ok()?;
        self.writer = BufWriter::with_capacity(0, Box::new(writer));
        Some(pages)
    }

    /// Refuses to write binary data to a terminal.
    pub(crate) fn refuse_terminal(path: Option<&Path>, what: &str) -> Outcome {
        if is_standard(path) && io::stdout().is_terminal() {
            return Err(Failure::usage(format!(
                "{what} would go to the terminal; name a file with -o, or pipe it"
            )));
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Outcome {
        self.write_all(bytes).map_err(|error| self.failure(&error))
    }

    /// Writes out the buffer.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.writer.flush().map_err(|error| self.failure(&error))
    }

    /// The failure for an error while writing.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        Failure::io("write to", &self.name, error)
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes out everything, and moves a regular file to its place. Syncs it first if it replaces
    /// another.
    ///
    /// # Errors
    ///
    /// If the file could not be written; an earlier file is then still in its place.
    pub(crate) fn finish(self) -> Outcome {
        finish([self])
    }
}

/// [`Output::finish`] for several: all are complete before the first one is moved to its place.
///
/// # Errors
///
/// As for [`Output::finish`].
pub(crate) fn finish(outputs: impl IntoIterator<Item = Output>) -> Outcome {
    let mut outputs: Vec<Output> = outputs.into_iter().collect();
    for output in &mut outputs {
        output.flush()?;
        let Some(pending) = &output.pending else { continue };
        if let Some(permissions) = output.permissions.take() {
            pending.file.set_permissions(permissions).map_err(|error| output.failure(&error))?;
        }
        if replaces(pending) {
            pending.file.sync_all().map_err(|error| output.failure(&error))?;
        }
    }
    let mut directories = BTreeSet::new();
    let mut all = unfinished();
    for output in &mut outputs {
        let Some(pending) = &mut output.pending else { continue };
        if replaces(pending) {
            directories.extend(pending.target.parent().map(Path::to_path_buf));
        }
        if let Err(error) = fs::rename(&pending.beside, &pending.target) {
            // Dropping the others takes the lock.
            drop(all);
            return Err(Failure::io("move the finished file to", &output.name, &error));
        }
        pending.moved = true;
        all.retain(|path| *path != pending.beside);
    }
    drop(all);
    for directory in directories {
        // Best effort: not every file system can sync a directory.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

/// Whether an earlier file would be lost if this one were not on the disk.
fn replaces(pending: &Pending) -> bool {
    fs::symlink_metadata(&pending.target).is_ok()
}

/// Mode bits that let the group and others write.
const OTHERS_WRITE: u32 = 0o022;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn several_appear_together_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let open = |name| Destination::within(place.path(), name).unwrap().open().unwrap();
        let names = || fs::read_dir(place.path()).unwrap().count();
        let (mut one, mut two) = (open("one"), open("two"));
        one.write(b"1").unwrap();
        two.write(b"2").unwrap();
        assert!(!place.path().join("one").exists());
        finish([one, two]).unwrap();
        assert_eq!((fs::read(place.path().join("one")).unwrap(), names()), (b"1".to_vec(), 2));
        if !cfg!(target_os = "linux") {
            return;
        }
        // One that cannot be completed keeps back the others.
        let (mut one, mut full) =
            (open("one"), Destination::within(Path::new("/dev"), "full").unwrap().open().unwrap());
        one.write(b"new").unwrap();
        full.write(b"x").unwrap();
        assert!(finish([one, full]).is_err());
        assert_eq!((fs::read(place.path().join("one")).unwrap(), names()), (b"1".to_vec(), 2));
    }

    /// Files that are opened for writing elsewhere would not have the guarantees of this module.
    #[test]
    fn nothing_else_writes_files() {
        let mut open = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let mut seen = 0;
        while let Some(directory) = open.pop() {
            for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    open.extend(Some(path).filter(|path| !path.ends_with("src/output")));
                    continue;
                }
                let name = path.file_name().unwrap().to_str().unwrap();
                // This one, and files that are compiled for tests only.
                if !name.ends_with(".rs")
                    || matches!(name, "output.rs" | "browser.rs" | "sample.rs")
                {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                for word in ["File::create", "OpenOptions", "fs::write", "fs::rename", "fs::copy"] {
                    assert!(!code.contains(word), "{} has {word}", path.display());
                }
                seen += 1;
            }
        }
        assert!(seen > 40, "{seen}");
    }
}
