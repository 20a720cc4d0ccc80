//! The conversation of two ends of Oncewire as a state machine without I/O: bytes and time in, bytes and deadlines out.
//!
//! A [`Session`] joins two peers. It carries flows, which are TCP connections of applications, in both directions over up to eight
//! lanes; each direction has one content log that all flows share. A lane is an ordered, reliable byte stream that outlives its transports:
//! when one is lost, the lane goes on with the next where it was, and no flow notices.
//!
//! The owner, called the driver, has the sockets and the clock. It
//!
//! - hands transports to lanes ([`Session::attach`], [`Session::accept_lane`]) and takes them away ([`Session::detach`]),
//! - carries bytes between transports and lanes ([`Session::receive`], [`Session::transmit`]),
//! - and between applications and flows ([`Session::write`], [`Session::read`]),
//! - tells what encoding costs, if there is a budget for it ([`Session::spent`]),
//! - calls [`Session::on_timeout`] when [`Session::deadline`] has come, and does what [`Session::poll_event`] says.
//!
//! Blocks are encoded late: when their lane can send. What the driver takes from [`Session::transmit`] should therefore go to a transport
//! that takes it soon; whatever waits in a long send buffer can no longer be overtaken by a small flow.
//!
//! `docs/PROTOCOL.md` specifies what the ends say to each other.

mod budget;
mod config;
mod flow;
mod hello;
mod incoming;
mod lane;
mod message;
mod outgoing;
mod queue;
mod report;
mod schedule;
mod session;

pub use budget::Budget;
pub use config::{Config, EARLY_CREDIT, LARGEST_LOG, MAX_LANES, SMALLEST_LOG, TooLittleMemory};
pub use flow::{FlowId, ResetCode};
pub use hello::{Answer, Hello, HelloError, LogState, SessionId, VERSIONS};
pub use message::{Epoch, MAX_TARGET, MessageError};
pub use outgoing::EncoderFailed;
pub use report::Counters;
pub use session::{Ended, Event, Logs, OpenError, Read, Refused, Session, Violation};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
