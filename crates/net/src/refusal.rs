//! Why a connection through the tunnel was not opened.

use oncewire_session::ResetCode;
use std::io;
use std::net::SocketAddr;

/// Why a flow could not be opened. Both proxy protocols can express these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The rules at the egress do not allow the target.
    #[error("the other end does not allow it")]
    NotAllowed,
    /// A rule at the egress allows the target, but it leads to guarded addresses, which only rules
    /// for those addresses allow: see [`crate::allow`].
    #[error("{}", guarded_text(.address.as_ref()))]
    Guarded {
        /// The first of them. It is known at the egress only.
        address: Option<SocketAddr>,
    },
    /// The origin refused the connection.
    #[error("connection refused")]
    Refused,
    /// There is no route to the origin.
    #[error("the host or its network cannot be reached")]
    Unreachable,
    /// The origin did not answer.
    #[error("no answer in time")]
    TimedOut,
    /// The name does not resolve.
    #[error("no such host name")]
    NoSuchName,
    /// The tunnel has no session: its server cannot be reached, or is draining.
    #[error("the tunnel is down")]
    NoSession,
    /// The limit of open connections is reached at either end.
    #[error("the tunnel has too many connections open")]
    Busy,
    /// Anything else, such as no descriptors left.
    #[error("the connection failed")]
    Failed,
}

/// What happened, and which rule to write.
fn guarded_text(address: Option<&SocketAddr>) -> String {
    match address {
        Some(address) => format!(
            "it leads to {}, a guarded address (loopback, link-local or the like), which only a rule \
             for that address allows: --allow {address}, if it may be reached",
            address.ip()
        ),
        None => {
            "at the other end it leads to a guarded address (loopback, link-local or the like), \
                 which only a rule for that address allows; the log there has the rule to add"
                .into()
        }
    }
}

impl Refusal {
    /// The refusal for an error of connecting to the origin.
    pub fn of_connect(error: &io::Error) -> Refusal {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Refusal::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Refusal::Unreachable,
            io::ErrorKind::TimedOut => Refusal::TimedOut,
            _ => Refusal::Failed,
        }
    }

    /// The code of the RESET that tells the peer.
    pub(crate) fn reset_code(self) -> ResetCode {
        match self {
            Refusal::NotAllowed => ResetCode::NotAllowed,
            Refusal::Guarded { .. } => ResetCode::Guarded,
            Refusal::Refused => ResetCode::Refused,
            Refusal::Unreachable => ResetCode::Unreachable,
            Refusal::TimedOut => ResetCode::TimedOut,
            Refusal::NoSuchName => ResetCode::NoSuchName,
            Refusal::Busy => ResetCode::Busy,
            Refusal::NoSession | Refusal::Failed => ResetCode::Failed,
        }
    }

    /// The refusal for a code in the peer's RESET.
    pub(crate) fn from_reset(code: ResetCode) -> Refusal {
        match code {
            ResetCode::NotAllowed => Refusal::NotAllowed,
            ResetCode::Guarded => Refusal::Guarded { address: None },
            ResetCode::Refused => Refusal::Refused,
            ResetCode::Unreachable => Refusal::Unreachable,
            ResetCode::TimedOut => Refusal::TimedOut,
            ResetCode::NoSuchName => Refusal::NoSuchName,
            ResetCode::Busy => Refusal::Busy,
            _ => Refusal::Failed,
        }
    }
}
