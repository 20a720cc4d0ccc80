//! Coding of the operations that put Huffman-coded content together: adaptive models over rANS, as
//! for match descriptors. `docs/FORMAT.md` ("Transcoded literals") specifies what is done here.

use super::descriptors::Number;
use super::symbols::{SectionReader, SectionWriter, Symbols};
use crate::error::FrameError;

/// Where a Huffman code is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeAt {
    /// It is the code of blocks that describe none.
    Fixed,
    /// This many codes before the last one that the frame named.
    Known(u64),
    /// In the frame's own literals, this many bits back.
    Here(u64),
    /// In the sources, this many bits after the last code there, or before it if negative.
    Source(i64),
}

/// A step of putting literals together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// As the token at the source is expected to become, but with its distance changed; then `run` tokens as at the
    /// source.
    Moved {
        /// What to add to the distance. Not 0.
        change: i32,
        /// Tokens.
        run: u64,
    },
    /// Copies from before a place of the source have other distances from here on; then `run`
    /// tokens as at the source.
    Bend {
        /// The place, in inflated bytes of the source back from where it stands.
        back: u32,
        /// What to add to their distances. Not 0.
        change: i32,
        /// Tokens.
        run: u64,
    },
    /// `gap` tokens of the residual; the source skips `skip` tokens; then `run` tokens as at the
    /// source.
    Near {
        /// Tokens.
        gap: u64,
        /// Tokens, at most 15.
        skip: u8,
        /// Tokens.
        run: u64,
    },
    /// `gap` tokens of the residual; the source moves; then `run` tokens as at the source.
    Jump {
        /// Tokens.
        gap: u64,
        /// The code at the source; `None` if it stays.
        code: Option<CodeAt>,
        /// Bits from where the source stood.
        distance: i64,
        /// Tokens.
        run: u64,
    },
    /// `bits` bits of the residual; the tokens that follow have another code.
    Part {
        /// The code.
        code: CodeAt,
        /// Bits.
        bits: u64,
    },
    /// The rest of the literals is the rest of the residual.
    End,
}

const MOVED: usize = 0;
const NEAR: usize = 1;
const JUMP: usize = 2;
const BEND: usize = 3;
const PART: usize = 4;
const END: usize = 5;

const FIXED: usize = 0;
const KNOWN: usize = 1;
const HERE: usize = 2;
const SOURCE_AFTER: usize = 3;
const SOURCE_BEFORE: usize = 4;
const SAME: usize = 5;

/// Changes of distances that are remembered within a frame.
const RECENT: usize = 14;
const NEW_FARTHER: usize = 14;
const NEW_NEARER: usize = 15;

/// The last changes of distances, the newest first. They repeat: an insertion moves everything
/// behind it away from everything before it.
#[derive(Debug, Default)]
struct Recent {
    changes: [i32; RECENT],
    len: usize,
}

impl Recent {
    fn place_of(&self, change: i32) -> Option<usize> {
        self.changes[..self.len].iter().position(|&known| known == change)
    }

    /// Moves the change at `place` to the front.
    fn touch(&mut self, place: usize) -> i32 {
        self.changes[..=place].rotate_right(1);
        self.changes[0]
    }

    fn add(&mut self, change: i32) {
        self.len = (self.len + 1).min(RECENT);
        self.changes.rotate_right(1);
        self.changes[0] = change;
    }
}

/// The models. Part of an entropy context.
#[derive(Clone, Debug)]
pub(crate) struct TranscodeModels {
    /// By the operation before.
    operation: [Symbols; 5],
    /// By operation.
    run: [Number; 4],
    /// Of near and jump.
    gap: [Number; 2],
    skip: Symbols,
    change: Symbols,
    /// Farther and nearer.
    new_change: [Number; 2],
    /// Of bend: nearer or not, by how much, and where.
    nearer: Symbols,
    bend: [Number; 2],
    back: Number,
    /// Of jump and part.
    code: [Symbols; 2],
    known: Number,
    here: Number,
    place: Number,
    /// Ahead and back.
    distance: [Number; 2],
    ahead: Symbols,
    bits: Number,
}

impl TranscodeModels {
    pub(crate) const NEW: TranscodeModels = TranscodeModels {
        operation: [Symbols::EVEN; 5],
        run: [Number::NEW; 4],
        gap: [Number::NEW; 2],
        skip: Symbols::EVEN,
        change: Symbols::EVEN,
        new_change: [Number::NEW; 2],
        nearer: Symbols::EVEN,
        bend: [Number::NEW; 2],
        back: Number::NEW,
        code: [Symbols::EVEN; 2],
        known: Number::NEW,
        here: Number::NEW,
        place: Number::NEW,
        distance: [Number::NEW; 2],
        ahead: Symbols::EVEN,
        bits: Number::NEW,
    };

