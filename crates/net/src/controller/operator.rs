//! What operators ask a running controller, on its Unix socket: one line of JSON, and one in answer.

use super::explain::{self, Why};
use super::{Desk, Input, Seat};
use oncewire_plan::control::{LinkView, NodeView, Phase, View};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Longest request, in bytes.
const MOST: u64 = 16 << 10;
/// How long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a request may take in all.
const LIMIT: Duration = Duration::from_secs(30);
/// Requests at once.
const AT_ONCE: usize = 16;
/// Version of the answers.
const FORMAT: u32 = 1;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The state of everything.
    Status,
    /// The plan that is handed out, as JSON.
    Plan,
    /// A new plan now.
    PlanNow,
    /// Why the packets of a pair are cached where they are.
    Why {
        /// The ingress.
        from: String,
        /// The egress.
        to: String,
    },
    /// Empty a node, or use it again.
    Drain {
        /// The node.
        node: String,
        /// Whether it is to be empty.
        on: bool,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The state.
    Status(Box<Status>),
    /// The plan.
    Plan(String),
    /// The path.
    Why(Why),
    /// It will be done.
    Done,
    /// It cannot be done: one line.
    Failed(String),
}

/// The state of a controller: times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    pub(crate) format: u32,
    pub(crate) role: &'static str,
    pub(crate) version: String,
    pub(crate) key: String,
    pub(crate) address: String,
    pub(crate) uptime: f64,
    pub(crate) network: String,
    pub(crate) plan: u64,
    pub(crate) reason: Option<String>,
    /// Bytes times links per second without the plan, and saved, as planned.
    pub(crate) footprint: Option<[f64; 2]>,
    pub(crate) seconds_since_plan: Option<f64>,
    pub(crate) planning: bool,
    pub(crate) failed: Option<String>,
    pub(crate) rollout: Option<Progress>,
    pub(crate) unreachable: Vec<(String, String)>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Progress {
    /// Nodes that carry out the plan alone, of all.
    pub(crate) done: usize,
    pub(crate) of: usize,
    /// Time from the first to the last node that had it.
    pub(crate) spread: Option<f64>,
    /// Time until all carried it out alone.
    pub(crate) seconds: Option<f64>,
}

/// The state of a node, as its controller sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) phase: &'static str,
    pub(crate) version: Option<String>,
    pub(crate) plan: Option<u64>,
    pub(crate) round_trip: Option<f64>,
    pub(crate) memory: Option<u64>,
    pub(crate) drained: bool,
    pub(crate) refused: Option<String>,
    pub(crate) down: Vec<String>,
    pub(crate) bytes_per_second: Option<f64>,
    pub(crate) repeated_per_second: Option<f64>,
    pub(crate) entered_bytes: u64,
    pub(crate) encoded_bytes: u64,
    /// For maps: its name there, its PoP, and latitude and longitude in degrees.
    pub(crate) label: String,
    pub(crate) pop: u32,
    pub(crate) access: bool,
    pub(crate) position: Option<[f64; 2]>,
    pub(crate) leaving_per_second: f64,
    pub(crate) cached_bytes: Option<u64>,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) operations_per_second: Option<f64>,
    pub(crate) operations_limit: Option<u64>,
    pub(crate) overloaded: bool,
}

/// A link in one direction: bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Link {
    /// Numbers of its ends among the nodes.
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) down: bool,
    pub(crate) bytes_per_second: Option<f64>,
    /// The same without elimination.
    pub(crate) whole_per_second: Option<f64>,
    pub(crate) capacity: Option<f64>,
}

