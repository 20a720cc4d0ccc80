//! Every byte of a store. `docs/STORE.md` specifies the same; nothing else in the crate knows a
//! layout.

use super::error::HeaderError;
use super::seal::{Cipher, Sealer, Secret, nonce};
use super::{Id, Peer, Side};
use crate::device::PAGE;
use crate::fields::{get, get32, get64, put};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// A unit on disk, in bytes.
pub const UNIT: usize = 65_536;
/// Bytes of a sealed block beside its content: 48 before it, 16 after it.
pub const OVERHEAD: usize = 64;
/// Content of a unit, in bytes.
pub const UNIT_CONTENT: usize = UNIT - OVERHEAD;
/// Most units of a segment.
pub const MAX_UNITS: u32 = 256;
/// Largest capacity of a log, in bytes: 16 TiB.
pub const MAX_CAPACITY: u64 = 1 << 44;
/// Largest state of a log's owner, in bytes.
pub const MAX_STATE: u32 = 1 << 21;
/// Largest description of a log by its owner, in bytes.
pub const MAX_ABOUT: usize = 2048;

const STORE_MAGIC: [u8; 8] = *b"OWSTORE\x01";
const LOG_MAGIC: [u8; 8] = *b"OWCLOG\0\x01";
const BLOCK_MAGIC: [u8; 4] = *b"OWB\x01";

const UNIT_KIND: u8 = 1;
const FOOTER_KIND: u8 = 2;
const STATE_KIND: u8 = 3;

/// Appends the checksum of a page, and checks it.
fn check(page: &[u8]) -> bool {
    get64(page, PAGE - 8) == xxh3_64(&page[..PAGE - 8])
}

fn set_check(page: &mut [u8]) {
    let sum = xxh3_64(&page[..PAGE - 8]);
    put(page, PAGE - 8, &sum.to_le_bytes());
}

/// The file `store` of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePage {
    /// Its id, which all its logs repeat.
    pub id: Id,
    /// Whether its logs are encrypted.
    pub sealed: bool,
    /// Derived from the key: the wrong key is noticed before anything is written.
    pub check: [u8; 16],
}

impl StorePage {
    /// What `check` is for a key: the tag of nothing.
    pub(super) fn check_of(cipher: &dyn Cipher, key: &Secret, id: &Id) -> [u8; 16] {
        let key = Secret::derive(&key.0, id, "oncewire store check 1");
        cipher.seal(&key, nonce(0), id, &mut [])
    }

    /// Writes the page.
    #[must_use]
    pub fn write(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        put(&mut page, 0, &STORE_MAGIC);
        put(&mut page, 8, &self.id);
        page[24] = self.sealed.into();
        put(&mut page, 25, &self.check);
        set_check(&mut page);
        page
    }

    /// Reads the page.
    ///
    /// # Errors
    /// If it is of another program or version, or corrupt.
    pub fn read(page: &[u8]) -> Result<StorePage, HeaderError> {
        begins_with(page, STORE_MAGIC)?;
        if page[24] > 1 {
            return Err(HeaderError::Corrupt);
        }
        Ok(StorePage { id: get(page, 8), sealed: page[24] == 1, check: get(page, 25) })
    }
}

fn begins_with(page: &[u8], magic: [u8; 8]) -> Result<(), HeaderError> {
    if page.len() < PAGE {
        return Err(HeaderError::Truncated);
    }
    if page[..7] != magic[..7] {
        return Err(HeaderError::Foreign);
    }
    if page[7] != magic[7] {
        return Err(HeaderError::Version(page[7]));
    }
    if check(&page[..PAGE]) { Ok(()) } else { Err(HeaderError::Corrupt) }
}

/// What a log's file is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of content that are always kept.
    pub capacity: u64,
    /// Units of a segment.
    pub units: u32,
    /// Segments, of which four are for what is being written.
    pub segments: u64,
    /// Largest state, in bytes.
    pub state: u32,
}

