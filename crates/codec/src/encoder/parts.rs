//! The two halves of an encoder apart, for a caller that has another thread for the second one.

use super::writer::WriterMemory;
use super::{Encoder, FrameWriter, Tokens};
use crate::chunks::Stream;
use crate::entropy::Entropy;
use crate::error::EncodeError;
use crate::matcher::Match;
use oncewire_kernels::Kernels;

/// What a [`FrameWriter`] is made with.
#[derive(Clone, Copy)]
pub(crate) struct NewWriter {
    pub(crate) kernels: Kernels,
    pub(crate) entropy: Entropy,
    pub(crate) contexts: usize,
}

impl NewWriter {
    fn make(self) -> Box<FrameWriter> {
        Box::new(FrameWriter::new(self.kernels, self.entropy, self.contexts))
    }
}

/// The second half of an [`Encoder`], or what is known of it while it is elsewhere.
pub(crate) struct SecondHalf {
    writer: Option<Box<FrameWriter>>,
    /// Memory of a writer that is elsewhere, when it left.
    memory: WriterMemory,
    anew: NewWriter,
}

impl SecondHalf {
    pub(crate) fn new(writer: FrameWriter, anew: NewWriter) -> SecondHalf {
        SecondHalf { writer: Some(Box::new(writer)), memory: WriterMemory::default(), anew }
    }

    /// The writer.
    ///
    /// # Errors
    /// [`EncodeError::NoSuchContext`] while it is elsewhere, with its contexts.
    pub(crate) fn get(&mut self) -> Result<&mut FrameWriter, EncodeError> {
        let apart = EncodeError::NoSuchContext { context: 0, contexts: 0 };
        self.writer.as_deref_mut().ok_or(apart)
    }

    /// Resets every context: those of a writer that is elsewhere by a new one in its place.
    pub(super) fn reset_contexts(&mut self) {
        match &mut self.writer {
            Some(writer) => writer.reset_contexts(),
            None => self.writer = Some(self.anew.make()),
        }
    }

    pub(super) fn memory(&self) -> WriterMemory {
        self.writer.as_ref().map_or(self.memory, |writer| writer.memory())
    }
}

impl Encoder {
    /// The first half of [`Encoder::encode_ahead`]: finds what the block repeats, and appends it to
    /// the log. [`Encoder::take_tokens`] has what to write; frames are to be written in the order
    /// of the blocks of their context.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    ///
    /// # Panics
    /// If `content` is shorter than `len`.
    pub fn find_ahead(
        &mut self,
        stream: &mut Stream,
        content: &[u8],
        len: usize,
    ) -> Result<(), EncodeError> {
        self.finder.enter(stream.domain());
        self.finder.find_in(Some(stream), content, len, &mut self.tokens)
    }

    /// Whether writing the frame of the last block takes much time: it has many literals to code.
    pub fn last_writes_much(&self) -> bool {
        self.tokens.writes_much()
    }

    /// Takes what was found in the last block, for [`FrameWriter::write`], and leaves `spare`, whose
    /// content does not matter, for the next one.
    pub fn take_tokens(&mut self, spare: Tokens) -> Tokens {
        std::mem::replace(&mut self.tokens, spare)
    }

    /// Takes the second half: what needs it fails until [`Encoder::return_writer`] or
    /// [`Encoder::renew_writer`], but for [`Encoder::rewind`] and [`Encoder::rewind_to`], which make
    /// another one. `None` if it was taken before.
    pub fn take_writer(&mut self) -> Option<Box<FrameWriter>> {
        self.second.memory = self.second.memory();
        self.second.writer.take()
    }

    /// Whether the second half is here.
    pub fn has_writer(&self) -> bool {
        self.second.writer.is_some()
    }

    /// Returns the second half.
    pub fn return_writer(&mut self, writer: Box<FrameWriter>) {
        self.second.writer = Some(writer);
    }

