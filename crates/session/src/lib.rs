//! The Oncewire tunnel protocol as a state machine without I/O: bytes and time in, bytes, events
//! and deadlines out.
//!
//! A [`Session`] connects a client and a server. It carries flows, which are TCP connections of
//! applications, in both directions over up to eight lanes. Each direction has one content log that
//! all flows share; what is in it already is sent as a reference. Flows of different *isolation
//! domains* refer to each other's content only as far as [`Config::encoder`] shares it
//! ([`Sharing`](oncewire_codec::Sharing)). A lane is an ordered, reliable
//! stream of messages that outlives its transports: when one is lost, the lane resumes on the next,
//! and no flow notices. `docs/PROTOCOL.md` specifies the bytes.
//!
//! # Contract
//!
//! The owner of a session, the *driver*, has the sockets and the clock. It checks the [`Config`]
//! once ([`Config::build`]), and then:
//!
//! 1. **Start.** A client calls [`Session::connect`], and [`Session::attach`] for lane 0 as soon as
//!    it has a transport. A server reads from each new transport until [`Hello::read`] returns a
//!    HELLO; then it calls [`Session::accept_new`], or [`Session::accept_lane`] if it has a session
//!    of that name and peer. On [`Refused`] it sends the HELLO in it and closes.
//! 2. **Receive.** [`Session::receive`] takes whatever a transport brings, in pieces of any size. A
//!    driver with the session behind a lock calls [`Session::take_in`] and [`Session::next_decode`]
//!    instead, and decodes without it.
//! 3. **Poll events** after every call that changes the session, until [`Session::poll_event`]
//!    returns `None`:
//!    - [`Event::Unwritten`], only with [`Config::store`]: call [`Session::unwritten`] until it
//!      returns `None`, write what it returned in that order, and call [`Session::committed`] when a
//!      new epoch is durable. After a restart, [`RestoredLog`] and [`Logs::restored`] bring the logs
//!      back.
//!    - [`Event::Fetch`], only with [`Config::stored`]: read that range of a stored log, and give it to
//!      [`Session::supply`] within some hundred milliseconds; then as after [`Session::take_in`].
//!    - [`Event::Transmit`]: call [`Session::transmit`] for that lane and write the bytes, until it
//!      returns none. If the transport is full, stop and continue when it has room; the event does
//!      not come again meanwhile. Blocks are encoded in this call, so ask only for what the
//!      transport takes soon: a small flow cannot overtake bytes in a long send buffer. A driver
//!      with the session behind a lock calls [`Session::fill`] instead, and encodes without it.
//!    - [`Event::Drop`]: write what [`Session::transmit`] still returns, close the transport, and
//!      call [`Session::detach`].
//!    - [`Event::Established`]: flows may be opened. A client attaches transports to the other
//!      lanes ([`Session::lanes`]).
//!    - [`Event::Opened`]: answer with [`Session::accept`] or [`Session::reset`].
//!    - [`Event::Readable`]: call [`Session::read`] until it returns [`Read::Nothing`], and
//!      [`Session::consumed`] when the application has taken the bytes. Only that lets the peer
//!      send more.
//!    - [`Event::Writable`]: continue with [`Session::write`] where it stopped.
//!    - [`Event::Ended`]: carry out the [`Event::Drop`]s before it; deliver what
//!      [`Session::take_undelivered`] returns; [`Session::into_logs`] keeps the logs for the next
//!      session.
//! 4. **Set a timer** to [`Session::deadline`] afterwards, and call [`Session::on_timeout`] when it
//!    fires; then poll events again.
//! 5. **Lost transports.** Call [`Session::detach`] when a transport ends or fails. A client dials
//!    again and attaches the new one. The session ends itself when a lane has had none for
//!    [`Config::grace`].
//!
//! With a CPU budget, call [`Session::spent`] after each [`Session::transmit`]. `now` must not go
//! backwards. No call blocks, and none panics on what the peer sends.
//!
//! # Example
//!
//! Two sessions in one process, with a vector for each transport direction:
//!
//! ```
//! use oncewire_session::{Config, Event, Hello, Read, SMALLEST_LOG, Session};
//! use std::time::Instant;
//!
//! /// A session, the bytes it has for the other end, and what its application has read.
//! struct End {
//!     session: Session,
//!     wire: Vec<u8>,
//!     received: Vec<u8>,
//! }
//!
//! impl End {
//!     /// To be called after every call that changes the session. Returns when to call `on_timeout`.
//!     fn settle(&mut self, now: Instant) -> Option<Instant> {
//!         while let Some(event) = self.session.poll_event() {
//!             match event {
//!                 Event::Transmit(lane) => {
//!                     let mut before = usize::MAX;
//!                     while self.wire.len() != before {
//!                         before = self.wire.len();
//!                         self.session.transmit(lane, 1 << 16, now, &mut self.wire);
//!                     }
//!                 }
//!                 Event::Opened { flow, .. } => self.session.accept(flow, now),
//!                 Event::Readable(flow) => {
//!                     while let Read::Data(bytes) = self.session.read(flow) {
//!                         self.session.consumed(flow, bytes.len(), now);
//!                         self.received.extend(bytes);
//!                     }
//!                 }
//!                 Event::Drop(lane) => {
//!                     self.session.transmit(lane, 1 << 16, now, &mut self.wire);
//!                     self.session.detach(lane, now);
//!                 }
//!                 _ => {}
//!             }
//!         }
//!         self.session.deadline()
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::now();
//! // In real use, `random` comes from a secure source.
//! let config = |random| Config { log: SMALLEST_LOG, random: [random, 2, 3, 4], ..Config::default() }.build();
//!
//! // The client's first bytes are its HELLO, from which the server makes its session.
//! let mut client = End { session: Session::connect(config(1)?, None, now), wire: Vec::new(), received: Vec::new() };
//! client.session.attach(0, now);
//! client.settle(now);
//! let (hello, len) = Hello::read(&client.wire)?.expect("a complete HELLO");
//! client.wire.drain(..len);
//! let session = Session::accept_new(config(2)?, None, &hello, now).expect("a common version");
//! let mut server = End { session, wire: Vec::new(), received: Vec::new() };
//! server.settle(now);
//! client.session.receive(0, &std::mem::take(&mut server.wire), now);
//! client.settle(now);
//! assert!(client.session.is_established());
//!
//! let flow = client.session.open(b"tcp:origin.example:80", b"", now)?;
//! client.session.write(flow, b"GET / HTTP/1.0\r\n\r\n");
//! client.session.finish(flow);
//! client.settle(now);
//! server.session.receive(0, &std::mem::take(&mut client.wire), now);
//! let timer = server.settle(now);
//! assert_eq!(server.received, b"GET / HTTP/1.0\r\n\r\n");
//! assert!(timer.is_some(), "acknowledgements and PINGs are due later");
//! # Ok(())
//! # }
//! ```

