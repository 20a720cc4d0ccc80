//! HELLO, the handshake: the first message of either end on every transport. Section 3 of
//! `docs/PROTOCOL.md`.

use crate::config::Config;
use crate::epoch::Epoch;
use crate::limits::{MAX_AGENT, MAX_BODY, MAX_TEXT};
use crate::message::{Message, MessageError, truncate};
use crate::store::{MAX_PLACES, Place};
use oncewire_codec::{Sharing, varint};

/// Oldest and newest version of the protocol that this implementation speaks.
pub const VERSIONS: std::ops::RangeInclusive<u64> = 3..=3;

/// The name of a session, chosen at random by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

/// What a HELLO asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Sent by the client: start a session.
    New,
    /// Sent by the client: resume a lane of a session that exists.
    Resume,
    /// Sent by the server: this transport carries the lane now.
    Welcome,
    /// Sent by the server: it does not know the session. The client may start a new one.
    Unknown,
    /// Sent by the server: it accepts no session now, because it is draining or has too many.
    Busy,
    /// Sent by the server: there is no common version, or it cannot read the client's HELLO.
    Version,
}

impl Answer {
    fn code(self) -> u64 {
        match self {
            Answer::New => 0,
            Answer::Resume => 1,
            Answer::Welcome => 2,
            Answer::Unknown => 3,
            Answer::Busy => 4,
            Answer::Version => 5,
        }
    }

    fn from_code(code: u64) -> Option<Answer> {
        [
            Answer::New,
            Answer::Resume,
            Answer::Welcome,
            Answer::Unknown,
            Answer::Busy,
            Answer::Version,
        ]
        .into_iter()
        .nth(code as usize)
    }
}

/// The HELLO message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest protocol version that the sender speaks.
    pub oldest: u64,
    /// Newest protocol version that the sender speaks.
    pub newest: u64,
    /// The session's name.
    pub session: SessionId,
    /// What the sender asks or answers.
    pub answer: Answer,
    /// The lane that this transport carries.
    pub lane: u64,
    /// How many lanes the sender wants.
    pub lanes: u64,
    /// Largest content log of the sender's encoder, in bytes.
    pub send_log: u64,
    /// Largest content log of the sender's decoder, in bytes.
    pub receive_log: u64,
    /// Bytes that may be sent on a new flow before the sender of this HELLO grants more.
    pub early_credit: u64,
    /// Flows that may be open at once, opened by either end.
    pub max_flows: u64,
    /// Entropy contexts of each lane that the sender's decoder has.
    pub contexts: u64,
    /// What the sender's encoder finds across isolation domains, for people.
    pub sharing: Sharing,
    /// Counted messages of this lane that the sender has processed, over all transports.
    pub received: u64,
    /// State of the sender's decoder.
    pub log: LogState,
    /// Places of that log, from which it can go on as well, from the highest to the lowest; at most
    /// 64. Only in the handshake that begins a session.
    pub places: Vec<Place>,
    /// Lowest offset from which on that log holds everything.
    pub held_from: u64,
    /// Bytes of that log, below the acknowledged offset, that the sender can read from disk.
    pub stored: u64,
    /// The sender keeps that log on disk: it can go on with an empty ring.
    pub goes_on: bool,
    /// Program and version, for people.
    pub agent: String,
    /// The reason of a refusal, for people. Empty if none is given.
    pub reason: String,
}

/// State of a decoder: which log it holds, up to where, and a hash of the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Identifies the log.
    pub epoch: Epoch,
    /// The acknowledged offset: everything below has been decoded.
    pub acknowledged: u64,
    /// Hash chain over all blocks below that offset.
    pub chain: u64,
}

const MAGIC: &[u8; 4] = b"ONCE";

