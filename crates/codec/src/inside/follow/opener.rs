//! Finds deflate streams in a flow, and decodes them to tokens.
//!
//! Nothing here decides what a frame means: bits that are read as tokens of a code can be written
//! again exactly, whatever they are. So a wrong guess costs time only.

use crate::deflate::{BitReader, Code, Stop};
use crate::inside::follow::container::{
    Framing, Header, MAX_HEADER, PROBE, PROBE_STRIDE, container_header, is_dense,
    is_dense_throughout, signature,
};
use crate::inside::follow::cut::Walk;
use crate::inside::follow::frames::{self, Frame};
use crate::inside::follow::midstream::{Middle, Middles};
use crate::inside::follow::opened::{Among, BATCH, Opened, Part, Spot, fixed};
use crate::inside::follow::piece::Piece;
use crate::inside::follow::streams::{Carrier, StreamCounts};
use std::ops::Range;
use std::sync::Arc;

/// Bytes kept for a signature that continues in the next block.
const SEEK_CARRY: usize = 16;
/// Most bytes between two pieces of a stream.
const MAX_BETWEEN: usize = 64;
/// The same within compressed content that is not searched.
const DENSE_STRIDE: usize = 2 << 10;
/// Blocks up to this length are searched entirely.
const SMALL_BLOCK: usize = 4 << 10;
/// Bytes of a piece that are joined with the carry, to see whether a stream begins: more than its
/// header and that of its first block.
const SEAM: usize = 1 << 10;
/// Bytes searched after the end of a stream, where the next one often begins.
const BEHIND: usize = 2 << 10;
/// Bytes of compressed content that are searched for streams: at first, and after each stream. For
/// every [`GRANT`] bytes of content one more is granted, so that content without streams costs
/// little.
const CREDIT: usize = 256 << 10;
const GRANT: usize = 64;
/// Fewer tokens than this do not prove a stream: the search continues right after its signature.
const EVIDENCE: u64 = 64;

#[derive(Clone, Debug)]
enum State {
    /// Looking for the beginning of a stream.
    Seek,
    /// At the header of a container, which is incomplete.
    Container,
    /// At the header of a deflate block.
    Block,
    /// In a stored block with this many bytes left.
    Stored { left: u64, is_last: bool },
    /// Among tokens.
    Tokens { code: Arc<Code>, spot: Spot, is_last: bool },
    /// In a zstd frame.
    Frame(Frame),
}

/// Position of a flow in the deflate streams that it carries.
#[derive(Debug)]
pub(in crate::inside) struct Opener {
    state: State,
    framing: Framing,
    /// Bytes seen but not used yet; `phase` bits of the first are used.
    carry: Vec<u8>,
    phase: u32,
    /// Bytes seen between two pieces.
    between: Vec<u8>,
    /// End of the carry in the log, if it is contiguous there.
    carry_end: Option<u64>,
    /// The probes saw compressed content. Two of them must see something else to end that.
    is_dense: bool,
    in_doubt: bool,
    /// Bytes to search whatever the probes see.
    near: usize,
    /// Bytes of compressed content that may still be searched.
    credit: usize,
    middles: Middles,
    /// Tokens of this stream.
    seen: u64,
    /// Carrier of this stream, and whether it was counted. `None` if its beginning was not seen.
    carrier: Option<(Carrier, bool)>,
    /// Streams since the counts were last taken.
    pub(in crate::inside) counts: StreamCounts,
    /// It is a stream of HTTP/2.
    is_of_stream: bool,
}

impl Default for Opener {
    fn default() -> Opener {
        Opener {
            state: State::Seek,
            framing: Framing::None,
            carry: Vec::new(),
            phase: 0,
            between: Vec::new(),
            carry_end: None,
            is_dense: false,
            in_doubt: false,
            near: BEHIND,
            credit: CREDIT,
            middles: Middles::default(),
            seen: 0,
            carrier: None,
            counts: StreamCounts::default(),
            is_of_stream: false,
        }
    }
}

/// Result of a step of the opener.
enum Next {
    /// Continue at this bit.
    At(u64),
    /// More bytes are needed, together with those from this bit on.
    More(u64),
}

impl Opener {
    /// Memory of an opener in bytes, at most.
    pub(in crate::inside) const MEMORY: usize =
        size_of::<Opener>() + 2 * (MAX_HEADER + MAX_BETWEEN) + Code::MEMORY;

    /// Of a stream of HTTP/2.
    pub(in crate::inside) fn of_stream() -> Opener {
        Opener { is_of_stream: true, ..Opener::default() }
    }

