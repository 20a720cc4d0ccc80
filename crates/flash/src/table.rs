//! The codec's fingerprint table, on flash.

use crate::device::FileDevice;
use crate::{Answers, Entries, Index, IndexError, Keys, Options};
use oncewire_codec::matcher::MaxMatch;
use oncewire_codec::search::{Search, SearchMemory, SearchSettings, Searcher};
use oncewire_codec::table::{FingerprintTable, Markers, NO_OFFSET};
use oncewire_codec::{ConfigError, Geometry};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Bytes of a fingerprint.
const KEY: usize = size_of::<u64>();
/// Bytes of an offset, which is below 2^48.
const VALUE: usize = 6;
/// Buckets and partitions do not fill evenly: bytes of device for each byte of entries.
const ROOM: f64 = 1.15;
/// What the superblocks, the directory and the spill of a small index take besides.
const LEAST: u64 = 8 << 20;

/// A fingerprint table over an [`Index`] with keys of 8 bytes and values of 6: fingerprint to
/// offset. For measurements: look-ups wait for the device.
///
/// A batch of look-ups has its reads in flight together. What the device refuses is forgotten, which
/// a table may do: the first error is reported, and from then on nothing is stored.
pub struct IndexTable {
    index: Index,
    /// Size of the log: what is older is gone.
    capacity: u64,
    failed: bool,
    report: Box<dyn Fn(IndexError) + Send>,
    scratch: RefCell<Scratch>,
}

#[derive(Default)]
struct Scratch {
    keys: Vec<u8>,
    values: Vec<u8>,
    answers: Answers,
    order: Vec<(u64, usize)>,
}

impl std::fmt::Debug for IndexTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexTable").field("index", &self.index).finish_non_exhaustive()
    }
}

impl IndexTable {
    /// A table over an index with keys of 8 and values of 6 bytes, which knows nothing of another
    /// log. `report` is called with the first error of the device.
    ///
    /// # Errors
    ///
    /// If keys or values have another length.
    pub fn new(
        index: Index,
        geometry: Geometry,
        report: impl Fn(IndexError) + Send + 'static,
    ) -> Result<IndexTable, IndexError> {
        let (key, value) = index.lengths();
        if key != KEY {
            return Err(IndexError::Key { len: KEY, expected: key });
        }
        if value != VALUE {
            return Err(IndexError::Value { len: VALUE, expected: value });
        }
        Ok(IndexTable {
            index,
            capacity: geometry.capacity(),
            failed: false,
            report: Box::new(report),
            scratch: RefCell::default(),
        })
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Looks up offsets that are not older than the log, from before each marker.
    fn find(&self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]) {
        assert!(fingerprints.len() == markers.positions.len() && fingerprints.len() == found.len());
        let Scratch { keys, answers, .. } = &mut *self.scratch.borrow_mut();
        keys.clear();
        keys.extend(fingerprints.iter().flat_map(|fingerprint| fingerprint.to_le_bytes()));
        found.fill(NO_OFFSET);
        // Fails only for keys of another length.
        if self.index.get_batch(&Keys(keys), answers).is_err() {
            return;
        }
        for (n, found) in found.iter_mut().enumerate() {
            let Some(value) = answers.value(n) else { continue };
            let mut offset = [0; 8];
            offset[..VALUE].copy_from_slice(value);
            let offset = u64::from_le_bytes(offset);
            let now = offset_of(markers, n);
            if offset < now && now - offset <= self.capacity {
                *found = offset;
            }
        }
    }

    fn store(&mut self, fingerprints: &[u64], markers: Markers<'_>) {
        if self.failed {
            return;
        }
        let Scratch { keys, values, .. } = self.scratch.get_mut();
        keys.clear();
        values.clear();
        for (n, fingerprint) in fingerprints.iter().enumerate() {
            keys.extend(fingerprint.to_le_bytes());
            values.extend(&offset_of(markers, n).to_le_bytes()[..VALUE]);
        }
        if let Err(error) = self.index.insert_batch(&Entries { keys, values }) {
            self.failed = true;
            (self.report)(error);
        }
    }
}

