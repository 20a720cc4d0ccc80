//! Content logs on disk: what a crash, decay, faults and strangers do to them.

#[path = "store/gaps.rs"]
mod gaps;

use oncewire_flash::device::{Crash, Device, Fault, Operation};
use oncewire_flash::store::{
    AesGcm, AppendError, Cipher, DiskLog, HeaderError, LogName, NewLog, Peer, Plain, Secret, Side,
    Store, StoreError, layout,
};
use oncewire_kernels::random::SplitMix64;
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

const UNIT: u64 = layout::UNIT_CONTENT as u64;

fn key() -> Secret {
    Secret::derive(b"key", b"", "test")
}

/// Segments of two units, and a small state.
fn small() -> NewLog {
    let about = b"about".to_vec();
    NewLog { capacity: 3 * UNIT, units: 2, state: 3000, about, ..NewLog::default() }
}

fn size(new: &NewLog) -> usize {
    Store::bytes_of(new).expect("in range") as usize
}

/// AES-256-GCM that refuses to seal with a key and a nonce that it has seen.
#[derive(Debug, Default)]
struct Once(Mutex<HashSet<(Vec<u8>, [u8; 12])>>);

impl Cipher for Once {
    fn seal(&self, key: &Secret, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> [u8; 16] {
        // A key shows itself by what it makes of nothing.
        let name = AesGcm.seal(key, [0xff; 12], b"", &mut []).to_vec();
        assert!(self.0.lock().expect("no panic").insert((name, nonce)), "a nonce repeats");
        AesGcm.seal(key, nonce, aad, content)
    }

    fn open(&self, key: &Secret, n: [u8; 12], aad: &[u8], tag: [u8; 16], c: &mut [u8]) -> bool {
        AesGcm.open(key, n, aad, tag, c)
    }
}

/// Content of a branch of a log: after content was taken back, other bytes follow.
fn byte(branch: u64, offset: u64) -> u8 {
    (SplitMix64((branch << 48) ^ (offset / 8)).next_u64() >> (offset % 8 * 8)) as u8
}

/// What a log must hold: offsets from which on a branch counts, and the end.
#[derive(Clone, Debug, PartialEq)]
struct Oracle {
    branches: Vec<(u64, u64)>,
    low: u64,
    end: u64,
}

impl Oracle {
    fn byte(&self, offset: u64) -> u8 {
        let branch = self.branches.iter().rev().find(|(from, _)| *from <= offset);
        byte(branch.map_or(0, |branch| branch.1), offset)
    }

    fn bytes(&self, from: u64, to: u64) -> Vec<u8> {
        (from..to).map(|offset| self.byte(offset)).collect()
    }

