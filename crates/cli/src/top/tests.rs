use super::model::{Moment, Process};
use super::screen::Sort;
use super::*;
use oncewire_net::status::{
    ConnectionStatus, Counters, Document, LinkStatus, PeerStatus, Role, SessionStatus, Status,
    Traffic,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::borrow::Cow;

fn session(name: &str, content: u64, wire: u64, flows: u64) -> SessionStatus {
    SessionStatus {
        peer: format!("ow1{name}"),
        name: Some(name.into()),
        phase: "established".into(),
        address: "192.0.2.7:50123".parse().ok(),
        transport: Some(Cow::Borrowed("tcp")),
        lanes: 2,
        lanes_up: 2,
        here: Counters {
            sent_bytes: content,
            received_bytes: content / 10,
            wire_sent_bytes: wire,
            wire_received_bytes: wire / 10,
            flows,
            rtt_us: 20_400 + flows,
            log_end: 30 << 20,
            log_capacity: 120 << 20,
            ..Counters::default()
        },
        ..SessionStatus::default()
    }
}

fn hub(n: u64) -> Document {
    let mut sessions = vec![
        session("branch-1", 4_000_000 * n, 400_000 * n, 12),
        session("branch-2", 9_000_000 * n, 8_800_000 * n, 3),
        session("ship", 1_000_000, 100_000, 0),
    ];
    sessions[2].lanes_up = 0;
    let total = |of: fn(&Counters) -> u64| sessions.iter().map(|one| of(&one.here)).sum::<u64>();
    Document::Tunnel(Box::new(Status {
        role: Role::Serve,
        version: "0.1.0".into(),
        uptime: Duration::from_secs(7384),
        listening: vec!["[::]:7077".into()],
        memory: 300 << 20,
        memory_limit: 1 << 30,
        application_sent: total(|here| here.sent_bytes),
        application_received: total(|here| here.received_bytes),
        transport_sent: total(|here| here.wire_sent_bytes) * 102 / 100,
        transport_received: total(|here| here.wire_received_bytes) * 102 / 100,
        sessions,
        ..Status::default()
    }))
}

fn link(n: u64) -> Document {
    let mut traffic = Traffic::default();
    (traffic.sent.inner_bytes, traffic.sent.bytes) = (50_000_000 * n, 20_000_000 * n);
    (traffic.received.inner_bytes, traffic.received.bytes) = (1_000_000 * n, 900_000 * n);
    let connection = ConnectionStatus {
        address: "198.51.100.2:7079".into(),
        rtt: Duration::from_millis(600),
        ..ConnectionStatus::default()
    };
    let there = PeerStatus {
        key: "ow1there".into(),
        name: Some("there".into()),
        connection: Some(connection),
        traffic,
        ..PeerStatus::default()
    };
    let gone = PeerStatus {
        key: "ow1gone".into(),
        last_failure: Some("no answer from 203.0.113.9:7079".into()),
        ..PeerStatus::default()
    };
    Document::Link(Box::new(LinkStatus {
        version: "0.1.0".into(),
        device: "ow0".into(),
        address: "[::]:7079".into(),
        uptime: Duration::from_secs(59),
        traffic,
        peers: vec![there, gone],
        ..LinkStatus::default()
    }))
}

/// After a look each second, one for each of these.
fn state(of: fn(u64) -> Document, looks: &[u64]) -> State {
    let mut process = Process::default();
    let begun = Instant::now();
    for (second, &n) in looks.iter().enumerate() {
        let at = begun + Duration::from_secs(second as u64);
        process.update(at, Ok(Moment::of(&of(n))));
    }
    State { processes: vec![process], interval: Duration::from_secs(1), ..State::default() }
}

fn screen(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| state.draw(frame)).unwrap();
    let lines = terminal.backend().to_string();
    lines.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
}

fn press(state: &mut State, codes: &[KeyCode]) -> After {
    codes.iter().fold(After::Draw, |_, &code| state.key(code.into()))
}

