//! Worlds that once broke a guarantee, as explicit schedules: they stay the same when the generator
//! of random worlds changes.

use crate::content::noise;
use crate::dice::Dice;
use crate::profile::Profile;
use crate::script::{CLIENT, Fault, FlowScript, HalfScript, MS, SECOND, SERVER, Script, Time};

/// A quiet world with one lane of 10 ms each way.
fn quiet(profile: Profile) -> Script {
    Script {
        profile,
        stores: [false; 2],
        lanes: 1,
        logs: [4 << 20; 2],
        max_flows: 1000,
        domains: 1,
        contexts: [1; 2],
        delays: vec![10 * MS; 8],
        windows: vec![200_000; 20],
        flows: Vec::new(),
        faults: Vec::new(),
        corruption_rate: usize::MAX,
        calm_at: 12 * SECOND,
        dice: Dice::Fixed(0),
    }
}

/// A flow of the client that sends `len` bytes, and nothing back.
fn upload(at: Time, len: usize) -> FlowScript {
    let sends = HalfScript { content: noise(len, at), piece: 100_000, ..HalfScript::default() };
    let halves = [sends, HalfScript { piece: 1, ..HalfScript::default() }];
    FlowScript { opener: CLIENT, at, halves, refused: false, reset: None }
}

/// The first answer of the server was lost. The client says New again, which the server refused as
/// unknown, and the session ended.
pub(crate) fn lost_first_answer() -> Script {
    Script {
        flows: vec![upload(SECOND, 1000)],
        // HELLO arrives after 10 ms, its answer would after 20.
        faults: vec![(15 * MS, Fault::Cut { lane: 0 })],
        ..quiet(Profile::Lossy)
    }
}

/// The server's application has not read the first flow when the client, which is done with it,
/// opens another: one too many for the server, which refuses it. The FIN in the same bytes as the
/// OPEN raised `Readable` for the refused flow.
pub(crate) fn fin_of_a_refused_flow() -> Script {
    let mut unread = upload(SECOND, 1000);
    unread.halves[CLIENT].read_gap = 5 * SECOND;
    // The bulk flow fills the transport, so OPEN, DATA and FIN of the last one wait and go out
    // together.
    let flows = vec![unread, upload(1900 * MS, 2_000_000), upload(2 * SECOND, 1000)];
    Script { max_flows: 2, flows, windows: vec![3000; 20], ..quiet(Profile::Generations) }
}

/// The same without the bulk flow: the messages wait because the client has no transport.
pub(crate) fn fin_of_a_refused_flow_after_a_lost_transport() -> Script {
    let mut script = fin_of_a_refused_flow();
    script.profile = Profile::Storm;
    script.max_flows = 1;
    script.flows.remove(1);
    script.faults.push((1990 * MS, Fault::Cut { lane: 0 }));
    script
}

/// A limit makes the client begin another log while the EPOCH of the first is late on lane 1. It
/// took the server back to the first log, and frames on lane 0 failed.
pub(crate) fn late_epoch_on_a_second_lane() -> Script {
    let mut delays = vec![10 * MS; 8];
    delays[1] = 1500 * MS;
    Script {
        lanes: 2,
        delays,
        flows: [6000, 6600, 7600, 9000].map(|at| upload(at * MS, 100_000)).into(),
        faults: vec![(6500 * MS, Fault::Limit { end: SERVER, log: 2 << 20 })],
        ..quiet(Profile::Shrink)
    }
}

/// The same, and lane 0 loses its transport in between.
pub(crate) fn late_epoch_and_a_lost_transport() -> Script {
    let mut script = late_epoch_on_a_second_lane();
    script.profile = Profile::Storm;
    script.faults.push((6550 * MS, Fault::Cut { lane: 0 }));
    script
}

/// Frames fail four times in a row, so the server loses the log twice; the second time, before the
/// client has sent all blocks of the first log again. The client no longer had the others, and the
/// session ended.
pub(crate) fn a_log_lost_twice() -> Script {
    Script {
        // Three blocks fit the first transports, one the third, on which the second log begins.
        windows: [vec![180_000, 180_000, 3000, 3000], vec![200_000; 20]].concat(),
        flows: vec![upload(SECOND, 180_000)],
        faults: vec![(900 * MS, Fault::Corrupt { sender: CLIENT, transports: 4 })],
        ..quiet(Profile::Corrupt)
    }
}

/// The same, while another lane carries flows.
pub(crate) fn a_log_lost_twice_on_two_lanes() -> Script {
    Script {
        lanes: 2,
        flows: vec![upload(SECOND, 180_000), upload(SECOND, 180_000)],
        profile: Profile::Everything,
        ..a_log_lost_twice()
    }
}
