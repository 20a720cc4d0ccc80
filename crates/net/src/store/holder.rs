//! Who has a session whose logs are on disk.

use crate::keys::PublicKey;
use oncewire_session::Session;

/// The owner of a session whose logs a store keeps. Its threads call the session through it.
pub(crate) trait Holder: Send + Sync {
    /// Calls the session, unless it has been taken away, and handles what it says.
    fn call(&self, act: &mut dyn FnMut(&mut Session));

    /// Whether the session is still here.
    fn has_session(&self) -> bool;

    /// The peer's key, once a transport has shown it.
    fn peer(&self) -> Option<PublicKey>;

    /// The session was given content that frames waited for: they are decoded.
    fn decode(&self);
}

impl dyn Holder + '_ {
    /// Calls the session. `None` if it has been taken away.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let (mut act, mut result) = (Some(act), None);
        self.call(&mut |session| result = act.take().map(|act| act(session)));
        result
    }
}
