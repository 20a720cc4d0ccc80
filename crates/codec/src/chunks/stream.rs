//! A flow: where its chunks begin and end, and where they lie.

use super::{CUT_BELOW, Gear, HEADER, MARGIN, MAX, MIN, Place, WINDOW, held};
use crate::domain::Domain;
use crate::log::{Geometry, Log};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the chunks of a flow begin and end, and what of it the log holds in one piece.
///
/// An encoder that shares chunks across domains ([`Sharing::Chunks`](crate::Sharing::Chunks)) needs
/// one for each flow of bytes: [`crate::Encoder::encode_stream`].
#[derive(Clone, Debug)]
pub struct Stream {
    /// Distinguishes the flows of a process.
    id: u64,
    domain: Domain,
    /// Who sends it, to count the senders of chunks; `None` if no chunks of it are shared.
    pub(super) client: Option<u64>,
    /// Bytes encoded so far.
    pub(super) position: u64,
    /// Content below is not shared.
    pub(super) header_end: u64,
    /// Bytes scanned for cuts: those encoded, and some ahead.
    scanned: u64,
    /// Gear hash of the last bytes scanned, from `hashed` on.
    hash: u64,
    hashed: u64,
    /// The last cut found.
    last_cut: Option<u64>,
    /// Cuts from the beginning of the first chunk that is not settled, ascending.
    pub(super) cuts: VecDeque<u64>,
    /// What is known of the chunks that begin at the cuts, as far as they were looked at.
    pub(super) seen: VecDeque<Seen>,
    /// Where the last settled chunk ended, and whether it looked compressed.
    pub(super) before: Option<(u64, bool)>,
    /// The last settled chunks that enough others have sent, without a gap.
    pub(super) known: Range<u64>,
    /// Where the end of the flow lies in a log: each piece up to the next, the last to the end of
    /// what was encoded. Content of other flows lies between.
    pieces: VecDeque<Piece>,
}

/// A chunk that was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The keyed hash of its content.
    pub(super) hash: u64,
    /// It looks compressed, or what follows it does.
    pub(super) is_dense: bool,
}

/// Pieces that are remembered. A chunk in more of them is not found again.
const PIECES: usize = 4;

/// Positions from `from` on lie in the log from `offset` on.
#[derive(Clone, Copy, Debug)]
struct Piece {
    log: u64,
    from: u64,
    offset: u64,
}

impl Stream {
    /// Bytes behind a block that help to find chunks of it: see
    /// [`Encoder::encode_ahead`](crate::Encoder::encode_ahead).
    pub const AHEAD: usize = (MARGIN + MAX) as usize;

    /// The beginning of a flow of a domain, which is a client of its own.
    pub fn new(domain: Domain) -> Stream {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Stream {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            domain,
            client: Some(domain.0),
            position: 0,
            header_end: HEADER,
            scanned: 0,
            hash: 0,
            hashed: 0,
            last_cut: None,
            cuts: VecDeque::new(),
            seen: VecDeque::new(),
            before: None,
            known: 0..0,
            pieces: VecDeque::new(),
        }
    }

    /// The beginning of a flow of a domain that belongs to a client. Domains that one user can have
    /// as many of as it likes are one client: a chunk is shared once several clients have sent it.
    pub fn of_client(domain: Domain, client: u64) -> Stream {
        Stream { client: Some(client), ..Stream::new(domain) }
    }

    /// As [`Stream::new`]; but nothing of the flow is shared, in either direction: it refers to no
    /// chunk of another domain, and no other domain to one of its chunks.
    pub fn unshared(domain: Domain) -> Stream {
        Stream { client: None, ..Stream::new(domain) }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.client.is_some()
    }

    /// A number that no other flow of the process has, above 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The domain.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// A message begins here: a request or response, as far as the caller can tell. Its first bytes
    /// may be secret.
    pub fn begin_message(&mut self) {
        self.header_end = self.position + HEADER;
    }