mod field {
    pub(super) const SESSION: u64 = 1;
    pub(super) const ANSWER: u64 = 2;
    pub(super) const LANE: u64 = 3;
    pub(super) const LANES: u64 = 4;
    pub(super) const SEND_LOG: u64 = 5;
    pub(super) const RECEIVE_LOG: u64 = 6;
    pub(super) const EARLY_CREDIT: u64 = 7;
    pub(super) const MAX_FLOWS: u64 = 8;
    pub(super) const RECEIVED: u64 = 9;
    pub(super) const LOG: u64 = 10;
    pub(super) const AGENT: u64 = 11;
    pub(super) const REASON: u64 = 12;
    pub(super) const CONTEXTS: u64 = 13;
    pub(super) const SHARING: u64 = 14;
    pub(super) const PLACES: u64 = 15;
    pub(super) const HELD_FROM: u64 = 16;
    pub(super) const STORED: u64 = 17;
    pub(super) const GOES_ON: u64 = 18;
}

/// Why bytes are not a valid HELLO.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The peer does not speak this protocol.
    #[error("the peer does not speak this protocol: its first message is no hello")]
    NotHello,
    /// The message itself is malformed.
    #[error("malformed hello: {0}")]
    Message(#[from] MessageError),
    /// A field is missing, repeated, malformed, or has a value that is not allowed.
    #[error("malformed hello: field {field}")]
    Field {
        /// Its id in `docs/PROTOCOL.md`; 0 if an id or a version could not be read.
        field: u64,
    },
    /// There is no common version.
    #[error("{}", no_common_version(*oldest, *newest))]
    Version {
        /// Oldest version that the peer speaks.
        oldest: u64,
        /// Newest version that the peer speaks.
        newest: u64,
    },
}

/// Says which end is older, and so which one to update.
fn no_common_version(oldest: u64, newest: u64) -> String {
    let speaks = |oldest: u64, newest: u64| {
        if oldest == newest {
            format!("version {newest}")
        } else {
            format!("versions {oldest} to {newest}")
        }
    };
    let (there, here) = (speaks(oldest, newest), speaks(*VERSIONS.start(), *VERSIONS.end()));
    let older = if newest < *VERSIONS.start() { "the other end" } else { "this end" };
    format!(
        "the other end speaks {there} of the tunnel's protocol, this end {here}: {older} is older; update {older}"
    )
}

fn sharing_code(sharing: Sharing) -> u64 {
    match sharing {
        Sharing::All => 0,
        Sharing::Chunks => 1,
        Sharing::None => 2,
    }
}

/// Unknown codes count as sharing everything: nobody should rely on them.
fn sharing_from_code(code: u64) -> Sharing {
    match code {
        1 => Sharing::Chunks,
        2 => Sharing::None,
        _ => Sharing::All,
    }
}