impl Shape {
    /// Segments beside those that the capacity needs: the one being written, two that may be
    /// written before the next commit, and one for the part of a segment at the low end.
    const SPARE: u64 = 4;

    /// Of a log of `capacity` bytes, with segments of `units` units; 0 lets the capacity choose.
    /// `None` if a value is out of range.
    #[must_use]
    pub fn new(capacity: u64, units: u32, state: u32) -> Option<Shape> {
        let sixteenth = (capacity / UNIT_CONTENT as u64 / 16).clamp(8, MAX_UNITS.into());
        let units = if units == 0 { sixteenth.next_power_of_two() as u32 } else { units };
        let valid = (1..=MAX_CAPACITY).contains(&capacity)
            && (1..=MAX_UNITS).contains(&units)
            && (1..=MAX_STATE).contains(&state);
        valid.then(|| {
            let segment = u64::from(units) * UNIT_CONTENT as u64;
            let segments = capacity.div_ceil(segment) + Shape::SPARE;
            Shape { capacity, units, segments, state }
        })
    }

    /// Content of a segment, in bytes.
    #[must_use]
    pub fn segment(self) -> u64 {
        u64::from(self.units) * UNIT_CONTENT as u64
    }

    /// Lowest offset that is kept of a log whose content ends at `tail`.
    #[must_use]
    pub fn low(self, tail: u64) -> u64 {
        let kept = self.segments - Shape::SPARE;
        (tail / self.segment()).saturating_sub(kept) * self.segment()
    }

    /// Offset up to which units may be written after a commit at `tail`.
    #[must_use]
    pub fn limit(self, tail: u64) -> u64 {
        (tail / self.segment() + 3) * self.segment()
    }

    /// Bytes of a state on disk, at most.
    fn state_len(self) -> usize {
        let most = OVERHEAD + STATE_FIXED + self.units as usize * 8 + UNIT_CONTENT;
        (most + self.state as usize).next_multiple_of(PAGE)
    }

    /// Place of a state by its number.
    #[must_use]
    pub fn state_at(self, number: u64) -> u64 {
        2 * PAGE as u64 + number % 2 * self.state_len() as u64
    }

    /// Place of a segment's footer.
    #[must_use]
    pub fn footer_at(self, segment: u64) -> u64 {
        self.state_at(0) + 2 * self.state_len() as u64 + segment % self.segments * PAGE as u64
    }

    /// Place of the unit that begins at `offset`.
    #[must_use]
    pub fn unit_at(self, offset: u64) -> u64 {
        let (segment, unit) = (offset / self.segment(), self.unit_of(offset) as u64);
        let first = self.footer_at(0) + self.segments * PAGE as u64;
        first + (segment % self.segments * u64::from(self.units) + unit) * UNIT as u64
    }

    /// Number of the unit within its segment.
    #[must_use]
    pub fn unit_of(self, offset: u64) -> usize {
        (offset % self.segment()) as usize / UNIT_CONTENT
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(self) -> u64 {
        let segment = u64::from(self.units) * UNIT as u64;
        self.footer_at(0) + self.segments * (PAGE as u64 + segment)
    }
}

/// Both header pages of a log's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// Its store.
    pub store: Id,
    /// Its id, which is its file's name, too.
    pub id: Id,
    /// Whether it is encrypted.
    pub sealed: bool,
    /// Which end of its direction keeps it.
    pub side: Side,
    /// Public key of the peer.
    pub peer: Peer,
    /// Sizes.
    pub shape: Shape,
    /// When it was made: seconds since 1970.
    pub created: u64,
    /// Data key and description, encrypted with the store's key.
    pub(super) wrapped: Vec<u8>,
    pub(super) wrap_tag: [u8; 16],
}

const WRAPPED: usize = 152;

impl LogHeader {
    fn wrap_key(&self, store: &Secret) -> Secret {
        Secret::derive(&store.0, &self.id, "oncewire store wrap 1")
    }

