//! The peers that an end accepts.

use super::file::{self, FileError, FileKind};
use super::{PublicKey, PublicKeyError};
use crate::allow::{AllowList, RuleError};
use crate::sync::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Longest name of a peer, in bytes.
pub const MAX_PEER_NAME: usize = 64;

/// How long nobody looks whether a peer has expired, at most: the clock may be set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// One accepted peer, written `KEY [NAME] [allow=RULE[,RULE]...] [expires=YYYY-MM-DD]`. The name is
/// one word of at most 64 bytes without control characters and `=`; it appears in log lines and
/// `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// Its name.
    pub name: Option<String>,
    /// What it may reach through this end, instead of what all peers may ([`crate::Egress::allow`]).
    pub allow: Option<AllowList>,
    /// From when on it is not accepted. In text, the last day on which it is, by UTC.
    pub expires: Option<SystemTime>,
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
    /// A rule of the peer is wrong.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The last day is not a date.
    #[error("expected expires= and the last day as YYYY-MM-DD, by UTC")]
    Date,
    /// A word with `=` that is no option. It is not taken for a name: a misspelled `allow=` would
    /// leave the peer with the rules of all.
    #[error("expected allow=RULES or expires=YYYY-MM-DD; a peer's name has no =")]
    Option,
    /// A word that is neither the name nor an option, or an option for the second time.
    #[error(
        "expected a key, a name of one word, allow=RULES and expires=YYYY-MM-DD, each at most once; start a comment with #"
    )]
    Excess,
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Peer, PeerError> {
        let mut words = text.split_whitespace();
        let mut peer = Peer::from(words.next().unwrap_or_default().parse::<PublicKey>()?);
        for word in words {
            if let Some(rules) = word.strip_prefix("allow=") {
                let rules: Vec<&str> = rules.split(',').collect();
                let allow = AllowList::parse(&rules)?;
                put(&mut peer.allow, allow)?;
            } else if let Some(day) = word.strip_prefix("expires=") {
                put(&mut peer.expires, end_of(day).ok_or(PeerError::Date)?)?;
            } else if word.len() > MAX_PEER_NAME || word.contains(char::is_control) {
                return Err(PeerError::Name { len: word.len() });
            } else if word.contains('=') {
                return Err(PeerError::Option);
            } else {
                put(&mut peer.name, word.to_owned())?;
            }
        }
        Ok(peer)
    }
}

/// Sets what may be set once.
fn put<T>(slot: &mut Option<T>, value: T) -> Result<(), PeerError> {
    match slot.replace(value) {
        Some(_) => Err(PeerError::Excess),
        None => Ok(()),
    }
}

/// When a day `YYYY-MM-DD` ends, by UTC.
fn end_of(day: &str) -> Option<SystemTime> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = day.split('-');
    let mut part = |len: usize| parts.next().filter(|part| part.len() == len && digits(part));
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    if parts.next().is_some() {
        return None;
    }
    let month = time::Month::try_from(month.parse::<u8>().ok()?).ok()?;
    let day = time::Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    Some(day.next_day()?.midnight().assume_utc().into())
}

