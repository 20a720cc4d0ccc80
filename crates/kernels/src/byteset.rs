//! A set of byte values, laid out for membership tests of whole vectors.

/// A set of byte values: EndRE's SAMPLETABLE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ByteSet {
    /// For byte `b`: bit `(b >> 4) & 7` of `rows[b >> 7][b & 15]` is set if `b` is a member. One
    /// 16-byte shuffle per half tests a whole vector.
    rows: [[u8; 16]; 2],
}

impl ByteSet {
    /// The empty set.
    pub const fn new() -> ByteSet {
        ByteSet { rows: [[0; 16]; 2] }
    }

    /// Adds one byte value.
    pub fn insert(&mut self, byte: u8) {
        self.rows[usize::from(byte >> 7)][usize::from(byte & 15)] |= 1 << ((byte >> 4) & 7);
    }

    /// Whether `byte` is in the set.
    #[inline(always)]
    pub fn contains(&self, byte: u8) -> bool {
        self.rows[usize::from(byte >> 7)][usize::from(byte & 15)] >> ((byte >> 4) & 7) & 1 == 1
    }

    /// How many byte values the set holds, 0..=256.
    pub fn len(&self) -> usize {
        self.rows.as_flattened().iter().map(|row| row.count_ones() as usize).sum()
    }

    /// Whether the set is empty; then no marker is ever found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255u8).filter(|&byte| self.contains(byte))
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn rows(&self) -> &[[u8; 16]; 2] {
        &self.rows
    }
}

impl Default for ByteSet {
    fn default() -> Self {
        ByteSet::new()
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> ByteSet {
        let mut set = ByteSet::new();
        for byte in bytes {
            set.insert(byte);
        }
        set
    }
}

impl std::fmt::Debug for ByteSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
