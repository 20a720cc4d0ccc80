//! Logs that a driver stores: what is written, what waits for it, and what comes back.

use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_session::{
    Config, Event, FinishedLog, Hello, LogHeader, LogRecord, Logs, Owner, Piece, Place, Read,
    RestoreError, RestoredLog, Run, Session, Settings, Side, StoreKey, Unwritten,
};
use oncewire_testkit::content::incompressible;
use std::time::{Duration, Instant};

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const SIDES: [Side; 2] = [Side::Sending, Side::Receiving];

/// What a driver keeps of a log.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) record: LogRecord,
    pieces: Vec<Piece>,
}

/// The store of an end, by side.
pub(crate) type Store = [Option<Stored>; 2];

fn write(store: &mut Store, side: Side, step: Unwritten) {
    let stored = &mut store[side as usize];
    match step {
        Unwritten::Begin(header) => {
            let end = Place::default();
            let record = LogRecord { header, from: 0, end, places: Vec::new(), runs: Vec::new() };
            *stored = Some(Stored { record, pieces: Vec::new() });
        }
        Unwritten::Drop => *stored = None,
        Unwritten::Rewind { epoch, to, capacity } => {
            let stored = stored.as_mut().expect("a log");
            stored.record.header.epoch = epoch;
            stored.rewind(to);
            stored.resize(capacity);
        }
        Unwritten::Content(piece) => {
            let Stored { record, pieces } = stored.as_mut().expect("a log");
            assert_eq!(piece.offset - piece.padding, record.end.offset, "in order");
            record.end = piece.end();
            record.places.extend(piece.is_place.then_some(record.end));
            record.runs.extend(piece.runs.iter().filter(|run| run.start >= piece.offset));
            if record.runs.is_empty() {
                record.runs.extend(piece.runs.first());
            }
            pieces.push(piece);
        }
    }
}

impl Stored {
    /// Only what lies below a place is left.
    pub(crate) fn rewind(&mut self, to: Place) {
        self.record.end = to;
        self.record.places.retain(|place| place.offset <= to.offset);
        self.record.runs.retain(|run| run.start < to.offset);
        self.pieces.retain(|piece| piece.end().offset <= to.offset);
        assert!(self.pieces.last().is_none_or(|last| last.end() == to), "where a piece ends");
    }

    /// Padding of another size ends nowhere in the ring.
    fn resize(&mut self, capacity: u64) {
        self.record.header.capacity = capacity;
        let ends = |piece: &Piece| piece.padding == 0 || piece.offset.is_multiple_of(capacity);
        if let Some(last) = self.pieces.iter().rposition(|piece| !ends(piece)) {
            self.pieces.drain(..last);
        }
        if let Some(first) = self.pieces.first() {
            self.record.from = first.offset;
        }
    }

    fn restore(&self, config: &Config, side: Side) -> Result<FinishedLog, RestoreError> {
        let mut log = RestoredLog::new(config, side, self.record.clone())?;
        for piece in &self.pieces {
            let skip = log.at().saturating_sub(piece.offset) as usize;
            if let Some(rest) = piece.bytes.get(skip..) {
                log.push(piece.offset + skip as u64, rest)?;
            }
        }
        log.finish()
    }
}

/// An end with its store.
pub(crate) struct End {
    config: Settings,
    pub(crate) session: Session,
    pub(crate) store: Store,
    /// Epochs that are written, and not yet committed.
    held: Vec<oncewire_session::Epoch>,
    holds: bool,
}

impl End {
    /// Writes what there is to be written. Returns whether there was an event for it.
    pub(crate) fn drain(&mut self) -> bool {
        let mut told = false;
        while let Some(event) = self.session.poll_event() {
            told |= matches!(event, Event::Unwritten(_));
        }
        for side in SIDES {
            while let Some(step) = self.session.unwritten(side) {
                if let (Unwritten::Begin(LogHeader { epoch, .. }), Side::Sending)
                | (Unwritten::Rewind { epoch, .. }, Side::Sending) = (&step, side)
                {
                    self.held.push(*epoch);
                }
                write(&mut self.store, side, step);
            }
        }
        if !self.holds {
            self.held.drain(..).for_each(|epoch| self.session.committed(epoch));
        }
        told
    }
}