    /// Appends the section of `operations`, which end with [`Operation::End`], to `out`.
    pub(crate) fn encode(
        &mut self,
        coder: &mut TranscodeWriter,
        operations: &[Operation],
        out: &mut Vec<u8>,
    ) {
        let coder = &mut coder.0;
        let mut before = PART;
        let mut recent = Recent::default();
        for &operation in operations {
            let kind = match operation {
                Operation::Moved { .. } => MOVED,
                Operation::Bend { .. } => BEND,
                Operation::Near { .. } => NEAR,
                Operation::Jump { .. } => JUMP,
                Operation::Part { .. } => PART,
                Operation::End => END,
            };
            coder.symbol(&mut self.operation[before], kind);
            before = kind;
            match operation {
                Operation::Moved { change, run } => {
                    if let Some(place) = recent.place_of(change) {
                        coder.symbol(&mut self.change, place);
                        recent.touch(place);
                    } else {
                        let nearer = change < 0;
                        let symbol = if nearer { NEW_NEARER } else { NEW_FARTHER };
                        coder.symbol(&mut self.change, symbol);
                        let size = u64::from(change.unsigned_abs());
                        self.new_change[usize::from(nearer)].encode(coder, size - 1);
                        recent.add(change);
                    }
                    self.run[MOVED].encode(coder, run);
                }
                Operation::Bend { back, change, run } => {
                    let nearer = usize::from(change < 0);
                    coder.symbol(&mut self.nearer, nearer);
                    self.bend[nearer].encode(coder, u64::from(change.unsigned_abs()) - 1);
                    self.back.encode(coder, back.into());
                    self.run[BEND].encode(coder, run);
                }
                Operation::Near { gap, skip, run } => {
                    self.gap[0].encode(coder, gap);
                    coder.symbol(&mut self.skip, usize::from(skip));
                    self.run[NEAR].encode(coder, run);
                }
                Operation::Jump { gap, code, distance, run } => {
                    self.gap[1].encode(coder, gap);
                    match code {
                        Some(code) => self.encode_code(coder, 0, code),
                        None => coder.symbol(&mut self.code[0], SAME),
                    }
                    let back = usize::from(distance < 0);
                    coder.symbol(&mut self.ahead, back);
                    self.distance[back].encode(coder, distance.unsigned_abs());
                    self.run[JUMP].encode(coder, run);
                }
                Operation::Part { code, bits } => {
                    self.encode_code(coder, 1, code);
                    self.bits.encode(coder, bits);
                }
                Operation::End => break,
            }
        }
        coder.finish(out);
    }

    fn encode_code(&mut self, coder: &mut SectionWriter, role: usize, code: CodeAt) {
        let model = &mut self.code[role];
        match code {
            CodeAt::Fixed => coder.symbol(model, FIXED),
            CodeAt::Known(back) => {
                coder.symbol(model, KNOWN);
                self.known.encode(coder, back);
            }
            CodeAt::Here(back) => {
                coder.symbol(model, HERE);
                self.here.encode(coder, back);
            }
            CodeAt::Source(bits) => {
                coder.symbol(model, if bits < 0 { SOURCE_BEFORE } else { SOURCE_AFTER });
                self.place.encode(coder, bits.unsigned_abs());
            }
        }
    }
}

/// Buffers of a writer of operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranscodeWriter(SectionWriter);

impl TranscodeWriter {
    /// Memory of the buffers as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.0.memory()
    }
}

/// Reads operations one by one.
pub(crate) struct TranscodeReader<'a> {
    models: &'a mut TranscodeModels,
    coder: SectionReader<'a>,
    before: usize,
    recent: Recent,
}

impl<'a> TranscodeReader<'a> {
    /// After an error the models are out of sync.
    ///
    /// # Errors
    /// [`FrameError::Short`].
    pub(crate) fn new(
        models: &'a mut TranscodeModels,
        section: &'a [u8],
    ) -> Result<TranscodeReader<'a>, FrameError> {
        let coder = SectionReader::new(section)?;
        Ok(TranscodeReader { models, coder, before: PART, recent: Recent::default() })
    }

    /// The next operation. After [`Operation::End`], nothing may be read.
    ///
    /// # Errors
    /// [`FrameError`].
    pub(crate) fn next(&mut self) -> Result<Operation, FrameError> {
        let TranscodeReader { models, coder, before, recent } = self;
        // What is read past the end could go on forever.
        if coder.is_overrun() {
            return Err(FrameError::Short { section: "transcoded literals" });
        }
        let kind = coder.symbol(&mut models.operation[*before]);
        if kind > END {
            return Err(bad("operation", kind));
        }
        *before = kind.min(PART);
        Ok(match kind {
            MOVED => {
                let place = coder.symbol(&mut models.change);
                let change = if place < RECENT {
                    if place >= recent.len {
                        return Err(bad("change of a distance", place));
                    }
                    recent.touch(place)
                } else {
                    let nearer = place == NEW_NEARER;
                    let size = models.new_change[usize::from(nearer)].decode(coder)?;
                    let size = distance_change(size)?;
                    let change = if nearer { -size } else { size };
                    recent.add(change);
                    change
                };
                Operation::Moved { change, run: models.run[MOVED].decode(coder)? }
            }
            BEND => {
                let nearer = coder.symbol(&mut models.nearer);
                let Some(change) = models.bend.get_mut(nearer) else {
                    return Err(bad("direction", nearer));
                };
                let size = distance_change(change.decode(coder)?)?;
                let change = if nearer == 1 { -size } else { size };
                let back = models.back.decode(coder)?;
                let back = u32::try_from(back).map_err(|_| bad("bend", usize::MAX))?;
                Operation::Bend { back, change, run: models.run[BEND].decode(coder)? }
            }
            NEAR => Operation::Near {
                gap: models.gap[0].decode(coder)?,
                skip: coder.symbol(&mut models.skip) as u8,
                run: models.run[NEAR].decode(coder)?,
            },
            JUMP => {
                let gap = models.gap[1].decode(coder)?;
                let code = models.decode_code(coder, 0)?;
                let back = coder.symbol(&mut models.ahead);
                let Some(distance) = models.distance.get_mut(back) else {
                    return Err(bad("direction", back));
                };
                let distance = distance.decode(coder)? as i64;
                let distance = if back == 1 { -distance } else { distance };
                Operation::Jump { gap, code, distance, run: models.run[JUMP].decode(coder)? }
            }
            PART => {
                let code = models.decode_code(coder, 1)?.ok_or_else(|| bad("code", SAME))?;
                Operation::Part { code, bits: models.bits.decode(coder)? }
            }
            _ => Operation::End,
        })
    }

    /// Whether the section ended as a writer ends it.
    ///
    /// # Errors
    /// [`FrameError`].
    pub(crate) fn finish(self) -> Result<(), FrameError> {
        self.coder.finish()
    }
}

