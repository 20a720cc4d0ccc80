//! An index of small keys on a flash device, far larger than memory.
//!
//! BufferHash (Anand, *Redundancy Elimination as a Primitive*, 2012, chapter 5; Anand,
//! Muthukrishnan, Kappes, Akella and Nath, NSDI 2010). References such as T:3944 in this crate are
//! to lines of the text of that thesis.
//!
//! The key space is divided into partitions, each with a *super table*: a buffer in memory, a
//! number of full buffers on the device, called *incarnations*, and a Bloom filter in memory for
//! each of these. An insert goes to the buffer; a full buffer is written at once and takes the place
//! of the oldest incarnation. A look-up reads one page of each incarnation whose filter says that it
//! may have the key, the newest first.
//!
//! ```
//! use oncewire_flash::device::Memory;
//! use oncewire_flash::{Answer, Index, Options};
//!
//! let options = Options { memory: 8 << 20, buffers: 1 << 20, ..Options::default() };
//! let device = Memory::new(32 << 20);
//! let (mut index, opened) = Index::open(Box::new(device), &options)?;
//! assert!(opened.created);
//! for n in 0..100_000u64 {
//!     index.insert(&n.to_le_bytes(), &(n * n).to_le_bytes())?;
//! }
//! index.flush()?;
//! assert_eq!(index.get(&7u64.to_le_bytes())?, Answer::Value(49u64.to_le_bytes().to_vec()));
//! assert_eq!(index.get(&200_000u64.to_le_bytes())?, Answer::Absent);
//! index.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`model`] has the cost model and tuning, [`device`] the devices: files and block devices,
//! published devices by their costs, and one that crashes on request. [`mod@format`] has every
//! byte, as `docs/FLASH.md` does. With the feature `codec`, `IndexTable` is a fingerprint table of
//! `oncewire-codec`, and `IndexSearch` an encoder's search over it.

mod allowance;
mod batch;
mod buffer;
pub mod device;
mod error;
mod fields;
mod filter;
pub mod format;
mod index;
pub mod model;
mod options;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "codec")]
mod table;
mod unbuffered;

pub use batch::{Answers, Entries, Keys};
pub use error::{IndexError, OpenError};
pub use format::{Layout, List};
pub use index::{Index, Iter};
pub use options::{
    Answer, Covered, Entry, Eviction, Filter, Filters, Memory, Opened, Options, OptionsBuilder,
    Stats,
};
#[cfg(feature = "codec")]
pub use table::{IndexSearch, IndexTable};
pub use unbuffered::Unbuffered;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
