//! A whole network of nodes on one machine: the installed program, a process a node, with the packets
//! of a capture. What leaves is compared with what entered, and the bytes on all links with those that
//! `oncewire emulate` says for the same packets.
//!
//! ```text
//! capture -> addresses spread over the nodes -> lab.pcap -> oncewire emulate, oncewire plan
//!         packet socket -> access device -> node -> cable -> node -> access device -> packet socket
//! ```
//!
//! Everything runs in a network namespace without a name, which is gone with the last process: no
//! route, device or port of the machine is touched. Cables are UDP relays that count bytes and may lose
//! datagrams. Needs Linux and root.

mod access;
mod cable;
mod carry;
mod hops;
mod network;
mod program;
mod traffic;

pub use carry::Carried;
pub use traffic::LeftOut;

use crate::path::Path as EmulatedPath;
use carry::{Carrier, Death, Manner};
use hops::Hops;
use network::{Network, Plans};
use program::Program;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use traffic::Traffic;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// This machine has no namespaces, or this is not root.
    #[error("no network can be made here: {0}")]
    Unavailable(String),
    /// A file or a system call.
    #[error("{doing}: {source}")]
    System {
        /// What was done.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The program failed.
    #[error("`{command}` failed: {said}")]
    Program {
        /// What was run.
        command: String,
        /// The end of its standard error.
        said: String,
    },
    /// The capture cannot be read, or has no packets for the network.
    #[error("{0}")]
    Capture(String),
    /// The topology cannot be used.
    #[error("the topology {0}")]
    Topology(String),
    /// A node or the controller did not do what it should in time.
    #[error("{0} after {1:?}")]
    Slow(String, Duration),
    /// A packet left that did not enter, or at another node.
    #[error("{0} packets left that had not entered, or at another node")]
    Wrong(u64),
}

impl LabError {
    fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> LabError {
        move |source| LabError::System { doing: doing.into(), source }
    }
}

/// A node that is killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Its id in the topology.
    pub node: String,
    /// Time after the first packet.
    pub after: Duration,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The installed program.
    pub program: PathBuf,
    /// The topology, in Oncewire's JSON form. Keys, addresses and prefixes are given to its nodes here.
    pub topology: PathBuf,
    /// The capture.
    pub capture: PathBuf,
    /// Packets of it to use at most.
    pub packets: usize,
    /// Bytes of each node's cache, and of each ingress's store; none for an eighth of the packets' bytes.
    pub memory: Option<u64>,
    /// How long the packets of the capture take.
    pub time: Duration,
    /// Probability that a cable loses a datagram, 0 to 1.
    pub loss: f64,
    /// One more run, with a controller, in which a node is killed.
    pub kill: Option<Kill>,
    /// An empty directory for everything that is written.
    pub directory: PathBuf,
    /// Whether to tell on standard error what is done.
    pub verbose: bool,
}

/// One scheme.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// Its name.
    pub name: &'static str,
    /// What nodes did, or links hop by hop; none if neither can carry it out.
    pub live: Option<Carried>,
    /// Bytes times links that were saved beside the overlay without manifests, as a share of the
    /// packets' bytes times links.
    pub saved: Option<f64>,
    /// The same by `oncewire emulate`.
    pub emulated: Option<f64>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Nodes of the network.
    pub nodes: usize,
    /// Packets of the capture that entered.
    pub packets: usize,
    /// Their bytes, with headers.
    pub bytes: u64,
    /// Those that did not, and why.
    pub left_out: LeftOut,
    /// Bytes of each cache and store.
    pub memory: u64,
    /// Bytes of packets times links, by the shortest paths.
    pub packet_links: u64,
    /// The schemes: *bare* first.
    pub schemes: Vec<Scheme>,
    /// The run with a controller in which a node was killed.
    pub killed: Option<Death>,
}