impl TranscodeModels {
    fn decode_code(
        &mut self,
        coder: &mut SectionReader<'_>,
        role: usize,
    ) -> Result<Option<CodeAt>, FrameError> {
        Ok(Some(match coder.symbol(&mut self.code[role]) {
            FIXED => CodeAt::Fixed,
            KNOWN => CodeAt::Known(self.known.decode(coder)?),
            HERE => CodeAt::Here(self.here.decode(coder)?),
            SOURCE_AFTER => CodeAt::Source(self.place.decode(coder)? as i64),
            SOURCE_BEFORE => CodeAt::Source(-(self.place.decode(coder)? as i64)),
            SAME => return Ok(None),
            other => return Err(bad("code", other)),
        }))
    }
}

/// The size of a change that is coded as one less.
fn distance_change(less: u64) -> Result<i32, FrameError> {
    let size = i32::try_from(less).ok().and_then(|less| less.checked_add(1));
    size.ok_or_else(|| bad("change of a distance", usize::MAX))
}

fn bad(field: &'static str, value: usize) -> FrameError {
    FrameError::Field { field, value: value as u64, allowed: "what FORMAT.md lists" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code() -> impl Strategy<Value = CodeAt> {
        prop_oneof![
            Just(CodeAt::Fixed),
            (0u64..300).prop_map(CodeAt::Known),
            (0u64..600_000).prop_map(CodeAt::Here),
            (-1i64 << 40..1 << 40).prop_map(CodeAt::Source),
        ]
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let run = || prop_oneof![0u64..40, 0u64..100_000];
        prop_oneof![
            (prop_oneof![-3i32..0, 1i32..4, 1i32..32768], run())
                .prop_map(|(change, run)| Operation::Moved { change, run }),
            (0u32..40_000, prop_oneof![-40_000i32..0, 1i32..40_000], run())
                .prop_map(|(back, change, run)| Operation::Bend { back, change, run }),
            (run(), 0u8..16, run()).prop_map(|(gap, skip, run)| Operation::Near { gap, skip, run }),
            (run(), proptest::option::of(code()), -1i64 << 40..1 << 40, run()).prop_map(
                |(gap, code, distance, run)| Operation::Jump { gap, code, distance, run }
            ),
            (code(), run()).prop_map(|(code, bits)| Operation::Part { code, bits }),
        ]
    }

    proptest! {
        #[test]
        fn operations_are_read_as_they_were_written(
            frames in proptest::collection::vec(proptest::collection::vec(operation(), 0..60), 1..4),
        ) {
            let (mut there, mut here) = (TranscodeModels::NEW, TranscodeModels::NEW);
            let mut coder = TranscodeWriter::default();
            for mut operations in frames {
                operations.push(Operation::End);
                let mut section = Vec::new();
                there.encode(&mut coder, &operations, &mut section);
                let mut reader = TranscodeReader::new(&mut here, &section).unwrap();
                for &operation in &operations {
                    prop_assert_eq!(reader.next(), Ok(operation));
                }
                prop_assert_eq!(reader.finish(), Ok(()));
            }
        }

        #[test]
        fn garbage_is_harmless(section in proptest::collection::vec(any::<u8>(), 4..300)) {
            let mut models = TranscodeModels::NEW;
            let mut reader = TranscodeReader::new(&mut models, &section).unwrap();
            for _ in 0..1000 {
                match reader.next() {
                    Ok(Operation::End) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
    }
}
