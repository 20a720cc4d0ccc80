//! Base files: content that both ends have before the transfer.

use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use oncewire_codec::pack::Base;
use oncewire_codec::{FilePages, LeaseState};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are read, or taken from a mapped file, at once. Not a multiple of every block size.
const READ: usize = 1 << 20;

/// Time to stop before somebody who waits to change a file can do so: far more than [`READ`] bytes
/// take.
const RESERVE: Duration = Duration::from_secs(15);

/// Base files, in order. Those that can be are mapped under a lease, so that they are neither
/// copied nor changed until this is dropped; the others are read twice.
pub(crate) struct BaseFiles<'a>(Vec<(&'a Path, Option<FilePages>)>);

impl<'a> BaseFiles<'a> {
    pub(crate) fn open(files: &'a [PathBuf]) -> Outcome<BaseFiles<'a>> {
        let open = |path: &'a PathBuf| Ok((path.as_path(), file(path)?.leased(Duration::MAX)));
        files.iter().map(open).collect::<Outcome<_>>().map(BaseFiles)
    }

    /// Length and digest of all content; `None` without files.
    pub(crate) fn identify(&self) -> Outcome<Option<Base>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut hasher = blake3::Hasher::new();
        let mut len = 0;
        self.each_part(|part| {
            hasher.update(part);
            len += part.len() as u64;
            Ok(())
        })?;
        Ok(Some(Base { len, digest: *hasher.finalize().as_bytes() }))
    }

    /// Calls `take` with all content from byte `skip` on, in parts of exactly `block` bytes; the
    /// last may be shorter.
    pub(crate) fn each_block(
        &self,
        skip: u64,
        block: usize,
        mut take: impl FnMut(&[u8]) -> Outcome,
    ) -> Outcome {
        let mut skip = skip;
        // The beginning of a block that a part does not complete.
        let mut pending: Vec<u8> = Vec::with_capacity(block);
        self.each_part(|mut part| {
            let skipped = skip.min(part.len() as u64);
            skip -= skipped;
            part = &part[skipped as usize..];
            if !pending.is_empty() {
                let (now, rest) = part.split_at(part.len().min(block - pending.len()));
                pending.extend_from_slice(now);
                part = rest;
                if pending.len() < block {
                    return Ok(());
                }
                take(&pending)?;
                pending.clear();
            }
            let mut blocks = part.chunks_exact(block);
            blocks.by_ref().try_for_each(&mut take)?;
            pending.extend_from_slice(blocks.remainder());
            Ok(())
        })?;
        if pending.is_empty() { Ok(()) } else { take(&pending) }
    }

    fn each_part(&self, mut take: impl FnMut(&[u8]) -> Outcome) -> Outcome {
        let mut buffer = Vec::new();
        for (path, pages) in &self.0 {
            if let Some(pages) = pages {
                for part in pages.chunks(READ) {
                    take(part)?;
                    check(path, pages)?;
                }
                continue;
            }
            let mut input = file(path)?;
            buffer.resize(READ, 0);
            loop {
                match input.fill(&mut buffer)? {
                    0 => break,
                    n => take(&buffer[..n])?,
                }
            }
        }
        Ok(())
    }
}

fn file(path: &Path) -> Outcome<Input> {
    let input = Input::file(path)?;
    if input.len.is_none() {
        return Err(Failure::failed(format!(
            "the base {} is not a regular file; it is read twice, so save it to a file first",
            input.name
        )));
    }
    Ok(input)
}

/// Fails before anybody can change the file.
fn check(path: &Path, pages: &FilePages) -> Outcome {
    match pages.lease() {
        LeaseState::Held => Ok(()),
        LeaseState::Recalled(left) if left > RESERVE => Ok(()),
        _ => Err(Failure::failed(format!(
            "cannot use the base {}: another program is about to change it; run this again afterwards, or use a copy",
            path.display()
        ))),
    }
}