mod budget;
mod config;
mod decode_job;
mod domains;
mod encode_job;
mod epoch;
mod flow;
mod hello;
mod incoming;
mod lane;
mod limits;
pub mod link;
mod message;
mod meter;
mod metric;
mod opening;
mod outgoing;
mod pace;
mod padding;
mod queue;
mod recall;
mod report;
mod schedule;
mod session;
mod store;
mod violation;
mod write_job;

pub use budget::Budget;
pub use config::{Config, ConfigError, Settings};
pub use decode_job::DecodeJob;
pub use domains::Owner;
pub use encode_job::{Divides, EncodeJob, EncoderFailed};
pub use epoch::Epoch;
pub use flow::{FlowId, ResetCode};
pub use hello::{Answer, Hello, HelloError, LogState, SessionId, VERSIONS};
pub use limits::{
    EARLY_CREDIT, LARGEST_LOG, LEAST_PAD, MAX_CONTEXTS, MAX_DOMAIN, MAX_FLOWS, MAX_LANES,
    MAX_TARGET, MOST_PAD, SMALLEST_LOG,
};
pub use message::MessageError;
pub use meter::{FlowMeter, Residue, SMALL_BLOCK, SentBlock};
pub use metric::{Kind as MetricKind, Metric, Metrics, Unit as MetricUnit};
pub use opening::Opening;
pub use pace::ThreadLoad;
pub use recall::{FetchId, StoreFor};
pub use report::Counters;
pub use session::{Ended, Event, Logs, OpenError, Read, Refused, Session};
pub use store::{
    FinishedLog, LogHeader, LogRecord, Piece, Place, Repeat, RestoreError, RestoredLog, Run, Side,
    StoreKey, Unwritten,
};
pub use violation::Violation;
pub use write_job::WriteJob;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
