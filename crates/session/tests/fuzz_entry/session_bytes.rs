//! Bytes of a hostile peer, in chunks, after a valid HELLO.

use super::{BUDGET, Input, base, config};
use oncewire_session::{Answer, EARLY_CREDIT, Event, Hello, Read, Session, SessionId};
use std::time::Duration;

/// Feeds the input to a client or a server. Nothing panics or grows, and all budgets are released.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let setup = input.u8();
    let connects = setup & 1 == 1;
    let lanes = 1 + usize::from(setup >> 1 & 1);
    let config = config(1, lanes);
    let (delivery, sending) = (config.delivery.clone(), config.sending.clone());
    let mut now = base();
    let answer = if connects { Answer::Welcome } else { Answer::New };
    let mut hello = Hello {
        lanes: lanes as u64,
        send_log: 1 << 20,
        receive_log: 1 << 20,
        early_credit: EARLY_CREDIT,
        max_flows: 20,
        contexts: 4,
        agent: "peer".into(),
        ..Hello::new(SessionId([7; 16]), answer)
    };
    let mut session = if connects {
        let mut session = Session::connect(config, None, now);
        session.attach(0, now);
        hello.session = session.id();
        let mut wire = Vec::new();
        hello.write(&mut wire);
        session.receive(0, &wire, now);
        session
    } else {
        Session::accept_new(config, None, &hello, now).expect("a valid HELLO")
    };
    let mut out = Vec::new();
    while !input.is_empty() {
        let len = 1 + usize::from(input.u8());
        session.receive(0, input.bytes(len), now);
        while let Some(event) = session.poll_event() {
            match event {
                Event::Opened { flow: id, target, .. } => {
                    session.accept(id, now);
                    session.write(id, &target);
                }
                Event::Readable(id) => {
                    while let Read::Data(bytes) = session.read(id) {
                        session.consumed(id, bytes.len(), now);
                    }
                }
                Event::Drop(lane) => session.detach(lane, now),
                _ => {}
            }
        }
        if len.is_multiple_of(2) {
            out.clear();
            session.transmit(0, 10_000, now, &mut out);
        }
        now += Duration::from_millis(len as u64);
        assert!(session.memory() < 64 << 20, "{} bytes", session.memory());
    }
    drop(session.into_logs());
    assert_eq!((delivery.available(), sending.available()), (BUDGET, BUDGET));
}

/// Inputs to start from. A frame with a valid checksum is beyond hand-written seeds; these have the
/// messages around it.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let messages: [&[u8]; 12] = [
        &[2, 0, 4, b'h', b':', b'8', b'0', 0],
        &[2, 1, 4, b'h', b':', b'8', b'0', 2, b'm', b'e'],
        &[7, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x80, 0x80, 0x40],
        &[1, 0, 0, 5, 5, b'h', b'e', b'l', b'l', b'o', 1, 2, 3, 4, 5, 6, 7, 8],
        &[4, 0],
        &[5, 0, 1],
        &[6, 1, 0x80, 0x80, 4],
        &[0x41, 1, 0x42, 5, 0x43, 5, 0x46, 2, 0, 0],
        &[9, 0x45, 8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0x80, 0x80, 0x40],
        &[0x44, 2, 2, b'n', b'o'],
        &[0x47, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0],
        &[0x48, 1, 21],
    ];
    let mut seeds = Vec::new();
    for setup in 0..4u8 {
        for first in 0..3 {
            let mut seed = vec![setup];
            for turn in 0..8 {
                let message =
                    messages[(first * 3 + turn * (usize::from(setup) + 1)) % messages.len()];
                seed.push(message.len() as u8 - 1);
                seed.extend_from_slice(message);
            }
            seeds.push(seed);
        }
    }
    seeds
}
