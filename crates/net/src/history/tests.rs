use super::file::HistoryFile;
use super::*;
use crate::services::ServiceCounters;
use crate::status::{
    Counters, Document, LinkStatus, PeerStatus, ServiceStatus, SessionStatus, Status, Traffic,
};
use oncewire_session::Metrics;
use oncewire_session::link::SenderStats;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A record of a second with two peers.
fn record(time: u64, bytes: u64) -> Record {
    let amounts = Amounts { sent_bytes: bytes, wire_sent_bytes: bytes / 3, ..Amounts::default() };
    let peer = |name: &str| PeerRecord {
        peer: Arc::new(PeerName::new(&format!("ow1{name}"), Some(name))),
        amounts,
    };
    Record {
        time,
        seconds: 1,
        flows: bytes % 7,
        peers_up: 2,
        amounts: Amounts { sent_bytes: 2 * bytes, ..amounts },
        peers: vec![peer("a"), peer("b")],
        services: vec![],
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    (dir, path)
}

fn sent(records: &[Record]) -> u64 {
    records.iter().map(|record| record.amounts.sent_bytes).sum()
}

#[test]
fn records_read_as_written_and_hostile_ones_are_errors() {
    let mut all = record(60, 12_345);
    all.amounts = Amounts::from_values([u64::MAX; 99]);
    all.peers[1].amounts = Amounts::default();
    let peers: BTreeMap<u32, _> = (7..).zip(all.peers.iter().map(|one| one.peer.clone())).collect();
    let number = |peer: &Arc<PeerName>| peers.iter().find(|one| one.1 == peer).map(|one| *one.0);
    let written = all.write(number);
    assert_eq!(Record::read(60, &written, &peers), Ok(all.clone()));
    for end in 0..written.len() {
        assert_eq!(Record::read(60, &written[..end], &peers), Err(RecordError), "{end}");
    }
    // A number that is too long, too many values, too many peers, and one that is unknown.
    let cases: [&[u8]; 4] =
        [&[0xff; 11], &[0, 0, 0, 0xff, 0x7f], &[0, 0, 0, 0, 0xff, 0x7f], &[0, 0, 0, 0, 1, 5, 0]];
    for bad in cases {
        assert_eq!(Record::read(60, bad, &peers), Err(RecordError), "{bad:?}");
    }
    // Peers that have no number are in the sum only.
    let without = Record::read(60, &all.write(|_| None), &peers).unwrap();
    assert_eq!((without.peers.len(), without.amounts), (0, all.amounts));
}

fn session(peer: &str, age: u64, sent: u64) -> SessionStatus {
    SessionStatus {
        peer: peer.into(),
        phase: "established".into(),
        lanes_up: 1,
        age: Duration::from_secs(age),
        here: Counters { sent_bytes: sent, wire_sent_bytes: sent, flows: 1, ..Counters::default() },
        ..SessionStatus::default()
    }
}

#[test]
fn samples_are_changes_and_sessions_may_come_and_go() {
    let begun = Instant::now();
    let mut sampler = Sampler::default();
    let mut at = |second: u64, application_sent: u64, sessions: Vec<SessionStatus>| {
        let status = Status { application_sent, sessions, ..Status::default() };
        let at = begun + Duration::from_secs(second);
        sampler.sample(&Document::Tunnel(Box::new(status)), at, second, 1)
    };
    let of = |record: &Record| -> Vec<(String, u64)> {
        let peers = record.peers.iter();
        peers.map(|one| (one.peer.key.clone(), one.amounts.sent_bytes)).collect()
    };
    let first = at(1, 100, vec![session("a", 1, 40), session("b", 1, 60)]);
    assert_eq!(of(&first), [("a".into(), 40), ("b".into(), 60)]);
    assert_eq!((first.amounts.sent_bytes, first.peers_up, first.flows), (100, 2, 2));
    // Nothing happened, but a name is known.
    assert_eq!(of(&at(2, 100, vec![session("a", 2, 40), session("b", 2, 60)])), []);
    // The session of a ended; another one began and has sent more than the first.
    let third = at(3, 200, vec![session("a", 0, 90), session("b", 3, 61)]);
    assert_eq!(of(&third), [("a".into(), 90), ("b".into(), 1)]);
    assert_eq!(third.amounts.sent_bytes, 100);
    // Two sessions of one peer are one row.
    let fourth = at(4, 207, vec![session("a", 1, 95), session("a", 0, 2), session("b", 4, 61)]);
    assert_eq!(of(&fourth), [("a".into(), 7)]);
    // The state came late, and the older session of a ended.
    let fifth = at(5, 210, vec![session("a", 4, 3), session("b", 8, 63)]);
    assert_eq!(of(&fifth), [("a".into(), 1), ("b".into(), 2)]);
}

#[test]
fn services_are_recorded_and_records_without_them_are_read() {
    let mut all = record(60, 12_345);
    let before = all.write(|peer| Some(u32::from(peer.name == "b")));
    let service = |name: &str, bytes| PeerRecord {
        peer: Arc::new(PeerName::of_service(name)),
        amounts: Amounts { received_bytes: bytes, ..Amounts::default() },
    };
    all.services = vec![service("pypi.example:443", 7), service("b.example:80", 9)];
    let names = all.peers.iter().chain(&all.services).map(|one| one.peer.clone());
    let peers: BTreeMap<u32, _> = (0..).zip(names).collect();
    let number = |peer: &Arc<PeerName>| peers.iter().find(|one| one.1 == peer).map(|one| *one.0);
    let written = all.write(number);
    assert_eq!(Record::read(60, &written, &peers), Ok(all.clone()));
    let without = Record { services: vec![], ..all.clone() };
    for end in 0..written.len() {
        // One that ends with its peers is whole: earlier versions wrote it so.
        let expected = if end == before.len() { Ok(without.clone()) } else { Err(RecordError) };
        assert_eq!(Record::read(60, &written[..end], &peers), expected, "{end}");
    }

    let begun = Instant::now();
    let mut sampler = Sampler::default();
    let mut at = |second: u64, services: &[(&str, u64)]| {
        let services = services.iter().map(|&(name, bytes)| ServiceStatus {
            name: name.into(),
            counters: ServiceCounters { sent_bytes: bytes, ..ServiceCounters::default() },
        });
        let status = Status { services: services.collect(), ..Status::default() };
        let at = begun + Duration::from_secs(second);
        let record = sampler.sample(&Document::Tunnel(Box::new(status)), at, second, 1);
        let of = |one: &PeerRecord| (one.peer.label(), one.amounts.sent_bytes);
        record.services.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(at(1, &[("a:1", 5), ("b:1", 6)]), [("a:1".into(), 5), ("b:1".into(), 6)]);
    assert_eq!(at(2, &[("a:1", 5), ("b:1", 8)]), [("b:1".into(), 2)]);
    // One was forgotten, and came back.
    assert_eq!(at(3, &[("a:1", 9)]), [("a:1".into(), 4)]);
    assert_eq!(at(4, &[("a:1", 9), ("b:1", 3)]), [("b:1".into(), 3)]);
    let names: Vec<String> = (0..99).map(|at| format!("{at}:1")).collect();
    let many: Vec<_> = names.iter().map(|name| (&**name, 1)).collect();
    assert_eq!(at(5, &many).len(), MOST_RECORDED_SERVICES);
}

#[test]
fn names_that_clients_choose_leave_numbers_to_peers() {
    let (_dir, path) = place();
    let (mut file, _) = HistoryFile::open(&path).unwrap();
    let hostile = |at: u64| {
        let name = |n| PeerName::of_service(&format!("{at}-{n}.example:1\u{1b}"));
        let amounts = Amounts { sent_bytes: 1, ..Amounts::default() };
        let services = (0..32).map(|n| PeerRecord { peer: Arc::new(name(n)), amounts }).collect();
        Record { time: at, seconds: 1, services, ..Record::default() }
    };
    file.append(&(0..200).map(hostile).collect::<Vec<_>>()).unwrap();
    file.append(&[record(200, 5)]).unwrap();
    drop(file);
    let recorded = read(&path).unwrap();
    assert_eq!(recorded.peers.len(), 2048 + 2);
    assert_eq!(recorded.seconds[200].peers.len(), 2);
    assert!(recorded.peers.values().all(|one| !one.name.contains('\u{1b}')));
}

#[test]
fn samples_of_links_and_many_peers() {
    let mut sampler = Sampler::default();
    let sent = |bytes| Traffic {
        sent: SenderStats { inner_bytes: bytes, bypassed_bytes: 5, ..SenderStats::default() },
        ..Traffic::default()
    };
    let hostile = "\u{1b}".repeat(1000);
    let peer = |at: u64| PeerStatus {
        key: format!("{at:0>50}"),
        name: Some(hostile.clone()),
        traffic: sent(at),
        ..PeerStatus::default()
    };
    let status =
        LinkStatus { peers: (0..500).map(peer).collect(), traffic: sent(9), ..Default::default() };
    let record = sampler.sample(&Document::Link(Box::new(status)), Instant::now(), 0, 1);
    assert_eq!((record.amounts.sent_bytes, record.amounts.encrypted_bytes), (9, 2500));
    assert_eq!(record.peers.len(), MOST_PEERS);
    assert_eq!(record.peers[0].amounts.sent_bytes, 499);
    let name = &record.peers[0].peer.name;
    assert!(name.chars().count() == 64 && !name.contains('\u{1b}'), "{name}");
}

#[test]
fn files_keep_seconds_and_minutes_and_stay_small() {
    let (_dir, path) = place();
    let (mut file, recorded) = HistoryFile::open(&path).unwrap();
    assert_eq!(recorded, Recorded::default());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let all: Vec<Record> = (0..2 * SECONDS as u64).map(|at| record(at, at)).collect();
    for batch in all.chunks(600) {
        file.append(batch).unwrap();
    }
    // It can be read meanwhile, and only be read.
    assert!(matches!(HistoryFile::open(&path), Err(HistoryError::InUse)));
    let read_it = read(&path).unwrap();
    assert_eq!(read_it.seconds, all[SECONDS..]);
    assert_eq!(read_it.minutes.len(), 2 * SECONDS / 60);
    assert_eq!(sent(&read_it.minutes), sent(&all));
    let minute = &read_it.minutes[1];
    assert_eq!((minute.time, minute.seconds, minute.flows), (60, 60, 6));
    assert_eq!(sent(&all[60..120]), minute.amounts.sent_bytes);
    assert_eq!(minute.peers[0].amounts.sent_bytes, sent(&all[60..120]) / 2);
    drop(file);
    assert_eq!(read(&path).unwrap(), read_it);

    // Another process continues within the same minute, and the clock may go back.
    let (mut file, recorded) = HistoryFile::open(&path).unwrap();
    assert_eq!(recorded, read_it);
    let last = 2 * SECONDS as u64 - 1;
    file.append(&[record(last, 11)]).unwrap();
    let again = read(&path).unwrap();
    assert_eq!(again.seconds.len(), SECONDS);
    assert_eq!(sent(&again.minutes), sent(&all) + 22);
}

#[test]
fn a_month_by_minutes_is_kept() {
    let (_dir, path) = place();
    let (mut file, _) = HistoryFile::open(&path).unwrap();
    let count = MINUTES as u64 + 100;
    let all: Vec<Record> = (0..count).map(|minute| record(minute * 60, minute)).collect();
    for batch in all.chunks(5000) {
        file.append(batch).unwrap();
    }
    let recorded = read(&path).unwrap();
    assert_eq!((recorded.seconds.len(), recorded.minutes.len()), (SECONDS, MINUTES));
    assert_eq!(recorded.minutes[0].time, 6000);
    // Ten bytes more or less for each of a few numbers.
    let len = std::fs::metadata(&path).unwrap().len();
    assert!(len < 16 << 20, "{len}");
}

/// What is found of a file after `damage`, and whether the file is as it was.
fn damaged(damage: impl Fn(&mut Vec<u8>)) -> (HistoryError, bool) {
    let (_dir, path) = place();
    let (mut file, _) = HistoryFile::open(&path).unwrap();
    for batch in 0..20 {
        file.append(&(0..50).map(|at| record(batch * 50 + at, at)).collect::<Vec<_>>()).unwrap();
    }
    drop(file);
    let mut bytes = std::fs::read(&path).unwrap();
    damage(&mut bytes);
    std::fs::write(&path, &bytes).unwrap();
    let error = HistoryFile::open(&path).err().unwrap();
    (error, std::fs::read(&path).unwrap() == bytes)
}

#[test]
fn what_is_no_history_is_left_alone() {
    type Damage = Box<dyn Fn(&mut Vec<u8>)>;
    let foreign: [Damage; 3] = [
        Box::new(|bytes| bytes.clear()),
        Box::new(|bytes| *bytes = b"diary of a dog".to_vec()),
        Box::new(|bytes| bytes[0] ^= 1),
    ];
    for damage in foreign {
        let (error, is_same) = damaged(damage);
        assert!(matches!(error, HistoryError::Foreign) && is_same, "{error}");
    }
    let corrupt: [Damage; 4] = [
        Box::new(|bytes| bytes.truncate(10)),
        Box::new(|bytes| bytes.truncate(5000)),
        Box::new(|bytes| bytes.truncate(bytes.len() - 1)),
        Box::new(|bytes| bytes[64..].fill(0xff)),
    ];
    for damage in corrupt {
        let (error, is_same) = damaged(damage);
        assert!(matches!(error, HistoryError::Damaged(_)) && is_same, "{error}");
    }
    let (dir, path) = place();
    assert!(matches!(read(&path), Err(HistoryError::Io(_))));
    assert!(matches!(read(dir.path()), Err(HistoryError::Foreign)));
    assert!(matches!(read(Path::new("/dev/zero")), Err(HistoryError::Foreign)));
    // To open it would wait for a writer.
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(matches!(read(&pipe), Err(HistoryError::Foreign)));
    // Another program's database, and a later format.
    let table = redb::TableDefinition::<&str, &str>::new("about");
    let database = redb::Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(table).unwrap().insert("format", "dog").unwrap();
    write.commit().unwrap();
    drop(database);
    assert!(matches!(read(&path), Err(HistoryError::Foreign)));
    std::fs::remove_file(&path).unwrap();
    drop(HistoryFile::open(&path).unwrap());
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(tables::ABOUT).unwrap().insert("format", 2).unwrap();
    write.commit().unwrap();
    drop(database);
    assert!(matches!(read(&path), Err(HistoryError::Format(2))));
}

#[test]
fn flipped_bits_never_panic_the_caller_or_change_the_file() {
    let (_dir, path) = place();
    let (mut file, _) = HistoryFile::open(&path).unwrap();
    for batch in 0..20 {
        file.append(&(0..50).map(|at| record(batch * 50 + at, at)).collect::<Vec<_>>()).unwrap();
    }
    drop(file);
    let whole = read(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut found = 0;
    for round in 0..40 {
        let mut bytes = bytes.clone();
        // Half of them in the header.
        let end = if round % 2 == 0 { 320 } else { used };
        for _ in 0..4 {
            bytes[random.usize(9..end)] ^= 1 << random.u8(..8);
        }
        std::fs::write(&path, &bytes).unwrap();
        match read(&path) {
            // An earlier transaction is as good.
            Ok(recorded) => assert!(recorded.seconds.iter().all(|one| whole.seconds.contains(one))),
            Err(_) => found += 1,
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    assert!(found > 10, "{found}");
}

/// Not a test: the process that is killed. It says what it has committed.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let Ok(path) = std::env::var("HISTORY_FILE") else { return };
    let (mut file, recorded) = HistoryFile::open(Path::new(&path)).unwrap();
    let mut at = recorded.seconds.last().map_or(0, |last| last.time + 1);
    loop {
        file.append(&[record(at, at), record(at + 1, at + 1)]).unwrap();
        at += 2;
        writeln!(std::io::stdout(), "\ncommitted {at}").unwrap();
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn what_was_committed_survives_kills() {
    let (_dir, path) = place();
    let mut committed = 0;
    for kill in 0..30 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "history::tests::child", "--ignored", "--nocapture"])
            .env("HISTORY_FILE", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut next = || lines.find_map(|line| line.strip_prefix("committed ")?.parse().ok());
        for _ in 0..=kill % 5 {
            committed = next().expect("the child commits");
        }
        // Right then, or in the middle of a later transaction.
        for _ in 0..(kill % 3) * 2000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        committed = lines
            .filter_map(|line| line.strip_prefix("committed ")?.parse().ok())
            .last()
            .unwrap_or(committed);
        let recorded = read(&path).unwrap();
        let times: Vec<u64> = recorded.seconds.iter().map(|one| one.time).collect();
        assert!(times.len() as u64 >= committed, "{}", times.len());
        assert_eq!(times, (0..times.len() as u64).collect::<Vec<_>>());
        assert_eq!(sent(&recorded.minutes), sent(&recorded.seconds));
        committed = times.len() as u64;
    }
}

#[test]
fn a_full_disk_stops_the_history_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| {
        let mut command = Command::new(args[0]);
        let done = command.args(&args[1..]).arg(dir.path()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=1700k", "none"]) {
        oncewire_testkit::skip!("cannot mount: not root");
    }
    struct Mounted<F: Fn(&[&str]) -> bool>(F);
    impl<F: Fn(&[&str]) -> bool> Drop for Mounted<F> {
        fn drop(&mut self) {
            (self.0)(&["umount", "-l"]);
        }
    }
    let _mounted = Mounted(mount);
    let path = dir.path().join("history");
    let history = History::start(Some(path.clone()));
    let started = Instant::now();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(started.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait("made", &|| path.exists());
    let mut time = 0;
    while history.status().unwrap().recording {
        assert!(started.elapsed() < Duration::from_secs(60), "{time}");
        for _ in 0..500 {
            time += 60;
            history.add(record(time, u64::MAX >> 8));
        }
        // Until the thread has taken some of them.
        std::thread::sleep(Duration::from_millis(5));
    }
    let failure = history.status().unwrap().failure.unwrap();
    history.close();
    let kept = read(&path);
    assert!(failure.to_lowercase().contains("no space left"), "{failure}");
    assert!(!kept.unwrap().minutes.is_empty());
    // The last hour stays in memory.
    assert_eq!(history.recent(<[Record]>::len), SECONDS);
}
