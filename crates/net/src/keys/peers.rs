//! The peers that an end accepts.

use super::file::{self, FileError, FileKind};
use super::{PublicKey, PublicKeyError};
use crate::sync::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::watch;

/// Longest name of a peer, in bytes.
pub const MAX_PEER_NAME: usize = 64;

/// One accepted peer, written `KEY [NAME]`. The name is one word of at most 64 bytes without control
/// characters; it appears in log lines and `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// Its name.
    pub name: Option<String>,
}

/// A text that is not a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The key is wrong.
    #[error(transparent)]
    Key(#[from] PublicKeyError),
    /// The name is too long or has control characters.
    #[error(
        "a peer's name has at most {MAX_PEER_NAME} bytes and no control characters; this one has {len} bytes"
    )]
    Name {
        /// Its length in bytes.
        len: usize,
    },
    /// More than a key and a name.
    #[error("expected a key and a name of one word; start a comment with #")]
    Excess,
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Peer, PeerError> {
        let mut words = text.split_whitespace();
        let key = words.next().unwrap_or_default().parse()?;
        let name = words.next().map(str::to_string);
        if let Some(name) = name
            .as_ref()
            .filter(|name| name.len() > MAX_PEER_NAME || name.contains(char::is_control))
        {
            return Err(PeerError::Name { len: name.len() });
        }
        match words.next() {
            Some(_) => Err(PeerError::Excess),
            None => Ok(Peer { key, name }),
        }
    }
}

impl From<PublicKey> for Peer {
    fn from(key: PublicKey) -> Peer {
        Peer { key, name: None }
    }
}

/// A file of authorized peers that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeersError {
    /// The file cannot be read, or others can change or replace it.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is not a peer.
    #[error("{}, line {line}: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        error: PeerError,
    },
    /// A key occurs twice.
    #[error("{}, line {line}: the same key as on line {first}", path.display())]
    Repeated {
        /// The file.
        path: PathBuf,
        /// The second line, counted from 1.
        line: usize,
        /// The first line.
        first: usize,
    },
}

type PeerMap = BTreeMap<PublicKey, Option<Arc<str>>>;

/// The peers that an end accepts: those listed in the configuration or on the command line, and
/// those in a file. A clone is a second handle on the same set.
///
/// The file has one `KEY [NAME]` per line. Empty lines are ignored, and so is everything from a word
/// that starts with `#`. It may have 1 MiB, and is refused if its group or others can change it or
/// write to a directory above it, or if it belongs to another user. A peer that is both listed and
/// in the file takes its name from the file.
///
/// A change takes effect at once: the next handshake uses it. Open sessions are for the tunnel to
/// close: it waits on [`AuthorizedPeers::subscribe`] and then asks [`AuthorizedPeers::contains`].
/// Subscribe before you ask: a key can be revoked between a handshake and the start of its session.
#[derive(Clone)]
pub struct AuthorizedPeers(Arc<Shared>);

struct Shared {
    file: Option<PathBuf>,
    /// Peers that are not from the file. Locked during a change, so that the later of two wins with
    /// what it read. Handshakes do not wait for it.
    listed: Mutex<PeerMap>,
    all: RwLock<PeerMap>,
    generation: watch::Sender<u64>,
}

/// What a reload changed. A peer of which only the name changed is in neither list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// Keys that are accepted now and were not before.
    pub added: Vec<PublicKey>,
    /// Keys that are no longer accepted.
    pub removed: Vec<PublicKey>,
}

impl AuthorizedPeers {
    /// Exactly these peers, without a file. An empty set accepts no peer.
    pub fn new(listed: impl IntoIterator<Item = Peer>) -> AuthorizedPeers {
        AuthorizedPeers::build(map(listed), None, PeerMap::new())
    }

    /// These peers and those in the file.
    ///
    /// # Errors
    /// [`PeersError`] if the file cannot be used.
    pub fn with_file(
        listed: impl IntoIterator<Item = Peer>,
        file: &Path,
    ) -> Result<AuthorizedPeers, PeersError> {
        Ok(AuthorizedPeers::build(map(listed), Some(file.to_path_buf()), read_peers(file)?))
    }