    /// Makes a new second half in place of one that was lost. Its contexts are reset, so the decoder
    /// need not know.
    pub fn renew_writer(&mut self) {
        self.second.writer = Some(self.second.anew.make());
    }
}

impl Tokens {
    /// Memory allocated so far, in bytes.
    pub fn memory(&self) -> usize {
        self.matches.capacity() * size_of::<Match>() + self.joined.capacity() + self.plan.memory()
    }

    fn writes_much(&self) -> bool {
        let matched: usize = self.matches.iter().map(|found| found.len as usize).sum();
        self.dense && (self.block_len - matched.min(self.block_len)) * 16 > self.block_len
    }
}

#[cfg(test)]
mod tests {
    use crate::{Decoded, Decoder, Domain, Encoder, Entropy, Stream};

    fn encoder() -> Encoder {
        Encoder::builder().cache(1 << 20).entropy(Entropy::Coded { level: 3 }).build().unwrap()
    }

    /// Text with repeats, near and far.
    fn block(nth: usize) -> Vec<u8> {
        let word = |at: u64| b'a' + ((at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 20) as u8;
        let words: Vec<u8> = (0..4096).map(word).collect();
        let mut text = Vec::new();
        while text.len() < 20_000 {
            let at = (text.len() * 31 + nth * 977) % 4000;
            text.extend_from_slice(&words[at..at + 5 + (at + nth) % 60]);
        }
        text
    }

    #[test]
    fn halves_apart_write_the_same_frames() {
        let (mut whole, mut apart) = (encoder(), encoder());
        let mut streams = [Stream::new(Domain::COMMON), Stream::new(Domain::COMMON)];
        let mut writer = apart.take_writer().unwrap();
        assert!(apart.take_writer().is_none());
        // Three blocks are found before the first one is written.
        for round in 0..4 {
            let blocks: Vec<Vec<u8>> = (0..3).map(|nth| block(round * 2 + nth)).collect();
            let mut found = Vec::new();
            for block in &blocks {
                apart.find_ahead(&mut streams[1], block, block.len()).unwrap();
                found.push(apart.take_tokens(Default::default()));
            }
            for (block, tokens) in blocks.iter().zip(&found) {
                let mut expected = Vec::new();
                let frame = whole.encode_stream(&mut streams[0], block, 0).unwrap();
                frame.append_to(&mut expected);
                let mut frame = Vec::new();
                writer.write(tokens, block, 0).unwrap().append_to(&mut frame);
                assert!(frame == expected);
            }
        }
        assert_eq!(whole.end(), apart.end());
        apart.return_writer(writer);
        assert_eq!(whole.memory().contexts, apart.memory().contexts);
    }

    #[test]
    fn without_its_second_half_it_writes_nothing_and_a_new_one_is_as_good() {
        let mut encoder = encoder();
        let mut decoder = Decoder::builder().cache(1 << 20).build().unwrap();
        let mut frame = Vec::new();
        let mut send = |encoder: &mut Encoder, nth| {
            frame.clear();
            encoder.encode(&block(nth), &mut frame).unwrap();
            match decoder.decode(&frame) {
                Ok(Decoded::Block { content, .. }) => assert!(content == block(nth)),
                other => panic!("{other:?}"),
            }
        };
        send(&mut encoder, 1);
        let memory = encoder.memory();
        let lost = encoder.take_writer();
        assert!(!encoder.has_writer() && encoder.memory() == memory);
        let end = encoder.end();
        assert!(encoder.encode(&block(2), &mut Vec::new()).is_err() && encoder.end() == end);
        assert!(encoder.reset_context(0).is_err());
        drop(lost);
        encoder.renew_writer();
        send(&mut encoder, 2);
        let _lost = encoder.take_writer();
        encoder.rewind(encoder.end(), Default::default()).unwrap();
        assert!(encoder.has_writer());
        send(&mut encoder, 3);
    }
}