    /// As its owner's state, so that a log says which commit it holds.
    fn state(&self) -> Vec<u8> {
        let mut state = self.end.to_le_bytes().to_vec();
        for (from, branch) in &self.branches {
            state.extend(from.to_le_bytes());
            state.extend(branch.to_le_bytes());
        }
        state
    }
}

/// A seeded history on a log: appends, commits, and content that is taken back.
struct History {
    random: SplitMix64,
    oracle: Oracle,
    branch: u64,
    /// What each commit held, and the steps of the device when it returned.
    commits: Vec<(usize, Oracle)>,
}

impl History {
    fn new(seed: u64) -> History {
        let oracle = Oracle { branches: vec![(0, 0)], low: 0, end: 0 };
        History { random: SplitMix64(seed), oracle, branch: 0, commits: Vec::new() }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn commit(&mut self, log: &mut DiskLog, device: &Crash) {
        log.commit(&self.oracle.state(), self.commits.len() as u64).expect("commits");
        self.oracle.low = log.fill().low;
        self.commits.push((device.steps(), self.oracle.clone()));
    }

    fn step(&mut self, log: &mut DiskLog, device: &Crash) {
        match self.below(10) {
            0..=6 => {
                // Often to the beginning of a unit: then the state is a single sector.
                let to_next = UNIT + self.below(40) - self.oracle.end % UNIT;
                let len = if self.below(2) == 0 { to_next } else { self.below(UNIT) };
                let len = len.min(log.limit() - self.oracle.end);
                if len == 0 {
                    return self.commit(log, device);
                }
                let end = self.oracle.end + len;
                let bytes = self.oracle.bytes(self.oracle.end, end);
                log.append(self.oracle.end, &bytes).expect("appends");
                self.oracle.end = end;
            }
            7 | 8 => self.commit(log, device),
            _ => {
                let low = log.fill().low;
                let to = low + self.below(self.oracle.end - low + 1);
                log.truncate(to).expect("is within the log");
                if to < self.oracle.end {
                    let refused = log.append(to, b"more");
                    assert_eq!(refused, Err(AppendError::NeedsCommit));
                }
                self.branch += 1;
                self.oracle.branches.retain(|(from, _)| *from < to);
                self.oracle.branches.push((to, self.branch));
                self.oracle.end = to;
                self.commit(log, device);
            }
        }
    }
}

fn open_log(device: &Arc<Crash>, cipher: &Arc<Once>) -> DiskLog {
    DiskLog::open_on(Box::new(device.clone()), cipher.clone(), &key()).expect("opens")
}

/// All of a log is what the oracle says.
fn check(log: &mut DiskLog, oracle: &Oracle) {
    assert_eq!(log.owner_state(), oracle.state());
    let fill = log.fill();
    assert_eq!((fill.low, fill.tail), (oracle.low, oracle.end));
    // Of what was never taken back, the capacity is kept.
    assert!(fill.low == 0 || oracle.branches.len() > 1 || fill.tail - fill.low >= 3 * UNIT);
    let mut bytes = vec![0; (fill.tail - fill.low) as usize];
    log.read(fill.low, &mut bytes).expect("nothing is lost");
    assert!(bytes == oracle.bytes(fill.low, fill.tail), "other bytes");
}

fn created(cipher: &Arc<Once>) -> (Arc<Crash>, DiskLog) {
    let device = Arc::new(Crash::new(size(&small())));
    let state = History::new(0).oracle.state();
    let log =
        DiskLog::create_on(Box::new(device.clone()), cipher.clone(), &key(), &small(), &state);
    (device, log.expect("is made"))
}

/// A log that has evicted content, after `commits` or more and one of 20,000 bytes; its device, and what
/// was done.
fn full(cipher: &Arc<Once>, seed: u64, commits: usize) -> (Arc<Crash>, History) {
    let (device, mut log) = created(cipher);
    let mut history = History::new(seed);
    history.commits.push((0, history.oracle.clone()));
    while history.oracle.low == 0 || history.commits.len() < commits {
        history.step(&mut log, &device);
    }
    let (end, len) = (history.oracle.end, 20_000);
    log.append(end, &history.oracle.bytes(end, end + len)).expect("appends");
    history.oracle.end += len;
    history.commit(&mut log, &device);
    (device, history)
}

fn seeds() -> u64 {
    std::env::var("ONCEWIRE_FLASH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4)
}

/// Power is cut after every write and every sync. The log is that of the last commit that returned,
/// or of the one that was being made; and it goes on from there, through a second crash.
#[test]
fn a_crash_leaves_the_last_commit() {
    let mut next_commits = 0;
    for seed in 1..=seeds() {
        let cipher = Arc::new(Once::default());
        let (device, mut log) = created(&cipher);
        let mut history = History::new(seed);
        history.commits.push((device.steps(), history.oracle.clone()));
        for _ in 0..60 {
            history.step(&mut log, &device);
        }
        drop(log);
        let first = history.commits[0].0;
        for steps in first..=device.steps() {
            for choice in [0, u64::MAX, seed * 1000 + steps as u64] {
                let crashed = Arc::new(device.cut(steps, choice));
                let mut log = open_log(&crashed, &cipher);
                let at = history.commits.partition_point(|(done, _)| *done <= steps) - 1;
                let next = history.commits.get(at + 1);
                let survived = next.filter(|next| log.owner_state() == next.1.state());
                next_commits += u64::from(survived.is_some());
                let oracle = &survived.unwrap_or(&history.commits[at]).1;
                check(&mut log, oracle);
                if !(steps as u64 ^ choice).is_multiple_of(5) {
                    continue;
                }
                // Other content follows, with a second crash.
                let mut again = History::new(choice ^ seed);
                (again.oracle, again.branch) = (oracle.clone(), 1000);
                again.oracle.branches.push((oracle.end, 1000));
                again.commits.push((0, oracle.clone()));
                for _ in 0..8 {
                    again.step(&mut log, &crashed);
                }
                let cut = again.below(crashed.steps() as u64 + 1) as usize;
                let twice = Arc::new(crashed.cut(cut, again.random.next_u64()));
                let mut log = open_log(&twice, &cipher);
                let at = again.commits.partition_point(|(done, _)| *done <= cut) - 1;
                let survived = again.commits[at..].iter().take(2);
                let found = survived.rev().find(|(_, oracle)| oracle.state() == log.owner_state());
                check(&mut log, &found.expect("one of the two commits").1);
            }
        }
    }
    assert!(next_commits > 10, "no crash within a commit: {next_commits}");
}

/// A bit is wrong anywhere in the file: a log is refused, or is that of the commit before, or a unit
/// is lost. No other byte is ever read.
#[test]
fn decay_anywhere_gives_no_wrong_byte() {
    let cipher = Arc::new(Once::default());
    let (device, history) = full(&cipher, 3, 6);
    let steps = device.steps();
    let [.., before, last] = &history.commits[..] else { panic!("there were several") };
    let (mut lost_units, mut went_back, mut unchanged) = (0, 0, 0);
    let mut random = SplitMix64(8);
    let flips = (0..size(&small()) as u64 / 512).map(|sector| sector * 512);
    let first = (0..600).map(|at| at * 7 % 1024);
    for at in flips.chain(first) {
        let decayed = Arc::new(device.cut(steps, u64::MAX));
        decayed.rot(at + random.next_u64() % 512);
        let mut log = open_log(&decayed, &cipher);
        let oracle = if log.owner_state() == last.1.state() { &last.1 } else { &before.1 };
        went_back += u64::from(oracle != &last.1);
        assert_eq!(log.owner_state(), oracle.state());
        let lost = log.scrub(&mut |_| {});
        let mut from = log.fill().low;
        let end = log.fill().tail;
        let ends = lost.iter().map(|lost| (lost.start, lost.end)).chain([(end, end)]);
        for (start, after) in ends {
            let mut bytes = vec![0; (start - from) as usize];
            log.read(from, &mut bytes).expect("scrub said so");
            assert!(bytes == oracle.bytes(from, start), "another byte after decay at {at}");
            from = after;
        }
        match oracle == &last.1 {
            true if lost.is_empty() => unchanged += 1,
            true => {
                // A footer or a unit.
                assert!(lost.iter().map(|lost| lost.end - lost.start).sum::<u64>() <= 2 * UNIT);
                lost_units += 1;
            }
            false => {}
        }
    }
    assert!(
        lost_units > 100 && went_back > 10 && unchanged > 100,
        "{lost_units} {went_back} {unchanged}"
    );
}

/// The newest state decays after content was taken back and other content was written in its place:
/// the state before it does not take the one for the other.
#[test]
fn an_old_state_does_not_find_newer_content() {
    // Of a segment whose footer is newer, too, everything is lost; of the last one, only the unit.
    for (units, to, lost) in [(3, 1, 0..2), (4, 2, 2..3)] {
        let cipher = Arc::new(Once::default());
        let (device, mut log) = created(&cipher);
        let length = (units * UNIT - 7) as usize;
        log.append(0, &vec![1; length]).expect("appends");
        log.commit(b"before", 0).expect("commits");
        log.truncate(to * UNIT).expect("truncates");
        log.commit(b"after", 0).expect("commits");
        let newest = log.header().shape.state_at(3);
        log.append(to * UNIT, &vec![2; UNIT as usize]).expect("appends");
        // Units are written several at a time, or when they are read.
        log.read(to * UNIT, &mut [0]).expect("reads");
        drop(log);
        let decayed = Arc::new(device.cut(device.steps(), u64::MAX));
        decayed.rot(newest);
        let mut log = open_log(&decayed, &cipher);
        assert_eq!(log.owner_state(), b"before");
        assert_eq!(log.scrub(&mut |_| {}), vec![(lost.start * UNIT..lost.end * UNIT)]);
        let mut bytes = vec![0; length - (lost.end * UNIT) as usize];
        log.read(lost.end * UNIT, &mut bytes).expect("reads");
        assert!(bytes.iter().all(|&byte| byte == 1));
    }
}

/// Both headers, or both states, are gone: the log is refused.
#[test]
fn a_log_without_header_or_state_is_refused() {
    let cipher = Arc::new(Once::default());
    let (device, mut log) = created(&cipher);
    log.commit(&History::new(0).oracle.state(), 0).expect("commits");
    let open = |device: &Arc<Crash>, key: &Secret| {
        DiskLog::open_on(Box::new(device.clone()), cipher.clone(), key).map(|_| ())
    };
    let shape = log.header().shape;
    for (places, problem) in [
        ([0, 4096], HeaderError::Foreign),
        ([9, 4096 + 100], HeaderError::Corrupt),
        ([4095, 4096 + 7], HeaderError::Version(0x11)),
        ([shape.state_at(0), shape.state_at(1)], HeaderError::Corrupt),
        ([shape.state_at(0) + 60, shape.state_at(1) + 8], HeaderError::Corrupt),
    ] {
        let decayed = Arc::new(device.cut(device.steps(), u64::MAX));
        places.iter().for_each(|&at| decayed.rot(at));
        assert_eq!(open(&decayed, &key()), Err(problem), "{places:?}");
    }
    let other = Secret::derive(b"other", b"", "test");
    assert_eq!(open(&device, &other), Err(HeaderError::OtherKey));
    let short = Arc::new(Crash::new(size(&small()) - 4096));
    short.write(0, &device.content()[..size(&small()) - 4096]).expect("writes");
    assert_eq!(open(&short, &key()), Err(HeaderError::Truncated));
    open(&device, &key()).expect("the original opens");
}

/// Whatever fails: from then on nothing is written, and the last commit is there afterwards. A sync
/// that failed is not tried again, which would lose what the system dropped.
#[test]
fn faults_end_writing_and_lose_nothing_that_was_committed() {
    let mut refused = 0;
    for (operation, fault) in [
        (Operation::Write, Fault::Io),
        (Operation::Write, Fault::NoSpace),
        (Operation::Sync, Fault::Io),
    ] {
        for nth in 0..24 {
            let cipher = Arc::new(Once::default());
            let (device, mut log) = created(&cipher);
            device.fail(operation, nth, fault);
            let mut oracle = History::new(0).oracle;
            let (mut committed, mut in_doubt) = (oracle.clone(), None);
            for _ in 0..20 {
                let end = oracle.end + UNIT / 2;
                let appended = log.append(oracle.end, &oracle.bytes(oracle.end, end));
                let next = Oracle { end, ..oracle.clone() };
                if appended.is_err() {
                    break;
                }
                oracle = next;
                if log.commit(&oracle.state(), 0).is_err() {
                    in_doubt = Some(oracle.clone());
                    break;
                }
                oracle.low = log.fill().low;
                committed = oracle.clone();
            }
            let steps = device.steps();
            let failed = log.append(oracle.end, b"more");
            if matches!(failed, Err(AppendError::Failed(_))) {
                refused += 1;
                assert!(log.commit(b"", 0).is_err() && log.truncate(0).is_err());
                assert!(log.restart(1 << 30).is_err());
            }
            assert_eq!(device.steps(), steps, "something was written after a failure");
            drop(log);
            for choice in [0, u64::MAX] {
                let crashed = Arc::new(device.cut(steps, choice));
                let mut log = open_log(&crashed, &cipher);
                let whole = in_doubt.as_ref().filter(|oracle| oracle.state() == log.owner_state());
                let low = log.fill().low;
                check(&mut log, &Oracle { low, ..whole.unwrap_or(&committed).clone() });
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

#[test]
fn gaps_are_zeros_and_what_is_skipped_is_gone() {
    let cipher = Arc::new(Once::default());
    let (device, mut log) = created(&cipher);
    log.append(0, b"first").expect("appends");
    log.append(70_000, b"second").expect("appends");
    assert!(matches!(log.append(5, b""), Err(AppendError::Gap { offset: 5, end: 70_006 })));
    assert!(matches!(log.append(2 << 20, b""), Err(AppendError::Gap { .. })));
    let far = log.limit();
    assert_eq!(log.append(far - 1, b"xx"), Err(AppendError::NeedsCommit));
    log.commit(b"", 7).expect("commits");
    let mut log = open_log(&device, &cipher);
    let mut bytes = vec![1; 70_006];
    log.read(0, &mut bytes).expect("reads");
    assert_eq!((&bytes[..5], &bytes[70_000..]), (&b"first"[..], &b"second"[..]));
    assert!(bytes[5..70_000].iter().all(|&byte| byte == 0));
    assert!(log.read(1, &mut bytes).is_err(), "beyond the end");
    assert_eq!(log.about(), b"about");

    log.restart(5 << 30).expect("restarts");
    assert_eq!(log.limit(), 5 << 30);
    log.commit(b"", 9).expect("commits");
    log.append(5 << 30, b"third").expect("appends");
    log.commit(b"", 9).expect("commits");
    let mut log = open_log(&device, &cipher);
    let fill = log.fill();
    assert_eq!((fill.low, fill.tail, fill.time), (5 << 30, (5 << 30) + 5, 9));
    assert!(log.read(0, &mut bytes[..1]).is_err());
    log.read(5 << 30, &mut bytes[..5]).expect("reads");
    assert_eq!(&bytes[..5], b"third");
}

const SIZE: u64 = 64 << 20;

fn new(capacity: u64) -> NewLog {
    NewLog { capacity, state: 1000, peer: Peer([9; 32]), side: Side::Decoder, ..NewLog::default() }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("sets the mode");
}

#[test]
fn a_directory_keeps_logs() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("cache");
    for key in [Some(key()), None] {
        let key = key.as_ref();
        let (store, logs) = Store::open(&dir, key, SIZE).expect("is made");
        assert!(logs.is_empty());
        let mut log = store.create(&new(1 << 20), b"0", 5).expect("is made");
        log.append(0, b"text in the clear").expect("appends");
        log.commit(b"1", 6).expect("commits");
        let name = log.name();
        assert!(matches!(Store::open(&dir, key, SIZE), Err(StoreError::Busy { .. })));
        assert!(matches!(Store::look_alone(&dir, key), Err(StoreError::Busy { .. })));
        assert!(matches!(store.forget(name), Err(StoreError::Busy { .. })));
        let full = store.create(&new(60 << 20), b"", 0);
        assert!(matches!(full, Err(StoreError::OverQuota { .. })), "{full:?}");
        assert!(matches!(store.create(&new(0), b"", 0), Err(StoreError::Range(0))));

        // Looking needs neither the lock nor, for headers, the key.
        let (_, logs) = Store::look(&dir, None).expect("looks");
        let header = logs[0].header.as_ref().expect("reads");
        assert_eq!((header.peer, header.side, header.created), (Peer([9; 32]), Side::Decoder, 5));
        let (looking, _) = Store::look(&dir, key).expect("looks");
        let mut looked = looking.open_log(name).expect("opens");
        assert_eq!((looked.oldest(), looked.owner_state()), (Some(5), &b"1"[..]));
        assert!(looked.commit(b"2", 0).is_err(), "it is only looked at");
        drop((log, store));

        let content = std::fs::read(dir.join(format!("{name}.log"))).expect("reads");
        let is_clear = content.windows(17).any(|bytes| bytes == b"text in the clear");
        assert_eq!(is_clear, key.is_none());
        for path in std::fs::read_dir(&dir).expect("lists") {
            let meta = path.expect("an entry").metadata().expect("has some");
            assert_eq!(meta.permissions().mode() & 0o077, 0);
        }

        // What was being made when the process ended is removed; what is not ours stays.
        let unfinished = dir.join(format!("{}.new", LogName([1; 16])));
        std::fs::write(&unfinished, b"").expect("writes");
        std::fs::write(dir.join("notes.txt"), b"").expect("writes");
        let (store, logs) = Store::open(&dir, key, SIZE).expect("opens");
        assert!(!unfinished.exists() && dir.join("notes.txt").exists());
        assert_eq!(logs.len(), 1);
        assert_eq!(store.used().expect("counts"), logs[0].bytes);
        store.forget(name).expect("forgets");
        assert!(matches!(store.forget(name), Err(StoreError::NoLog(_))));
        assert!(matches!(store.open_log(name), Err(StoreError::NoLog(_))));
        drop(store);
        std::fs::remove_dir_all(&dir).expect("removes");
    }
}

#[test]
fn directories_of_others_are_refused_and_stay_as_they_are() {
    let parent = tempfile::tempdir().expect("a directory");
    let at = |name: &str| parent.path().join(name);
    let refused = |dir: &Path, key: Option<&Secret>| {
        let error = Store::open(dir, key, SIZE).expect_err("is refused");
        let text = error.to_string();
        assert!(
            !text.contains('\n') && text.contains(parent.path().to_str().expect("text")),
            "{text}"
        );
        error
    };
    let other = Secret::derive(b"other", b"", "test");
    let good = at("good");
    drop(Store::open(&good, Some(&key()), SIZE).expect("is made"));
    assert!(matches!(refused(&good, Some(&other)), StoreError::OtherKey { .. }));
    assert!(matches!(refused(&good, None), StoreError::OtherMode { sealed: true, .. }));
    mode(&good, 0o750);
    let open = refused(&good, Some(&key()));
    assert!(matches!(open, StoreError::Permissions { .. }));
    assert!(open.to_string().contains(&format!("`chmod 700 {}`", good.display())));
    mode(&good, 0o700);

    let foreign = at("foreign");
    std::fs::create_dir(&foreign).expect("is made");
    mode(&foreign, 0o700);
    std::fs::write(foreign.join("letter"), b"dear").expect("writes");
    assert!(matches!(refused(&foreign, Some(&key())), StoreError::NotAStore { .. }));
    assert!(matches!(Store::look(&foreign, None), Err(StoreError::Missing { .. })));
    assert_eq!(std::fs::read_dir(&foreign).expect("lists").count(), 1);
    assert!(matches!(refused(&at("no/such"), None), StoreError::Io { what: "make", .. }));
    assert!(matches!(refused(&foreign.join("letter"), None), StoreError::Io { .. }));

    let file = good.join("store");
    let whole = std::fs::read(&file).expect("reads");
    for (change, problem) in
        [(0, HeaderError::Foreign), (7, HeaderError::Version(0)), (9, HeaderError::Corrupt)]
    {
        let mut changed = whole.clone();
        changed[change] ^= 1;
        std::fs::write(&file, &changed).expect("writes");
        let error = refused(&good, Some(&key()));
        assert!(matches!(error, StoreError::Header { problem: p, .. } if p == problem), "{error}");
        assert_eq!(std::fs::read(&file).expect("reads"), changed);
    }
    std::fs::write(&file, &whole[..100]).expect("writes");
    let error = refused(&good, Some(&key()));
    assert!(matches!(error, StoreError::Header { problem: HeaderError::Truncated, .. }));
    std::fs::write(&file, &whole).expect("writes");
    drop(Store::open(&good, Some(&key()), SIZE).expect("opens"));
}

/// Logs that were copied, renamed, truncated or made elsewhere are listed with what is wrong, and
/// stay as they are. An old copy of a log is a log.
#[test]
fn logs_that_were_tampered_with_are_not_opened() {
    let parent = tempfile::tempdir().expect("a directory");
    let [dir, elsewhere] = ["cache", "elsewhere"].map(|name| parent.path().join(name));
    let (store, _) = Store::open(&dir, Some(&key()), SIZE).expect("is made");
    let mut log = store.create(&new(1 << 20), b"old", 0).expect("is made");
    let name = log.name();
    let path = dir.join(format!("{name}.log"));
    let old = std::fs::read(&path).expect("reads");
    log.append(0, &vec![1; 100_000]).expect("appends");
    log.commit(b"new", 0).expect("commits");
    drop(log);
    let whole = std::fs::read(&path).expect("reads");
    let (foreign, _) = Store::open(&elsewhere, Some(&key()), SIZE).expect("is made");
    let moved = foreign.create(&new(1 << 20), b"", 0).expect("is made").name();
    let names = [LogName([2; 16]), LogName([3; 16])];
    let file = |name: LogName| dir.join(format!("{name}.log"));
    std::fs::copy(elsewhere.join(format!("{moved}.log")), file(moved)).expect("copies");
    std::fs::write(file(names[0]), &whole).expect("writes");
    std::fs::write(file(names[1]), b"short").expect("writes");

    for log in store.logs().expect("lists") {
        let expected = match log.name {
            same if same == name => None,
            same if same == moved => Some(HeaderError::OtherStore),
            same if same == names[0] => Some(HeaderError::Renamed),
            _ => Some(HeaderError::Truncated),
        };
        assert_eq!(log.header.as_ref().err(), expected.as_ref(), "{:?}", log.name);
        let opened = store.open_log(log.name);
        match expected {
            None => drop(opened.expect("opens")),
            Some(problem) => assert!(
                matches!(&opened, Err(StoreError::Log { problem: p, .. }) if *p == problem),
                "{opened:?}"
            ),
        }
    }
    std::fs::write(&path, &whole[..whole.len() - 4096]).expect("writes");
    let truncated = store.open_log(name);
    let Err(StoreError::Log { problem: HeaderError::Truncated, .. }) = truncated else {
        panic!("{truncated:?}");
    };
    assert_eq!(std::fs::metadata(&path).expect("has some").len(), whole.len() as u64 - 4096);
    std::fs::write(&path, &old).expect("writes");
    assert_eq!(store.open_log(name).expect("opens").owner_state(), b"old");
    // Whatever is wrong with it, it can be forgotten.
    store.forget(names[1]).expect("forgets");
    assert!(!file(names[1]).exists());
}

/// A log of the other cipher is a log whose blocks do not open.
#[test]
fn what_is_plain_is_not_sealed() {
    let device = Arc::new(Crash::new(size(&small())));
    let plain: Arc<dyn Cipher> = Arc::new(Plain);
    DiskLog::create_on(Box::new(device.clone()), plain, &key(), &small(), b"").expect("is made");
    let sealed = DiskLog::open_on(Box::new(device), Arc::new(AesGcm), &key());
    assert_eq!(sealed.map(|_| ()), Err(HeaderError::OtherKey));
}
