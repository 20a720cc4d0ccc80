//! Who we are and whom we accept: Ed25519 keys, as with SSH and WireGuard. There is no certificate authority.

use crate::place;
pub use crate::place::PlaceError;
use crate::text::{Bounded, read_bounded};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::watch;

/// Begins the text of every public key; the digit changes if the form ever does.
const PUBLIC_PREFIX: &str = "ow1";
/// Begins the text of every secret key.
const SECRET_PREFIX: &str = "ow1secret-";
/// What the base64 of every Ed25519 secret key in PKCS#8 has in its beginning, ours and those of others: the algorithm, and the length of the key.
const SECRET_PKCS8: &str = "wBQYDK2VwBCIEI";
/// Characters of a public key as text: `ow1`, then 34 bytes in base64.
const PUBLIC_TEXT: usize = 3 + 46;
/// DER in front of the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410 section 4, example in 10.1).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Largest secret key file, in bytes. Ours have about 130.
const MAX_SECRET_FILE: usize = 4 << 10;
/// Largest file of authorised peers, in bytes: more than 10,000 peers.
const MAX_PEERS_FILE: usize = 1 << 20;
/// Longest name of a peer, in bytes.
pub const MAX_PEER_NAME: usize = 64;

/// Whether a text has a secret key in it, with or without what it begins with.
fn is_secret(text: &str) -> bool {
    // The beginning alone gives nothing away.
    let after = text.split_once(SECRET_PREFIX).map_or(0, |(_, after)| after.len());
    after >= 4 || text.contains(SECRET_PKCS8)
}

/// A text that may be shown: words with a secret key in them, whoever wrote them where, are left out. Messages that quote what somebody typed go
/// through here, since they end up in logs.
pub fn redact(text: &str) -> Cow<'_, str> {
    if !is_secret(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    // Base64 of either alphabet; all else stays.
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '/');
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        shown.push_str(if is_secret(word) { "[a secret key, not shown]" } else { word });
        let next = after.find(in_word).unwrap_or(after.len());
        shown.push_str(&after[..next]);
        rest = &after[next..];
    }
    Cow::Owned(shown)
}

/// A peer's Ed25519 public key.
///
/// As text it is one word of 49 characters: `ow1`, then the URL-safe base64 without padding (RFC 4648 section 5) of the 32 bytes of the
/// key and a check of 2 bytes, the CRC-16/IBM-3740 (polynomial 0x1021, initial value 0xffff, high byte first) of the 32 bytes. It finds
/// every wrong character and every exchange of two neighbours, and all but one in 65,536 of other mistakes.
///
/// Any 32 bytes make a `PublicKey`; if they are no point of the curve, no signature verifies with them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

/// A text or an encoding that is no public key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// It does not begin as a public key does.
    #[error("not a public key: it has to begin with {PUBLIC_PREFIX}")]
    Prefix,
    /// Somebody gave away a secret key.
    #[error("this is a secret key: give its public key, and make a new pair if anybody may have seen this one")]
    Secret,
    /// Characters are missing or too many.
    #[error("a public key has {PUBLIC_TEXT} characters, this one has {len}")]
    Length {
        /// How many it has.
        len: usize,
    },
    /// A character outside `A-Z a-z 0-9 - _`.
    #[error("character {position} of the public key is {found:?}: allowed are letters, digits, - and _")]
    Character {
        /// Which one, counted from 1.
        position: usize,
        /// What it is.
        found: char,
    },
    /// The check does not fit the key.
    #[error("the public key is mistyped: its check does not fit")]
    Check,
    /// A SubjectPublicKeyInfo of another algorithm or length.
    #[error("not an Ed25519 public key: {len} bytes of SubjectPublicKeyInfo that RFC 8410 does not describe")]
    Spki {
        /// Length of the SubjectPublicKeyInfo in bytes.
        len: usize,
    },
}

/// CRC-16/IBM-3740. Used on 32 bytes at a time, where a table would not pay.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