#[test]
fn a_hub_on_80_columns() {
    insta::assert_snapshot!(screen(&state(hub, &[1, 2, 2, 5, 9]), 80, 24));
}

#[test]
fn a_link_on_80_columns() {
    insta::assert_snapshot!(screen(&state(link, &[1, 2, 4]), 80, 24));
}

#[test]
fn the_counters_of_a_peer() {
    let mut state = state(hub, &[1, 2]);
    press(&mut state, &[KeyCode::Down, KeyCode::Enter]);
    insta::assert_snapshot!(screen(&state, 80, 24));
    press(&mut state, &[KeyCode::End]);
    assert!(screen(&state, 80, 24).contains("unopened bytes"));
    press(&mut state, &[KeyCode::Esc]);
    assert!(screen(&state, 80, 24).contains("FLOWS"));
}

#[test]
fn keys_sort_filter_and_pause() {
    let mut state = state(hub, &[1, 2]);
    let order = |state: &State| -> Vec<String> {
        state.rows().iter().map(|(peer, _)| peer.name.clone()).collect()
    };
    assert_eq!(order(&state), ["branch-2", "branch-1", "ship"]);
    for (sort, expected) in [
        (Sort::Saved, ["branch-1", "ship", "branch-2"]),
        (Sort::Flows, ["branch-1", "branch-2", "ship"]),
        (Sort::Rtt, ["branch-1", "branch-2", "ship"]),
        (Sort::Name, ["branch-1", "branch-2", "ship"]),
    ] {
        press(&mut state, &[KeyCode::Char('s')]);
        assert_eq!(state.sort, sort);
        assert_eq!(order(&state), expected, "{sort:?}");
    }
    press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('H'), KeyCode::Char('i')]);
    assert_eq!(order(&state), ["ship"]);
    assert!(screen(&state, 80, 24).contains("filter: Hi_"));
    // q belongs to the filter while that is typed.
    press(&mut state, &[KeyCode::Char('q')]);
    assert!(order(&state).is_empty());
    assert!(screen(&state, 80, 24).contains("filter: Hiq_"));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(order(&state).len(), 3);

    let (to, answers) = channel();
    press(&mut state, &[KeyCode::Char('p')]);
    to.send((0, Instant::now(), Err("gone".into()))).unwrap();
    assert!(!state.take(&answers) && state.processes[0].failure.is_none());
    assert!(screen(&state, 80, 24).contains("PAUSED"));
    press(&mut state, &[KeyCode::Char('p')]);
    to.send((0, Instant::now(), Err("it has ended".into()))).unwrap();
    assert!(state.take(&answers));
    assert!(screen(&state, 80, 24).contains("it has ended"));
    assert_eq!(press(&mut state, &[KeyCode::Char('q')]), After::Quit);
    let stop = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(stop), After::Quit);
}

#[test]
fn a_session_that_began_again_has_no_negative_rate() {
    let state = state(hub, &[9, 1]);
    let (content, wire) = state.processes[0].rates.sum();
    assert!(content > 0.0 && wire > 0.0);
    assert!(state.rows().iter().all(|(_, rates)| rates.sum().0 >= 0.0));
}

#[test]
fn hostile_names_and_small_terminals() {
    fn hostile(_: u64) -> Document {
        let mut sessions = vec![session("\u{1b}[2J\n\u{9b}\u{202e}evil", 1, 1, 1)];
        sessions[0].phase = "over: \u{1b}]0;x\u{7}".into();
        Document::Tunnel(Box::new(Status { sessions, ..Status::default() }))
    }
    let mut state = state(hostile, &[1, 1]);
    for (width, height) in [(80, 24), (20, 5), (1, 1), (300, 100)] {
        for _ in 0..2 {
            let text = screen(&state, width, height);
            assert!(
                !text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'),
                "{text:?}"
            );
            press(&mut state, &[KeyCode::Enter]);
        }
        press(&mut state, &[KeyCode::Esc]);
    }
    let empty = State::default();
    screen(&empty, 80, 24);
}