impl Hello {
    /// Reads a hello from the front of `input`: it and its length in bytes, or `None` while it is
    /// not complete.
    ///
    /// # Errors
    /// [`HelloError`] as soon as the bytes cannot be a HELLO.
    pub fn read(input: &[u8]) -> Result<Option<(Hello, usize)>, HelloError> {
        if input.first().is_some_and(|&kind| kind != crate::message::kind::HELLO) {
            return Err(HelloError::NotHello);
        }
        let mut rest = input;
        match Message::take(&mut rest)? {
            None => Ok(None),
            Some(Message::Hello(body)) => Ok(Some((Hello::parse(body)?, input.len() - rest.len()))),
            Some(_) => Err(HelloError::NotHello),
        }
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Hello, HelloError> {
        let mut rest = body.strip_prefix(MAGIC).ok_or(HelloError::NotHello)?;
        let mut number = || varint::take(&mut rest).map_err(|_| HelloError::Field { field: 0 });
        let (oldest, newest) = (number()?, number()?);
        if oldest > newest {
            return Err(HelloError::Field { field: 0 });
        }
        if newest.min(*VERSIONS.end()) < oldest.max(*VERSIONS.start()) {
            return Err(HelloError::Version { oldest, newest });
        }
        let mut fields: [Option<&[u8]>; 19] = [None; 19];
        while !rest.is_empty() {
            let mut number =
                |field| varint::take(&mut rest).map_err(|_| HelloError::Field { field });
            let id = number(0)?;
            let len = number(id)?;
            let value = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
            let (value, after) = value.ok_or(HelloError::Field { field: id })?;
            rest = after;
            // Fields of later versions are skipped; field 0 and the known ones may occur once.
            if let Some(slot) = usize::try_from(id).ok().and_then(|id| fields.get_mut(id))
                && slot.replace(value).is_some()
            {
                return Err(HelloError::Field { field: id });
            }
        }
        let get = |field: u64| fields[field as usize].ok_or(HelloError::Field { field });
        let value = |field: u64| {
            let mut value = get(field)?;
            let number = varint::take(&mut value).map_err(|_| HelloError::Field { field })?;
            if value.is_empty() { Ok(number) } else { Err(HelloError::Field { field }) }
        };
        let bad = |field| HelloError::Field { field };
        let agent = get(field::AGENT)?;
        if agent.len() > MAX_AGENT {
            return Err(bad(field::AGENT));
        }
        let reason = fields[field::REASON as usize].unwrap_or_default();
        if reason.len() > MAX_TEXT {
            return Err(bad(field::REASON));
        }
        // Both texts go to terminals and logs.
        let text =
            |bytes| String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).collect();
        Ok(Hello {
            oldest,
            newest,
            session: SessionId(get(field::SESSION)?.try_into().map_err(|_| bad(field::SESSION))?),
            answer: Answer::from_code(value(field::ANSWER)?).ok_or(bad(field::ANSWER))?,
            lane: value(field::LANE)?,
            lanes: value(field::LANES)?,
            send_log: value(field::SEND_LOG)?,
            receive_log: value(field::RECEIVE_LOG)?,
            early_credit: value(field::EARLY_CREDIT)?,
            max_flows: value(field::MAX_FLOWS)?,
            contexts: value(field::CONTEXTS)?,
            sharing: sharing_from_code(value(field::SHARING)?),
            received: value(field::RECEIVED)?,
            log: LogState::parse(get(field::LOG)?).ok_or(bad(field::LOG))?,
            places: match fields[field::PLACES as usize] {
                Some(list) => parse_places(list).ok_or(bad(field::PLACES))?,
                None => Vec::new(),
            },
            held_from: match fields[field::HELD_FROM as usize] {
                Some(_) => value(field::HELD_FROM)?,
                None => 0,
            },
            stored: match fields[field::STORED as usize] {
                Some(_) => value(field::STORED)?,
                None => 0,
            },
            goes_on: fields[field::GOES_ON as usize].is_some() && value(field::GOES_ON)? > 0,
            agent: text(agent),
            reason: text(reason),
        })
    }