    fn build(listed: PeerMap, file: Option<PathBuf>, in_file: PeerMap) -> AuthorizedPeers {
        let all = merged(&listed, in_file);
        AuthorizedPeers(Arc::new(Shared {
            file,
            listed: Mutex::new(listed),
            all: RwLock::new(all),
            generation: watch::Sender::new(0),
        }))
    }

    /// Reads the file again. Blocks while it reads.
    ///
    /// # Errors
    /// [`PeersError`] if the file cannot be used; the set stays as it was.
    pub fn reload(&self) -> Result<Reload, PeersError> {
        self.change(None)
    }

    /// Replaces the listed peers and reads the file again.
    ///
    /// # Errors
    /// As [`AuthorizedPeers::reload`].
    pub fn replace(&self, listed: impl IntoIterator<Item = Peer>) -> Result<Reload, PeersError> {
        self.change(Some(map(listed)))
    }

    fn change(&self, listed: Option<PeerMap>) -> Result<Reload, PeersError> {
        let mut old = lock(&self.0.listed);
        let in_file = self.0.file.as_deref().map_or_else(|| Ok(PeerMap::new()), read_peers)?;
        if let Some(listed) = listed {
            *old = listed;
        }
        let new = merged(&old, in_file);
        let missing = |from: &PeerMap, other: &PeerMap| {
            from.keys().filter(|&key| !other.contains_key(key)).copied().collect()
        };
        let mut all = self.0.all.write().unwrap_or_else(PoisonError::into_inner);
        let reload = Reload { added: missing(&new, &all), removed: missing(&all, &new) };
        let changed = *all != new;
        *all = new;
        drop(all);
        if changed {
            self.0.generation.send_modify(|generation| *generation += 1);
        }
        Ok(reload)
    }

    /// Whether the key is accepted now.
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.read(|set| set.contains_key(key))
    }

    /// The name of this key's owner, if the key is accepted and has one.
    pub fn name_of(&self, key: &PublicKey) -> Option<Arc<str>> {
        self.read(|set| set.get(key).cloned().flatten())
    }

    /// What log lines call this key's owner: its name, or else the key.
    pub(crate) fn label(&self, key: &PublicKey) -> String {
        self.name_of(key).map_or_else(|| key.to_string(), |name| name.to_string())
    }

    /// How many keys are accepted now.
    pub fn len(&self) -> usize {
        self.read(BTreeMap::len)
    }

    /// Whether no key is accepted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of changes so far.
    pub fn generation(&self) -> u64 {
        *self.0.generation.borrow()
    }

    /// Notifies of every change from now on, after the set has changed. The value is
    /// [`AuthorizedPeers::generation`].
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    fn read<T>(&self, ask: impl FnOnce(&PeerMap) -> T) -> T {
        ask(&self.0.all.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for AuthorizedPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|set| f.debug_map().entries(set).finish())
    }
}

fn map(peers: impl IntoIterator<Item = Peer>) -> PeerMap {
    peers.into_iter().map(|peer| (peer.key, peer.name.map(Arc::from))).collect()
}

fn merged(listed: &PeerMap, in_file: PeerMap) -> PeerMap {
    let mut all = listed.clone();
    for (key, name) in in_file {
        let entry = all.entry(key).or_default();
        if name.is_some() {
            *entry = name;
        }
    }
    all
}

pub(super) fn read_peers(path: &Path) -> Result<PeerMap, PeersError> {
    let text = file::read(path, FileKind::AuthorizedPeers)?;
    let mut peers = BTreeMap::new();
    let mut lines = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> =
            line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        if words.is_empty() {
            continue;
        }
        let line = index + 1;
        let peer: Peer = words.join(" ").parse().map_err(|error| PeersError::Line {
            path: path.to_path_buf(),
            line,
            error,
        })?;
        if let Some(first) = lines.insert(peer.key, line) {
            return Err(PeersError::Repeated { path: path.to_path_buf(), line, first });
        }
        peers.insert(peer.key, peer.name.map(Arc::from));
    }
    Ok(peers)
}
