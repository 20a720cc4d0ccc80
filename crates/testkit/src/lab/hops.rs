//! Hop by hop: a packet link of its own on each cable, and routers between them. What enters a link is
//! encoded there, and decoded at its other end.

use super::LabError;
use super::access::Access;
use super::cable::Cable;
use super::network::{CABLES, Network, PATIENCE};
use super::program::Program;
use super::traffic::{Entering, ends};
use crate::servers::Running;
use pnet_datalink::{DataLinkReceiver, DataLinkSender};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Ports of the links' listening ends.
const LINKS: u16 = 9000;
/// Smallest content log of a link, in bytes.
const LEAST: u64 = 1 << 20;

/// An end of a link: its cable, and the router that it is at.
pub(super) type End = (usize, usize);

/// What leaves at an end.
pub(super) type Receiver = (End, Box<dyn DataLinkReceiver>);

/// The routers before and after one, by ingress, egress and this one.
type Ways = HashMap<(usize, usize, usize), (Option<usize>, Option<usize>)>;

/// Links on all cables, and who is next on each way.
pub(super) struct Hops {
    links: Vec<Running>,
    cables: Vec<Cable>,
    ways: Ways,
    /// The cable from a router to a neighbor.
    to: HashMap<(usize, usize), usize>,
    senders: HashMap<End, Mutex<Box<dyn DataLinkSender>>>,
    program: Program,
}

/// Name of the tun device of an end, and of everything else of it.
fn name((cable, router): End) -> String {
    format!("hop{cable}-{router}")
}

impl Hops {
    /// Starts a link on each cable. A router has `memory` for its logs as encoder, and as much as
    /// decoder: each of its links has an equal part. Ways are those of the plan in `plan`.
    pub(super) fn start(
        network: &Network,
        program: &Program,
        plan: &str,
        memory: u64,
        loss: f64,
    ) -> Result<(Hops, Vec<Receiver>), LabError> {
        let degree = |node: usize| {
            network.links.iter().filter(|&&(a, b)| a == node || b == node).count() as u64
        };
        let mut hops = Hops {
            links: Vec::new(),
            cables: Vec::new(),
            ways: ways(network, program, plan)?,
            to: HashMap::new(),
            senders: HashMap::new(),
            program: program.clone(),
        };
        for (cable, &(a, b)) in network.links.iter().enumerate() {
            let (front, back) = (CABLES + cable as u16, LINKS + cable as u16);
            hops.cables.push(Cable::open(front, back, loss, cable as u64)?);
            hops.to.extend([((a, b), cable), ((b, a), cable)]);
            let log = (memory / degree(a).max(degree(b)).max(1)).max(LEAST);
            hops.link(
                (cable, b),
                network.key(a),
                &["--listen", &format!("127.0.0.1:{back}")],
                log,
            )?;
            hops.link((cable, a), network.key(b), &[&format!("127.0.0.1:{front}")], log)?;
        }
        hops.wait_until_up()?;
        let mut receivers = Vec::new();
        for (cable, &(a, b)) in network.links.iter().enumerate() {
            for end in [(cable, a), (cable, b)] {
                let Access { sender, receiver } = Access::open(&name(end))?;
                hops.senders.insert(end, Mutex::new(sender));
                receivers.push((end, receiver));
            }
        }
        Ok((hops, receivers))
    }

    /// Starts an end of a link.
    fn link(&mut self, end: End, peer: &str, how: &[&str], log: u64) -> Result<(), LabError> {
        let (name, key, log) = (name(end), format!("{}.key", end.1), log.to_string());
        let socket = format!("{name}.sock");
        let mut args = how.to_vec();
        args.extend(["--key", &key, "--peer", peer, "--allowed", "10.0.0.0/8", "--cache", &log]);
        args.extend(["--share", "all", "--device", &name, "--routes", "off"]);
        args.extend(["--path-mtu", "9000", "--status", &socket]);
        self.links.push(self.program.start("link", &name, &args)?);
        Ok(())
    }

    fn wait_until_up(&self) -> Result<(), LabError> {
        let begun = Instant::now();
        let mut ends: Vec<String> =
            self.to.iter().map(|(&(router, _), &cable)| name((cable, router))).collect();
        while let Some(name) = ends.last() {
            let socket = format!("{name}.sock");
            let said = self.program.run(&["status", "--socket", &socket, "--json"]);
            let said: Value = serde_json::from_str(&said.unwrap_or_default()).unwrap_or_default();
            if said[0]["up"] == true {
                ends.pop();
                continue;
            }
            if begun.elapsed() > PATIENCE {
                let what = format!("link {name} is not up: {}", self.program.said(name));
                return Err(LabError::Slow(what, PATIENCE));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Bytes on all links so far.
    pub(super) fn bytes(&self) -> u64 {
        self.cables.iter().map(Cable::bytes).sum()
    }

    /// CPU time of all ends so far.
    pub(super) fn cpu(&self) -> Duration {
        self.links.iter().map(Running::cpu).sum()
    }

    /// Sends a packet on its way from the router where it enters.
    pub(super) fn enter(&self, packet: &Entering) -> Result<(), LabError> {
        let way = self.ways.get(&(packet.from, packet.to, packet.from));
        let next = way.and_then(|way| way.1);
        let next = next.ok_or_else(|| LabError::Topology("has nodes without a way".into()))?;
        self.send(packet.from, next, &packet.bytes)
    }

    /// Takes what has left a link: the router, if it is the last one; else it goes on.
    pub(super) fn take(&self, (cable, router): End, packet: &[u8]) -> Option<usize> {
        let (from, to) = ends(packet)?;
        // What this side has sent may be seen here, too; and the system has packets of its own.
        let &(before, after) = self.ways.get(&(from, to, router))?;
        let before = before?;
        if self.to.get(&(before, router)) != Some(&cable) {
            return None;
        }
        match after {
            None => Some(router),
            Some(next) => {
                // A device that is gone is the end of the run.
                let _ = self.send(router, next, packet);
                None
            }
        }
    }

    fn send(&self, router: usize, next: usize, packet: &[u8]) -> Result<(), LabError> {
        let cable = self.to.get(&(router, next)).copied();
        let sender = cable.and_then(|cable| self.senders.get(&(cable, router)));
        let sender = sender.ok_or_else(|| LabError::Topology("has a way without links".into()))?;
        let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.send_to(packet, None);
        sent.unwrap_or(Ok(())).map_err(LabError::system("sending into a link"))
    }
}

/// The ways of a plan of devices at all routers.
fn ways(network: &Network, program: &Program, plan: &str) -> Result<Ways, LabError> {
    let text = std::fs::read_to_string(program.place(plan))
        .map_err(LabError::system(format!("reading {plan}")))?;
    let plan: Value = serde_json::from_str(&text).unwrap_or_default();
    let node = |name: &Value| network.number(name.as_str().unwrap_or_default());
    let mut ways = HashMap::new();
    for path in plan["paths"].as_array().into_iter().flatten() {
        let place = |list: &str, at: &Value| {
            node(&plan[list][at.as_u64().unwrap_or(u64::MAX) as usize]["name"])
        };
        let mut way = vec![place("ingresses", &path["ingress"])?];
        for hop in path["hops"].as_array().into_iter().flatten() {
            way.push(place("devices", hop)?);
        }
        let to = node(&path["egress"])?;
        if way.last() != Some(&to) {
            return Err(LabError::Topology("has routers without a device in the plan".into()));
        }
        for (at, &router) in way.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| way[before]);
            ways.insert((way[0], to, router), (before, way.get(at + 1).copied()));
        }
    }
    Ok(ways)
}