    /// All fields in the clear are associated data.
    fn aad(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        self.fields(&mut page);
        page.truncate(136);
        page
    }

    /// Encrypts the data key and the description. Once for each header, whose id is random.
    pub(super) fn wrap(
        &mut self,
        cipher: &dyn Cipher,
        store: &Secret,
        data: &Secret,
        about: &[u8],
    ) {
        self.wrapped = [&data.0[..], about].concat();
        let (key, aad) = (self.wrap_key(store), self.aad());
        self.wrap_tag = cipher.seal(&key, nonce(0), &aad, &mut self.wrapped);
    }

    /// The data key and the description; `None` if the key is another one.
    pub(super) fn unwrap(&self, cipher: &dyn Cipher, store: &Secret) -> Option<(Secret, Vec<u8>)> {
        let mut content = self.wrapped.clone();
        let (key, aad) = (self.wrap_key(store), self.aad());
        let opens = cipher.open(&key, nonce(0), &aad, self.wrap_tag, &mut content);
        (opens && content.len() >= 32).then(|| (Secret(get(&content, 0)), content[32..].to_vec()))
    }

    fn fields(&self, page: &mut [u8]) {
        put(page, 0, &LOG_MAGIC);
        put(page, 8, &self.store);
        put(page, 24, &self.id);
        page[40] = self.sealed.into();
        page[41] = match self.side {
            Side::Encoder => 0,
            Side::Decoder => 1,
        };
        put(page, 44, &self.shape.units.to_le_bytes());
        put(page, 48, &self.shape.capacity.to_le_bytes());
        put(page, 56, &self.shape.segments.to_le_bytes());
        put(page, 64, &self.created.to_le_bytes());
        put(page, 72, &self.peer.0);
        put(page, 104, &self.shape.state.to_le_bytes());
        put(page, 108, &(self.wrapped.len() as u32).to_le_bytes());
    }

    /// Writes the page.
    #[must_use]
    pub fn write(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        self.fields(&mut page);
        put(&mut page, 136, &self.wrap_tag);
        put(&mut page, WRAPPED, &self.wrapped);
        set_check(&mut page);
        page
    }

    /// Reads the page.
    ///
    /// # Errors
    /// If it is of another program or version, or corrupt.
    pub fn read(page: &[u8]) -> Result<LogHeader, HeaderError> {
        begins_with(page, LOG_MAGIC)?;
        let side = match page[41] {
            0 => Side::Encoder,
            1 => Side::Decoder,
            _ => return Err(HeaderError::Corrupt),
        };
        let shape = Shape::new(get64(page, 48), get32(page, 44), get32(page, 104))
            .filter(|shape| shape.units == get32(page, 44) && shape.segments == get64(page, 56));
        let wrapped = get32(page, 108) as usize;
        let (Some(shape), 0..=1, 32..) = (shape, page[40], wrapped) else {
            return Err(HeaderError::Corrupt);
        };
        if wrapped > 32 + MAX_ABOUT {
            return Err(HeaderError::Corrupt);
        }
        Ok(LogHeader {
            store: get(page, 8),
            id: get(page, 24),
            sealed: page[40] == 1,
            side,
            peer: Peer(get(page, 72)),
            shape,
            created: get64(page, 64),
            wrapped: page[WRAPPED..WRAPPED + wrapped].to_vec(),
            wrap_tag: get(page, 136),
        })
    }
}

/// What a block is, and where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The unit that begins at an offset.
    Unit(u64),
    /// The footer of a segment.
    Footer(u64),
    /// The state with this number.
    State(u64),
}

impl Place {
    fn fields(self) -> (u8, u64) {
        match self {
            Place::Unit(offset) => (UNIT_KIND, offset),
            Place::Footer(segment) => (FOOTER_KIND, segment),
            Place::State(number) => (STATE_KIND, number),
        }
    }
}

