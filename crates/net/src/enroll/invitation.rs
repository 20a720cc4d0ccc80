//! Invitations in a directory: one file each, named by the hash of its secret.
//!
//! A file has one line: `until=SECONDS` since 1970, and what is to follow the key in the file of
//! authorized peers. Whoever renames a file has its invitation; so two peers that come at once, or
//! two servers with one directory, never both get one.

use super::Token;
use super::token::{self, SECRET};
use crate::keys::file::{self, CreateError, FileError, FileKind, FileProblem};
use crate::keys::{OwnershipError, Peer, PeerError, PublicKey};
use crate::ownership;
use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// The last second that dates here have, at the end of the year 9999.
const LATEST: u64 = 253_402_300_799;

/// What a peer that joins gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Name, rules and last day, as in a line of the file of authorized peers, without the key.
    words: String,
    /// When it ends.
    until: SystemTime,
}

/// The directory of a server's invitations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitations {
    directory: PathBuf,
}

/// An invitation that cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvitationError {
    /// Name, rules or last day are wrong.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The peer has no name.
    #[error("an invitation needs a name for its peer: one word")]
    Name,
    /// It would end after the year 9999.
    #[error("an invitation ends by the year 9999")]
    Until,
    /// Others can read or replace the directory.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// Others can read the directory: its permission bits.
    #[error("others can use {} (mode {mode:04o}): run `chmod 700 {}`", path.display(), path.display())]
    Permissions {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file cannot be read, or others can use it.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is not an invitation.
    #[error("{} is not an invitation; remove it and invite again", .0.display())]
    Content(PathBuf),
    /// The directory cannot be used.
    #[error("cannot use the directory of invitations {}: {source}", path.display())]
    Io {
        /// The directory or a file in it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

impl Invitation {
    /// An invitation for a peer that gets these `words` after its key, `NAME [allow=RULE,...]
    /// [expires=YYYY-MM-DD]`, until some time.
    ///
    /// # Errors
    /// [`InvitationError::Peer`], [`InvitationError::Name`] and [`InvitationError::Until`].
    pub fn new(words: &str, until: SystemTime) -> Result<Invitation, InvitationError> {
        let seconds = until.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if seconds > LATEST {
            return Err(InvitationError::Until);
        }
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        // Any key: the words are checked.
        let peer: Peer = format!("{} {words}", PublicKey([0; 32])).parse()?;
        // A name that begins a comment would leave the peer with the rules of all.
        if peer.name.is_none_or(|name| name.starts_with('#')) || words.contains('#') {
            return Err(InvitationError::Name);
        }
        Ok(Invitation { words, until })
    }

    /// The line of the file of authorized peers, for the peer's key.
    pub(super) fn line(&self, key: &PublicKey) -> String {
        format!("{key} {}", self.words)
    }

    /// The peer's name.
    pub fn name(&self) -> &str {
        let mut words = self.words.split(' ');
        words.find(|word| !word.contains('=')).unwrap_or_default()
    }

    /// When it ends, `YYYY-MM-DDTHH:MM:SSZ`.
    pub fn until(&self) -> String {
        let until = OffsetDateTime::from(self.until);
        let (date, time) = (until.date(), until.time());
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second()
        )
    }

    fn text(&self) -> String {
        let until = self.until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        format!("until={until} {}\n", self.words)
    }

    fn parse(text: &str) -> Option<Invitation> {
        let (until, words) = text.trim_end().split_once(' ')?;
        let until = until.strip_prefix("until=")?.parse().ok()?;
        let until = UNIX_EPOCH.checked_add(Duration::from_secs(until))?;
        Invitation::new(words, until).ok()
    }
}

impl Invitations {
    /// Those in a directory. If there is none, the first invitation makes it, for this user only.
    ///
    /// # Errors
    /// [`InvitationError::Ownership`] and [`InvitationError::Permissions`] if others could take or
    /// make invitations; [`InvitationError::Io`].
    pub fn at(directory: &Path) -> Result<Invitations, InvitationError> {
        let invitations = Invitations { directory: directory.to_path_buf() };
        invitations.check()?;
        Ok(invitations)
    }

    fn failed(&self, source: io::Error) -> InvitationError {
        InvitationError::Io { path: self.directory.clone(), source }
    }

    /// Whether there is a directory, and nobody else can use it.
    fn check(&self) -> Result<bool, InvitationError> {
        let path = &self.directory;
        let opened = match std::fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                ownership::check_new(path)?;
                return Ok(false);
            }
            other => other.map_err(|error| self.failed(error))?,
        };
        let metadata = opened.metadata().map_err(|error| self.failed(error))?;
        if !metadata.is_dir() {
            return Err(self.failed(io::ErrorKind::NotADirectory.into()));
        }
        let mode = file::mode_of(&opened).map_err(|error| self.failed(error))?;
        if let Some(mode) = mode.filter(|mode| mode & 0o077 != 0) {
            return Err(InvitationError::Permissions { path: path.clone(), mode });
        }
        ownership::check(path, &opened)?;
        Ok(true)
    }

    fn make(&self) -> Result<(), InvitationError> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&self.directory) {
            // Made a moment ago.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.map_err(|error| self.failed(error))?,
        }
        self.check().map(drop)
    }

    /// Adds one for whoever has the token that is returned. Blocks while it writes.
    ///
    /// # Errors
    /// [`InvitationError::Io`], [`InvitationError::Random`].
    pub fn add(
        &self,
        invitation: &Invitation,
        server: PublicKey,
    ) -> Result<Token, InvitationError> {
        if !self.check()? {
            self.make()?;
        }
        let token = Token::new(server).ok_or(InvitationError::Random)?;
        let path = self.directory.join(token::name_of(token.secret()));
        file::create(&path, true, invitation.text().as_bytes()).map_err(|error| match error {
            CreateError::Ownership(error) => error.into(),
            CreateError::Write(source) => InvitationError::Io { path, source },
            CreateError::Exists => InvitationError::Random,
        })?;
        Ok(token)
    }

    /// Takes the invitation of a secret, if there is one that has not ended: nobody else gets it.
    pub(super) fn take(
        &self,
        secret: &[u8; SECRET],
        now: SystemTime,
    ) -> Result<Option<Taken>, InvitationError> {
        if !self.check()? {
            return Ok(None);
        }
        let name = self.directory.join(token::name_of(secret));
        let taken = name.with_extension("taken");
        let failed = |source| self.failed(source);
        match std::fs::rename(&name, &taken) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        }
        let mut held = Taken { invitation: None, name, taken };
        let text = match file::read(&held.taken, FileKind::SecretKey) {
            Ok(text) => text,
            Err(FileError { problem: FileProblem::Read(source), .. }) => {
                return Err(failed(source));
            }
            Err(error) => return Err(error.into()),
        };
        let invitation =
            Invitation::parse(&text).ok_or_else(|| InvitationError::Content(held.name.clone()))?;
        if invitation.until <= now {
            held.done();
            return Ok(None);
        }
        held.invitation = Some(invitation);
        Ok(Some(held))
    }
}

/// An invitation that is being used. Dropped, it is as before.
#[derive(Debug)]
pub(super) struct Taken {
    invitation: Option<Invitation>,
    name: PathBuf,
    taken: PathBuf,
}

impl Taken {
    pub(super) fn invitation(&self) -> Option<&Invitation> {
        self.invitation.as_ref()
    }

    /// It has been used, or has ended.
    pub(super) fn done(mut self) {
        // If it stays, under its other name, it is of no use to anybody.
        let _ = std::fs::remove_file(&self.taken);
        self.taken.clear();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.taken.as_os_str().is_empty() {
            // If that fails, another invitation has to be made.
            let _ = std::fs::rename(&self.taken, &self.name);
        }
    }
}
