//! A TCP connection as seen by a tap between its ends.
//!
//! This is not a TCP implementation; it only has a plausible shape over time. The window starts at
//! 10 segments, doubles every round trip up to 64, and is halved by a loss. Segments leave at the
//! rate of the path. Every second segment is acknowledged, and every one that arrives out of order.
//! A segment may be lost after the tap (and is then seen twice), be lost before it (and is then
//! late), or be overtaken.

use crate::wire::{self, ACK, FIN, PSH, RST, Route, SYN, Segment};
use oncewire_kernels::random::Xoshiro;
use std::net::SocketAddr;

/// Loss and reordering, as shares of the segments with payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    /// Lost after the tap; seen again.
    pub(crate) lost_after: f64,
    /// Lost before the tap; seen late.
    pub(crate) lost_before: f64,
    /// Overtaken by the two segments after it.
    pub(crate) late: f64,
}

/// How the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Fin,
    /// The client resets the connection.
    Reset,
    /// The capture does not contain the end.
    Silent,
}

/// Bytes sent by one side, after a pause.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) from_client: bool,
    /// Nanoseconds between the arrival of the previous bytes and the sending of these.
    pub(crate) pause: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Endpoints, messages and path of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    /// Nanoseconds between the tap and the client.
    pub(crate) client_delay: u64,
    /// Nanoseconds between the tap and the server.
    pub(crate) server_delay: u64,
    /// Bytes per second.
    pub(crate) rate: u64,
    pub(crate) trouble: Trouble,
    pub(crate) ending: Ending,
    /// The capture does not contain the handshake.
    pub(crate) midway: bool,
    /// Largest packet on the path, if the path fragments.
    pub(crate) path_mtu: Option<usize>,
    pub(crate) messages: Vec<Message>,
}

/// A conversation in progress.
pub(crate) struct Flow {
    talk: Conversation,
    rng: Xoshiro,
    phase: Phase,
    /// Next sequence number of client and server.
    next: [u32; 2],
    /// Segments per round trip.
    window: usize,
    mss: usize,
    id: u16,
    pub(crate) packets: u64,
}

enum Phase {
    Opening,
    /// The current message, and how many of its bytes have been sent.
    Talking(usize, usize),
    Ending,
}

impl Flow {
    pub(crate) fn new(talk: Conversation, mut rng: Xoshiro) -> Flow {
        let mss = if talk.client.is_ipv6() { 1440 } else { 1460 };
        let next = [rng.next_u64() as u32, rng.next_u64() as u32];
        let id = rng.next_u64() as u16;
        let phase = if talk.midway { Phase::Talking(0, 0) } else { Phase::Opening };
        Flow { talk, rng, phase, next, window: 10, mss, id, packets: 0 }
    }

    /// Performs the step that starts at `now`. Passes packets to `put`, each with its time at the
    /// tap, none before `now`. Returns the time of the next step; that and later steps send no
    /// packet before then.
    pub(crate) fn step(&mut self, now: u64, put: &mut dyn FnMut(u64, Vec<u8>)) -> Option<u64> {
        let (to_client, to_server) = (2 * self.talk.client_delay, 2 * self.talk.server_delay);
        match self.phase {
            Phase::Opening => {
                let options = [2, 4, (self.mss >> 8) as u8, self.mss as u8, 1, 3, 3, 7, 4, 2, 1, 1];
                self.send(now, true, SYN, 0, &options, None, put);
                self.next[0] = self.next[0].wrapping_add(1);
                self.send(now + to_server, false, SYN | ACK, 0, &options, None, put);
                self.next[1] = self.next[1].wrapping_add(1);
                let open = now + to_server + to_client;
                self.send(open, true, ACK, 0, &[], None, put);
                self.phase = Phase::Talking(0, 0);
                let pause = self.talk.messages.first().map_or(0, |first| first.pause);
                Some(open + 20_000 + pause)
            }
            Phase::Talking(message, _) if message == self.talk.messages.len() => {
                self.phase = Phase::Ending;
                Some(now)
            }
            Phase::Talking(message, done) => Some(self.round(now, message, done, put)),
            Phase::Ending => {
                match self.talk.ending {
                    Ending::Silent => {}
                    Ending::Reset => self.send(now, true, RST | ACK, 0, &[], None, put),
                    Ending::Fin => {
                        self.send(now, true, FIN | ACK, 0, &[], None, put);
                        self.next[0] = self.next[0].wrapping_add(1);
                        self.send(now + to_server, false, FIN | ACK, 0, &[], None, put);
                        self.next[1] = self.next[1].wrapping_add(1);
                        self.send(now + to_server + to_client, true, ACK, 0, &[], None, put);
                    }
                }
                None
            }
        }
    }