    /// The same, in a stream of HTTP/2.
    pub(in crate::inside) fn in_stream(self) -> Opener {
        Opener { is_of_stream: true, ..self }
    }

    /// The flow is encrypted: what looks compressed in it is not a part of a stream.
    pub(in crate::inside) fn expect_no_middles(&mut self) {
        self.middles = Middles::NONE;
    }

    /// Opens what follows: a part of a block, which goes to `offset` in the log. Returns where it
    /// stopped: at the end of the part, unless [`Opener::enclosing`] has something.
    pub(in crate::inside) fn open(
        &mut self,
        block: &[u8],
        part: Range<usize>,
        offset: u64,
        opened: &mut Opened,
    ) -> usize {
        self.credit = (self.credit + part.len() / GRANT).min(CREDIT);
        let mut at = part.start;
        while at < part.end && !matches!(self.framing, Framing::Data { .. }) {
            let left = part.end - at;
            let of_piece = |len: u64| left.min(usize::try_from(len).unwrap_or(usize::MAX));
            let taken = self.framing.left().map_or(left, |len| of_piece(*len));
            if taken == 0 {
                at += self.pass_framing(&block[at..part.end]);
                continue;
            }
            at += self.feed(&block[at..at + taken], at, offset, opened);
        }
        at
    }

    /// The DATA frame of HTTP/2 in which a stream begins here, if it does, as the number of its
    /// stream and the bytes left of it.
    pub(in crate::inside) fn enclosing(&mut self) -> Option<(u32, u64)> {
        let Framing::Data { left, stream } = self.framing else { return None };
        self.framing = Framing::None;
        Some((stream, left))
    }

    /// Where a block that holds the first `most` bytes of what follows ends best, if that matters:
    /// see [`Frame::cut`].
    pub(in crate::inside) fn cut(&self, content: &[u8], most: usize) -> Option<usize> {
        match &self.state {
            _ if self.framing != Framing::None => None,
            State::Frame(frame) if self.carry.is_empty() => frame.cut(content, most),
            State::Seek if content.starts_with(&frames::MAGIC) => {
                Frame::default().cut(content, most)
            }
            _ => None,
        }
    }

    /// Its position in a zstd frame, if it is in one.
    pub(in crate::inside::follow) fn walk(&self) -> Option<Walk> {
        match &self.state {
            State::Frame(frame) => Walk::of(frame, &self.carry),
            _ => None,
        }
    }

    /// Sets the flow's position to this place of the log.
    pub(in crate::inside) fn resume(&mut self, among: Among) {
        self.lose();
        let Among { code, spot, is_last, bit } = among;
        self.state = State::Tokens { code, spot, is_last };
        self.phase = (bit % 8) as u32;
        self.seen = EVIDENCE;
    }

    /// Sets the flow's position to this place in a zstd frame.
    pub(in crate::inside) fn resume_frame(&mut self, frame: Frame) {
        self.lose();
        self.state = State::Frame(frame);
        self.seen = EVIDENCE;
    }

    /// Forgets the flow's position.
    pub(in crate::inside) fn lose(&mut self) {
        let (carry, counts) = (std::mem::take(&mut self.carry), std::mem::take(&mut self.counts));
        let Opener { middles, is_of_stream, .. } = *self;
        *self = Opener { carry, counts, middles, is_of_stream, ..Opener::default() };
        self.carry.clear();
    }

    /// Skips the bytes between two pieces of a stream. Returns how many of `content` these are. If
    /// they are something else, the position is lost.
    fn pass_framing(&mut self, content: &[u8]) -> usize {
        let before = self.between.len();
        let seen = content.len().min(MAX_BETWEEN - before);
        self.between.extend_from_slice(&content[..seen]);
        match self.framing.step(&self.between) {
            Header::Length(len) => {
                self.between.clear();
                if self.framing == Framing::None && before > 0 {
                    // It was not framing, and the content taken for it is gone.
                    self.lose();
                }
                len.saturating_sub(before)
            }
            Header::Short if self.between.len() < MAX_BETWEEN => seen,
            _ => {
                self.lose();
                0
            }
        }
    }

