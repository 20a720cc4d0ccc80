//! Who may use the proxies: networks of clients, and names with passwords.

use crate::keys::file::{FileError, FileKind, read};
use crate::sync::lock;
use ipnet::IpNet;
use ring::digest::{Context, SHA256};
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

/// Longest name and longest password, in bytes: RFC 1929 has one byte for a length.
const LONGEST: usize = 255;
/// Shortest password, in bytes. Nothing slows down whoever guesses but the network.
pub const SHORTEST_PASSWORD: usize = 8;

/// A network whose clients may use the proxies, written as an address or `address/bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNetwork(IpNet);

/// A text that is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientNetworkError {
    /// No address with a prefix length.
    #[error("expected a network such as 10.1.0.0/16 or 2001:db8::/32, or one address")]
    Invalid,
    /// Bits are set beyond the prefix.
    #[error("bits are set beyond the prefix: did you mean {0}?")]
    Bits(IpNet),
}

impl FromStr for ClientNetwork {
    type Err = ClientNetworkError;

    fn from_str(text: &str) -> Result<ClientNetwork, ClientNetworkError> {
        let address = || text.parse().ok().map(|ip: IpAddr| IpNet::from(ip.to_canonical()));
        let network: IpNet =
            text.parse().ok().or_else(address).ok_or(ClientNetworkError::Invalid)?;
        if network != network.trunc() {
            return Err(ClientNetworkError::Bits(network.trunc()));
        }
        Ok(ClientNetwork(network))
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who may use the proxies. By default, whoever can connect to them.
#[derive(Clone, Debug, Default)]
pub struct ProxyAccess {
    /// Networks of clients that may; empty for all.
    pub clients: Vec<ClientNetwork>,
    /// Names and passwords, one pair of which every client must show.
    pub passwords: Option<Passwords>,
}

impl ProxyAccess {
    /// Whether a client with this address may.
    pub fn admits(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.clients.is_empty() || self.clients.iter().any(|network| network.0.contains(&client))
    }

    /// Whether anyone who can connect may.
    pub fn is_open(&self) -> bool {
        self.clients.is_empty() && self.passwords.is_none()
    }
}

/// The name and password that a client shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Its name.
    pub name: Vec<u8>,
    /// Its password.
    pub password: Vec<u8>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// A file of passwords that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordsError {
    /// It cannot be read, or others can read or change it.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is wrong. It may hold a secret, so it is not quoted.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Nobody could use the proxies.
    #[error("{} has no line with name:password, so nobody could use the proxies", .0.display())]
    Empty(PathBuf),
}

/// A digest of a name and a password.
type Pair = [u8; 32];

/// Names and passwords from a file: a line `name:password` for each, empty lines, and lines that
/// begin with `#`. A name may have several lines, as while its password changes.
///
/// Clones share what a [reload](Passwords::reload) brings. Digests are compared, so that the time
/// of an answer tells nothing.
#[derive(Clone)]
pub struct Passwords {
    path: Arc<Path>,
    pairs: Arc<Mutex<HashSet<Pair>>>,
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Passwords {
    /// Reads a file that only its owner can read.
    ///
    /// # Errors
    /// [`PasswordsError`].
    pub fn load(path: &Path) -> Result<Passwords, PasswordsError> {
        let pairs = parse(path)?;
        Ok(Passwords { path: path.into(), pairs: Arc::new(Mutex::new(pairs)) })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// [`PasswordsError`]; the passwords of before stay then.
    pub fn reload(&self) -> Result<(), PasswordsError> {
        let pairs = parse(&self.path)?;
        *lock(&self.pairs) = pairs;
        Ok(())
    }

    /// How many pairs of name and password there are.
    pub fn len(&self) -> usize {
        lock(&self.pairs).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether these are a name and its password.
    pub fn accept(&self, shown: &Credentials) -> bool {
        let pair = pair(&shown.name, &shown.password);
        lock(&self.pairs).contains(&pair)
    }
}

fn pair(name: &[u8], password: &[u8]) -> Pair {
    let mut context = Context::new(&SHA256);
    // The length tells where the name ends.
    context.update(&(name.len() as u64).to_le_bytes());
    context.update(name);
    context.update(password);
    let mut pair = [0; 32];
    pair.copy_from_slice(context.finish().as_ref());
    pair
}

fn parse(path: &Path) -> Result<HashSet<Pair>, PasswordsError> {
    let text = read(path, FileKind::Passwords)?;
    let mut pairs = HashSet::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why| PasswordsError::Line { path: path.into(), line: at + 1, why };
        let (name, password) =
            line.split_once(':').ok_or_else(|| wrong("expected name:password"))?;
        if name.is_empty() || name.len() > LONGEST || name.trim() != name {
            return Err(wrong("a name has 1 to 255 bytes, and no spaces around it"));
        }
        if !(SHORTEST_PASSWORD..=LONGEST).contains(&password.len()) {
            return Err(wrong("a password has 8 to 255 bytes"));
        }
        if line.chars().any(char::is_control) {
            return Err(wrong("control characters"));
        }
        pairs.insert(pair(name.as_bytes(), password.as_bytes()));
    }
    if pairs.is_empty() {
        return Err(PasswordsError::Empty(path.into()));
    }
    Ok(pairs)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(dir: &tempfile::TempDir, text: &str) -> PathBuf {
        let path = dir.path().join("users");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn shown(name: &str, password: &str) -> Credentials {
        Credentials { name: name.into(), password: password.into() }
    }

    #[test]
    fn pairs_and_only_pairs_are_accepted_and_a_reload_changes_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, "# people\nann:first:secret\n\nann:second secret\nbob:12345678\n");
        let passwords = Passwords::load(&path).unwrap();
        assert_eq!(passwords.len(), 3);
        for (name, password, is_right) in [
            ("ann", "first:secret", true),
            ("ann", "second secret", true),
            ("bob", "12345678", true),
            ("bob", "second secret", false),
            ("ann:first", "secret", false),
            ("ann", "first:secre", false),
            ("ann", "", false),
            ("", "", false),
            ("# people", "", false),
        ] {
            assert_eq!(passwords.accept(&shown(name, password)), is_right, "{name}:{password}");
        }
        let of_listener = passwords.clone();
        file(&dir, "ann:third secret\n");
        passwords.reload().unwrap();
        assert!(of_listener.accept(&shown("ann", "third secret")));
        assert!(!of_listener.accept(&shown("bob", "12345678")));
        file(&dir, "ann\n");
        assert!(matches!(passwords.reload(), Err(PasswordsError::Line { line: 1, .. })));
        assert!(of_listener.accept(&shown("ann", "third secret")));
    }

    #[test]
    fn wrong_files_are_refused_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        for (text, line) in [
            ("ann:12345678\nhunter2-without-colon\n", 2),
            (":12345678\n", 1),
            (" ann:12345678\n", 1),
            ("ann:hunter2\n", 1),
            ("ann:hunter2-\u{1b}[2J\n", 1),
            (&format!("ann:{}\n", "x".repeat(256)), 1),
            (&format!("{}:12345678\n", "x".repeat(256)), 1),
        ] {
            let error = Passwords::load(&file(&dir, text)).unwrap_err();
            assert!(
                matches!(error, PasswordsError::Line { line: at, .. } if at == line),
                "{error}"
            );
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        for text in ["", "# nobody\n\n"] {
            let error = Passwords::load(&file(&dir, text)).unwrap_err();
            assert!(matches!(error, PasswordsError::Empty(_)), "{error}");
        }
        let path = file(&dir, "ann:12345678\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Passwords::load(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn networks_of_clients() {
        let access = |networks: &[&str]| ProxyAccess {
            clients: networks.iter().map(|text| text.parse().unwrap()).collect(),
            passwords: None,
        };
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(access(&[]).admits(ip("203.0.113.1")) && access(&[]).is_open());
        let some = access(&["10.1.0.0/16", "2001:db8::/32", "192.0.2.7", "::1"]);
        for (client, is_in) in [
            ("10.1.255.1", true),
            ("::ffff:10.1.255.1", true),
            ("10.2.0.1", false),
            ("2001:db8:7::1", true),
            ("2001:db9::1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(some.admits(ip(client)), is_in, "{client}");
        }
        for bad in ["", "10.1.0.0/33", "site", "10.1", "10.0.0.0/8,10.1.0.0/16"] {
            assert_eq!(bad.parse::<ClientNetwork>(), Err(ClientNetworkError::Invalid), "{bad}");
        }
        let error = "10.1.2.3/16".parse::<ClientNetwork>().unwrap_err();
        assert_eq!(error.to_string(), "bits are set beyond the prefix: did you mean 10.1.0.0/16?");
    }
}
