//! What a damaged store says of a log, and what a hostile peer says of its own.

use super::{BUDGET, Input, base, config};
use oncewire_codec::Sharing;
use oncewire_session::{
    Answer, Config, EARLY_CREDIT, Epoch, Event, Hello, LogHeader, LogRecord, LogState, Logs, Place,
    RestoredLog, Run, Session, SessionId, Side, StoreKey, Unwritten,
};
use std::time::Duration;

/// A number: small, near a power of two, or near the largest.
fn number(input: &mut Input<'_>) -> u64 {
    let (kind, low) = (input.u8(), u64::from(input.u8()));
    match kind {
        0..=63 => low,
        64..=200 => (1 << (kind % 64)) + low - 128u64.min(1 << (kind % 64)),
        201..=250 => low * 1000,
        _ => u64::MAX - low,
    }
}

fn place(input: &mut Input<'_>) -> Place {
    Place { offset: number(input), chain: number(input) }
}

fn restored(input: &mut Input<'_>, config: &Config, side: Side) -> Option<RestoredLog> {
    let header = LogHeader {
        epoch: Epoch { log: u64::from(input.u8()), number: number(input) },
        capacity: if input.u8() < 250 { 1 << 20 } else { number(input) },
        key: 1,
    };
    let (from, end) = (number(input), place(input));
    let places = (0..input.u8() % 4).map(|_| place(input)).collect();
    let runs =
        (0..input.u8() % 4).map(|_| Run { start: number(input), owner: number(input) }).collect();
    let record = LogRecord { header, from, end, places, runs };
    let mut log = RestoredLog::new(config, side, record).ok()?;
    for _ in 0..input.u8() % 8 {
        // Mostly what follows.
        let at = if input.u8() < 200 { log.at() } else { number(input) };
        let len = (number(input) as usize).min(200_000);
        let len = if input.u8() < 100 {
            len
        } else {
            (end.offset.saturating_sub(at) as usize).min(200_000)
        };
        if log.push(at, &vec![input.u8(); len]).is_err() {
            break;
        }
    }
    Some(log)
}

/// Restores what the input says, and feeds the rest to a server whose peer is hostile. Nothing
/// panics or grows, and what is to be written is in order.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let store = Some(StoreKey([1, 2]));
    let config = Config { store, stored: 1 << 30, ..Config::clone(&config(0, 1)) };
    let config = config.build().expect("parameters in range");
    let (delivery, sending) = (config.delivery.clone(), config.sending.clone());
    let mut now = base();
    let logs = [Side::Sending, Side::Receiving]
        .map(|side| restored(&mut input, &config, side).and_then(|log| log.finish().ok()));
    let logs = Logs::restored(&config, logs.into_iter().flatten());
    let epoch = Epoch { log: u64::from(input.u8()), number: number(&mut input) };
    let end = place(&mut input);
    let mut hello = Hello {
        oldest: 3,
        newest: 3,
        session: SessionId([7; 16]),
        answer: Answer::New,
        lane: 0,
        lanes: 1,
        send_log: 1 << 20,
        receive_log: 1 << 20,
        early_credit: EARLY_CREDIT,
        max_flows: 20,
        contexts: 2,
        sharing: Sharing::All,
        received: 0,
        log: LogState { epoch, acknowledged: end.offset, chain: end.chain },
        places: (0..input.u8() % 5).map(|_| place(&mut input)).collect(),
        held_from: number(&mut input) % (1 << 62),
        stored: 0,
        goes_on: input.u8() % 2 == 1,
        agent: "peer".into(),
        reason: String::new(),
    };
    hello.stored = number(&mut input) % (1 << 44);
    hello.places.sort_by_key(|place| std::cmp::Reverse(place.offset));
    hello.places.dedup_by_key(|place| place.offset);
    let mut wire = Vec::new();
    hello.write(&mut wire);
    let read = Hello::read(&wire).expect("a valid HELLO");
    assert_eq!(read, Some((hello.clone(), wire.len())));
    let mut session =
        Session::accept_new(config, Some(logs), &hello, now).expect("a HELLO within the limits");
    let mut ends = [None::<u64>; 2];
    let mut out = Vec::new();
    let mut requests = Vec::new();
    let mut turns = 0;
    while turns < 3 || !input.is_empty() {
        turns += 1;
        let len = 1 + usize::from(input.u8()) % 64;
        session.receive(0, input.bytes(len), now);
        while let Some(event) = session.poll_event() {
            match event {
                Event::Opened { flow, target, .. } => {
                    session.accept(flow, now);
                    session.write(flow, &target);
                }
                Event::Fetch { id, range, .. } => {
                    assert!((1..=65_536).contains(&(range.end - range.start)), "{range:?}");
                    requests.push((id, range.end - range.start));
                }
                _ => {}
            }
        }
        assert!(requests.len() < 100, "{} requests", requests.len());
        // The disk reads, fails, gives too little, or does not answer.
        for (id, len) in requests.extract_if(.., |_| input.u8() < 200).collect::<Vec<_>>() {
            let bytes = match input.u8() % 4 {
                0 => None,
                1 => Some(vec![input.u8(); usize::from(input.u8())]),
                _ => Some(vec![input.u8(); len as usize]),
            };
            session.supply(id, bytes, now);
            session.receive(0, &[], now);
        }
        if let Some((log, range)) = session.unhooked() {
            assert!(range.start < range.end);
            let back = number(&mut input).clamp(1, range.end - range.start);
            let content =
                (input.u8() < 200 && back < 1 << 20).then(|| vec![input.u8(); back as usize]);
            let runs = [Run { start: number(&mut input), owner: number(&mut input) }];
            session.hook(
                log ^ u64::from(input.u8() / 200),
                range.end - back,
                content.as_deref(),
                &runs,
            );
        }
        session.on_timeout(now);
        out.clear();
        session.transmit(0, 10_000, now, &mut out);
        for side in [Side::Sending, Side::Receiving] {
            while let Some(step) = session.unwritten(side) {
                let at = &mut ends[side as usize];
                match step {
                    Unwritten::Begin(header) => {
                        *at = Some(0);
                        session.committed(header.epoch);
                    }
                    Unwritten::Rewind { epoch, to, .. } => {
                        *at = Some(to.offset);
                        session.committed(epoch);
                    }
                    Unwritten::Drop => *at = None,
                    Unwritten::Content(piece) => {
                        assert!(Some(piece.offset - piece.padding) >= *at, "out of order");
                        *at = Some(piece.end().offset);
                    }
                }
            }
        }
        now += Duration::from_millis(len as u64);
        assert!(session.memory() < 64 << 20, "{} bytes", session.memory());
    }
    drop(session.into_logs());
    assert_eq!((delivery.available(), sending.available()), (BUDGET, BUDGET));
}

