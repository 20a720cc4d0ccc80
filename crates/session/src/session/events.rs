//! What a session tells its driver: events, answers and errors.

use super::*;

/// What happened, or what the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The first handshake is complete: flows may be opened, and the client attaches transports to
    /// the other lanes.
    Established,
    /// A lane has something to send: call [`Session::transmit`] until it returns nothing.
    Transmit(usize),
    /// Send what [`Session::transmit`] still returns, close the lane's transport, and call
    /// [`Session::detach`].
    Drop(usize),
    /// The peer opened a flow: call [`Session::accept`] or [`Session::reset`].
    Opened {
        /// The flow.
        flow: FlowId,
        /// What it is to reach.
        target: Vec<u8>,
        /// Whose it is.
        owner: Owner,
    },
    /// The peer has accepted a flow: its target was reached.
    Accepted(FlowId),
    /// [`Session::read`] has something to return.
    Readable(FlowId),
    /// [`Session::write`] takes more bytes.
    Writable(FlowId),
    /// The peer has reset a flow. It is gone.
    Reset(FlowId, ResetCode),
    /// The peer accepts no more flows. Close the session once the open ones are done.
    GoingAway,
    /// The peer keeps smaller logs from now on. A log that is larger begins again, empty.
    Limited {
        /// Its limit until now, in bytes.
        from: u64,
        /// Its limit from now on, in bytes.
        to: u64,
    },
    /// From now on the session spends more, or less, CPU time on each block.
    Effort(Decision),
    /// [`Session::unwritten`] has something for the store of a side.
    Unwritten(Side),
    /// Read a range of what is stored of the log of a side, and call [`Session::supply`]: soon, since a
    /// flow or a lane waits. Only with [`Config::stored`](crate::Config::stored).
    Fetch {
        /// What to give to [`Session::supply`].
        id: crate::FetchId,
        /// Of which log.
        side: Side,
        /// Offsets, of a block at most.
        range: std::ops::Range<u64>,
    },
    /// [`Session::promised_memory`] or [`Session::wanted_log`] has changed.
    Memory,
    /// The session is over, and so are its flows; [`Session::take_undelivered`] returns what
    /// applications have yet to read. [`Session::into_logs`] returns the logs, for the next
    /// session.
    Ended(Ended),
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// [`Session::close`] was called, or the peer closed.
    #[error("closed")]
    Closed,
    /// A lane had no transport for the grace time.
    #[error("no transport for {0:?}")]
    GraceOver(Duration),
    /// The server does not know the session: it was restarted, or has ended the session.
    #[error("the server no longer knows the session")]
    Unknown,
    /// The server accepts no sessions now.
    #[error("the server accepts no sessions now: {reason}")]
    Busy {
        /// The server's reason, without control characters.
        reason: String,
    },
    /// There is no common version of the protocol. Another session would end the same.
    #[error("{}", HelloError::Version { oldest: *oldest, newest: *newest })]
    Version {
        /// Oldest version that the server speaks.
        oldest: u64,
        /// Newest version that the server speaks.
        newest: u64,
    },
    /// The server cannot read this end's HELLO, although it names a common version. Another session
    /// would end the same.
    #[error(
        "the server ({agent}) cannot read this client's first message ({reason}), although both \
         name the same version of the protocol: update the older end"
    )]
    Unreadable {
        /// The server's program and version, without control characters.
        agent: String,
        /// The server's reason, without control characters.
        reason: String,
    },
    /// The peer's count of messages is impossible: one end was restored from an old copy of its
    /// state.
    #[error("the peer's state does not match: one end was restored from an old copy")]
    StateMismatch,
    /// The peer broke the protocol.
    #[error("the peer violated the protocol: {0}")]
    Violation(#[from] Violation),
    /// The peer ended the session with an error: as a rule, that this end violated the protocol.
    #[error("the peer ended the session: {0}")]
    Accused(String),
    /// Too many frames failed.
    #[error("{0} frames failed to decode")]
    TooManyFailures(u64),
    /// The encoder failed.
    #[error(transparent)]
    Encoder(#[from] EncoderFailed),
}

impl Ended {
    /// Whether other sessions with this server would end in the same way, until one end is updated.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Ended::Version { .. } | Ended::Unreadable { .. })
    }
}

/// Why a flow cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Before [`Event::Established`], or after [`Event::Ended`].
    #[error("the session is not established")]
    NotEstablished,
    /// Either end is going away.
    #[error("the session accepts no more flows")]
    GoingAway,
    /// This end has no credit available for the flow.
    #[error("no memory is available for another flow; a larger --memory has room for more")]
    NoCredit,
    /// As many flows are open as both ends agreed on.
    #[error("{0} flows are open, as many as --max-flows and --memory of both ends allow")]
    TooMany(u64),
    /// The target is longer than [`MAX_TARGET`].
    #[error("a target of {0} bytes: at most {MAX_TARGET} are possible")]
    Target(usize),
    /// The client or name of the owner is longer than [`MAX_DOMAIN`].
    #[error("an owner of {0} bytes: at most {MAX_DOMAIN} are possible")]
    Domain(usize),
}

/// What [`Session::read`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes. Call [`Session::consumed`] when the application has taken them.
    Data(Vec<u8>),
    /// The peer's application has finished, and everything it sent was read.
    Finished,
    /// As [`Read::Finished`], but the application's protocol did not say that this is the end:
    /// what was sent may be incomplete.
    Cut,
    /// Nothing yet.
    Nothing,
    /// There is no such flow: it was reset, or both ends have finished.
    Gone,
}

/// A session or lane was refused: the HELLO to send before closing the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Box<Hello>);