    /// Processes a piece that begins at byte `at` of a block. Returns how many of its bytes were
    /// used: all, unless the framing changed.
    fn feed(&mut self, piece: &[u8], at: usize, offset: u64, opened: &mut Opened) -> usize {
        if self.begins_later(piece, &mut opened.joined) {
            self.carry.clear();
            self.phase = 0;
        }
        let carried = self.carry.len();
        let joined = std::mem::take(&mut opened.joined);
        let (data, joined) = if carried == 0 {
            (piece, joined)
        } else {
            let mut joined = joined;
            joined.clear();
            joined.extend_from_slice(&self.carry);
            joined.extend_from_slice(piece);
            (&[][..], joined)
        };
        let data = if carried == 0 { data } else { &joined[..] };
        let is_adjacent = carried == 0 || self.carry_end == Some(offset + at as u64);
        let piece = Piece { data, carried, at, offset, is_adjacent };
        self.carry.clear();
        let mut bit = u64::from(self.phase);
        let used = loop {
            let framing = self.framing;
            let next = match &self.state {
                State::Seek => self.seek(&piece, bit, opened),
                State::Container => self.container(&piece, bit),
                State::Frame(_) => self.frame(&piece, bit, opened),
                State::Block => self.block(&piece, bit, opened),
                State::Stored { .. } => self.stored(&piece, bit),
                State::Tokens { .. } => self.tokens(&piece, bit, opened),
            };
            match next {
                Next::At(next) => {
                    bit = next;
                    if self.framing == framing || self.framing == Framing::None {
                        continue;
                    }
                    // The stream turned out to be chunked: divide what follows again. If it began
                    // in another block, that is not worth the effort.
                    match ((next / 8) as usize).checked_sub(carried) {
                        Some(used) => {
                            self.phase = 0;
                            opened.joined = joined;
                            return used;
                        }
                        None => self.framing = Framing::None,
                    }
                }
                Next::More(next) => {
                    let from = (next / 8) as usize;
                    self.phase = (next % 8) as u32;
                    if piece.data.len() - from.min(piece.data.len()) > MAX_HEADER {
                        self.state = State::Seek;
                        self.framing = Framing::None;
                        bit = (from as u64 + 1) * 8;
                        continue;
                    }
                    self.carry.extend_from_slice(piece.data.get(from..).unwrap_or(&[]));
                    break piece.data.len() - carried;
                }
            }
        };
        self.carry_end = Some(offset + (at + used) as u64);
        if let Some(left) = self.framing.left() {
            *left = left.saturating_sub(used as u64);
        }
        opened.joined = joined;
        used
    }

    /// Whether no stream begins in the carry, nor so early in the piece that its container began in
    /// the carry. Then the piece need not be copied to be joined.
    fn begins_later(&self, piece: &[u8], joined: &mut Vec<u8>) -> bool {
        let carried = self.carry.len();
        let is_seeking = matches!(self.state, State::Seek) && carried > 0;
        if !is_seeking || piece.len() <= SMALL_BLOCK {
            return false;
        }
        joined.clear();
        joined.extend_from_slice(&self.carry);
        joined.extend_from_slice(&piece[..SEAM]);
        signature(joined, 0, carried + MAX_BETWEEN).is_none()
    }

    /// Searches for the beginning of a stream.
    fn seek(&mut self, piece: &Piece<'_>, bit: u64, opened: &mut Opened) -> Next {
        let data = piece.data;
        // Bytes before this were searched, or are a false signature.
        let first = bit.div_ceil(8) as usize;
        let mut at = first;
        self.framing = Framing::None;
        if data.len().saturating_sub(at) <= SMALL_BLOCK {
            self.near = data.len().saturating_sub(at);
        }
        while at < data.len() {
            let mut from = at;
            let searched = if self.near > 0 {
                at = data.len().min(at + self.near);
                self.near -= at - from;
                true
            } else {
                let skips = self.is_dense && !self.in_doubt && self.credit < PROBE_STRIDE;
                at = data.len().min(at + if skips { DENSE_STRIDE } else { PROBE_STRIDE });
                let sees_dense = is_dense(&data[from..at]);
                if sees_dense && !self.is_dense {
                    // The header of its container precedes what was seen.
                    from = from.saturating_sub(PROBE_STRIDE + PROBE).max(first);
                }
                self.in_doubt = self.is_dense && !self.in_doubt && !sees_dense;
                self.is_dense = sees_dense || self.in_doubt;
                let affordable = self.credit.checked_sub(at - from).filter(|_| self.is_dense);
                self.credit = affordable.unwrap_or(self.credit);
                affordable.is_some()
            };
            if let Some((start, framing)) = searched.then(|| signature(data, from, at)).flatten() {
                // Frames are not within frames.
                let is_inner = self.is_of_stream && matches!(framing, Framing::Data { .. });
                self.framing = if is_inner { Framing::None } else { framing };
                self.state = State::Container;
                self.seen = 0;
                return Next::At(start as u64 * 8);
            }
        }
        if let Some(start) = self.middle(piece, bit, opened) {
            return start;
        }
        let keep = data.len().saturating_sub(SEEK_CARRY).max(first);
        Next::More(keep.min(data.len()) as u64 * 8)
    }