    /// Sends one window of a message, and all acknowledgments for it.
    fn round(
        &mut self,
        now: u64,
        message: usize,
        done: usize,
        put: &mut dyn FnMut(u64, Vec<u8>),
    ) -> u64 {
        let Message { from_client, ref bytes, .. } = self.talk.messages[message];
        let left = bytes.len() - done;
        let segments = left.div_ceil(self.mss).min(self.window);
        let to_receiver = if from_client { self.talk.server_delay } else { self.talk.client_delay };
        let round_trip = 2 * (self.talk.client_delay + self.talk.server_delay);
        let gap = (self.mss as u64 * 1_000_000_000 / self.talk.rate).max(1);

        // Time at the receiver and number of each segment.
        let mut arrivals = Vec::with_capacity(segments);
        let (mut last_seen, mut lost) = (now, false);
        for i in 0..segments {
            let sent = now + i as u64 * gap;
            let again = sent
                + if i + 1 == segments {
                    round_trip.max(200_000_000)
                } else {
                    round_trip + segments as u64 * gap
                };
            let Trouble { lost_after, lost_before, late } = self.talk.trouble;
            let fate = self.rng.unit();
            let seen = if fate < lost_after {
                (Some(sent), again)
            } else if fate < lost_after + lost_before {
                (None, again)
            } else if fate < lost_after + lost_before + late {
                (None, sent + gap * 5 / 2)
            } else {
                (None, sent)
            };
            lost |= seen.1 == again;
            let start = done + i * self.mss;
            let range =
                (message, start, (start + self.mss).min(self.talk.messages[message].bytes.len()));
            for time in seen.0.into_iter().chain([seen.1]) {
                self.send(time, from_client, ACK, (i * self.mss) as u32, &[], Some(range), put);
            }
            last_seen = last_seen.max(seen.1);
            arrivals.push((seen.1 + to_receiver, i));
        }
        let sent = left.min(segments * self.mss);
        let base = self.next[usize::from(!from_client)];

        arrivals.sort_unstable();
        let (mut arrived, mut whole, mut unacknowledged) = (vec![false; segments], 0, 0);
        for (n, &(time, i)) in arrivals.iter().enumerate() {
            arrived[i] = true;
            let in_order = i == whole;
            whole += arrived[whole..].iter().take_while(|&&arrived| arrived).count();
            unacknowledged += 1;
            if !in_order || unacknowledged == 2 || n + 1 == segments {
                unacknowledged = 0;
                self.next[usize::from(!from_client)] =
                    base.wrapping_add(sent.min(whole * self.mss) as u32);
                self.send(time + to_receiver, !from_client, ACK, 0, &[], None, put);
            }
        }
        self.next[usize::from(!from_client)] = base.wrapping_add(sent as u32);
        self.window = if lost { (self.window / 2).max(4) } else { (self.window * 2).min(64) };

        if sent < left {
            self.phase = Phase::Talking(message, done + sent);
            return (now + round_trip).max(last_seen + gap);
        }
        self.phase = Phase::Talking(message + 1, 0);
        match self.talk.messages.get(message + 1) {
            Some(next) if next.from_client == from_client => last_seen + gap + next.pause,
            Some(next) => last_seen + 2 * to_receiver + gap + next.pause,
            None => last_seen + 2 * to_receiver + gap,
        }
    }