/// Where the content of a sealed block lies in it.
pub(super) fn content_of(block: &[u8]) -> Range<usize> {
    48..block.len() - 16
}

/// Seals a block whose content is in its place. Returns the first 8 bytes of its tag.
pub(super) fn seal(sealer: &mut Sealer, log: &Id, place: Place, block: &mut [u8]) -> u64 {
    let (salt, counter) = sealer.next();
    let (kind, number) = place.fields();
    let content = content_of(block);
    block[..content.start].fill(0);
    put(block, 0, &BLOCK_MAGIC);
    block[4] = kind;
    put(block, 8, &number.to_le_bytes());
    put(block, 16, &salt);
    put(block, 32, &counter.to_le_bytes());
    put(block, 40, &(content.len() as u32).to_le_bytes());
    let aad = aad(log, block);
    let end = content.end;
    let tag = sealer.seal(counter, &aad, &mut block[content]);
    put(block, end, &tag);
    get64(&tag, 0)
}

fn aad(log: &Id, block: &[u8]) -> [u8; 64] {
    let mut aad = [0; 64];
    aad[..16].copy_from_slice(log);
    aad[16..].copy_from_slice(&block[..48]);
    aad
}

/// The number of a block of this kind and version, and its length; `None` if it is something else.
/// Nothing of that is verified.
pub(super) fn peek_state(block: &[u8]) -> Option<(u64, usize)> {
    let is_one = block.len() >= OVERHEAD && block[..4] == BLOCK_MAGIC && block[4] == STATE_KIND;
    is_one.then(|| (get64(block, 8), get32(block, 40) as usize + OVERHEAD))
}

/// Opens a block in place, if it is the one that belongs there. Returns the first 8 bytes of its tag.
pub(super) fn open(sealer: &Sealer, log: &Id, place: Place, block: &mut [u8]) -> Option<u64> {
    let (kind, number) = place.fields();
    let content = content_of(block);
    if block[..4] != BLOCK_MAGIC
        || block[4] != kind
        || get64(block, 8) != number
        || get32(block, 40) as usize != content.len()
    {
        return None;
    }
    let aad = aad(log, block);
    let (salt, counter) = (get(block, 16), get64(block, 32));
    let tag: [u8; 16] = get(block, content.end);
    sealer.open(salt, counter, &aad, tag, &mut block[content]).then(|| get64(&tag, 0))
}

/// Content of a footer: which units of a segment count, by the first 8 bytes of their tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    /// Number of the newest state when it was written.
    pub(super) number: u64,
    /// When that was: seconds since 1970.
    pub(super) time: u64,
    /// 0: nothing was written.
    pub(super) tags: Vec<u64>,
}

impl Footer {
    pub(super) fn write(&self, content: &mut [u8]) {
        content.fill(0);
        put(content, 0, &self.number.to_le_bytes());
        put(content, 8, &self.time.to_le_bytes());
        for (n, tag) in self.tags.iter().enumerate() {
            put(content, 16 + 8 * n, &tag.to_le_bytes());
        }
    }

    pub(super) fn read(shape: Shape, content: &[u8]) -> Footer {
        let tags = (0..shape.units as usize).map(|n| get64(content, 16 + 8 * n)).collect();
        Footer { number: get64(content, 0), time: get64(content, 8), tags }
    }
}

const STATE_FIXED: usize = 48;

/// Content of a state: everything that changes with a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// End of the content.
    pub(super) tail: u64,
    /// Content below this does not count.
    pub(super) low: u64,
    /// When it was written: seconds since 1970.
    pub(super) time: u64,
    /// Bytes appended since the log was made.
    pub(super) written: u64,
    /// Bytes that could not be kept since the log was made.
    pub(super) lost: u64,
    /// Of the units of the segment that `tail` lies in.
    pub(super) tags: Vec<u64>,
    /// Content of the unit that `tail` lies in, up to `tail`.
    pub(super) last: Vec<u8>,
    /// The owner's.
    pub(super) owner: Vec<u8>,
}

