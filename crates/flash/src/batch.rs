//! Operations in batches: keys one after another, with values beside them.

use crate::options::Answer;

/// Keys to look up, one after another without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a>(pub &'a [u8]);

/// Entries to insert.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    /// Keys, one after another without gaps.
    pub keys: &'a [u8],
    /// As many values.
    pub values: &'a [u8],
}

/// Answers to a batch of look-ups, in the order of the keys. Used again, it keeps its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    kinds: Vec<Kind>,
    values: Vec<u8>,
    /// Bytes of a value.
    value: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value,
    Absent,
    Unknown,
}

impl Answers {
    /// No answers.
    #[must_use]
    pub fn new() -> Answers {
        Answers::default()
    }

    /// Makes room for the answers of a batch with this many keys and values of this many bytes.
    pub fn reserve(&mut self, keys: usize, value: usize) {
        self.kinds.reserve(keys);
        self.values.reserve(keys * value);
    }

    /// Number of answers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The value for key number `n`, if it was found.
    ///
    /// # Panics
    ///
    /// If there were fewer keys.
    #[must_use]
    pub fn value(&self, n: usize) -> Option<&[u8]> {
        (self.kinds[n] == Kind::Value).then(|| &self.values[n * self.value..][..self.value])
    }

    /// The answer for key number `n`.
    ///
    /// # Panics
    ///
    /// If there were fewer keys.
    #[must_use]
    pub fn get(&self, n: usize) -> Answer {
        match self.kinds[n] {
            Kind::Value => Answer::Value(self.values[n * self.value..][..self.value].to_vec()),
            Kind::Absent => Answer::Absent,
            Kind::Unknown => Answer::Unknown,
        }
    }

    /// All answers.
    pub fn iter(&self) -> impl Iterator<Item = Answer> {
        (0..self.len()).map(|n| self.get(n))
    }

    /// Starts a batch of `len` look-ups, all of them absent.
    pub(crate) fn reset(&mut self, len: usize, value: usize) {
        self.kinds.clear();
        self.kinds.resize(len, Kind::Absent);
        self.values.resize(len * value, 0);
        self.value = value;
    }

    pub(crate) fn set_value(&mut self, n: usize, value: &[u8]) {
        self.kinds[n] = Kind::Value;
        self.values[n * self.value..][..self.value].copy_from_slice(value);
    }

    pub(crate) fn set_unknown(&mut self, n: usize) {
        self.kinds[n] = Kind::Unknown;
    }
}
