//! Messages that a lane received: it processes its own, and says what the session must do.

use super::{Counted, Lane};
use crate::limits::ACK_BYTES;
use crate::message::{Message, close};
use crate::report::Counters;
use crate::violation::Violation;
use std::time::{Duration, Instant};

/// What a received message asks of the session.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// Nothing.
    Nothing,
    /// The lane has something to send.
    Wake,
    /// It is a counted message, about flows or logs: carry it out, then call
    /// [`Lane::processed_one`].
    Counted(Message<'a>),
    /// The body of the server's answer to HELLO.
    Answer(&'a [u8]),
    /// The peer has processed these messages.
    Acknowledged(Vec<Counted>),
    /// A measured round-trip time.
    RoundTrip(Duration),
    /// The peer is about to recall a stretch of its log: its number for it, whether it wants an answer
    /// at once, where it begins, and its length in bytes.
    Prepare(u64, bool, u64, u64),
    /// What was announced by this number was read in this time; `None`: it cannot be.
    Prepared(u64, Option<Duration>),
    /// The peer's counters.
    Report(Box<Counters>),
    /// The peer gave up the transport, because a frame failed or its log is lost.
    Dropped,
    /// The peer ended the session; with an error, without control characters, unless it is done.
    Closed(Option<String>),
    /// The peer broke the protocol.
    Violation(Violation),
}

impl Lane {
    /// Processes a message.
    pub(crate) fn process<'a>(&mut self, message: Message<'a>, now: Instant) -> Step<'a> {
        match message {
            Message::Hello(body) if self.is_handshaking() => Step::Answer(body),
            Message::Hello(_) => Step::Violation(Violation::Unexpected("second hello")),
            _ if self.is_handshaking() => {
                Step::Violation(Violation::Unexpected("message before a hello"))
            }
            Message::Data(_)
            | Message::Open(..)
            | Message::Opened(_)
            | Message::Fin(_)
            | Message::Cut(_)
            | Message::Reset(..)
            | Message::Credit(..)
            | Message::Epoch(..)
            | Message::Limit(_)
            | Message::Gone(..)
            | Message::Recall { .. }
            | Message::GoAway => Step::Counted(message),
            Message::Ack(count) => match self.acknowledge(count) {
                Some(done) => Step::Acknowledged(done),
                None => Step::Violation(Violation::Bounds {
                    what: "acknowledged messages",
                    value: count,
                    limit: self.written(),
                }),
            },
            Message::Ping(nonce) if self.answer_ping(nonce) => Step::Wake,
            Message::Ping(_) | Message::Pad(_) => Step::Nothing,
            Message::Pong(nonce) => self.pong(nonce, now).map_or(Step::Nothing, Step::RoundTrip),
            Message::Prepare { id, wants, from, len } => Step::Prepare(id, wants, from, len),
            Message::Prepared(id, time) => {
                Step::Prepared(id, time.checked_sub(1).map(Duration::from_micros))
            }
            Message::Report(body) => match Counters::read(body) {
                Some(counters) => Step::Report(counters.into()),
                None => Step::Violation(Violation::Unexpected("report that is no list of numbers")),
            },
            Message::Close(code, text) => self.closed(code, text),
        }
    }

    fn closed(&mut self, code: u64, text: &[u8]) -> Step<'static> {
        match code {
            close::FRAME_FAILED | close::LOG_LOST => {
                self.abandon();
                Step::Dropped
            }
            close::DONE => Step::Closed(None),
            _ => {
                let text = String::from_utf8_lossy(text);
                Step::Closed(Some(text.chars().filter(|c| !c.is_control()).collect()))
            }
        }
    }

    /// A counted message was processed, while the peer's log has this span. Returns whether an ACK is
    /// due at once.
    pub(crate) fn processed_one(&mut self, span: u64, now: Instant) -> bool {
        // If the driver is about to call `transmit`, the ACK goes with that.
        let delay = (!self.awake).then_some(self.timers.ack_delay);
        self.acks.processed_one(ACK_BYTES.min(span / 8), now, delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::flow::FlowId;
    use crate::lane::Timers;

    /// What a lane that is up makes of a message, in short.
    fn step(message: Message<'_>) -> String {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let mut lane = Lane::new(Timers::new(&Config::default()), now);
        lane.accepted(now);
        lane.established(now);
        let step = format!("{:?}", lane.process(message, now));
        let kept = if lane.has_transport() { "" } else { ", gave up" };
        step + kept
    }

    #[test]
    fn a_lane_processes_its_own_messages() {
        let bounds = "Violation(Bounds { what: \"acknowledged messages\", value: 1, limit: 0 })";
        for (message, expected) in [
            (Message::Fin(FlowId(3)), "Counted(Fin(FlowId(3)))"),
            (Message::Hello(b""), "Violation(Unexpected(\"second hello\"))"),
            (Message::Ack(0), "Acknowledged([])"),
            (Message::Ack(1), bounds),
            (Message::Ping(7), "Wake"),
            (Message::Pong(7), "Nothing"),
            (Message::Pad(b"\0"), "Nothing"),
            (Message::Prepare { id: 1, wants: false, from: 2, len: 3 }, "Prepare(1, false, 2, 3)"),
            (Message::Prepared(1, 21), "Prepared(1, Some(20µs))"),
            (Message::Prepared(1, 0), "Prepared(1, None)"),
            (
                Message::Report(&[0; 9]),
                "Violation(Unexpected(\"report that is no list of numbers\"))",
            ),
            (Message::Close(close::DONE, b""), "Closed(None)"),
            (Message::Close(close::VIOLATION, b"a\x1bb"), "Closed(Some(\"ab\"))"),
            (Message::Close(99, b"new"), "Closed(Some(\"new\"))"),
            (Message::Close(close::LOG_LOST, b""), "Dropped, gave up"),
            (Message::Close(close::FRAME_FAILED, b""), "Dropped, gave up"),
        ] {
            assert_eq!(step(message), expected, "{message:?}");
        }
    }

    #[test]
    fn nothing_but_hello_comes_during_a_handshake() {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let mut lane = Lane::new(Timers::new(&Config::default()), now);
        lane.handshaking(now);
        assert!(matches!(lane.process(Message::Hello(b"x"), now), Step::Answer(b"x")));
        for message in [Message::Ack(0), Message::Data(FlowId(0)), Message::Close(0, b"")] {
            let step = lane.process(message, now);
            assert!(matches!(step, Step::Violation(Violation::Unexpected(_))), "{step:?}");
        }
    }
}