    /// Finds the cuts in `content`, which begins where the encoded content ends.
    pub(super) fn scan(&mut self, gear: &Gear, content: &[u8]) {
        let end = self.position + content.len() as u64;
        if self.scanned < self.position {
            // Something was encoded without a scan.
            self.start_hash(self.position);
            self.last_cut = None;
            self.forget_cuts();
        }
        while self.scanned < end {
            // The next cut is at least a chunk away: the hash needs the window around it only.
            let skip = self.last_cut.map_or(0, |cut| cut + MIN - WINDOW / 2);
            if self.scanned < skip {
                self.start_hash(skip.min(end));
                continue;
            }
            let bytes = &content[(self.scanned - self.position) as usize..];
            // Bytes until the hash covers a whole window.
            let least = (self.hashed + WINDOW).saturating_sub(self.scanned) as usize;
            let mut hash = self.hash;
            let mut found = None;
            for (at, &byte) in bytes.iter().enumerate() {
                hash = (hash << 1).wrapping_add(gear.0[usize::from(byte)]);
                if hash < CUT_BELOW && at + 1 >= least {
                    found = Some(at as u64 + 1);
                    break;
                }
            }
            self.hash = hash;
            match found {
                Some(more) => {
                    self.scanned += more;
                    let cut = self.scanned - WINDOW / 2;
                    self.last_cut = Some(cut);
                    self.cuts.push_back(cut);
                }
                None => self.scanned = end,
            }
        }
    }

    /// Nothing before `position` matters for the next cut.
    pub(super) fn start_hash(&mut self, position: u64) {
        (self.scanned, self.hash, self.hashed) = (position, 0, position);
    }

    /// The chunks so far are not settled any more.
    pub(super) fn forget_cuts(&mut self) {
        self.cuts.clear();
        self.seen.clear();
    }

    /// Remembers what was seen of the `nth` chunk, if all before it are.
    pub(super) fn note_seen(&mut self, nth: usize, seen: Seen) {
        if self.seen.len() == nth {
            self.seen.push_back(seen);
        }
    }

    /// The first chunk is settled.
    pub(super) fn settle(&mut self, end: u64, is_dense: bool) {
        self.cuts.pop_front();
        self.seen.pop_front();
        self.before = Some((end, is_dense));
    }

    /// How much of the `len` bytes that follow to encode as one block: up to the last cut in them,
    /// so that no chunk is divided; all if there is none.
    pub(super) fn whole_chunks(&self, len: usize) -> usize {
        let end = self.position + len as u64;
        let cut = self.cuts.iter().rev().find(|&&cut| cut <= end);
        cut.and_then(|cut| cut.checked_sub(self.position))
            .filter(|&whole| whole >= MIN)
            .map_or(len, |whole| whole as usize)
    }

    /// The block that follows was encoded, at `offset` of a log.
    pub(super) fn advance(&mut self, log: u64, geometry: Geometry, offset: u64, len: u64) {
        // One piece never crosses the end of the ring.
        let continues = geometry.generation_start(offset) != offset
            && self.pieces.back().is_some_and(|piece| {
                piece.log == log && piece.offset + (self.position - piece.from) == offset
            });
        if !continues && len > 0 {
            if self.pieces.len() == PIECES {
                self.pieces.pop_front();
            }
            self.pieces.push_back(Piece { log, from: self.position, offset });
        }
        self.position += len;
    }

    /// The piece in which a position lies that was encoded.
    pub(super) fn piece_of(&self, log: u64, position: u64) -> Option<usize> {
        let after = self.pieces.partition_point(|piece| piece.from <= position);
        let at = after.checked_sub(1)?;
        (self.pieces[at].log == log).then_some(at)
    }

    pub(super) fn offset_in(&self, piece: usize, position: u64) -> u64 {
        self.pieces[piece].offset + (position - self.pieces[piece].from)
    }

    /// Where the positions `from..to` lie in the log; `None` if in more than two places.
    pub(super) fn place_of(&self, log: u64, from: u64, to: u64) -> Option<Place> {
        let (first, last) = (self.piece_of(log, from)?, self.piece_of(log, to - 1)?);
        (last <= first + 1).then(|| Place {
            start: self.offset_in(first, from),
            end: self.offset_in(last, to - 1) + 1,
            is_whole: first == last,
        })
    }

    /// Reads positions `from..to` from the log, for a block at `offset`. Returns whether it has
    /// them.
    pub(super) fn read(
        &self,
        log: &Log,
        id: u64,
        range: Range<u64>,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut from = range.start;
        while from < range.end {
            let Some(piece) = self.piece_of(id, from) else { return false };
            let end = self.pieces.get(piece + 1).map_or(range.end, |next| next.from.min(range.end));
            let source = self.offset_in(piece, from);
            let Some(bytes) = held(log, source, end - from, offset) else { return false };
            out.extend_from_slice(bytes);
            from = end;
        }
        true
    }
}
