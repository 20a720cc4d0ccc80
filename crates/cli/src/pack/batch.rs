//! Content on its way from the input to the output, by the megabyte.

use super::encode_failure;
use crate::adapting::Adapting;
use crate::endpoint::Input;
use crate::failure::Outcome;
use cpu_time::ThreadTime;
use oncewire_codec::{Finder, FrameWriter, Tokens};

/// Bytes handed over between threads, and to the output, at once.
pub(super) const BATCH: usize = 1 << 20;

/// Most blocks per batch. This limits the memory for tokens of small blocks.
const BATCH_BLOCKS: usize = 1024;

/// Bytes of a full batch of blocks of at most `block` bytes.
fn full(block: usize) -> usize {
    (BATCH / block).clamp(1, BATCH_BLOCKS) * block
}

/// Some blocks, then what was found in them, and then their frames. The buffers are reused.
#[derive(Default)]
pub(super) struct Batch {
    /// Content before it, in bytes.
    pub(super) start: u64,
    content: Vec<u8>,
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
    pub(super) fn write(&mut self, writer: &mut FrameWriter, context: usize) -> Outcome {
        let Batch { content, len, tokens, blocks, frames, .. } = self;
        frames.clear();
        let mut rest = &content[..*len];
        for tokens in &tokens[..*blocks] {
            let (block, next) = rest.split_at(tokens.block_len());
            rest = next;
            writer.write(tokens, block, context).map_err(encode_failure)?.append_to(frames);
        }
        Ok(())
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
    pub(super) fn next(&mut self, batch: &mut Batch) -> Outcome<bool> {
        batch.content.resize(full(self.block), 0);
        let mut filled = self.rest.len();
        batch.content[..filled].copy_from_slice(&self.rest);
        self.rest.clear();
        while filled < batch.content.len() {
            if filled >= self.block && !self.input.is_ready() {
                break;
            }
            match self.input.some(&mut batch.content[filled..])? {
                0 => {
                    batch.len = filled;
                    return Ok(filled > 0);
                }
                n => filled += n,
            }
        }
        batch.len = filled - filled % self.block;
        self.rest.extend_from_slice(&batch.content[batch.len..filled]);
        Ok(true)
    }
}

/// The first half of the work: content to tokens.
pub(super) struct Finding<'a> {
    pub(super) batches: Batches<'a>,
    pub(super) finder: &'a mut Finder,
    pub(super) adapting: &'a mut Option<Adapting>,
    /// Content so far, in bytes.
    pub(super) position: u64,
}

impl Finding<'_> {
    /// Fills a batch and finds its tokens. Returns `false` at the end of the input.
    pub(super) fn next(&mut self, batch: &mut Batch) -> Outcome<bool> {
        if !self.batches.next(batch)? {
            return Ok(false);
        }
        batch.start = self.position;
        batch.blocks = 0;
        self.position += batch.len as u64;
        let mut rest = &batch.content[..batch.len];
        while !rest.is_empty() {
            let (block, next) = rest.split_at(self.finder.cut(rest, self.batches.block));
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
            rest = next;
            batch.blocks += 1;
        }
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
        assert_eq!((batch.len, &batch.content[..1000]), (1000, &[[1; 500], [2; 500]].concat()[..]));
        writer.write_all(&[3; 10]).unwrap();
        drop(writer);
        assert!(batches.next(&mut batch).unwrap());
        assert_eq!((batch.len, batch.content[0]), (10, 3));
        assert!(!batches.next(&mut batch).unwrap());
    }
}
