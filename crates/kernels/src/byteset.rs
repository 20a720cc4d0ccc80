//! A set of byte values with the lookup tables that SIMD membership tests need.

/// A set of byte values: EndRE's SAMPLETABLE.
#[derive(Clone, PartialEq, Eq)]
pub struct ByteSet {
    member: [bool; 256],
    /// For byte `b`: bit `(b >> 4) & 7` of `rows[b >> 7][b & 15]` is set if `b` is a member. One 16-byte shuffle per half
    /// tests a whole vector.
    rows: [[u8; 16]; 2],
}

impl ByteSet {
    /// The empty set.
    pub const fn new() -> ByteSet {
        ByteSet { member: [false; 256], rows: [[0; 16]; 2] }
    }

    /// Adds one byte value.
    pub fn insert(&mut self, byte: u8) {
        self.member[usize::from(byte)] = true;
        self.rows[usize::from(byte >> 7)][usize::from(byte & 15)] |= 1 << ((byte >> 4) & 7);
    }

    /// Whether `byte` is in the set.
    #[inline(always)]
    pub fn contains(&self, byte: u8) -> bool {
        self.member[usize::from(byte)]
    }

    /// How many byte values the set holds, 0..=256.
    pub fn len(&self) -> usize {
        self.member.iter().filter(|&&member| member).count()
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