    /// Sends a packet whose sequence number is `ahead` of the next one and whose payload is part of
    /// a message.
    #[allow(clippy::too_many_arguments)]
    fn send(
        &mut self,
        time: u64,
        from_client: bool,
        flags: u8,
        ahead: u32,
        options: &[u8],
        part: Option<(usize, usize, usize)>,
        put: &mut dyn FnMut(u64, Vec<u8>),
    ) {
        let (client, server) = (self.talk.client, self.talk.server);
        let (from, to) = if from_client { (client, server) } else { (server, client) };
        let [sender, receiver] = if from_client { self.next } else { [self.next[1], self.next[0]] };
        let (payload, flags) = match part {
            Some((message, start, end)) => {
                let bytes = &self.talk.messages[message].bytes;
                (&bytes[start..end], if end == bytes.len() { flags | PSH } else { flags })
            }
            None => (&[][..], flags),
        };
        self.id = self.id.wrapping_add(1);
        let route = Route {
            from: from.ip(),
            to: to.ip(),
            id: self.id,
            ttl: if from_client { 63 } else { 54 },
        };
        let seq = sender.wrapping_add(ahead);
        let frame = wire::tcp(
            route,
            &Segment {
                ports: (from.port(), to.port()),
                seq,
                ack: receiver,
                flags,
                options,
                payload,
            },
        );
        match self.talk.path_mtu {
            Some(mtu) => {
                for (i, piece) in wire::fragments(frame, mtu).into_iter().enumerate() {
                    self.packets += 1;
                    put(time + i as u64 * 1000, piece);
                }
            }
            None => {
                self.packets += 1;
                put(time, frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::open;
    use std::collections::BTreeMap;

    fn talk(six: bool, trouble: Trouble) -> Conversation {
        let (client, server) = if six {
            ("[2001:db8:20::1]:4000", "[2001:db8:101::1]:80")
        } else {
            ("10.20.1.1:4000", "198.18.0.1:80")
        };
        let mut rng = Xoshiro::new(5, 5);
        Conversation {
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
            client_delay: 1_000_000,
            server_delay: 20_000_000,
            rate: 1_000_000,
            trouble,
            ending: Ending::Fin,
            midway: false,
            path_mtu: None,
            messages: vec![
                Message { from_client: true, pause: 0, bytes: rng.bytes(300) },
                Message { from_client: false, pause: 5_000_000, bytes: rng.bytes(200_000) },
                Message { from_client: true, pause: 1_000_000, bytes: rng.bytes(5000) },
                Message { from_client: false, pause: 0, bytes: rng.bytes(1460) },
            ],
        }
    }

    fn run(talk: Conversation) -> Vec<(u64, Vec<u8>)> {
        let mut flow = Flow::new(talk, Xoshiro::new(1, 1));
        let (mut packets, mut now) = (Vec::new(), Some(1000));
        while let Some(time) = now {
            now = flow.step(time, &mut |at, frame| {
                assert!(at >= time, "no packet before its step");
                packets.push((at, frame));
            });
            assert!(now.is_none_or(|next| next >= time));
        }
        packets.sort_by_key(|&(time, _)| time);
        packets
    }

    /// Reassembles each direction by sequence number, and checks that overlaps agree.
    fn reassemble(packets: &[(u64, Vec<u8>)], client: std::net::IpAddr) -> ([Vec<u8>; 2], usize) {
        let (mut starts, mut parts, mut repeats) =
            ([None; 2], [BTreeMap::new(), BTreeMap::new()], 0);
        for (_, frame) in packets {
            let (_, from, _, tcp) = open(frame);
            let side = usize::from(from != client);
            let seq = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
            let payload = &tcp[usize::from(tcp[12] >> 4) * 4..];
            if tcp[13] & SYN != 0 {
                starts[side] = Some(seq.wrapping_add(1));
            } else if !payload.is_empty() {
                let at = seq.wrapping_sub(starts[side].unwrap());
                if let Some(old) = parts[side].insert(at, payload.to_vec()) {
                    assert_eq!(old, payload);
                    repeats += 1;
                }
            }
        }
        let whole = parts.map(|parts| {
            let mut bytes = Vec::new();
            for (at, part) in parts {
                assert_eq!(at as usize, bytes.len(), "no hole");
                bytes.extend(part);
            }
            bytes
        });
        (whole, repeats)
    }

    #[test]
    fn a_flow_reassembles_to_its_messages() {
        let calm = Trouble { lost_after: 0.0, lost_before: 0.0, late: 0.0 };
        let rough = Trouble { lost_after: 0.1, lost_before: 0.1, late: 0.1 };
        for (six, trouble) in [(false, calm), (true, calm), (false, rough), (true, rough)] {
            let talk = talk(six, trouble);
            let said = |client: bool| {
                let messages = talk.messages.iter().filter(|message| message.from_client == client);
                messages.flat_map(|message| message.bytes.clone()).collect::<Vec<_>>()
            };
            let packets = run(talk.clone());
            let ([from_client, from_server], repeats) = reassemble(&packets, talk.client.ip());
            assert_eq!(from_client, said(true));
            assert_eq!(from_server, said(false));
            assert_eq!(repeats > 0, trouble.lost_after > 0.0);
        }
    }

    #[test]
    fn acknowledgments_never_decrease() {
        let packets = run(talk(false, Trouble { lost_after: 0.05, lost_before: 0.05, late: 0.1 }));
        let mut highest: [Option<u32>; 2] = [None; 2];
        for (_, frame) in &packets {
            let (_, from, _, tcp) = open(frame);
            if tcp[13] & ACK == 0 || tcp.len() > usize::from(tcp[12] >> 4) * 4 {
                continue;
            }
            let ack = u32::from_be_bytes(tcp[8..12].try_into().unwrap());
            let highest = &mut highest[usize::from(from.to_string().starts_with("198"))];
            assert!(highest.is_none_or(|highest| ack.wrapping_sub(highest) < 1 << 31));
            *highest = Some(ack);
        }
    }
}
