//! Base files: content that both ends have before the transfer.

use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use oncewire_codec::pack::Base;
use std::path::{Path, PathBuf};

/// Size of the read buffer, in bytes. Not a multiple of every block size.
const READ: usize = 1 << 20;

/// Length and digest of the concatenated `files`; `None` without files.
pub(crate) fn identify(files: &[PathBuf]) -> Outcome<Option<Base>> {
    if files.is_empty() {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let mut len = 0;
    let mut buffer = vec![0; READ];
    each_part(files, &mut buffer, |part| {
        hasher.update(part);
        len += part.len() as u64;
        Ok(())
    })?;
    Ok(Some(Base { len, digest: *hasher.finalize().as_bytes() }))
}

/// Calls `take` with the concatenated `files` from byte `skip` on, in parts of exactly `block`
/// bytes; the last may be shorter.
pub(crate) fn each_block(
    files: &[PathBuf],
    skip: u64,
    block: usize,
    mut take: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    let mut skip = skip;
    let mut pending: Vec<u8> = Vec::with_capacity(block);
    let mut buffer = vec![0; READ];
    each_part(files, &mut buffer, |mut part| {
        let skipped = skip.min(part.len() as u64);
        skip -= skipped;
        part = &part[skipped as usize..];
        while !part.is_empty() {
            let (now, rest) = part.split_at(part.len().min(block - pending.len()));
            pending.extend_from_slice(now);
            part = rest;
            if pending.len() == block {
                take(&pending)?;
                pending.clear();
            }
        }
        Ok(())
    })?;
    if pending.is_empty() { Ok(()) } else { take(&pending) }
}

fn each_part(
    files: &[PathBuf],
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    for path in files {
        let mut input = Input::file(Path::new(path))?;
        if input.len.is_none() {
            return Err(Failure::failed(format!(
                "the base {} is not a regular file; it is read twice, so save it to a file first",
                input.name
            )));
        }
        loop {
            match input.fill(buffer)? {
                0 => break,
                n => take(&buffer[..n])?,
            }
        }
    }
    Ok(())
}