impl From<PublicKey> for Peer {
    fn from(key: PublicKey) -> Peer {
        Peer { key, name: None, allow: None, expires: None }
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
    /// There is no file to add a peer to.
    #[error("no file of authorized peers: start with --authorized-peers FILE")]
    NoFile,
    /// The file cannot be written.
    #[error("cannot write the list of authorized peers {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

pub(super) type PeerMap = BTreeMap<PublicKey, Entry>;

/// What is known of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    name: Option<Arc<str>>,
    allow: Option<Arc<AllowList>>,
    expires: Option<SystemTime>,
}

impl Entry {
    fn is_accepted(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl From<Peer> for Entry {
    fn from(peer: Peer) -> Entry {
        let Peer { name, allow, expires, .. } = peer;
        Entry { name: name.map(Arc::from), allow: allow.map(Arc::new), expires }
    }
}

/// The peers that an end accepts: those listed in the configuration or on the command line, and
/// those in a file. A clone is a second handle on the same set.
///
/// The file has one [`Peer`] per line. Empty lines are ignored, and so is everything from a word
/// that starts with `#`. It may have 1 MiB, and is refused if its group or others can change it or
/// write to a directory above it, or if it belongs to another user. A peer that is both listed and
/// in the file takes its name, rules and last day from the file, as far as the file has them.
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

/// What a reload changed. A peer of which only name, rules or last day changed is in neither list.
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

    /// Adds a line to the file, and reads it again. Whatever happens, the file is the old one or the
    /// new one, and can be read. Blocks until it is on disk.
    ///
    /// # Errors
    /// [`PeersError`] if there is no file, it cannot be read or written, or does not take this line;
    /// file and set stay as they were.
    pub fn add_line(&self, line: &str) -> Result<(), PeersError> {
        // One at a time, and no reload meanwhile.
        let old = lock(&self.0.listed);
        let named = self.0.file.as_deref().ok_or(PeersError::NoFile)?;
        let failed = |source| PeersError::Write { path: named.to_path_buf(), source };
        // A link stays a link.
        let path = named.canonicalize().map_err(failed)?;
        let mut text = file::read(&path, FileKind::AuthorizedPeers)?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
        file::replace(&path, text.as_bytes(), |new| read_peers(new).map(drop), failed)?;
        drop(old);
        self.reload().map(drop)
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
        let now = SystemTime::now();
        self.read(|set| set.get(key).is_some_and(|entry| entry.is_accepted(now)))
    }

    /// What this key's owner may reach, if it has rules of its own.
    pub fn rules_of(&self, key: &PublicKey) -> Option<Arc<AllowList>> {
        self.read(|set| set.get(key)?.allow.clone())
    }

    /// How many peers have rules of their own.
    pub fn with_rules(&self) -> usize {
        self.read(|set| set.values().filter(|entry| entry.allow.is_some()).count())
    }

    /// The name of this key's owner, if the key is accepted and has one.
    pub fn name_of(&self, key: &PublicKey) -> Option<Arc<str>> {
        self.read(|set| set.get(key)?.name.clone())
    }

    /// What log lines call this key's owner: its name, or else the key.
    pub(crate) fn label(&self, key: &PublicKey) -> String {
        self.name_of(key).map_or_else(|| key.to_string(), |name| name.to_string())
    }

    /// How many keys are accepted now.
    pub fn len(&self) -> usize {
        let now = SystemTime::now();
        self.read(|set| set.values().filter(|entry| entry.is_accepted(now)).count())
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

    /// Notices changes from now on, and last days that pass.
    pub(crate) fn watch(&self) -> PeerWatch {
        PeerWatch { peers: self.clone(), changes: self.subscribe(), checked: SystemTime::now() }
    }

    fn read<T>(&self, ask: impl FnOnce(&PeerMap) -> T) -> T {
        ask(&self.0.all.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Says when to ask again which peers are accepted.
pub(crate) struct PeerWatch {
    peers: AuthorizedPeers,
    changes: watch::Receiver<u64>,
    /// What expired until then is known.
    checked: SystemTime,
}

impl PeerWatch {
    /// Waits for a change of the set, or for a peer's last day to pass. May be cancelled. False if
    /// the set is gone.
    pub(crate) async fn changed(&mut self) -> bool {
        let now = SystemTime::now();
        // The clock of the wall can be set, also back.
        let checked = self.checked.min(now);
        let next = self.peers.read(|set| {
            set.values().filter_map(|entry| entry.expires).filter(|&at| at > checked).min()
        });
        let wait = next.map(|at| at.duration_since(now).unwrap_or_default().min(LOOK_AGAIN));
        let is_there = tokio::select! {
            changed = self.changes.changed() => changed.is_ok(),
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => true,
        };
        self.checked = SystemTime::now();
        is_there
    }
}

impl fmt::Debug for AuthorizedPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|set| f.debug_set().entries(set.keys()).finish())
    }
}

fn map(peers: impl IntoIterator<Item = Peer>) -> PeerMap {
    peers.into_iter().map(|peer| (peer.key, Entry::from(peer))).collect()
}

fn merged(listed: &PeerMap, in_file: PeerMap) -> PeerMap {
    let mut all = listed.clone();
    for (key, entry) in in_file {
        let all = all.entry(key).or_default();
        all.name = entry.name.or(all.name.take());
        all.allow = entry.allow.or(all.allow.take());
        all.expires = entry.expires.or(all.expires);
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
        peers.insert(peer.key, Entry::from(peer));
    }
    Ok(peers)
}
