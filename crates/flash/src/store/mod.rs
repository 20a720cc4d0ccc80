//! Content logs on disk: a directory with a file for each log.
//!
//! A tunnel's two ends keep equal logs of past content. A [`Store`] keeps those of one end on disk,
//! encrypted, so that they survive the process. [`DiskLog`] is one of them: content by offset, and a
//! state of its owner that is committed together with it. `docs/STORE.md` has every byte, and what
//! holds after a crash; [`layout`] implements it.
//!
//! ```
//! use oncewire_flash::store::{NewLog, Peer, Secret, Side, Store};
//!
//! let dir = tempfile::tempdir()?;
//! let key = Secret::derive(b"some secret", b"", "example");
//! let (store, _) = Store::open(&dir.path().join("cache"), Some(&key), 1 << 30)?;
//! let new = NewLog { peer: Peer([7; 32]), side: Side::Decoder, capacity: 1 << 20, ..NewLog::default() };
//! let mut log = store.create(&new, b"empty", 0)?;
//! log.append(0, b"content")?;
//! log.commit(b"one block", 4)?;
//! let name = log.name();
//! drop((log, store));
//!
//! let (store, logs) = Store::open(&dir.path().join("cache"), Some(&key), 1 << 30)?;
//! assert_eq!(logs[0].name, name);
//! let mut log = store.open_log(name)?;
//! let mut bytes = [0; 7];
//! log.read(0, &mut bytes)?;
//! assert_eq!((&bytes, log.owner_state()), (b"content", &b"one block"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod directory;
mod error;
pub mod layout;
mod log;
mod seal;
mod traffic;

pub use directory::{LogFile, NewLog, Store};
pub use error::{AppendError, Failed, HeaderError, LogName, Lost, StoreError};
pub use layout::LogHeader;
pub use log::{DiskLog, Fill, MAX_GAP};
pub use seal::{AesGcm, Cipher, NoRandom, Plain, Secret};

/// Which end of its direction keeps a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that sends.
    #[default]
    Encoder,
    /// The end that receives.
    Decoder,
}

/// Public key of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub [u8; 32]);

/// Identifies a store or a log, random.
pub type Id = [u8; 16];
