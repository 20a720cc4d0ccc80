//! Inputs: files, pipes, and content compiled into the program.

use crate::failure::{Failure, Outcome};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use oncewire_codec::FilePages;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

enum Reader {
    File(File),
    Memory(&'static [u8]),
}

/// An open input.
pub(crate) struct Input {
    reader: Reader,
    /// Name for messages.
    pub(crate) name: String,
    /// Length in bytes, of a regular file.
    pub(crate) len: Option<u64>,
}

impl Input {
    /// Opens `path`, or standard input for `None` and `-`.
    pub(crate) fn open(path: Option<&Path>) -> Outcome<Input> {
        match path {
            Some(path) if path != Path::new("-") => Input::file(path),
            _ => {
                let name = "standard input";
                // Without the standard library's buffer, since reads are large.
                let input = io::stdin()
                    .as_fd()
                    .try_clone_to_owned()
                    .map_err(|error| Failure::io("read", name, &error))?;
                Ok(Input { reader: Reader::File(input.into()), name: name.into(), len: None })
            }
        }
    }

    /// Content compiled into the program.
    pub(crate) fn memory(name: &str, content: &'static [u8]) -> Input {
        Input {
            reader: Reader::Memory(content),
            name: name.into(),
            len: Some(content.len() as u64),
        }
    }

    /// The reading end of a pipe, as an input.
    #[cfg(test)]
    pub(crate) fn pipe(reader: io::PipeReader) -> Input {
        Input {
            reader: Reader::File(std::os::fd::OwnedFd::from(reader).into()),
            name: "pipe".into(),
            len: None,
        }
    }

    pub(crate) fn file(path: &Path) -> Outcome<Input> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::io("open", &name, &error))?;
        let meta =
            file.metadata().map_err(|error| Failure::io("read the metadata of", &name, &error))?;
        if meta.is_dir() {
            return Err(Failure::failed(format!(
                "cannot read {name}: it is a directory; pack it with tar first"
            )));
        }
        let len = meta.is_file().then_some(meta.len());
        Ok(Input { reader: Reader::File(file), name, len })
    }

    /// The whole content in memory, of a file that nobody can change meanwhile: see [`FilePages`].
    /// `None` for anything else, which must be read.
    pub(crate) fn leased(&self, longest: Duration) -> Option<FilePages> {
        let Reader::File(file) = &self.reader else { return None };
        self.len.and_then(|_| FilePages::leased(file, longest).ok())
    }

    /// Whether a read would return immediately, with data or at the end.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.reader {
            // Regular files are always ready.
            Reader::File(_) if self.len.is_some() => true,
            Reader::File(file) => {
                poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO)
                    .is_ok_and(|ready| ready > 0)
            }
            Reader::Memory(_) => true,
        }
    }

    /// Fills `buffer`; returns less than its length only at the end of the input.
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

    /// Reads at least one byte; returns 0 at the end of the input.
    pub(crate) fn some(&mut self, buffer: &mut [u8]) -> Outcome<usize> {
        loop {
            let read = match &mut self.reader {
                Reader::File(file) => file.read(buffer),
                Reader::Memory(content) => content.read(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|error| Failure::io("read", &self.name, &error)),
            }
        }
    }
}