    /// Searches compressed content in which no stream begins for a block of one that began before.
    fn middle(&mut self, piece: &Piece<'_>, bit: u64, opened: &mut Opened) -> Option<Next> {
        let rest = piece.data.get((bit / 8) as usize..)?;
        if !self.is_dense || !is_dense_throughout(rest) {
            return None;
        }
        let found = self.middles.find(piece, bit, &mut opened.work)?;
        let (state, start) = match found {
            Middle::Deflate(start) => (State::Block, start),
            Middle::Zstd(start) => (State::Frame(Frame::middle()), start as u64 * 8),
        };
        self.carrier = None;
        self.seen = 0;
        self.state = state;
        Some(Next::At(start))
    }

    /// The carrier of a stream in a container of this kind.
    fn carrier_of(&self, container: Carrier) -> Carrier {
        if self.is_of_stream { Carrier::Http2 } else { container.within(self.framing) }
    }

    /// Reads the header of a container.
    fn container(&mut self, piece: &Piece<'_>, bit: u64) -> Next {
        let start = (bit / 8) as usize;
        if piece.data[start.min(piece.data.len())..].starts_with(&frames::MAGIC) {
            self.state = State::Frame(Frame::default());
            self.carrier = Some((self.carrier_of(Carrier::Zstd), false));
            return Next::At(bit);
        }
        let content = &piece.data[start.min(piece.data.len())..];
        match container_header(content) {
            Header::Length(length) => {
                self.state = State::Block;
                self.carrier = Some((self.carrier_of(Carrier::of(content)), false));
                Next::At((start + length) as u64 * 8)
            }
            Header::Short => Next::More(bit),
            Header::Not => self.broken(start + 1),
        }
    }

    /// Continues in a zstd frame.
    fn frame(&mut self, piece: &Piece<'_>, bit: u64, opened: &mut Opened) -> Next {
        let State::Frame(frame) = &mut self.state else { return Next::At(bit) };
        let at = (bit / 8) as usize;
        // Its place in the log: the carry is the beginning of a header.
        let place =
            (piece.offset + piece.at as u64 + at as u64).saturating_sub(piece.carried as u64);
        let ended = opened.zstd.len();
        let next = frame.step(&piece.data[at.min(piece.data.len())..], place, &mut opened.zstd);
        if opened.zstd.len() > ended {
            self.seen += (opened.zstd.len() - ended) as u64 * EVIDENCE;
            self.count_begun();
        }
        match next {
            frames::Next::At(used) => Next::At((at + used) as u64 * 8),
            frames::Next::More(used) => Next::More((at + used) as u64 * 8),
            frames::Next::End(used) => self.end_block(true, (at + used) as u64 * 8),
            frames::Next::Broken => self.broken(at + 1),
        }
    }

    /// Tokens from which on a stream is counted. Two bytes of encrypted content often look like a
    /// zlib header.
    fn evidence(&self) -> u64 {
        match self.carrier {
            Some((Carrier::Zlib, _)) => 8 * EVIDENCE,
            _ => EVIDENCE,
        }
    }

    /// Counts the stream as begun, once.
    fn count_begun(&mut self) {
        if let Some((carrier, counted @ false)) = &mut self.carrier {
            *counted = true;
            self.counts.of(*carrier).begun += 1;
        }
    }

    /// The stream is false, or has ended: searches for another one from byte `at` on.
    fn broken(&mut self, at: usize) -> Next {
        if let Some((carrier, true)) = self.carrier.take() {
            self.counts.of(carrier).broken += 1;
        }
        self.state = State::Seek;
        self.framing = Framing::None;
        self.seen = 0;
        Next::At(at as u64 * 8)
    }

