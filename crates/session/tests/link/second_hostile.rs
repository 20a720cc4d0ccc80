//! What a hostile peer makes of recorded datagrams: the second receiver refuses what the first does.

use super::replay::{Compared, Event, Recording, delivered, replay};
use super::second_world::{all, download_world};
use super::{End, Faults, HEADER, NONE, Settings, TAG, World, number, start};
use oncewire_codec::Sharing;
use oncewire_session::link::Policy;
use oncewire_session::link::control::Control;
use std::time::Duration;

/// The first receiver's part in what a recording becomes.
pub(super) struct Victim {
    end: End,
    pub(super) recording: Recording,
    /// In microseconds.
    pub(super) now: u64,
}

impl Victim {
    pub(super) fn new(settings: Settings) -> Victim {
        let mut end = End::new(1400, settings);
        // Enough to be acknowledged and rejected.
        end.sender = oncewire_session::link::Sender::new(1400);
        Victim { end, recording: Recording::of(settings.log), now: 0 }
    }

    pub(super) fn message(&mut self, message: &[u8]) {
        let answer = self.answer(message).map(|answer| {
            answer.map(|answer| {
                let mut bytes = Vec::new();
                answer.write(&mut bytes);
                bytes
            })
        });
        self.recording.events.push(Event::Control { message: message.to_vec(), answer });
    }

    fn answer(&mut self, message: &[u8]) -> Result<Option<Control>, ()> {
        let receiver = &mut self.end.receiver;
        match Control::read(message) {
            Ok(Some((Control::Log(terms), _))) => receiver.log(terms).map_err(|_| ()),
            Ok(Some((Control::Context(terms), _))) => Ok(receiver.context(&terms)),
            Ok(Some((Control::ContextDrop { log, number }, _))) => {
                receiver.context_drop(log, number);
                Ok(None)
            }
            Ok(Some(_)) => Ok(None),
            Ok(None) | Err(_) => Err(()),
        }
    }

    /// `sent` is the number of datagrams that this end has sent, if it is another one.
    pub(super) fn datagram(
        &mut self,
        epoch: std::time::Instant,
        counter: u64,
        plain: Vec<u8>,
        sent: Option<u64>,
    ) {
        let Victim { end, recording, now } = self;
        let at = epoch + Duration::from_micros(*now);
        if !end.receiver.admits(counter) {
            return;
        }
        let sent = sent.unwrap_or(end.sender.next_counter());
        end.delivered.clear();
        recording.events.push(Event::Expire { now: *now });
        end.receiver.expire(at, &mut end.delivered);
        let received = end.receiver.receive(counter, &plain, sent, at, &mut end.delivered);
        let is_valid = received.is_ok();
        recording.events.push(Event::Datagram { now: *now, counter, plain, sent, is_valid });
        recording.events.push(Event::Deliver(delivered(&mut end.delivered, 10)));
        end.receiver.feedback(at, &mut end.feedback);
        // What the peer claims to have received is not the question here.
        let _ = end.sender.feedback(&mut end.feedback, at);
    }

    pub(super) fn transmit(&mut self, epoch: std::time::Instant) {
        let Victim { end, recording, now } = self;
        if end.sender.transmit(epoch + Duration::from_micros(*now), &mut end.batch) {
            for (_, datagram) in end.batch.datagrams_mut() {
                let plain = datagram[HEADER..datagram.len() - TAG].to_vec();
                recording.events.push(Event::Send { plain });
            }
        }
    }
}