fn offset_of(markers: Markers<'_>, n: usize) -> u64 {
    markers.block + u64::from(markers.positions[n])
}

impl FingerprintTable for IndexTable {
    fn exchange(&mut self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]) {
        self.find(fingerprints, markers, found);
        // Repeats within the batch.
        let order = &mut self.scratch.get_mut().order;
        order.clear();
        order.extend(fingerprints.iter().enumerate().map(|(n, fingerprint)| (*fingerprint, n)));
        order.sort_unstable();
        for pair in order.windows(2) {
            if pair[0].0 == pair[1].0 {
                found[pair[1].1] = offset_of(markers, pair[0].1);
            }
        }
        self.store(fingerprints, markers);
    }

    fn look_up(&self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]) {
        self.find(fingerprints, markers, found);
    }

    fn insert(&mut self, fingerprints: &[u64], markers: Markers<'_>) {
        assert_eq!(fingerprints.len(), markers.positions.len());
        self.store(fingerprints, markers);
    }

    fn entries(&self) -> usize {
        usize::try_from(self.index.capacity()).unwrap_or(usize::MAX)
    }

    fn memory(&self) -> usize {
        usize::try_from(self.index.memory().total()).unwrap_or(usize::MAX)
    }

    fn prefault(&mut self) {
        self.index.load_all();
    }
}

/// Max-match over an [`IndexTable`] in a temporary file, for
/// [`EncoderBuilder::search`](oncewire_codec::EncoderBuilder::search).
///
/// ```no_run
/// use oncewire_codec::Encoder;
/// use oncewire_flash::IndexSearch;
///
/// // A table for a log of 16 GiB takes 2 GiB in memory, or 10 GiB of a disk.
/// let search = IndexSearch::new("/var/tmp", 1600 << 20);
/// let encoder = Encoder::builder().cache(16 << 30).search(search).build()?;
/// # Ok::<(), oncewire_codec::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct IndexSearch {
    directory: PathBuf,
    memory: u64,
    failed: Arc<OnceLock<IndexError>>,
}

impl IndexSearch {
    /// With a file without a name in a directory, and bytes of memory for buffers and filters.
    pub fn new(directory: impl Into<PathBuf>, memory: u64) -> IndexSearch {
        IndexSearch { directory: directory.into(), memory, failed: Arc::default() }
    }

    /// The first error of a table that this search or a clone of it made. From then on, that table
    /// stored nothing.
    #[must_use]
    pub fn error(&self) -> Option<&IndexError> {
        self.failed.get()
    }

    /// Bytes of the file.
    fn flash(settings: &SearchSettings) -> u64 {
        let entries = settings.fingerprint_entries() as f64;
        LEAST + (entries * (KEY + VALUE) as f64 * ROOM) as u64
    }

    fn index(
        &self,
        settings: &SearchSettings,
    ) -> Result<Index, Box<dyn std::error::Error + Send + Sync>> {
        let flash = IndexSearch::flash(settings);
        let options = Options::builder(flash, self.memory).value(VALUE).build()?;
        let device = FileDevice::temporary(&self.directory, flash).map_err(|error| {
            format!("cannot make a file in {}: {error}", self.directory.display())
        })?;
        Ok(Index::open(Box::new(device), &options)?.0)
    }
}

impl Search for IndexSearch {
    fn memory(&self, settings: &SearchSettings) -> SearchMemory {
        SearchMemory { log: settings.cache, table: self.memory, scratch: 0 }
    }

    fn build(
        &self,
        settings: &SearchSettings,
        geometry: Geometry,
    ) -> Result<Searcher, ConfigError> {
        let SearchSettings { kernels, window, fingerprint_key: key, ref sampler, .. } = *settings;
        let index = self.index(settings).map_err(ConfigError::Table)?;
        let failed = self.failed.clone();
        let report = move |error| _ = failed.set(error);
        let table = IndexTable::new(index, geometry, report)
            .map_err(|error| ConfigError::Table(error.into()))?;
        let matcher = MaxMatch::new(sampler.clone(), table, kernels, window, key);
        Ok(Searcher::Matcher(Box::new(matcher)))
    }
}