impl PublicKey {
    /// The key as a SubjectPublicKeyInfo in DER, 44 bytes (RFC 8410 section 4): what a TLS peer sends (RFC 7250).
    pub fn to_spki(&self) -> [u8; 44] {
        let mut spki = [0; 44];
        spki[..12].copy_from_slice(&SPKI_PREFIX);
        spki[12..].copy_from_slice(&self.0);
        spki
    }

    /// Reads a SubjectPublicKeyInfo in DER. Only the one encoding that [`PublicKey::to_spki`] writes is accepted.
    pub fn from_spki(spki: &[u8]) -> Result<PublicKey, PublicKeyError> {
        let key = spki.strip_prefix(&SPKI_PREFIX).and_then(|key| key.try_into().ok());
        key.map(PublicKey).ok_or(PublicKeyError::Spki { len: spki.len() })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; 34];
        bytes[..32].copy_from_slice(&self.0);
        bytes[32..].copy_from_slice(&crc16(&self.0).to_be_bytes());
        f.write_str(PUBLIC_PREFIX)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<PublicKey, PublicKeyError> {
        if text.starts_with(SECRET_PREFIX) || is_secret(text) {
            return Err(PublicKeyError::Secret);
        }
        let code = text.strip_prefix(PUBLIC_PREFIX).ok_or(PublicKeyError::Prefix)?;
        if let Some((index, found)) =
            text.chars().enumerate().find(|(_, c)| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
        {
            return Err(PublicKeyError::Character { position: index + 1, found });
        }
        if text.len() != PUBLIC_TEXT {
            return Err(PublicKeyError::Length { len: text.len() });
        }
        // The characters and their number are right, so this fails only when the 4 bits left over are not 0.
        let bytes = URL_SAFE_NO_PAD.decode(code).map_err(|_| PublicKeyError::Check)?;
        let (key, check) = bytes.split_first_chunk::<32>().ok_or(PublicKeyError::Length { len: text.len() })?;
        if check != crc16(key).to_be_bytes() {
            return Err(PublicKeyError::Check);
        }
        Ok(PublicKey(*key))
    }
}

/// Our Ed25519 key pair. It is kept as PKCS#8 version 2 (RFC 5958), which holds both halves, so that damage is noticed.
///
/// In a file it is one line: `ow1secret-`, then the PKCS#8 encoding in URL-safe base64 without padding.
#[derive(Clone)]
pub struct SecretKey {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

/// A secret key that cannot be made, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretKeyError {
    /// The system gave no random numbers.
    #[error("cannot make a key: the system gives no random numbers")]
    Random,
    /// Reading or writing failed.
    #[error("cannot {doing} the secret key {}: {source}", path.display())]
    Io {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// A file is there already.
    #[error("{} exists and is not overwritten: choose another name, or move it away if no peer accepts its key any more", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Others can read or change the file.
    #[error("others may use the secret key {0} (its mode is {mode:04o}): run `chmod 600 {0}`", path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else made the file, or could exchange it.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The file holds something else.
    #[error("{} holds no secret key: it is one line that begins with {SECRET_PREFIX}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
    },
    /// The file holds a damaged key.
    #[error("the secret key in {} is damaged: fetch it from a backup, or make a new pair", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl SecretKey {
    /// Makes a new pair from the system's random numbers.
    pub fn generate() -> Result<SecretKey, SecretKeyError> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| SecretKeyError::Random)?;
        SecretKey::from_pkcs8(pkcs8.as_ref().to_vec()).ok_or(SecretKeyError::Random)
    }

    /// `None` if it is no Ed25519 key in PKCS#8 version 2, or its halves do not fit together.
    fn from_pkcs8(pkcs8: Vec<u8>) -> Option<SecretKey> {
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8).ok()?;
        let public = PublicKey(pair.public_key().as_ref().try_into().ok()?);
        Some(SecretKey { pkcs8, public })
    }

    /// Reads a file that [`SecretKey::save`] wrote. Refused is a file that its group or others may read or change, one of another user than us
    /// and root, and one in a directory that others may write.
    pub fn load(path: &Path) -> Result<SecretKey, SecretKeyError> {
        let io = |source| SecretKeyError::Io { doing: "read", path: path.to_path_buf(), source };
        let file = File::open(path).map_err(io)?;
        // Asked of the open file, so that it cannot be exchanged in between.
        if let Some(mode) = mode_of(&file).map_err(io)?.filter(|mode| mode & 0o077 != 0) {
            return Err(SecretKeyError::Permissions { path: path.to_path_buf(), mode });
        }
        place::check(path, &file)?;
        let text = match read_bounded(file, MAX_SECRET_FILE).map_err(io)? {
            Bounded::Text(text) => text,
            Bounded::TooLong | Bounded::NotText => return Err(SecretKeyError::Form { path: path.to_path_buf() }),
        };
        let code =
            text.trim_end().strip_prefix(SECRET_PREFIX).ok_or_else(|| SecretKeyError::Form { path: path.to_path_buf() })?;
        let key = URL_SAFE_NO_PAD.decode(code).ok().and_then(SecretKey::from_pkcs8);
        key.ok_or_else(|| SecretKeyError::Damaged { path: path.to_path_buf() })
    }

    /// Writes the pair to a new file that only its owner may read (mode 0600), and sees it onto the disk. An existing file is left as it is, and
    /// nothing is written where [`SecretKey::load`] would refuse it.
    pub fn save(&self, path: &Path) -> Result<(), SecretKeyError> {
        match place::check_new(path) {
            // Making the file says it better.
            Ok(()) | Err(PlaceError::Io { .. }) => {}
            Err(place) => return Err(place.into()),
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => SecretKeyError::Exists { path: path.to_path_buf() },
            _ => SecretKeyError::Io { doing: "write", path: path.to_path_buf(), source },
        })?;
        let line = format!("{SECRET_PREFIX}{}\n", URL_SAFE_NO_PAD.encode(&self.pkcs8));
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(|source| {
            // Half a key would only be in the way. If it cannot be removed either, the first error tells more.
            let _ = std::fs::remove_file(path);
            SecretKeyError::Io { doing: "write", path: path.to_path_buf(), source }
        })
    }

    /// The half that peers may know.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// PKCS#8 version 2, for the TLS stack.
    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