/// Runs everything.
///
/// # Errors
/// [`LabError`].
pub fn run(settings: &Settings) -> Result<Outcome, LabError> {
    if let Some(reason) = EmulatedPath::unavailable() {
        return Err(LabError::Unavailable(reason));
    }
    // A namespace of this thread, and of all threads and processes that it starts.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
                .map_err(|error| LabError::Unavailable(format!("unshare: {error}")))?;
            inside(settings)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The packets through links hop by hop.
fn hop_by_hop(
    settings: &Settings,
    network: &Network,
    program: &Program,
    traffic: &Traffic,
    memory: u64,
) -> Result<Carried, LabError> {
    let (hops, receivers) = Hops::start(network, program, "smartre.json", memory, settings.loss)?;
    let hops = Arc::new(hops);
    let mut carrier = Carrier::of_hops(&hops, receivers);
    let manner = if settings.loss > 0.0 { Manner::Lossy } else { Manner::Complete };
    let (before, cpu) = (hops.bytes(), hops.cpu());
    let mut carried = carrier.carry(traffic, settings.time, manner)?;
    carried.link_bytes = hops.bytes() - before;
    carried.cpu = hops.cpu().saturating_sub(cpu);
    Ok(carried)
}

fn inside(settings: &Settings) -> Result<Outcome, LabError> {
    let say = |what: &str| {
        if settings.verbose {
            eprintln!("{what}");
        }
    };
    program::ip(&["link", "set", "dev", "lo", "up"])?;
    let program = Program::new(&settings.program, &settings.directory);
    let network = Network::read(&settings.topology, &program)?;
    let victim = settings.kill.as_ref().map(|kill| network.number(&kill.node)).transpose()?;
    let capture = File::open(&settings.capture)
        .map_err(LabError::system(format!("opening {}", settings.capture.display())))?;
    let traffic = Traffic::read(capture, network.nodes.len(), settings.packets)?;
    let memory = settings.memory.unwrap_or((traffic.bytes / 8).max(1 << 17));
    traffic.write(&settings.directory.join("lab.pcap"))?;
    network.write_prefixes(&settings.directory.join("prefixes"))?;

    say("measuring what the packets repeat, and planning");
    let emulation = program.plan_and_emulate(memory, settings.time)?;
    let expected = |name: &str| {
        let scheme = emulation.schemes.iter().find(|(known, _)| known == name);
        scheme.map(|&(_, saved)| saved)
    };
    let mut schemes = Vec::new();
    let mut bare = 0;
    for (name, plan) in [("bare", "bare"), ("edge-only", "edge-only"), ("SmartRE", "smartre")] {
        say(&format!(
            "{name}: {} packets through {} nodes",
            traffic.packets.len(),
            network.nodes.len()
        ));
        let plans = Plans::Files(settings.directory.join(plan));
        let mut running = network.start(&program, &plans, settings.loss)?;
        running.wait_until_up()?;
        let mut carrier = Carrier::open(&network)?;
        let manner = if settings.loss > 0.0 { Manner::Lossy } else { Manner::Complete };
        let (before, cpu) = (running.bytes(), running.cpu());
        let mut carried = carrier.carry(&traffic, settings.time, manner)?;
        carried.link_bytes = running.bytes() - before;
        carried.cpu = running.cpu().saturating_sub(cpu);
        carried.counted = running.counters()?;
        if name == "bare" {
            bare = carried.link_bytes;
        }
        let saved = (bare as f64 - carried.link_bytes as f64) / emulation.packet_links as f64;
        let emulated = if name == "bare" { Some(0.0) } else { expected(name) };
        schemes.push(Scheme { name, live: Some(carried), saved: Some(saved), emulated });
    }
    say("hop-by-hop: the same through a packet link on each cable");
    let hops = hop_by_hop(settings, &network, &program, &traffic, memory)?;
    let saved = (bare as f64 - hops.link_bytes as f64) / emulation.packet_links as f64;
    let emulated = expected("hop-by-hop");
    schemes.push(Scheme { name: "hop-by-hop", live: Some(hops), saved: Some(saved), emulated });
    schemes.push(Scheme { name: "Ideal", live: None, saved: None, emulated: expected("Ideal") });
    let killed = match settings.kill.as_ref().zip(victim) {
        None => None,
        Some((kill, victim)) => {
            say(&format!("a controller plans; {} is killed after {:?}", kill.node, kill.after));
            let mut running = network.start(&program, &Plans::Controller(memory), settings.loss)?;
            running.wait_until_up()?;
            running.wait_until_planned(&program)?;
            let mut carrier = Carrier::open(&network)?;
            Some(carrier.survive(&traffic, running, victim, kill.after)?)
        }
    };
    Ok(Outcome {
        nodes: network.nodes.len(),
        packets: traffic.packets.len(),
        bytes: traffic.bytes,
        left_out: traffic.left_out,
        memory,
        packet_links: emulation.packet_links,
        schemes,
        killed,
    })
}