    /// Appends the message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = MAGIC.to_vec();
        varint::put(&mut body, self.oldest);
        varint::put(&mut body, self.newest);
        let mut put = |id: u64, value: &[u8]| {
            varint::put(&mut body, id);
            varint::put(&mut body, value.len() as u64);
            body.extend_from_slice(value);
        };
        put(field::SESSION, &self.session.0);
        for (id, value) in [
            (field::ANSWER, self.answer.code()),
            (field::LANE, self.lane),
            (field::LANES, self.lanes),
            (field::SEND_LOG, self.send_log),
            (field::RECEIVE_LOG, self.receive_log),
            (field::EARLY_CREDIT, self.early_credit),
            (field::MAX_FLOWS, self.max_flows),
            (field::RECEIVED, self.received),
            (field::CONTEXTS, self.contexts),
            (field::SHARING, sharing_code(self.sharing)),
        ] {
            let mut number = Vec::with_capacity(9);
            varint::put(&mut number, value);
            put(id, &number);
        }
        put(field::LOG, &self.log.bytes());
        if !self.places.is_empty() {
            put(field::PLACES, &places_bytes(&self.places));
        }
        if self.held_from > 0 {
            let mut number = Vec::with_capacity(9);
            varint::put(&mut number, self.held_from);
            put(field::HELD_FROM, &number);
        }
        if self.stored > 0 {
            let mut number = Vec::with_capacity(9);
            varint::put(&mut number, self.stored);
            put(field::STORED, &number);
        }
        if self.goes_on {
            put(field::GOES_ON, &[1]);
        }
        let agent = self.agent.as_bytes();
        put(field::AGENT, &agent[..agent.len().min(MAX_AGENT)]);
        if !self.reason.is_empty() {
            put(field::REASON, truncate(&self.reason).as_bytes());
        }
        debug_assert!(body.len() <= MAX_BODY);
        Message::Hello(&body).write(out);
    }

    /// Of our versions, with no lanes, logs, flows, texts or credit: what they are by default.
    pub fn new(session: SessionId, answer: Answer) -> Hello {
        Hello {
            oldest: *VERSIONS.start(),
            newest: *VERSIONS.end(),
            session,
            answer,
            lane: 0,
            lanes: 0,
            send_log: 0,
            receive_log: 0,
            early_credit: 0,
            max_flows: 0,
            contexts: 0,
            sharing: Sharing::All,
            received: 0,
            log: LogState::default(),
            places: Vec::new(),
            held_from: 0,
            stored: 0,
            goes_on: false,
            agent: String::new(),
            reason: String::new(),
        }
    }

    /// The answer to a HELLO that this server cannot read, or of which it read only the versions,
    /// because none is common.
    pub fn unreadable(error: &HelloError, config: &Config) -> Hello {
        Hello {
            agent: config.agent.clone(),
            reason: match error {
                HelloError::Version { .. } => String::new(),
                error => error.to_string(),
            },
            ..Hello::new(SessionId([0; 16]), Answer::Version)
        }
    }

    /// The answer that refuses `self`, with a reason for people; its first 256 bytes are sent.
    pub fn refuse(&self, answer: Answer, reason: &str, config: &Config) -> Hello {
        Hello {
            answer,
            oldest: *VERSIONS.start(),
            newest: *VERSIONS.end(),
            received: 0,
            log: LogState::default(),
            places: Vec::new(),
            held_from: 0,
            stored: 0,
            goes_on: false,
            agent: config.agent.clone(),
            reason: reason.into(),
            ..self.clone()
        }
    }
}

