//! The nodes of a network, as processes.

use super::LabError;
use super::cable::Cable;
use super::program::Program;
use super::traffic::prefix;
use crate::servers::Running;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most nodes: each has a network 10.n.0.0/16.
const MOST_NODES: usize = 250;
/// How long nodes may take to find each other, and a controller to plan.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// Ports, which are all free in a namespace of our own.
const NODES: u16 = 7000;
pub(super) const CABLES: u16 = 8000;
const CONTROLLER: u16 = 6999;

/// A topology whose nodes have keys and prefixes.
pub(super) struct Network {
    /// Ids, in the order of the topology.
    pub(super) nodes: Vec<String>,
    topology: Value,
    /// Numbers of the ends of each link.
    pub(super) links: Vec<(usize, usize)>,
}

/// Where plans come from.
pub(super) enum Plans {
    /// A directory of manifests.
    Files(PathBuf),
    /// A controller; nodes have this many bytes for packets.
    Controller(u64),
}

/// Name of a node's access device.
pub(super) fn device(node: usize) -> String {
    format!("lab{node}")
}

/// An id as text: the planner takes numbers, too.
fn id(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Network {
    /// Reads a topology, makes keys for its nodes, and writes `net.json`.
    pub(super) fn read(path: &Path, program: &Program) -> Result<Network, LabError> {
        let wrong = |what: &str| LabError::Topology(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path)
            .map_err(LabError::system(format!("reading {}", path.display())))?;
        let mut topology: Value =
            serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        let listed = topology["nodes"].as_array().ok_or_else(|| wrong("it has no nodes"))?;
        let nodes: Vec<String> = listed.iter().map(|node| id(&node["id"])).collect();
        if !(2..=MOST_NODES).contains(&nodes.len()) {
            return Err(wrong(&format!("it has {} nodes; 2 to {MOST_NODES} fit", nodes.len())));
        }
        let number = |value: &Value| {
            let name = id(value);
            nodes.iter().position(|node| *node == name).ok_or_else(|| wrong("a link to no node"))
        };
        let listed = topology["links"].as_array().ok_or_else(|| wrong("it has no links"))?;
        let links = listed.iter().map(|link| Ok((number(&link["a"])?, number(&link["b"])?)));
        let links = links.collect::<Result<Vec<_>, LabError>>()?;
        for number in 0..nodes.len() {
            let key = program.run(&["keygen", &format!("{number}.key")])?;
            let node = &mut topology["nodes"][number];
            node["key"] = json!(key.trim());
            node["prefixes"] = json!([prefix(number)]);
        }
        let network = Network { nodes, topology, links };
        network.write(&program.place("net.json"), None)?;
        Ok(network)
    }

    /// The public key of a node.
    pub(super) fn key(&self, node: usize) -> &str {
        self.topology["nodes"][node]["key"].as_str().unwrap_or_default()
    }

    /// The number of a node, by its id or its label.
    pub(super) fn number(&self, name: &str) -> Result<usize, LabError> {
        let is_it =
            |at: &usize| self.nodes[*at] == name || self.topology["nodes"][*at]["label"] == name;
        (0..self.nodes.len())
            .find(is_it)
            .ok_or_else(|| LabError::Topology(format!("has no node {name}")))
    }

    /// The topology as one node needs it: with the cables to its neighbors as their addresses.
    fn write(&self, path: &Path, of: Option<usize>) -> Result<(), LabError> {
        let mut topology = self.topology.clone();
        for (port, &(a, b)) in (CABLES..).zip(&self.links) {
            if Some(a) == of {
                topology["nodes"][b]["address"] = json!(format!("127.0.0.1:{port}"));
            }
        }
        std::fs::write(path, topology.to_string())
            .map_err(LabError::system(format!("writing {}", path.display())))
    }

    pub(super) fn write_prefixes(&self, path: &Path) -> Result<(), LabError> {
        let line = |(number, node): (usize, &String)| format!("{} {node}\n", prefix(number));
        let lines: String = self.nodes.iter().enumerate().map(line).collect();
        std::fs::write(path, lines).map_err(LabError::system(format!("writing {}", path.display())))
    }

    /// Starts all nodes, and the controller if there is one.
    pub(super) fn start(
        &self,
        program: &Program,
        plans: &Plans,
        loss: f64,
    ) -> Result<RunningNetwork, LabError> {
        let mut cables = Vec::new();
        for (at, (port, &(_, b))) in (0..).zip((CABLES..).zip(&self.links)) {
            cables.push(Cable::open(port, NODES + b as u16, loss, at)?);
        }
        let mut controller = None;
        let from: Vec<String> = match plans {
            Plans::Files(directory) => vec!["--manifests".into(), directory.display().to_string()],
            Plans::Controller(memory) => {
                let key = program.run(&["keygen", "c.key"])?;
                controller = Some(program.start(
                    "controller",
                    "controller",
                    &[
                        "--key",
                        "c.key",
                        "--topology",
                        "net.json",
                        "--store",
                        "c.redb",
                        "--listen",
                        &format!("127.0.0.1:{CONTROLLER}"),
                        "--socket",
                        "c.sock",
                        "--admin",
                        "7078",
                    ],
                )?);
                // The bytes are for ingress, caches and a change of plans: a third each.
                let memory = (3 * memory).to_string();
                let controller = format!("{}@127.0.0.1:{CONTROLLER}", key.trim());
                vec!["--controller".into(), controller, "--memory".into(), memory]
            }
        };
        let has_controller = controller.is_some();
        let mut nodes = Vec::new();
        for (number, name) in self.nodes.iter().enumerate() {
            let topology = format!("net-{number}.json");
            self.write(&program.place(&topology), Some(number))?;
            let (key, device) = (format!("{number}.key"), device(number));
            let (listen, status) =
                (format!("127.0.0.1:{}", NODES as usize + number), format!("{number}.sock"));
            let plan = format!("{number}.plan");
            let mut args = vec![
                "--key",
                &key,
                "--topology",
                &topology,
                "--name",
                name,
                "--listen",
                &listen,
                "--device",
                &device,
                "--no-routes",
                "--path-mtu",
                "9000",
                "--status",
                &status,
            ];
            args.extend(from.iter().map(String::as_str));
            if has_controller {
                args.extend(["--plan-file", &plan]);
            } else {
                // No bytes of hellos, and no node that is dead because the machine is busy.
                args.extend(["--keep-alive", "1s", "--dead-after", "30s"]);
            }
            nodes.push(Some(program.start("node", &number.to_string(), &args)?));
        }
        Ok(RunningNetwork { nodes, cables, _controller: controller, program: program.clone() })
    }
}

/// Processes and cables. All end when this is dropped.
pub(super) struct RunningNetwork {
    nodes: Vec<Option<Running>>,
    cables: Vec<Cable>,
    _controller: Option<Running>,
    program: Program,
}

impl RunningNetwork {
    fn status(&self, node: usize) -> Option<Value> {
        let socket = format!("{node}.sock");
        let said = self.program.run(&["status", "--socket", &socket, "--json"]).ok()?;
        // One document for each socket that was asked.
        let mut documents: Vec<Value> = serde_json::from_str(&said).ok()?;
        documents.pop()
    }

    fn is_up(&self, node: usize) -> Option<bool> {
        let status = self.status(node)?;
        Some(status["up"] == true && status["settled"] == true)
    }

    /// Waits until all neighbors are connected.
    pub(super) fn wait_until_up(&mut self) -> Result<(), LabError> {
        let begun = Instant::now();
        for node in 0..self.nodes.len() {
            while self.is_up(node) != Some(true) {
                let is_running = self.nodes[node].as_mut().is_some_and(Running::is_running);
                if !is_running {
                    let said = self.program.said(&node.to_string());
                    return Err(LabError::Program {
                        command: format!("oncewire node {node}"),
                        said,
                    });
                }
                if begun.elapsed() > PATIENCE {
                    let said = self.program.said(&node.to_string());
                    let what = format!("node number {node} is not connected: {said}");
                    return Err(LabError::Slow(what, PATIENCE));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    /// Waits until all nodes carry out a plan of the controller.
    pub(super) fn wait_until_planned(&self, program: &Program) -> Result<(), LabError> {
        let begun = Instant::now();
        loop {
            let said = program.run(&["controller", "status", "--socket", "c.sock", "--json"]);
            let status: Value =
                said.ok().and_then(|said| serde_json::from_str(&said).ok()).unwrap_or_default();
            let is_done = |node: &Value| node["phase"] == "done";
            if status["plan"].as_u64() > Some(0)
                && status["nodes"].as_array().is_some_and(|nodes| nodes.iter().all(is_done))
            {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let what = format!("no plan of the controller: {}", program.said("controller"));
                return Err(LabError::Slow(what, PATIENCE));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Bytes on all links so far.
    pub(super) fn bytes(&self) -> u64 {
        self.cables.iter().map(Cable::bytes).sum()
    }

    /// CPU time of all nodes so far.
    pub(super) fn cpu(&self) -> Duration {
        self.nodes.iter().flatten().map(Running::cpu).sum()
    }

    /// Sums of counters of all nodes that are other than zero.
    pub(super) fn counters(&self) -> Result<Vec<(String, u64)>, LabError> {
        let mut sums = std::collections::BTreeMap::new();
        for node in 0..self.nodes.len() {
            let status = self.status(node).unwrap_or_default();
            for (name, value) in status["carried"].as_object().into_iter().flatten() {
                *sums.entry(name.clone()).or_insert(0) += value.as_u64().unwrap_or(0);
            }
        }
        sums.retain(|_, value| *value > 0);
        Ok(sums.into_iter().collect())
    }

    /// Kills a node, by SIGKILL.
    pub(super) fn kill(&mut self, node: usize) {
        drop(self.nodes[node].take());
    }
}