/// A client and a server with a transport between them.
pub(crate) struct Pair {
    pub(crate) ends: [End; 2],
    pub(crate) now: Instant,
    sharing: Sharing,
    /// Bytes that the client sent.
    wire: usize,
}

fn config(sharing: Sharing, random: u64, end: usize) -> Settings {
    let config = Config {
        log: 4 << 20,
        random: [random, end as u64, 3, 4],
        encoder: EncoderBuilder::default().sharing(sharing),
        store: Some(StoreKey([5, end as u64])),
        ..Config::default()
    };
    config.build().unwrap()
}

impl Pair {
    pub(crate) fn new(sharing: Sharing) -> Pair {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        Pair::begin([[None, None], [None, None]], [None, None], sharing, now, false)
    }

    /// A session with what is in memory, or else with what is stored. The client's disk may be slow.
    fn begin(
        stores: [Store; 2],
        kept: [Option<Logs>; 2],
        sharing: Sharing,
        now: Instant,
        holds: bool,
    ) -> Pair {
        // Another session has other names. What is stored says how far the last one got.
        let ends = stores.iter().flatten().flatten().map(|stored| stored.record.end.offset);
        let random = 1 + ends.sum::<u64>();
        let restored = |end: usize| {
            let config = config(sharing, random, end);
            let back = SIDES.into_iter().filter_map(|side| {
                let stored = stores[end][side as usize].as_ref()?;
                (stored.record.end.offset > 0)
                    .then(|| stored.restore(&config, side).expect("what was stored"))
            });
            Logs::restored(&config, back.collect::<Vec<_>>())
        };
        let [up, down] = kept;
        let up = up.unwrap_or_else(|| restored(0));
        let down = down.unwrap_or_else(|| restored(1));
        let mut client = Session::connect(config(sharing, random, 0), Some(up), now);
        client.attach(0, now);
        let mut hello = Vec::new();
        client.transmit(0, MIB, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        let server = config(sharing, random, 1);
        let server = Session::accept_new(server, Some(down), &hello, now).unwrap();
        let end = |end, session, store, holds| End {
            config: config(sharing, random, end),
            session,
            store,
            held: Vec::new(),
            holds,
        };
        let [up, down] = stores;
        let ends = [end(0, client, up, holds), end(1, server, down, false)];
        let mut pair = Pair { ends, now, sharing, wire: 0 };
        pair.exchange();
        pair
    }

    /// Both ends are killed, and begin again with what is stored.
    pub(crate) fn restart(self, change: impl FnOnce(&mut [Store; 2])) -> Pair {
        self.restart_of([true; 2], change, false)
    }

    /// As [`Pair::restart`] of some ends; the others keep their logs in memory.
    pub(crate) fn restart_of(
        self,
        killed: [bool; 2],
        change: impl FnOnce(&mut [Store; 2]),
        holds: bool,
    ) -> Pair {
        self.check();
        let Pair { ends, now, sharing, .. } = self;
        let mut kept = [None, None];
        let mut stores = [[None, None], [None, None]];
        for (nth, end) in ends.into_iter().enumerate() {
            kept[nth] = (!killed[nth]).then(|| end.session.into_logs());
            stores[nth] = end.store;
        }
        change(&mut stores);
        Pair::begin(stores, kept, sharing, now + Duration::from_secs(5), holds)
    }

    /// No frame has failed: none referred to what the other end does not hold.
    fn check(&self) {
        for end in &self.ends {
            assert_eq!(end.session.counters().failures, 0, "a frame failed");
            assert_eq!(end.session.ended(), None);
        }
    }

    pub(crate) fn exchange(&mut self) {
        loop {
            let mut moved = 0;
            for from in [0, 1] {
                let mut bytes = Vec::new();
                self.ends[from].session.transmit(0, MIB, self.now, &mut bytes);
                moved += bytes.len();
                self.wire += if from == 0 { bytes.len() } else { 0 };
                self.ends[1 - from].session.receive(0, &bytes, self.now);
                self.ends[from].drain();
            }
            if moved == 0 {
                return;
            }
        }
    }

    /// The client uploads content of an owner. Returns how many bytes that took.
    pub(crate) fn upload(&mut self, owner: Owner, content: &[u8]) -> usize {
        let before = self.wire;
        let now = self.now;
        let flow = self.ends[0].session.open(b"tcp:a:1", owner, now).unwrap();
        let (mut written, mut got) = (0, Vec::new());
        while got.len() < content.len() {
            written += self.ends[0].session.write(flow, &content[written..]);
            self.exchange();
            while let Read::Data(chunk) = self.ends[1].session.read(flow) {
                self.ends[1].session.consumed(flow, chunk.len(), self.now);
                got.extend_from_slice(&chunk);
            }
            self.now += Duration::from_millis(25);
            for end in &mut self.ends {
                end.session.on_timeout(self.now);
            }
            self.exchange();
            self.check();
        }
        assert!(got == content, "bytes out equal bytes in");
        self.check();
        self.wire - before
    }

    pub(crate) fn warm(&self) -> u64 {
        self.ends[0].session.counters().warm_starts
    }
}

fn owner(name: &[u8]) -> Owner {
    Owner { client: name.to_vec(), name: Vec::new() }
}

#[test]
fn both_ends_restart_and_a_repeat_is_short() {
    let content = incompressible(1, 2 * MIB);
    let mut pair = Pair::new(Sharing::All);
    assert!(pair.upload(Owner::default(), &content) > content.len());
    let mut pair = pair.restart(|_| {});
    assert_eq!(pair.warm(), 1);
    let repeat = pair.upload(Owner::default(), &content);
    assert!(repeat < 6000, "{repeat} bytes for what both have on disk");
    // And once more, over the end of the ring: what was restored is content like any other.
    let more = incompressible(2, 2 * MIB);
    pair.upload(Owner::default(), &more);
    let mut pair = pair.restart(|_| {});
    let repeat = pair.upload(Owner::default(), &more);
    assert!(repeat < 6000, "{repeat} bytes");
}

#[test]
fn logs_go_on_from_the_highest_place_of_both() {
    let content = incompressible(3, 2 * MIB);
    for (client, server, expected) in [(31, 31, 31), (31, 20, 20), (10, 31, 10)] {
        let mut pair = Pair::new(Sharing::All);
        pair.upload(Owner::default(), &content);
        let mut pair = pair.restart(|stores| {
            for (end, side, kept) in [(0, Side::Sending, client), (1, Side::Receiving, server)] {
                let stored = stores[end][side as usize].as_mut().expect("a log");
                assert_eq!(stored.record.places.len(), 32);
                stored.rewind(stored.record.places[kept - 1]);
            }
        });
        assert_eq!(pair.warm(), 1);
        let end = pair.ends[0].session.offsets().0;
        assert_eq!(end, expected * 65_536, "client {client}, server {server}");
        let wire = pair.upload(Owner::default(), &content);
        let new = content.len() - end as usize;
        assert!((new..new + 5000).contains(&wire), "{wire} bytes, {new} of them new");
        // What follows is stored, too, and nothing of what was dropped.
        let mut pair = pair.restart(|_| {});
        assert_eq!(
            (pair.warm(), pair.ends[0].session.offsets().0),
            (1, end + content.len() as u64)
        );
        assert!(pair.upload(Owner::default(), &content) < 8000);
    }
}

#[test]
fn one_end_restarts_again_and_again_with_less_than_it_had() {
    for killed in [0, 1] {
        let mut rng = fastrand::Rng::with_seed(killed as u64);
        let mut pair = Pair::new(Sharing::All);
        for turn in 0..12 {
            // Content that is new, so that chains differ wherever logs do.
            pair.upload(Owner::default(), &incompressible(100 + turn, MIB));
            let mut to = 0;
            let side = SIDES[killed];
            pair = pair.restart_of(
                [killed == 0, killed == 1],
                |stores| {
                    let stored = stores[killed][side as usize].as_mut().expect("a log");
                    let places = &stored.record.places;
                    let place = places[places.len() - 1 - rng.usize(..places.len().min(30))];
                    stored.rewind(place);
                    to = place.offset;
                },
                false,
            );
            // The survivor knows the chain at every place.
            assert_eq!(pair.warm(), 1, "turn {turn}, end {killed} restarts");
            assert_eq!(pair.ends[0].session.offsets().0, to, "turn {turn}, end {killed} restarts");
        }
    }
}

/// An end may have spared its disk of everything up to its end, and the other one may have stored less:
/// both go on at a place below, where the first has no content.
#[test]
fn an_end_without_content_goes_on_below_its_end() {
    let content = incompressible(16, 2 * MIB);
    for (bare, short) in [(0, 1), (1, 0)] {
        let mut pair = Pair::new(Sharing::All);
        pair.upload(Owner::default(), &content);
        let mut expected = 0;
        let mut pair = pair.restart(|stores| {
            let spared = stores[bare][SIDES[bare] as usize].as_mut().expect("a log");
            spared.record.from = spared.record.end.offset;
            spared.pieces.clear();
            let behind = stores[short][SIDES[short] as usize].as_mut().expect("a log");
            let place = behind.record.places[19];
            behind.rewind(place);
            expected = place.offset;
        });
        assert_eq!(pair.warm(), 1, "end {bare} has no content");
        assert_eq!(pair.ends[0].session.offsets().0, expected, "end {bare} has no content");
        assert!(pair.upload(Owner::default(), &content) > content.len(), "nothing refers to it");
        assert!(pair.upload(Owner::default(), &content) < 8000);
    }
}

#[test]
fn nothing_refers_to_what_the_decoder_has_lost() {
    let content = incompressible(14, 2 * MIB);
    let mut pair = Pair::new(Sharing::All);
    pair.upload(Owner::default(), &content);
    let mut from = 0;
    let mut pair = pair.restart(|stores| {
        let stored = stores[1][Side::Receiving as usize].as_mut().expect("a log");
        stored.pieces.drain(..stored.pieces.len() / 2);
        from = stored.pieces[0].offset as usize;
        stored.record.from = from as u64;
    });
    assert_eq!(pair.warm(), 1);
    let wire = pair.upload(Owner::default(), &content);
    assert!((from..from + 10_000).contains(&wire), "{wire} bytes, of {from} that were lost");
}

#[test]
fn an_encoder_that_has_forgotten_an_epoch_does_not_use_its_number_again() {
    let content = incompressible(15, MIB);
    let mut pair = Pair::new(Sharing::All);
    pair.upload(Owner::default(), &content);
    let mut pair = pair.restart(|_| {}).restart(|_| {});
    pair.upload(Owner::default(), &content[..1000]);
    let mut pair = pair.restart(|stores| {
        let epoch = |store: &mut Store, side: Side| {
            let stored = store[side as usize].as_mut().expect("a log");
            std::mem::replace(&mut stored.record.header.epoch.number, 0)
        };
        assert_eq!(epoch(&mut stores[0], Side::Sending), 2);
        let known = stores[1][Side::Receiving as usize].as_ref().expect("a log");
        assert_eq!(known.record.header.epoch.number, 2);
    });
    assert_eq!(pair.warm(), 1);
    assert!(pair.upload(Owner::default(), &content) < 6000);
    let written = pair.ends[0].store[0].as_ref().expect("a log").record.header.epoch.number;
    assert_eq!(written, 3);
}

#[test]
fn different_logs_of_one_id_are_found_out() {
    let content = incompressible(4, MIB);
    let mut pair = Pair::new(Sharing::All);
    pair.upload(Owner::default(), &content);
    let mut pair = pair.restart(|stores| {
        let stored = stores[1][Side::Receiving as usize].as_mut().expect("a log");
        stored.record.end.chain ^= 1;
        stored.record.places.iter_mut().for_each(|place| place.chain ^= 1);
    });
    assert_eq!(pair.warm(), 0);
    assert!(pair.upload(Owner::default(), &content) > content.len());
}

#[test]
fn nothing_is_sent_before_its_epoch_is_durable() {
    let content = incompressible(5, 100_000);
    for restarted in [false, true] {
        let mut pair = Pair::new(Sharing::All);
        if restarted {
            pair.upload(Owner::default(), &incompressible(6, 100_000));
            pair.exchange();
            pair = pair.restart_of([true; 2], |_| {}, true);
        }
        pair.ends[0].holds = true;
        let before = pair.wire;
        let flow = pair.ends[0].session.open(b"tcp:a:1", b"", pair.now).unwrap();
        pair.ends[0].session.write(flow, &content);
        pair.exchange();
        assert!(pair.wire - before < 1000, "{restarted}: content was sent");
        assert_eq!(pair.ends[0].held.len(), 1);
        // Of another epoch nothing follows.
        let held = pair.ends[0].held[0];
        let other = oncewire_session::Epoch { number: held.number + 1, ..held };
        pair.ends[0].session.committed(other);
        pair.exchange();
        assert!(pair.wire - before < 1000, "{restarted}: content was sent");
        pair.ends[0].holds = false;
        pair.ends[0].drain();
        pair.exchange();
        assert!(pair.wire - before > 16_000, "{restarted}: {} bytes", pair.wire - before);
    }
}

#[test]
fn a_store_that_failed_holds_nothing_up() {
    let mut pair = Pair::new(Sharing::All);
    pair.ends[0].holds = true;
    let flow = pair.ends[0].session.open(b"tcp:a:1", b"", pair.now).unwrap();
    pair.ends[0].session.write(flow, &[7; 1000]);
    pair.exchange();
    assert_eq!(pair.ends[1].session.read(flow), Read::Nothing);
    pair.ends[0].session.give_up_store();
    assert!(!pair.ends[0].session.has_store());
    pair.exchange();
    assert_eq!(pair.ends[1].session.read(flow), Read::Data(vec![7; 1000]));
    let content = incompressible(7, MIB);
    let stored = pair.ends[0].store.clone();
    pair.upload(Owner::default(), &content);
    let end = |store: &Store| store[0].as_ref().map(|stored| stored.record.end);
    assert_eq!(end(&pair.ends[0].store), end(&stored), "nothing more is written");
}

#[test]
fn owners_find_their_own_content_after_a_restart_and_nobody_elses() {
    let (one, other) = (owner(b"one"), owner(b"other"));
    let [ours, theirs, lost] = [8, 9, 10].map(|seed| incompressible(seed, 300_000));
    let mut pair = Pair::new(Sharing::None);
    pair.upload(one.clone(), &ours);
    pair.upload(other.clone(), &theirs);
    pair.upload(Owner::unknown(), &lost);
    let mut pair = pair.restart(|_| {});
    assert_eq!(pair.warm(), 1);
    let is_short = |wire: usize| wire < 3000;
    assert!(!is_short(pair.upload(other.clone(), &ours)));
    assert!(!is_short(pair.upload(Owner::unknown(), &lost)));
    assert!(!is_short(pair.upload(one.clone(), &lost)));
    assert!(!is_short(pair.upload(Owner::default(), &theirs)));
    assert!(is_short(pair.upload(one, &ours)));
    assert!(is_short(pair.upload(other, &theirs)));
}

#[test]
fn content_that_all_shared_is_nobodys_once_domains_are_apart() {
    let content = incompressible(11, 300_000);
    for (before, after) in
        [(Sharing::All, Sharing::None), (Sharing::None, Sharing::All), (Sharing::All, Sharing::All)]
    {
        let mut pair = Pair::new(before);
        pair.upload(Owner::default(), &content);
        pair.sharing = after;
        let mut pair = pair.restart(|_| {});
        assert_eq!(pair.warm(), 1);
        let wire = pair.upload(Owner::default(), &content);
        assert_eq!(wire < 3000, before == after, "{before:?}, {after:?}: {wire} bytes");
    }
}

#[test]
fn without_runs_content_is_nobodys() {
    let content = incompressible(12, 300_000);
    let mut pair = Pair::new(Sharing::None);
    pair.upload(owner(b"one"), &content);
    let mut pair = pair.restart(|stores| {
        let stored = stores[0][Side::Sending as usize].as_mut().expect("a log");
        assert!(!stored.record.runs.is_empty());
        stored.record.runs.clear();
    });
    assert_eq!(pair.warm(), 1);
    assert!(pair.upload(owner(b"one"), &content) > content.len());
}

#[test]
fn a_driver_is_told_once_and_again_after_it_has_asked() {
    let mut pair = Pair::new(Sharing::All);
    let flow = pair.ends[0].session.open(b"tcp:a:1", b"", pair.now).unwrap();
    pair.ends[0].session.write(flow, &[1; 100]);
    let mut told = 0;
    let mut wire = Vec::new();
    pair.ends[0].session.transmit(0, MIB, pair.now, &mut wire);
    for _ in 0..3 {
        while let Some(event) = pair.ends[0].session.poll_event() {
            told += usize::from(event == Event::Unwritten(Side::Sending));
        }
        pair.ends[0].session.transmit(0, MIB, pair.now, &mut wire);
    }
    assert_eq!(told, 1);
    assert!(matches!(pair.ends[0].session.unwritten(Side::Sending), Some(Unwritten::Begin(_))));
    assert_eq!(pair.ends[0].session.unwritten(Side::Sending), None);
    let epoch = pair.ends[0].session.counters().epochs;
    assert_eq!(epoch, 1);
}

#[test]
fn records_that_contradict_themselves_are_refused() {
    let mut pair = Pair::new(Sharing::All);
    pair.upload(Owner::default(), &incompressible(13, 300_000));
    let config = &pair.ends[0].config;
    let stored = pair.ends[0].store[0].as_ref().expect("a log");
    assert!(stored.restore(config, Side::Sending).is_ok());
    let refused = |change: &dyn Fn(&mut Stored)| {
        let mut changed = stored.clone();
        change(&mut changed);
        SIDES.map(|side| changed.restore(config, side).err().map(|error| error.to_string()))
    };
    let place = |offset| Place { offset, chain: 0 };
    type Case<'a> = (&'a dyn Fn(&mut Stored), &'a str);
    let cases: [Case<'_>; 12] = [
        (
            &|log| log.record.header.capacity = 1000,
            "the stored log has 1000 bytes: 1048576 to 68719476736 are possible",
        ),
        (
            &|log| log.record.header.capacity = u64::MAX,
            "the stored log has 18446744073709551615 bytes: 1048576 to 68719476736 are possible",
        ),
        (&|log| log.record.header.epoch.log = 0, "the stored log is inconsistent: its epoch"),
        (
            &|log| log.record.header.epoch.number = u64::MAX,
            "the stored log is inconsistent: its epoch",
        ),
        (
            &|log| log.record.from = log.record.end.offset + 1,
            "the stored log is inconsistent: its first and last offset",
        ),
        (
            &|log| log.record.end.offset = u64::MAX,
            "the stored log is inconsistent: its first and last offset",
        ),
        (
            &|log| log.record.places.push(place(1)),
            "the stored log is inconsistent: its places are out of order",
        ),
        (
            &|log| log.record.places.push(place(u64::MAX)),
            "the stored log is inconsistent: its places are out of order",
        ),
        (
            &|log| log.record.runs.push(Run { start: 0, owner: 0 }),
            "the stored log is inconsistent: its owners are out of order",
        ),
        (
            &|log| drop(log.pieces.pop()),
            "the stored log ends at offset 294912, and its record says 300000",
        ),
        (
            &|log| drop(log.pieces.remove(1)),
            "content of the stored log at offset 32768 does not follow what ends at 16384",
        ),
        (
            &|log| log.record.end.offset = 299_999,
            "content of the stored log at offset 294912 does not follow what ends at 294912",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(refused(change), [Some(expected.to_string()), Some(expected.to_string())]);
    }
}