impl fmt::Debug for SecretKey {
    /// Shows the public half only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// The permission bits of a file; `None` where the system has none.
fn mode_of(file: &File) -> io::Result<Option<u32>> {
    #[cfg(unix)]
    return Ok(Some(std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o7777));
    #[cfg(not(unix))]
    return Ok(file.metadata().map(|_| None)?);
}

/// One accepted peer, written `KEY [NAME]`. The name is one word of at most 64 bytes without control characters, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// What we call it.
    pub name: Option<String>,
}

/// A text that names no peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The key is wrong.
    #[error(transparent)]
    Key(#[from] PublicKeyError),
    /// The name is too long or has control characters.
    #[error("the name of a peer has at most {MAX_PEER_NAME} bytes and no control characters, this one has {len} bytes")]
    Name {
        /// Its length in bytes.
        len: usize,
    },
    /// More than a key and a name.
    #[error("more than a key and a name of one word: put # in front of a comment")]
    Excess,
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Peer, PeerError> {
        let mut words = text.split_whitespace();
        let key = words.next().unwrap_or_default().parse()?;
        let name = words.next().map(str::to_string);
        if let Some(name) = name.as_ref().filter(|name| name.len() > MAX_PEER_NAME || name.contains(char::is_control)) {
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

/// A file of authorised peers that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeersError {
    /// Reading failed.
    #[error("cannot read the authorised peers {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// Others can change the file.
    #[error("others may change the authorised peers {0} (its mode is {mode:04o}): run `chmod go-w {0}`", path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else made the file, or could exchange it.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The file is too long or not text.
    #[error("{} is no list of authorised peers: it has to be UTF-8 text of at most {MAX_PEERS_FILE} bytes", path.display())]
    Form {
        /// The file.
        path: PathBuf,
    },
    /// A line names no peer.
    #[error("{}, line {line}: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        error: PeerError,
    },
    /// A key is there twice.
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

/// The peers we accept: those listed in the configuration or on the command line, and those in a file. Cloning gives a second handle on the
/// same set.
///
/// The file has one `KEY [NAME]` per line; empty lines and everything after a word that begins with `#` are ignored. It has at most 1 MiB,
/// and is refused if its group or others may change it or write to its directory, or if it belongs to another user. A peer both listed and in the file takes its name from the file.
///
/// A change counts at once: the next handshake is judged by it. Sessions that are open already are the tunnel's to close: it waits on
/// [`AuthorizedPeers::subscribe`] and asks [`AuthorizedPeers::contains`] again. Since a key can be revoked between a handshake and the start
/// of its session, subscribe first and ask then.
#[derive(Clone)]
pub struct AuthorizedPeers(Arc<Shared>);

struct Shared {
    file: Option<PathBuf>,
    /// Those not from the file. Held during a change, so that of two the later one wins with what it read; handshakes do not wait for it.
    listed: Mutex<PeerMap>,
    all: RwLock<PeerMap>,
    generation: watch::Sender<u64>,
}

/// What a reload changed. A peer that only changed its name is in neither list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// Keys that are accepted from now on.
    pub added: Vec<PublicKey>,
    /// Keys that are no longer accepted.
    pub removed: Vec<PublicKey>,
}

impl AuthorizedPeers {
    /// Exactly these peers, without a file. An empty set accepts nobody.
    pub fn new(listed: impl IntoIterator<Item = Peer>) -> AuthorizedPeers {
        AuthorizedPeers::build(map(listed), None, PeerMap::new())
    }

    /// These peers and those in the file.
    pub fn with_file(listed: impl IntoIterator<Item = Peer>, file: &Path) -> Result<AuthorizedPeers, PeersError> {
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

    /// Reads the file again; it blocks while it does. If the file cannot be used, everything stays as it was.
    pub fn reload(&self) -> Result<Reload, PeersError> {
        self.change(None)
    }

    /// Puts other peers in the place of the listed ones, and reads the file again, as [`AuthorizedPeers::reload`] does.
    pub fn replace(&self, listed: impl IntoIterator<Item = Peer>) -> Result<Reload, PeersError> {
        self.change(Some(map(listed)))
    }

    fn change(&self, listed: Option<PeerMap>) -> Result<Reload, PeersError> {
        let mut old = self.0.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let in_file = self.0.file.as_deref().map_or_else(|| Ok(PeerMap::new()), read_peers)?;
        if let Some(listed) = listed {
            *old = listed;
        }
        let new = merged(&old, in_file);
        let missing = |from: &PeerMap, other: &PeerMap| from.keys().filter(|&key| !other.contains_key(key)).copied().collect();
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

    /// What we call the owner of this key, if it is accepted and has a name.
    pub fn name_of(&self, key: &PublicKey) -> Option<Arc<str>> {
        self.read(|set| set.get(key).cloned().flatten())
    }

    /// What log lines call the owner of this key: its name, or else the key.
    pub(crate) fn label(&self, key: &PublicKey) -> String {
        self.name_of(key).map_or_else(|| key.to_string(), |name| name.to_string())
    }

    /// How many keys are accepted now.
    pub fn len(&self) -> usize {
        self.read(BTreeMap::len)
    }

    /// Whether nobody is accepted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that grows with every change of the set: 0 at first.
    pub fn generation(&self) -> u64 {
        *self.0.generation.borrow()
    }

    /// Tells of every change from now on; its value is [`AuthorizedPeers::generation`]. The set has changed before it tells.
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

fn read_peers(path: &Path) -> Result<PeerMap, PeersError> {
    let io = |source| PeersError::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(io)?;
    if let Some(mode) = mode_of(&file).map_err(io)?.filter(|mode| mode & 0o022 != 0) {
        return Err(PeersError::Permissions { path: path.to_path_buf(), mode });
    }
    place::check(path, &file)?;
    let text = match read_bounded(file, MAX_PEERS_FILE).map_err(io)? {
        Bounded::Text(text) => text,
        Bounded::TooLong | Bounded::NotText => return Err(PeersError::Form { path: path.to_path_buf() }),
    };
    let mut peers = BTreeMap::new();
    let mut lines = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        if words.is_empty() {
            continue;
        }
        let line = index + 1;
        let peer: Peer = words.join(" ").parse().map_err(|error| PeersError::Line { path: path.to_path_buf(), line, error })?;
        if let Some(first) = lines.insert(peer.key, line) {
            return Err(PeersError::Repeated { path: path.to_path_buf(), line, first });
        }
        peers.insert(peer.key, peer.name.map(Arc::from));
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tests::Scratch;

    fn key(byte: u8) -> PublicKey {
        PublicKey([byte; 32])
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_check_is_the_one_named() {
        assert_eq!(crc16(b"123456789"), 0x29b1);
    }

    #[test]
    fn a_public_key_is_one_short_word() {
        let key = SecretKey::generate().unwrap().public();
        let text = key.to_string();
        assert_eq!(text.len(), 49);
        assert!(text.starts_with("ow1"));
        assert_eq!(text.parse(), Ok(key));
        assert_eq!(PublicKey::from_spki(&key.to_spki()), Ok(key));
        assert_eq!(PublicKey::from_spki(&key.to_spki()[1..]), Err(PublicKeyError::Spki { len: 43 }));
        assert_eq!(PublicKey::from_spki(&[key.to_spki().as_slice(), &[0]].concat()), Err(PublicKeyError::Spki { len: 45 }));
    }

    #[test]
    fn every_wrong_character_and_every_exchange_is_noticed() {
        let text = SecretKey::generate().unwrap().public().to_string();
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for at in 3..text.len() {
            for &other in alphabet.iter().filter(|&&other| other != text.as_bytes()[at]) {
                let mut typed = text.clone().into_bytes();
                typed[at] = other;
                assert_eq!(String::from_utf8(typed).unwrap().parse::<PublicKey>(), Err(PublicKeyError::Check));
            }
            let mut typed = text.clone().into_bytes();
            typed.swap(at - 1, at);
            let typed = String::from_utf8(typed).unwrap();
            assert!(typed == text || typed.parse::<PublicKey>().is_err());
        }
    }

    #[test]
    fn other_texts_are_no_keys() {
        let good = key(7).to_string();
        assert_eq!("".parse::<PublicKey>(), Err(PublicKeyError::Prefix));
        assert_eq!(good[1..].parse::<PublicKey>(), Err(PublicKeyError::Prefix));
        assert_eq!(good[..48].parse::<PublicKey>(), Err(PublicKeyError::Length { len: 48 }));
        assert_eq!(format!("{good}A").parse::<PublicKey>(), Err(PublicKeyError::Length { len: 50 }));
        assert_eq!(good.replace("ow1B", "ow1é").parse::<PublicKey>(), Err(PublicKeyError::Character { position: 4, found: 'é' }));
        assert_eq!("ow1secret-AAAA".parse::<PublicKey>(), Err(PublicKeyError::Secret));
    }

    #[test]
    fn a_secret_key_comes_back_from_its_file_and_is_not_overwritten() {
        let scratch = Scratch::new();
        let path = scratch.path("key");
        let secret = SecretKey::generate().unwrap();
        secret.save(&path).unwrap();
        assert_eq!(mode_of(&File::open(&path).unwrap()).unwrap(), Some(0o600));
        assert_eq!(SecretKey::load(&path).unwrap().public(), secret.public());
        assert!(matches!(secret.save(&path), Err(SecretKeyError::Exists { .. })));
        assert_eq!(SecretKey::load(&path).unwrap().public(), secret.public());
        let line = std::fs::read_to_string(&path).unwrap();
        assert_eq!(line.lines().count(), 1);
        assert!(!format!("{secret:?}").contains(&line[10..30]));
    }

    #[test]
    fn a_secret_key_that_others_may_read_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path("key");
        SecretKey::generate().unwrap().save(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            set_mode(&path, mode);
            let error = SecretKey::load(&path).unwrap_err();
            assert!(matches!(error, SecretKeyError::Permissions { mode: m, .. } if m == mode));
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        set_mode(&path, 0o400);
        SecretKey::load(&path).unwrap();
    }

    /// A file is refused by both readers, for a reason that its message names.
    fn refused(path: &Path, word: &str) {
        for error in [SecretKey::load(path).unwrap_err().to_string(), read_peers(path).unwrap_err().to_string()] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn files_that_others_could_exchange_are_refused() {
        let scratch = Scratch::new();
        let directory = scratch.path("keys");
        let inner = directory.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        let (path, peers) = (inner.join("key"), inner.join("peers"));
        SecretKey::generate().unwrap().save(&path).unwrap();
        std::fs::write(&peers, "").unwrap();
        set_mode(&peers, 0o600);
        for at in [&directory, &inner] {
            for mode in [0o777, 0o757] {
                set_mode(at, mode);
                let place = || PlaceError::Directory { directory: at.clone(), mode, path: path.clone() }.to_string();
                assert_eq!(SecretKey::load(&path).unwrap_err().to_string(), place());
                assert!(matches!(read_peers(&peers), Err(PeersError::Place(PlaceError::Directory { .. }))));
                let new = SecretKey::generate().unwrap().save(&inner.join("new"));
                assert!(matches!(new, Err(SecretKeyError::Place(PlaceError::Directory { .. }))));
            }
            // Others may add to such a directory, and cannot touch what is ours.
            set_mode(at, 0o1777);
            SecretKey::load(&path).unwrap();
            set_mode(at, 0o700);
            SecretKey::load(&path).unwrap();
            read_peers(&peers).unwrap();
        }
        // By a link from elsewhere, the place is that of the file.
        let link = scratch.path("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        SecretKey::load(&link).unwrap();
        set_mode(&inner, 0o777);
        refused(&link, "chmod go-w");
    }

    #[test]
    fn files_of_other_users_are_refused() {
        if !nix::unistd::geteuid().is_root() {
            oncewire_testkit::skip!("only root can give a file away");
        }
        let scratch = Scratch::new();
        let path = scratch.path("key");
        SecretKey::generate().unwrap().save(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        refused(&path, "belongs to user 12345, not to user 0, who runs this, or to root: run `chown 0 ");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        SecretKey::load(&path).unwrap();
        let directory = path.parent().unwrap();
        std::os::unix::fs::chown(directory, Some(12_345), None).unwrap();
        refused(&path, "belongs to user 12345, who can exchange ");
    }

    #[test]
    fn secret_keys_are_not_shown() {
        let scratch = Scratch::new();
        let path = scratch.path("key");
        SecretKey::generate().unwrap().save(&path).unwrap();
        let line = std::fs::read_to_string(&path).unwrap();
        let secret = line.trim_end();
        let code = secret.strip_prefix(SECRET_PREFIX).unwrap();
        // With what it begins with, without, and in PEM as OpenSSL writes it.
        for typed in [secret, code, "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g"] {
            assert_eq!(typed.parse::<PublicKey>(), Err(PublicKeyError::Secret), "{typed}");
            let shown = redact(&format!("peer \"{typed}\": wrong, {typed}")).into_owned();
            assert_eq!(shown, "peer \"[a secret key, not shown]\": wrong, [a secret key, not shown]");
            let rule = crate::allow::AllowList::parse(&[typed]).unwrap_err();
            for said in [rule.to_string(), format!("{rule:?}")] {
                assert!(!said.contains(&typed[12..]), "{said}");
            }
        }
        // The half of it that a length limit leaves is still a secret.
        assert!(!redact(&secret[..60]).contains(&secret[20..60]));
        let public = key(1).to_string();
        for text in ["", "é wrong", "it is one line that begins with ow1secret-", &public] {
            assert_eq!(redact(text), text);
        }
        std::fs::write(&path, format!("{secret} paris\n")).unwrap();
        let error = read_peers(&path).unwrap_err();
        assert!(matches!(error, PeersError::Line { line: 1, error: PeerError::Key(PublicKeyError::Secret), .. }));
        assert!(!format!("{error} {error:?}").contains(&code[..12]));
    }

    #[test]
    fn a_damaged_secret_key_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path("key");
        SecretKey::generate().unwrap().save(&path).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for at in 10..good.len() - 1 {
            let mut bad = good.clone().into_bytes();
            bad[at] = if bad[at] == b'A' { b'B' } else { b'A' };
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(SecretKey::load(&path), Err(SecretKeyError::Damaged { .. })), "character {at}");
        }
        for other in ["", "hello\n", &"x".repeat(1 << 16)] {
            std::fs::write(&path, other).unwrap();
            assert!(matches!(SecretKey::load(&path), Err(SecretKeyError::Form { .. })));
        }
        assert!(matches!(SecretKey::load(&scratch.path("none")), Err(SecretKeyError::Io { doing: "read", .. })));
    }

    #[test]
    fn peers_come_from_the_list_and_the_file() {
        let scratch = Scratch::new();
        let path = scratch.path("peers");
        std::fs::write(&path, format!("# ours\n\n{} paris # north\n  {}\t#x\n{}\n", key(1), key(2), key(3))).unwrap();
        let listed = [format!("{} ship", key(3)).parse().unwrap(), key(4).into()];
        let peers = AuthorizedPeers::with_file(listed, &path).unwrap();
        assert_eq!(peers.len(), 4);
        assert_eq!(peers.name_of(&key(1)).as_deref(), Some("paris"));
        assert_eq!(peers.name_of(&key(2)), None);
        assert_eq!(peers.name_of(&key(3)).as_deref(), Some("ship"));
        assert!(peers.contains(&key(4)));
        assert!(!peers.contains(&key(5)));
    }

    #[test]
    fn a_reload_changes_the_set_and_tells() {
        let scratch = Scratch::new();
        let path = scratch.path("peers");
        std::fs::write(&path, format!("{}\n{}\n", key(1), key(2))).unwrap();
        let peers = AuthorizedPeers::with_file([key(9).into()], &path).unwrap();
        let (other, changes) = (peers.clone(), peers.subscribe());
        assert_eq!(peers.reload().unwrap(), Reload::default());
        assert!(!changes.has_changed().unwrap());
        std::fs::write(&path, format!("{}\n{} new\n", key(2), key(3))).unwrap();
        assert_eq!(peers.reload().unwrap(), Reload { added: vec![key(3)], removed: vec![key(1)] });
        assert!(changes.has_changed().unwrap());
        assert_eq!(other.generation(), 1);
        assert!(!other.contains(&key(1)) && other.contains(&key(9)));
        assert_eq!(peers.replace([]).unwrap(), Reload { added: vec![], removed: vec![key(9)] });
        assert_eq!(peers.generation(), 2);
    }

    #[test]
    fn a_bad_file_keeps_the_old_set_and_names_the_line() {
        let scratch = Scratch::new();
        let path = scratch.path("peers");
        std::fs::write(&path, format!("{}\n", key(1))).unwrap();
        let peers = AuthorizedPeers::with_file([], &path).unwrap();
        let long = "n".repeat(65);
        for (text, line) in [
            (format!("# x\n{}\n", &key(2).to_string()[..40]), 2),
            (format!("{} a b\n", key(2)), 1),
            (format!("\n\n{} {long}\n", key(2)), 3),
            (format!("{} a\u{1b}[m\n", key(2)), 1),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = peers.replace([key(5).into()]).unwrap_err();
            assert!(matches!(error, PeersError::Line { line: l, .. } if l == line), "{error}");
        }
        std::fs::write(&path, format!("{0}\n{0} a\n", key(2))).unwrap();
        assert!(matches!(peers.reload(), Err(PeersError::Repeated { line: 2, first: 1, .. })));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(peers.reload(), Err(PeersError::Form { .. })));
        std::fs::write(&path, "").unwrap();
        set_mode(&path, 0o664);
        assert!(matches!(peers.reload(), Err(PeersError::Permissions { mode: 0o664, .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(peers.reload(), Err(PeersError::Io { .. })));
        assert!(peers.contains(&key(1)) && peers.len() == 1 && peers.generation() == 0);
    }
}