impl State {
    /// Length of its sealed block, in bytes.
    pub(super) fn len(&self) -> usize {
        OVERHEAD + STATE_FIXED + self.tags.len() * 8 + self.last.len() + self.owner.len()
    }

    pub(super) fn write(&self, content: &mut [u8]) {
        for (n, field) in
            [self.tail, self.low, self.time, self.written, self.lost].into_iter().enumerate()
        {
            put(content, 8 * n, &field.to_le_bytes());
        }
        put(content, 40, &(self.owner.len() as u32).to_le_bytes());
        let mut at = STATE_FIXED;
        for tag in &self.tags {
            put(content, at, &tag.to_le_bytes());
            at += 8;
        }
        put(content, at, &self.last);
        put(content, at + self.last.len(), &self.owner);
    }

    /// `None` if sizes contradict each other: it was sealed by somebody else.
    pub(super) fn read(shape: Shape, content: &[u8]) -> Option<State> {
        let fixed = content.get(..STATE_FIXED)?;
        let (tail, low) = (get64(fixed, 0), get64(fixed, 8));
        let last = (tail % shape.segment()) as usize % UNIT_CONTENT;
        let (tags, rest) = content[STATE_FIXED..].split_at_checked(shape.units as usize * 8)?;
        let (last, owner) = rest.split_at_checked(last)?;
        let valid = low <= tail
            && tail < u64::MAX >> 1
            && owner.len() == get32(fixed, 40) as usize
            && owner.len() <= shape.state as usize;
        valid.then(|| State {
            tail,
            low: low.max(shape.low(tail)),
            time: get64(fixed, 16),
            written: get64(fixed, 24),
            lost: get64(fixed, 32),
            tags: tags.chunks_exact(8).map(|tag| get64(tag, 0)).collect(),
            last: last.to_vec(),
            owner: owner.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_fill_the_file() {
        for (capacity, units) in [(1, 1), (1 << 20, 0), (100 << 20, 0), (1 << 30, 256), (7, 3)] {
            let shape = Shape::new(capacity, units, 1000).expect("in range");
            assert!(shape.state_at(1) > shape.state_at(0));
            assert_eq!(shape.state_at(3), shape.state_at(1));
            let states = shape.state_at(1) - shape.state_at(0);
            assert_eq!(shape.footer_at(0), shape.state_at(1) + states);
            let last = shape.segments * shape.segment() - 1;
            let start = last / UNIT_CONTENT as u64 * UNIT_CONTENT as u64;
            assert_eq!(shape.unit_at(start) + UNIT as u64, shape.size());
            assert_eq!(shape.unit_at(last + 1), shape.unit_at(0));
            assert_eq!(
                shape.footer_at(shape.segments - 1) + PAGE as u64,
                shape.unit_at(0),
                "{shape:?}"
            );
            // The capacity is kept, and what may be written overwrites nothing that counts.
            for tail in [0, 1, capacity, 10 * last, 10 * last + 77] {
                assert!(tail < capacity || tail - shape.low(tail) >= capacity, "{tail}");
                let overwritten =
                    shape.limit(tail).saturating_sub(shape.segments * shape.segment());
                assert!(overwritten <= shape.low(tail), "{tail}");
                assert!(shape.limit(tail) - tail > 2 * shape.segment());
            }
        }
        assert_eq!(Shape::new(0, 0, 1), None);
        assert_eq!(Shape::new(MAX_CAPACITY + 1, 0, 1), None);
        assert_eq!(Shape::new(1, MAX_UNITS + 1, 1), None);
        assert_eq!(Shape::new(1, 0, MAX_STATE + 1), None);
        let large = Shape::new(200 << 30, 0, MAX_STATE).expect("in range");
        assert_eq!(large.segment(), 16_760_832);
        assert!(large.size() as f64 / (200u64 << 30) as f64 <= 1.003);
    }
}