    /// Reads the header of a deflate block.
    fn block(&mut self, piece: &Piece<'_>, bit: u64, opened: &mut Opened) -> Next {
        let mut reader = BitReader::new(piece.data, bit);
        let start = reader.position();
        let next = (|| {
            let is_last = reader.bits(1)? == 1;
            match reader.bits(2)? {
                0 => {
                    reader.align(0);
                    let (len, not) = (reader.bits(16)?, reader.bits(16)?);
                    if len ^ not != 0xffff {
                        return Err(Stop::Bad);
                    }
                    Ok(State::Stored { left: u64::from(len), is_last })
                }
                1 => {
                    let code = Arc::clone(fixed());
                    Ok(State::Tokens { code, spot: Spot::Fixed, is_last })
                }
                2 => {
                    let header = reader.position();
                    let Opened { codes, work, .. } = opened;
                    let code = codes.read(piece.data, &mut reader, work)?;
                    let spot = piece.spot(header, reader.position());
                    Ok(State::Tokens { code, spot, is_last })
                }
                _ => Err(Stop::Bad),
            }
        })();
        match next {
            Ok(_) if reader.is_past_end() => Next::More(start),
            Ok(state) => {
                self.state = state;
                Next::At(reader.position())
            }
            Err(Stop::Short) => Next::More(start),
            Err(_) => self.broken((bit / 8) as usize + 1),
        }
    }

    /// A block of the stream ended at `bit`.
    fn end_block(&mut self, is_last: bool, bit: u64) -> Next {
        if is_last {
            // A short one counts only if its container's signature is unlikely by chance.
            let is_zlib = self.carrier.is_some_and(|(carrier, _)| carrier == Carrier::Zlib);
            if self.seen >= if is_zlib { EVIDENCE } else { 1 } {
                self.count_begun();
            }
            if let Some((carrier, true)) = self.carrier.take() {
                self.counts.of(carrier).ended += 1;
            }
            self.state = State::Seek;
            self.framing = Framing::None;
            self.near = BEHIND;
            if self.seen >= EVIDENCE {
                self.credit = CREDIT;
            }
            self.is_dense = true;
            self.seen = 0;
            Next::At(bit.div_ceil(8) * 8)
        } else {
            self.state = State::Block;
            Next::At(bit)
        }
    }

    fn stored(&mut self, piece: &Piece<'_>, bit: u64) -> Next {
        let State::Stored { left, is_last } = &mut self.state else { return Next::At(bit) };
        let at = (bit / 8) as usize;
        let step = (*left).min((piece.data.len() - at) as u64);
        *left -= step;
        let end = bit + step * 8;
        if *left > 0 {
            return Next::More(end);
        }
        let is_last = *is_last;
        self.end_block(is_last, end)
    }

    /// Reads tokens to the end of their block, or of the piece.
    fn tokens(&mut self, piece: &Piece<'_>, bit: u64, opened: &mut Opened) -> Next {
        let State::Tokens { code, spot, is_last } = &self.state else { return Next::At(bit) };
        let mut reader = BitReader::new(piece.data, bit);
        let base = (piece.at as u32).wrapping_sub(piece.carried as u32).wrapping_mul(8);
        let first = opened.tokens.len();
        let keeps = opened.may_keep(code, *spot);
        let mut room = if keeps { opened.max_tokens.saturating_sub(first) } else { 0 };
        // Bit after the last token that is kept.
        let mut end_bit = 0;
        let mut seen = 0;
        let stop = loop {
            let before = opened.tokens.len();
            // A token that begins in the carry belongs to another block.
            let is_kept = reader.position() >= piece.carried as u64 * 8 && room > 0;
            let most = match is_kept {
                true => BATCH.min(room),
                false if room > 0 => 1,
                false => BATCH,
            };
            let (tokens, bits) = (&mut opened.tokens, &mut opened.bits);
            let (end, stop) = reader.append_tokens(code, most, base, tokens, bits);
            let count = tokens.len() - before;
            seen += count as u64;
            if is_kept {
                room -= count;
                end_bit = end;
            } else {
                tokens.truncate(before);
                bits.truncate(before);
            }
            if let Some(stop) = stop {
                break stop;
            }
        };
        let position = reader.position();
        self.seen += seen;
        opened.work += seen;
        let end = opened.tokens.len();
        if end > first {
            let (code, spot) = (Arc::clone(code), *spot);
            opened.keep(Part { code, spot, first, end, end_bit });
        }
        let is_last = *is_last;
        if self.seen >= self.evidence() {
            self.count_begun();
        }
        match stop {
            Stop::Short => Next::More(position),
            Stop::End => self.end_block(is_last, reader.position()),
            Stop::Bad => {
                let (first_byte, here) = ((bit / 8) as usize + 1, (position / 8) as usize + 1);
                if self.seen >= EVIDENCE {
                    return self.broken(here);
                }
                // Undone: what follows is read again, and parts must ascend.
                opened.tokens.truncate(first);
                opened.bits.truncate(first);
                if end > first {
                    opened.parts.pop();
                }
                self.broken(first_byte)
            }
        }
    }
}
