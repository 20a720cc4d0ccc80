//! Where bytes come from and go to: files, pipes, terminals. A new file appears only when it is complete.

use crate::failure::{Failure, Outcome};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What is read.
pub(crate) struct Input {
    reader: Box<dyn Read + Send>,
    /// For messages.
    pub(crate) name: String,
    /// Its length, if it is a file.
    pub(crate) len: Option<u64>,
}

impl Input {
    /// Opens `path`, or standard input for none and `-`.
    pub(crate) fn open(path: Option<&Path>) -> Outcome<Input> {
        match path {
            Some(path) if path != Path::new("-") => Input::file(path),
            _ => Ok(Input { reader: standard_input(), name: "standard input".into(), len: None }),
        }
    }

    /// Content that is part of the program.
    pub(crate) fn memory(name: &str, content: &'static [u8]) -> Input {
        Input { reader: Box::new(content), name: name.into(), len: Some(content.len() as u64) }
    }

    pub(crate) fn file(path: &Path) -> Outcome<Input> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::io("open", &name, &error))?;
        let meta = file.metadata().map_err(|error| Failure::io("look at", &name, &error))?;
        if meta.is_dir() {
            return Err(Failure::failed(format!("cannot read {name}: it is a directory; pack it with tar first")));
        }
        let len = meta.is_file().then_some(meta.len());
        Ok(Input { reader: Box::new(file), name, len })
    }

    /// Fills `buffer` as far as the input goes; less only at its end.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Outcome<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.some(&mut buffer[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// Reads what there is, at least one byte unless the input has ended.
    pub(crate) fn some(&mut self, buffer: &mut [u8]) -> Outcome<usize> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|error| Failure::io("read", &self.name, &error)),
            }
        }
    }
}

/// Standard input without the library's buffer: blocks are read whole.
fn standard_input() -> Box<dyn Read + Send> {
    #[cfg(unix)]
    if let Ok(fd) = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned() {
        return Box::new(File::from(fd));
    }
    Box::new(io::stdin())
}

/// Standard output without the library's buffer, which would hold back what comes after the last line end.
fn standard_output() -> Box<dyn Write + Send> {
    #[cfg(unix)]
    if let Ok(fd) = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned() {
        return Box::new(File::from(fd));
    }
    Box::new(io::stdout())
}

/// Whether no file is named, or `-`.
pub(crate) fn is_standard(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path == Path::new("-"))
}

/// The unfinished file, to be removed if the program is interrupted.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Removes an unfinished file and ends the program when a signal asks for that.
pub(crate) fn clean_up_on_signal() {
    // Without a handler, an interrupted run leaves its temporary file behind: a pity, no reason to refuse to work.
    let _ = ctrlc::set_handler(|| {
        remove_unfinished();
        std::process::exit(130);
    });
}

/// Removes the unfinished file, if there is one, before the program ends.
pub(crate) fn remove_unfinished() {
    if let Ok(mut unfinished) = UNFINISHED.lock()
        && let Some(path) = unfinished.take()
    {
        let _ = std::fs::remove_file(path);
    }
}

/// Ends the program at once, since another thread may be waiting for an input that stays quiet.
pub(crate) fn give_up(failure: &Failure) -> ! {
    remove_unfinished();
    failure.tell();
    std::process::exit(failure.exit as i32)
}

/// What is written.
pub(crate) struct Output {
    writer: Box<dyn Write + Send>,
    name: String,
    /// For a new file: where it is written and where it belongs.
    pending: Option<(PathBuf, PathBuf)>,
    written: u64,
}

impl Output {
    /// Opens `path`, or standard output for none and `-`.
    ///
    /// A regular file is written beside its final place and moved there by [`Output::finish`]; dropping it without that removes
    /// it. Devices and pipes are written directly.
    pub(crate) fn create(path: Option<&Path>) -> Outcome<Output> {
        let Some(path) = path.filter(|&path| path != Path::new("-")) else {
            return Ok(Output { writer: standard_output(), name: "standard output".into(), pending: None, written: 0 });
        };
        let name = path.display().to_string();
        let fail = |error: io::Error| Failure::io("create", &name, &error);
        // A link is followed, so that the file it names is replaced and not the link.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let existing = std::fs::metadata(&target).ok();
        if existing.as_ref().is_some_and(|meta| meta.is_dir()) {
            return Err(Failure::failed(format!("cannot write {name}: it is a directory; name a file in it")));
        }
        if existing.as_ref().is_some_and(|meta| !meta.is_file()) {
            let file = OpenOptions::new().write(true).open(&target).map_err(fail)?;
            return Ok(Output { writer: Box::new(file), name, pending: None, written: 0 });
        }
        if target.file_name().is_none() {
            return Err(Failure::failed(format!("cannot write {name}: it names no file")));
        }
        // Short, lest it exceed what a name may have; and not that of an earlier run which was killed.
        let mut number = 0;
        let (beside, file) = loop {
            let beside = target.with_file_name(format!(".oncewire-{}-{number}.unfinished", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&beside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
                result => break (beside, result.map_err(fail)?),
            }
        };
        let pending = Some((beside.clone(), target));
        let output = Output { writer: Box::new(file), name: name.clone(), pending, written: 0 };
        if let Some(meta) = existing {
            std::fs::set_permissions(&beside, meta.permissions()).map_err(fail)?;
        }
        *UNFINISHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(beside);
        Ok(output)
    }

    /// Refuses to pour binary data onto a screen.
    pub(crate) fn refuse_terminal(path: Option<&Path>, what: &str) -> Outcome {
        if is_standard(path) && io::stdout().is_terminal() {
            return Err(Failure::usage(format!("{what} would go to the terminal; name a file with -o, or pipe it")));
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Outcome {
        self.written += bytes.len() as u64;
        self.writer.write_all(bytes).map_err(|error| Failure::io("write to", &self.name, &error))
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Makes sure that all is written, and moves a new file to its place.
    pub(crate) fn finish(mut self) -> Outcome {
        self.writer.flush().map_err(|error| Failure::io("write to", &self.name, &error))?;
        if let Some((beside, target)) = &self.pending {
            std::fs::rename(beside, target).map_err(|error| Failure::io("move the finished file to", &self.name, &error))?;
            self.pending = None;
            self.forget();
        }
        Ok(())
    }

    fn forget(&self) {
        if let Ok(mut unfinished) = UNFINISHED.lock() {
            *unfinished = None;
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((beside, _)) = self.pending.take() {
            let _ = std::fs::remove_file(beside);
            self.forget();
        }
    }
}