/// A datagram that breaks some rule, most likely.
fn alter(rng: &mut fastrand::Rng, mut plain: Vec<u8>, other: &[u8]) -> Vec<u8> {
    // Heads of records, sections and frames are at the front.
    let front = |rng: &mut fastrand::Rng, len: usize| match rng.usize(..4) {
        0 => rng.usize(..len),
        _ => rng.usize(..len.min(50)),
    };
    match rng.usize(..10) {
        0 => plain.truncate(rng.usize(..=plain.len())),
        1 => plain.extend_from_slice(&other[rng.usize(..=other.len())..]),
        2 => plain.insert(rng.usize(..=plain.len().min(50)), rng.u8(..)),
        3 if !plain.is_empty() => {
            plain.remove(front(rng, plain.len()));
        }
        4 => {
            // Feedback that is made up.
            let head = [0x90, 0x70, 0xb0, 0x10, 0x30, 0x31, 0x33][rng.usize(..7)];
            plain = (0..rng.usize(..24)).map(|_| rng.u8(..8)).collect();
            plain.insert(0, head);
        }
        _ => {
            for _ in 0..rng.usize(1..4) {
                if plain.is_empty() {
                    break;
                }
                let at = front(rng, plain.len());
                plain[at] = match rng.usize(..3) {
                    0 => rng.u8(..),
                    1 => plain[at] ^ 1 << rng.u8(..8),
                    _ => plain[at].wrapping_add(rng.u8(..3)).wrapping_sub(1),
                };
            }
        }
    }
    plain
}

/// A message of the same type and length that is another one.
fn alter_message(rng: &mut fastrand::Rng, message: &[u8]) -> Vec<u8> {
    let mut altered = message.to_vec();
    let body = if message.get(1).is_some_and(|len| len & 0x80 != 0) { 3 } else { 2 };
    match rng.usize(..4) {
        // A body that ends early, or goes on.
        0 if body == 2 => {
            let len = rng.usize(..message.len());
            altered.truncate(2 + len);
            altered.resize(2 + len, 0);
            altered[1] = len as u8;
        }
        _ => {
            for _ in 0..rng.usize(1..4) {
                let at = body + rng.usize(..(message.len() - body).min(20));
                altered[at] = [rng.u8(..), altered[at] ^ 1 << rng.u8(..8)][rng.usize(..2)];
            }
        }
    }
    altered
}

fn hostile(seed: u64) -> Compared {
    let mut rng = fastrand::Rng::with_seed(seed);
    let policy = [Policy::Acked, Policy::Immediate, Policy::Auto][rng.usize(..3)];
    let sharing = [Sharing::All, Sharing::None][rng.usize(..2)];
    let faults = Faults { loss: [0, 20][rng.usize(..2)], reordering: rng.u64(..8), ..NONE };
    let settings = Settings { log: 1 << 20, policy, sharing };
    let recordings = if seed.is_multiple_of(2) {
        download_world((policy, sharing, faults), 300)
    } else {
        let mut world = World::new(seed);
        world.recordings = Some(Vec::new());
        world.ends = [End::new(world.largest, settings), End::new(world.largest, settings)];
        world.connect();
        for _ in 0..600 {
            world.step();
        }
        world.finish_recordings();
        world.recordings.take().unwrap_or_default()
    };
    let mut compared = Compared::default();
    for recording in recordings {
        compared += replay(&altered(&mut rng, settings, recording));
    }
    compared
}

/// What becomes of a recording if some of its datagrams and messages are altered.
pub(super) fn altered(
    rng: &mut fastrand::Rng,
    settings: Settings,
    recording: Recording,
) -> Recording {
    let epoch = start();
    let mut victim = Victim::new(settings);
    let mut other = Vec::new();
    for event in recording.events {
        match event {
            Event::Control { message, .. } => {
                // LOG and what a receiver of packets gets of contexts.
                if matches!(message.first(), Some(3 | 5 | 7)) {
                    for _ in 0..rng.usize(..4) {
                        victim.message(&alter_message(rng, &message));
                    }
                    victim.message(&message);
                }
            }
            Event::Datagram { now, counter, plain, .. } => {
                victim.now = victim.now.max(now);
                let altered = match rng.usize(..6) {
                    0 => alter(rng, plain.clone(), &other),
                    _ => plain.clone(),
                };
                other = plain;
                victim.datagram(epoch, counter, altered, None);
                if rng.usize(..10) == 0 {
                    victim.transmit(epoch);
                }
            }
            _ => {}
        }
    }
    victim.recording
}

#[test]
fn a_second_receiver_refuses_the_same() {
    let compared =
        all(number("ONCEWIRE_SIM_FIRST", 0)..number("ONCEWIRE_SIM_SEEDS", 60) / 2, hostile);
    assert!(
        compared.dropped > 1000
            && compared.waited > 100
            && compared.rejections > 100
            && compared.refused > 50,
        "too little happened: {compared:?}"
    );
}