/// Logs that go back, and peers that continue them at their end or at a place, with an EPOCH of
/// their own.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Numbers of one byte have a first byte of 0, thousands one of 201.
    let log = |places: &[u8]| {
        let mut log = vec![5, 0, 1, 0, 0, 0, 201, 100, 0, 9, (places.len() / 4) as u8];
        log.extend_from_slice(places);
        log.extend_from_slice(&[1, 0, 0, 0, 0, 1, 0, 0, 0, 100, 7]);
        log
    };
    let peer = |acknowledged: [u8; 2], chain: u8, places: &[u8], from: u8, goes_on: u8| {
        let mut peer = vec![5, 0, 2, acknowledged[0], acknowledged[1], 0, chain];
        peer.push((places.len() / 4) as u8);
        peer.extend_from_slice(places);
        // The peer keeps 1 GiB on disk.
        peer.extend_from_slice(&[201, from, goes_on, 94, 128]);
        peer
    };
    let place = [201, 70, 0, 3];
    let epoch = |keep: [u8; 3]| {
        let [a, b, c] = keep;
        vec![15, 7, 5, 0, 0, 0, 0, 0, 0, 0, 3, a, b, c, 0x80, 0x80, 0x40]
    };
    let open = [8, 2, 0, 4, b'h', b':', b'8', b'0', 0, 0];
    let peers = [
        peer([201, 100], 9, &[], 0, 0),
        peer([201, 200], 1, &place, 10, 0),
        peer([201, 100], 8, &place, 69, 0),
        peer([201, 100], 9, &[], 200, 0),
        peer([201, 200], 1, &place, 150, 1),
    ];
    // The peer keeps the place, the end, or more than there is.
    let epochs = [[0xf1, 0xa2, 0x04], [0xa1, 0x8d, 0x06], [0xa2, 0x8d, 0x06]].map(epoch);
    // Content at 0 that the peer has read again: it is where the log ends, or is not.
    let recall = |from: u64, offset: u64, len: u64| {
        let numbers = [from, offset, 0, len, 7];
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        // How much arrives at once, what the disk does, and what it has.
        let mut message = vec![0x0b];
        message.extend(bytes);
        [&[40][..], &message, &[0, 2, 7], &[0, 0, 2, 7, 63, 12, 5, 0, 44, 0, 50]].concat()
    };
    let mut seeds = Vec::new();
    for peer in &peers {
        for epoch in &epochs {
            seeds.push([&log(&place)[..], &log(&place), peer, &open, epoch].concat());
        }
    }
    for recall in [recall(0, 100_000, 1000), recall(99_000, 100_000, 65_536), recall(5, 5, 5)] {
        let epoch = epoch([0xf1, 0xa2, 0x04]);
        let parts = [&log(&place)[..], &log(&place), &peers[0], &open, &epoch, &recall, &recall];
        seeds.push(parts.concat());
    }
    seeds
}