impl From<LinkView> for Link {
    fn from(view: LinkView) -> Link {
        Link {
            from: view.from,
            to: view.to,
            down: view.is_down,
            bytes_per_second: view.rates.map(|rates| rates.0),
            whole_per_second: view.rates.map(|rates| rates.1),
            capacity: view.capacity,
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Node {
    fn new(view: NodeView) -> Node {
        let phase = match view.phase {
            Phase::Away => "away",
            Phase::Down => "down",
            Phase::Lacks => "lacks the plan",
            Phase::Refuses => "refuses the plan",
            Phase::Has => "has the plan",
            Phase::Done => "done",
        };
        Node {
            name: view.name,
            phase,
            version: view.agent,
            plan: view.version,
            round_trip: view.round_trip.map(seconds),
            memory: view.memory,
            drained: view.is_drained,
            refused: view.refused,
            down: view.down,
            bytes_per_second: view.rates.map(|rates| rates.0),
            repeated_per_second: view.rates.map(|rates| rates.1),
            entered_bytes: view.carried.0,
            encoded_bytes: view.carried.1,
            label: view.label,
            pop: view.pop,
            access: view.is_access,
            position: view.position,
            leaving_per_second: view.leaving,
            cached_bytes: view.load.as_ref().map(|load| load.cached),
            cache_bytes: view.load.as_ref().map(|load| load.cache),
            operations_per_second: view.load.as_ref().map(|load| load.operations),
            operations_limit: view.operations,
            overloaded: view.load.as_ref().is_some_and(|load| load.is_overloaded),
        }
    }
}

#[cfg(test)]
impl Status {
    /// A controller of two nodes, of which one is away.
    pub(crate) fn sample() -> Status {
        let node = |name: &str, phase| Node {
            name: name.into(),
            phase,
            version: None,
            plan: Some(3),
            round_trip: Some(0.01),
            memory: Some(1 << 20),
            drained: false,
            refused: None,
            down: Vec::new(),
            bytes_per_second: Some(5.0),
            repeated_per_second: Some(2.0),
            entered_bytes: 10,
            encoded_bytes: 6,
            label: name.into(),
            pop: 0,
            access: false,
            position: None,
            leaving_per_second: 0.0,
            cached_bytes: Some(3),
            cache_bytes: Some(4),
            operations_per_second: Some(7.0),
            operations_limit: None,
            overloaded: false,
        };
        Status {
            format: FORMAT,
            role: "controller",
            version: "oncewire 0".into(),
            key: "ow1c".into(),
            address: "127.0.0.1:7080".into(),
            uptime: 9.0,
            network: "net".into(),
            plan: 3,
            reason: None,
            footprint: Some([10.0, 4.0]),
            seconds_since_plan: Some(4.0),
            planning: false,
            failed: None,
            rollout: Some(Progress { done: 1, of: 2, spread: Some(0.1), seconds: Some(0.2) }),
            unreachable: Vec::new(),
            nodes: vec![node("A", "done"), node("B", "down")],
            links: vec![Link {
                from: 0,
                to: 1,
                down: false,
                bytes_per_second: Some(3.0),
                whole_per_second: Some(5.0),
                capacity: None,
            }],
        }
    }
}

impl Desk {
    pub(super) fn operate(&mut self, request: &Request) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.status())),
            Request::Plan => match self.controller.plan() {
                Some(plan) => Answer::Plan(plan.to_json()),
                None => Answer::Failed("there is no plan yet".into()),
            },
            Request::PlanNow => {
                self.step(Input::PlanNow);
                Answer::Done
            }
            Request::Why { from, to } => {
                explain::why(&self.controller, from, to).map_or_else(Answer::Failed, Answer::Why)
            }
            Request::Drain { node, on } => {
                let nodes = &self.controller.network().nodes;
                match nodes.iter().position(|one| one.id == *node) {
                    Some(at) => {
                        self.step(Input::Drain(at, *on));
                        Answer::Done
                    }
                    None => Answer::Failed(format!("the topology has no node {node}")),
                }
            }
        }
    }

    fn status(&self) -> Status {
        let now = self.now();
        let view: View = self.controller.view(now);
        let rollout = view.rollout.map(|rollout| Progress {
            done: view.nodes.iter().filter(|node| node.phase == Phase::Done).count(),
            of: view.nodes.len(),
            spread: rollout.first.zip(rollout.last).map(|(first, last)| seconds(last - first)),
            seconds: rollout.ended.map(|ended| seconds(ended - rollout.began)),
        });
        Status {
            format: FORMAT,
            role: "controller",
            version: self.agent.clone(),
            key: self.key.clone(),
            address: self.address.to_string(),
            uptime: seconds(now),
            network: view.network,
            plan: view.plan.version,
            reason: view.reason,
            footprint: view.worth.map(|worth| [worth.before, worth.saved]),
            seconds_since_plan: view.planned.map(seconds),
            planning: view.is_planning,
            failed: view.failed,
            rollout,
            unreachable: view.unreachable,
            nodes: view.nodes.into_iter().map(Node::new).collect(),
            links: view.links.into_iter().map(Link::from).collect(),
        }
    }
}

/// How requests and answers are written: JSON, by whoever has a library for it.
#[derive(Clone, Copy)]
pub(crate) struct Codec {
    pub(crate) read: fn(&[u8]) -> Result<Request, String>,
    pub(crate) write: fn(&Answer) -> String,
}

/// Answers operators on a socket.
pub(crate) async fn serve(listener: UnixListener, desk: Seat, codec: Codec) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let desk = desk.clone();
        tokio::spawn(async move {
            let _slot = slot;
            let _ = tokio::time::timeout(LIMIT, one(stream, &desk, codec)).await;
        });
    }
}

async fn one(stream: UnixStream, desk: &Seat, codec: Codec) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut read = BufReader::new(read.take(MOST));
    let arrived = tokio::time::timeout(PATIENCE, read.read_until(b'\n', &mut line)).await;
    arrived.unwrap_or(Err(io::ErrorKind::TimedOut.into()))?;
    let answer = match (codec.read)(&line) {
        Ok(request) => desk.answer(request).await,
        Err(error) => Answer::Failed(format!("not a request: {error}")),
    };
    write.write_all((codec.write)(&answer).as_bytes()).await?;
    write.shutdown().await
}