/// The PLACES field: offset and chain of each, 8 bytes each.
fn places_bytes(places: &[Place]) -> Vec<u8> {
    let places = &places[..places.len().min(MAX_PLACES)];
    let numbers = places.iter().flat_map(|place| [place.offset, place.chain]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// At most [`MAX_PLACES`], the highest first.
fn parse_places(bytes: &[u8]) -> Option<Vec<Place>> {
    let (pairs, rest) = bytes.as_chunks::<16>();
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let place =
        |pair: &[u8; 16]| Some(Place { offset: number(&pair[..8])?, chain: number(&pair[8..])? });
    let places: Vec<Place> = pairs.iter().take(MAX_PLACES + 1).map(place).collect::<Option<_>>()?;
    let is_valid = rest.is_empty()
        && (1..=MAX_PLACES).contains(&places.len())
        && places.is_sorted_by(|one, next| one.offset > next.offset);
    is_valid.then_some(places)
}

impl LogState {
    fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, value) in bytes.chunks_exact_mut(8).zip([
            self.epoch.log,
            self.epoch.number,
            self.acknowledged,
            self.chain,
        ]) {
            to.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<LogState> {
        let bytes: &[u8; 32] = bytes.try_into().ok()?;
        let mut values = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut next = || values.next();
        Some(LogState {
            epoch: Epoch { log: next()?, number: next()? },
            acknowledged: next()?,
            chain: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            oldest: 1,
            newest: 3,
            session: SessionId([7; 16]),
            answer: Answer::Resume,
            lane: 2,
            lanes: 4,
            send_log: 1 << 27,
            receive_log: 1 << 28,
            early_credit: 16 << 10,
            max_flows: 4096,
            contexts: 4,
            sharing: Sharing::None,
            received: 12345,
            log: LogState { epoch: Epoch { log: u64::MAX, number: 3 }, acknowledged: 99, chain: 5 },
            places: vec![Place { offset: 98, chain: u64::MAX }, Place { offset: 7, chain: 0 }],
            held_from: 3,
            stored: 1 << 40,
            goes_on: true,
            agent: "oncewire 0.1.0".into(),
            reason: "no reason".into(),
        }
    }

    #[test]
    fn a_hello_reads_as_written_and_waits_while_incomplete() {
        let mut wire = Vec::new();
        hello().write(&mut wire);
        for len in 0..wire.len() {
            assert_eq!(Hello::read(&wire[..len]), Ok(None), "truncated to {len}");
        }
        let whole = wire.len();
        wire.push(1);
        assert_eq!(Hello::read(&wire), Ok(Some((hello(), whole))));
    }

    #[test]
    fn later_fields_are_skipped_and_missing_or_repeated_ones_named() {
        let mut wire = Vec::new();
        hello().write(&mut wire);
        let mut rest = &wire[..];
        let Ok(Some(Message::Hello(body))) = Message::take(&mut rest) else { panic!("no hello") };
        let mut longer = body.to_vec();
        varint::put(&mut longer, 4000);
        longer.extend_from_slice(&[2, 8, 9]);
        assert_eq!(Hello::parse(&longer), Ok(hello()));
        let mut twice = body.to_vec();
        twice.extend_from_slice(&[3, 1, 0]);
        assert_eq!(Hello::parse(&twice), Err(HelloError::Field { field: 3 }));
        // Field 0 is unused: skipped once, refused when repeated.
        let mut unused = body.to_vec();
        unused.extend_from_slice(&[0, 1, 7]);
        assert_eq!(Hello::parse(&unused), Ok(hello()));
        unused.extend_from_slice(&[0, 0]);
        assert_eq!(Hello::parse(&unused), Err(HelloError::Field { field: 0 }));
        assert_eq!(Hello::parse(&body[..body.len() - 16]), Err(HelloError::Field { field: 11 }));
        assert_eq!(Hello::parse(b"GET / HTTP/1.1"), Err(HelloError::NotHello));
    }

    #[test]
    fn places_are_whole_few_and_descending() {
        let of = |list: &[u64]| list.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(parse_places(&of(&[9, 1, 8, 2])).map(|places| places.len()), Some(2));
        let many: Vec<u64> = (0..64).flat_map(|n| [1000 - n, n]).collect();
        assert_eq!(parse_places(&of(&many)).map(|places| places.len()), Some(64));
        let more: Vec<u64> = (0..65).flat_map(|n| [1000 - n, n]).collect();
        let wrong =
            [of(&[]), of(&[1]), of(&[8, 1, 9, 2]), of(&[9, 1, 9, 2]), of(&more), vec![1; 31]];
        for list in wrong {
            assert_eq!(parse_places(&list), None, "{} bytes", list.len());
        }
        let mut wire = Vec::new();
        Hello { places: Vec::new(), held_from: 0, stored: 0, goes_on: false, ..hello() }
            .write(&mut wire);
        let mut rest = &wire[..];
        let Ok(Some(Message::Hello(body))) = Message::take(&mut rest) else { panic!("no hello") };
        for (field, value) in [(15, &[1u8; 15][..]), (15, &[]), (16, &[]), (16, &[0x80]), (18, &[])]
        {
            let mut body = body.to_vec();
            body.extend_from_slice(&[field, value.len() as u8]);
            body.extend_from_slice(value);
            assert_eq!(Hello::parse(&body), Err(HelloError::Field { field: field.into() }));
        }
    }

    #[test]
    fn versions_without_overlap_are_refused() {
        let mut wire = Vec::new();
        Hello { oldest: 4, newest: 9, ..hello() }.write(&mut wire);
        assert_eq!(Hello::read(&wire), Err(HelloError::Version { oldest: 4, newest: 9 }));
        wire.clear();
        Hello { oldest: 3, newest: 1, ..hello() }.write(&mut wire);
        assert_eq!(Hello::read(&wire), Err(HelloError::Field { field: 0 }));
    }

    #[test]
    fn an_error_of_versions_says_which_end_to_update() {
        let text = |oldest, newest| HelloError::Version { oldest, newest }.to_string();
        assert_eq!(
            text(1, 1),
            "the other end speaks version 1 of the tunnel's protocol, this end version 3: \
             the other end is older; update the other end"
        );
        assert_eq!(
            text(4, 9),
            "the other end speaks versions 4 to 9 of the tunnel's protocol, this end version 3: \
             this end is older; update this end"
        );
    }
}
