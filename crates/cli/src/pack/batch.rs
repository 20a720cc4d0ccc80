//! Content on its way from the input to the output, by the megabyte.

use super::encode_failure;
use super::format::Writer;
use crate::adapting::Adapting;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::pack_store::PackStore;
use cpu_time::ThreadTime;
use oncewire_codec::zstd_frames::ContentChecksum;
use oncewire_codec::{FilePages, Finder, LeaseState, Tokens};
use std::sync::Arc;
use std::time::Duration;

/// Bytes handed over between threads, and to the output, at once.
pub(super) const BATCH: usize = 1 << 20;

/// Most blocks per batch. This limits the memory for tokens of small blocks.
const BATCH_BLOCKS: usize = 1024;

/// Bytes of a full batch of blocks of at most `block` bytes.
fn full(block: usize) -> usize {
    (BATCH / block).clamp(1, BATCH_BLOCKS) * block
}

/// The bytes of a batch.
enum Content {
    Read(Vec<u8>),
    /// From this position on.
    Whole(Whole, usize),
}

impl Default for Content {
    fn default() -> Content {
        Content::Read(Vec::new())
    }
}

impl Content {
    fn front(&self, len: usize) -> &[u8] {
        match self {
            Content::Read(bytes) => &bytes[..len],
            Content::Whole(whole, at) => &whole.pages[*at..at + len],
        }
    }

    /// Fails unless the bytes are still what they were.
    fn check(&self) -> Outcome {
        if let Content::Whole(whole, _) = self { whole.check() } else { Ok(()) }
    }
}

/// The whole input, in memory under a lease.
#[derive(Clone)]
pub(super) struct Whole {
    pub(super) pages: FilePages,
    pub(super) name: Arc<str>,
}

/// Time to stop before somebody who waits to change the input can do so: far more than a batch
/// takes.
const RESERVE: Duration = Duration::from_secs(15);

impl Whole {
    /// Fails before anybody can change the input.
    pub(super) fn check(&self) -> Outcome {
        match self.pages.lease() {
            LeaseState::Held => Ok(()),
            LeaseState::Recalled(left) if left > RESERVE => Ok(()),
            _ => Err(Failure::failed(format!(
                "cannot pack {}: another program is about to change it; run this again afterwards, or pack a copy",
                self.name
            ))),
        }
    }
}

/// Some blocks, then what was found in them, and then their frames. The buffers are reused.
#[derive(Default)]
pub(super) struct Batch {
    /// Content before it, in bytes.
    pub(super) start: u64,
    content: Content,
    pub(super) len: usize,
    /// The tokens of each block; more than there are blocks.
    tokens: Vec<Tokens>,
    blocks: usize,
    pub(super) frames: Vec<u8>,
}

impl Batch {
    /// The tokens of each block, once they were found.
    pub(super) fn tokens(&self) -> &[Tokens] {
        &self.tokens[..self.blocks]
    }

    /// Writes the frames of all blocks.
    pub(super) fn write(&mut self, writer: &mut Writer, context: usize) -> Outcome {
        let Batch { start, content, len, tokens, blocks, frames } = self;
        frames.clear();
        writer.write(&tokens[..*blocks], content.front(*len), *start, context, frames)?;
        content.check()
    }
}

/// Reads an input in batches.
pub(super) struct Batches<'a> {
    input: &'a mut Input,
    block: usize,
    /// Bytes of an incomplete block.
    rest: Vec<u8>,
}

impl Batches<'_> {
    pub(super) fn new(input: &mut Input, block: usize) -> Batches<'_> {
        Batches { input, block, rest: Vec::with_capacity(block) }
    }

    /// Fills a batch, with fewer blocks if the input would block: complete blocks are never held
    /// back. Returns `false` at the end of the input.
    fn next(&mut self, batch: &mut Batch) -> Outcome<bool> {
        let mut content = match std::mem::take(&mut batch.content) {
            Content::Read(content) => content,
            Content::Whole(..) => Vec::new(),
        };
        content.resize(full(self.block), 0);
        let mut filled = self.rest.len();
        content[..filled].copy_from_slice(&self.rest);
        self.rest.clear();
        let mut has_ended = false;
        while filled < content.len() && !has_ended {
            if filled >= self.block && !self.input.is_ready() {
                break;
            }
            match self.input.some(&mut content[filled..])? {
                0 => has_ended = true,
                n => filled += n,
            }
        }
        batch.len = if has_ended { filled } else { filled - filled % self.block };
        self.rest.extend_from_slice(&content[batch.len..filled]);
        batch.content = Content::Read(content);
        Ok(filled > 0)
    }
}

/// Where content comes from.
pub(super) enum Source<'a> {
    Read(Batches<'a>),
    /// From this position on.
    Whole(Whole, usize),
}

impl Source<'_> {
    /// Fills a batch with blocks of at most `block` bytes. Returns `false` at the end of the input.
    fn next(&mut self, batch: &mut Batch, block: usize) -> Outcome<bool> {
        match self {
            Source::Read(batches) => batches.next(batch),
            Source::Whole(whole, at) => {
                batch.len = full(block).min(whole.pages.len() - *at);
                batch.content = Content::Whole(whole.clone(), *at);
                *at += batch.len;
                Ok(batch.len > 0)
            }
        }
    }
}

/// The first half of the work: content to tokens.
pub(super) struct Finding<'a> {
    pub(super) source: Source<'a>,
    pub(super) block: usize,
    /// Size of the log, if blocks end where a generation of it does, so that there is no padding.
    pub(super) generation: Option<u64>,
    pub(super) finder: &'a mut Finder,
    pub(super) adapting: &'a mut Option<Adapting>,
    /// Of all content, if the format has one.
    pub(super) checksum: Option<&'a mut ContentChecksum>,
    /// What keeps all content, if anything does.
    pub(super) store: &'a mut Option<PackStore>,
    /// Content so far, in bytes.
    pub(super) position: u64,
}

impl Finding<'_> {
    /// Fills a batch and finds its tokens. Returns `false` at the end of the input.
    pub(super) fn next(&mut self, batch: &mut Batch) -> Outcome<bool> {
        if !self.source.next(batch, self.block)? {
            return Ok(false);
        }
        batch.start = self.position;
        batch.blocks = 0;
        let mut rest = batch.content.front(batch.len);
        while !rest.is_empty() {
            let room = self.generation.map_or(u64::MAX, |len| len - self.position % len);
            let most = usize::try_from(room).unwrap_or(usize::MAX).min(self.block);
            let (block, next) = rest.split_at(self.finder.cut(rest, most));
            // Some blocks end early, so it is not known how many there will be.
            if batch.blocks == batch.tokens.len() {
                batch.tokens.push(Tokens::default());
            }
            let tokens = &mut batch.tokens[batch.blocks];
            match self.adapting {
                Some(adapting) => {
                    // Time spent waiting for the block must not be charged.
                    adapting.charge(0, self.finder);
                    let begun = ThreadTime::now();
                    self.finder.find(block, tokens).map_err(encode_failure)?;
                    adapting.spent.add_since(begun);
                    // Charges what all threads used so far to this block.
                    adapting.charge(block.len(), self.finder);
                }
                None => self.finder.find(block, tokens).map_err(encode_failure)?,
            }
            if let Some(checksum) = &mut self.checksum {
                checksum.update(block);
            }
            rest = next;
            self.position += block.len() as u64;
            batch.blocks += 1;
        }
        if let Some(store) = self.store {
            store.push(batch.content.front(batch.len))?;
        }
        batch.content.check()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};

    const BLOCK: usize = 64 << 10;

    #[test]
    fn files_are_read_in_batches_of_a_megabyte() {
        let content: &'static [u8] = vec![7; 3 * BATCH + 10].leak();
        let mut input = Input::memory("test", content);
        let mut batches = Batches::new(&mut input, BLOCK);
        let mut batch = Batch::default();
        let mut lengths = Vec::new();
        while batches.next(&mut batch).unwrap() {
            lengths.push(batch.len);
        }
        assert_eq!(lengths, [BATCH, BATCH, BATCH, 10]);
        assert_eq!([1, 1448, BLOCK].map(full), [1024, 724 * 1448, BATCH]);
    }

    /// This test hangs if a complete block is held back until more input arrives.
    #[test]
    fn an_idle_pipe_holds_no_complete_block_back() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut input = Input::pipe(reader);
        let mut batches = Batches::new(&mut input, 1000);
        let mut batch = Batch::default();
        writer.write_all(&[1; 2500]).unwrap();
        assert!(batches.next(&mut batch).unwrap());
        assert_eq!(batch.len, 2000);
        writer.write_all(&[2; 500]).unwrap();
        assert!(batches.next(&mut batch).unwrap());
        assert_eq!(
            (batch.len, batch.content.front(1000)),
            (1000, &[[1; 500], [2; 500]].concat()[..])
        );
        writer.write_all(&[3; 10]).unwrap();
        drop(writer);
        assert!(batches.next(&mut batch).unwrap());
        assert_eq!((batch.len, batch.content.front(1)[0]), (10, 3));
        assert!(!batches.next(&mut batch).unwrap());
    }

    /// The lease here cannot be waited for, so the run ends as soon as anybody wants the file.
    #[cfg(target_os = "linux")]
    #[test]
    fn packing_ends_before_another_program_changes_the_input() {
        use std::os::unix::fs::OpenOptionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("input");
        std::fs::write(&path, vec![1; 3 * BATCH]).unwrap();
        let input = Input::open(Some(&path)).unwrap();
        let Some(pages) = input.leased(RESERVE) else {
            oncewire_testkit::skipped!("the files here have no leases");
            return;
        };
        let whole = Whole { pages: pages.clone(), name: "input".into() };
        let builder = oncewire_codec::Encoder::builder();
        let (mut finder, mut writers) = builder.build_parts(Some(pages), 1).unwrap();
        let mut writer = Writer::Oncewire(writers.remove(0));
        let mut finding = Finding {
            source: Source::Whole(whole.clone(), 0),
            block: BLOCK,
            generation: None,
            finder: &mut finder,
            adapting: &mut None,
            checksum: None,
            store: &mut None,
            position: 0,
        };
        let mut batch = Batch::default();
        assert!(finding.next(&mut batch).unwrap());
        batch.write(&mut writer, 0).unwrap();
        let change =
            || std::fs::File::options().write(true).custom_flags(nix::libc::O_NONBLOCK).open(&path);
        assert_eq!(change().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(whole.check().unwrap_err().exit as i32, 1);
        assert!(batch.write(&mut writer, 0).is_err() && finding.next(&mut batch).is_err());
        drop((finding, batch, whole));
        drop(finder);
        change().unwrap();
    }
}
