//! `oncewire node`: a network of four nodes, each in a namespace of its own. Needs root and the `ip`
//! program.

use crate::link::End;
use crate::support::{ONCEWIRE, finish, succeed, wait_until};
use oncewire_testkit::path::Path;
use oncewire_testkit::servers::Running;
use oncewire_testkit::{need_tool, skip};
use serde_json::json;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// A star: B is in the middle and has no networks behind it. Node number i of the list has
/// 10.99.0.i outside, and 10.i.0.1 in the network.
const NODES: [&str; 4] = ["A", "B", "C", "D"];
const CABLES: [(usize, usize); 3] = [(0, 1), (1, 2), (1, 3)];

/// The namespaces, keys, topology and manifests.
struct Network {
    dir: TempDir,
    /// What names of namespaces and devices begin with.
    prefix: String,
}

impl Network {
    /// `None` if this machine has no namespaces.
    fn new() -> Option<Network> {
        if let Some(reason) = Path::unavailable() {
            skip!("{reason}");
        }
        static NETWORKS: AtomicU32 = AtomicU32::new(0);
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("on{}x{number}", std::process::id() % 100_000);
        let network = Network { dir: TempDir::new().expect("a directory"), prefix };
        let ip = |line: String| succeed(Command::new("ip").args(line.split_whitespace()));
        let space = |node| network.namespace(node);
        let mut nodes = Vec::new();
        for (at, name) in NODES.iter().enumerate() {
            ip(format!("netns add {}", space(at)));
            ip(format!("-n {} link set dev lo up", space(at)));
            ip(format!("-n {} address add 10.99.0.{}/32 dev lo", space(at), at + 1));
            let key = succeed(Command::new(ONCEWIRE).arg("keygen").arg(network.key(at)));
            let key = String::from_utf8(key).unwrap();
            let prefixes =
                if at == 1 { String::new() } else { format!("\"10.{}.0.0/16\"", at + 1) };
            nodes.push(format!(
                r#"{{"id": "{name}", "population": 1, "key": "{}", "address": "10.99.0.{}:7081", "prefixes": [{prefixes}]}}"#,
                key.trim(),
                at + 1
            ));
        }
        for (a, b) in CABLES {
            let ends = [(a, b), (b, a)].map(|(at, to)| format!("{}{at}{to}", network.prefix));
            ip(format!(
                "link add {} netns {} type veth peer name {} netns {}",
                ends[0],
                space(a),
                ends[1],
                space(b)
            ));
            for ((at, to), device) in [(a, b), (b, a)].into_iter().zip(&ends) {
                ip(format!("-n {} link set dev {device} up", space(at)));
                ip(format!(
                    "-n {} route add 10.99.0.{}/32 dev {device} src 10.99.0.{}",
                    space(at),
                    to + 1,
                    at + 1
                ));
            }
        }
        let links = CABLES.map(|(a, b)| format!(r#"{{"a": "{}", "b": "{}"}}"#, NODES[a], NODES[b]));
        let topology = format!(
            r#"{{"name": "star", "nodes": [{}], "links": [{}]}}"#,
            nodes.join(", "),
            links.join(", ")
        );
        std::fs::write(network.dir.path().join("net.json"), topology).unwrap();
        network.plan("plan", None);
        Some(network)
    }

    /// Makes a plan, perhaps one that comes after another, and writes its manifests.
    fn plan(&self, directory: &str, after: Option<&str>) {
        let place = |name: &str| self.dir.path().join(name);
        let mut plan = Command::new(ONCEWIRE);
        plan.arg("plan").arg(place("net.json")).args(["--quick", "--manifests-dir"]);
        plan.arg(place(directory)).arg("--manifests").arg(place(&format!("{directory}.json")));
        if let Some(after) = after {
            // Less memory: other ranges and smaller buckets.
            plan.args(["--ingress-memory", "64M", "--against"])
                .arg(place(&format!("{after}.json")));
        }
        succeed(&mut plan);
    }

    fn namespace(&self, node: usize) -> String {
        format!("{}{}", self.prefix, NODES[node])
    }

    fn key(&self, node: usize) -> std::path::PathBuf {
        self.dir.path().join(format!("{}.key", NODES[node]))
    }

    fn command(&self, node: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node), program]);
        command
    }

    fn start(&self, node: usize, options: &[&str]) -> End {
        let plan = self.dir.path().join("plan");
        self.start_with(node, &["--manifests", plan.to_str().unwrap()], options)
    }

    fn start_with(&self, node: usize, plan: &[&str], options: &[&str]) -> End {
        let mut command = self.command(node, ONCEWIRE);
        command.args(["node", "--name", NODES[node], "--listen", "7081", "--key"]);
        command.arg(self.key(node)).arg("--topology").arg(self.dir.path().join("net.json"));
        command.args(plan);
        // Devices exist outside of the namespaces for a moment.
        command.args(["--device", &format!("{}t", self.namespace(node))]);
        if node != 1 {
            command.args(["--address", &format!("10.{}.0.1/32", node + 1)]);
        }
        End::start(
            {
                command.args(options);
                command
            },
            self.dir.path(),
            NODES[node],
        )
    }

    fn ping(&self, from: usize, args: &[&str]) -> bool {
        let mut command = self.command(from, "ping");
        finish(command.args(["-q", "-i", "0.01", "-W", "5"]).args(args)).status.success()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in 0..NODES.len() {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace(node)]).status();
        }
    }
}

fn carried(end: &End, what: &str) -> u64 {
    end.number(&format!("/carried/{what}"))
}

/// Packets of all kinds cross the network; a file that was sent before crosses in a tenth of its bytes;
/// what is not behind a node is refused.
#[test]
fn a_network_of_nodes_carries_packets() {
    need_tool!("ping");
    let (curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let Some(network) = Network::new() else { return };
    let secret = network.dir.path().join("secret");
    std::fs::write(&secret, "of this network").unwrap();
    let secret = ["--network-secret", secret.to_str().unwrap()];
    let ends: Vec<End> = (0..4).map(|node| network.start(node, &secret)).collect();
    for end in &ends {
        wait_until("all neighbors are connected", || end.is_up());
    }
    for (from, to) in [(0, "10.3.0.1"), (3, "10.1.0.1"), (2, "10.4.0.1")] {
        assert!(network.ping(from, &["-c", "5", to]), "{from} to {to}: {}", ends[1].said());
    }
    assert!(network.ping(0, &["-c", "3", "-s", "4000", "10.3.0.1"]), "fragments");
    let content = oncewire_testkit::content::incompressible(9, 1_000_000);
    std::fs::write(network.dir.path().join("file"), &content).unwrap();
    let mut server = network.command(2, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "10.3.0.1", "8080"]);
    server.current_dir(network.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running::start(&mut server).unwrap();
    let download = || {
        wait_until("curl succeeds", || {
            let mut client = network.command(0, curl.to_str().unwrap());
            let url = "http://10.3.0.1:8080/file";
            let output = finish(client.args(["-s", "--max-time", "25", url]));
            output.status.success() && output.stdout == content
        });
    };
    let sent = || ends[2].number("/sent/datagram_bytes");
    download();
    assert!(sent() > content.len() as u64);
    wait_until("a download takes a tenth", || {
        let before = sent();
        download();
        (sent() - before) * 10 < content.len() as u64
    });
    let decoded = ends.iter().map(|end| carried(end, "decoded_bytes")).sum::<u64>();
    assert!(decoded > 900_000, "{decoded} bytes decoded");
    for end in &ends {
        let status = end.status().unwrap();
        // A full buffer of a socket may have lost some datagrams.
        assert!(carried(end, "undecodable") < 100, "{status}");
        for nothing in ["damaged", "violations", "wrong_neighbor", "malformed"] {
            assert_eq!(status["carried"][nothing], 0, "{nothing}: {status}");
        }
        assert_eq!(status["dropped"]["violations"], 0, "{status}");
    }
    assert!(carried(&ends[1], "forwarded") > 1000);
    // A host that A has no prefix for, and one that is behind no node.
    let lo = ["address", "add", "10.9.0.9/32", "dev", "lo"];
    succeed(network.command(0, "ip").args(lo));
    let refused = carried(&ends[0], "source_not_allowed");
    assert!(!network.ping(0, &["-c", "3", "-W", "1", "-I", "10.9.0.9", "10.3.0.1"]));
    // The system sends packets of its own from link-local addresses, too.
    assert!(carried(&ends[0], "source_not_allowed") >= refused + 3);
    let text = finish(Command::new(ONCEWIRE).args(["status", "--socket"]).arg(ends[0].socket()));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("node A") && text.contains("1 of 1 neighbor connected"), "{text}");
    // A restarts with an empty cache. C is told, and what it sends is soon found again.
    let mut ends = ends;
    ends[0].kill();
    ends[0] = network.start(0, &secret);
    wait_until("all neighbors are connected again", || ends.iter().all(End::is_up));
    download();
    wait_until("a download takes a tenth again", || {
        let before = ends[2].number("/sent/datagram_bytes");
        download();
        (ends[2].number("/sent/datagram_bytes") - before) * 10 < content.len() as u64
    });
    assert!(carried(&ends[2], "restarted") > 0, "{:?}", ends[2].status());
    let answered = carried(&ends[2], "resent") + carried(&ends[2], "unanswered");
    assert!(answered < 100, "{answered} packets were rejected: {:?}", ends[2].status());
}

/// All nodes read a new plan on SIGHUP, one after the other. Packets go on: none is lost, and caches
/// stay.
#[test]
fn a_new_plan_is_brought_in_while_packets_flow() {
    need_tool!("ping");
    let Some(network) = Network::new() else { return };
    let ends: Vec<End> = (0..4).map(|node| network.start(node, &[])).collect();
    let settled = |version: u64| {
        let is = |end: &End| {
            let status = end.status().unwrap_or_default();
            status["plan_version"] == version && status["settled"] == true
        };
        ends.iter().all(is)
    };
    wait_until("all nodes know the first plan", || settled(1));
    let mut ping = network.command(0, "ping");
    ping.args(["-i", "0.002", "-s", "900", "-w", "60", "10.3.0.1"]);
    let answers = network.dir.path().join("answers");
    let mut ping = ping.stdout(std::fs::File::create(&answers).unwrap()).spawn().unwrap();
    let decoded = || ends.iter().map(|end| carried(end, "decoded")).sum::<u64>();
    wait_until("packets are decoded", || decoded() > 100);
    let plan = network.dir.path().join("plan");
    for version in 2..5u64 {
        let before = if version == 2 { "plan".into() } else { format!("plan{}", version - 1) };
        network.plan(&format!("plan{version}"), Some(&before));
        std::fs::remove_dir_all(&plan).unwrap();
        std::fs::rename(network.dir.path().join(format!("plan{version}")), &plan).unwrap();
        for end in &ends {
            end.signal("HUP");
        }
        wait_until("all nodes carry out the new plan", || settled(version));
        let before = decoded();
        wait_until("packets are decoded with it", || decoded() > before + 100);
    }
    succeed(Command::new("kill").args(["-INT", &ping.id().to_string()]));
    ping.wait().unwrap();
    // Those on their way when ping was ended have no answer: the last ones, and no others.
    let said = std::fs::read_to_string(&answers).unwrap();
    let sequence = |line: &str| -> Option<u64> {
        let (_, rest) = line.split_once("icmp_seq=")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let mut answered: Vec<u64> = said.lines().filter_map(sequence).collect();
    answered.sort_unstable();
    let all: Vec<u64> = (1..=answered.len() as u64).collect();
    assert!(answered == all && all.len() > 300, "{said}");
    for end in &ends {
        let status = end.status().unwrap();
        for nothing in ["damaged", "violations", "wrong_neighbor", "undecodable"] {
            assert_eq!(status["carried"][nothing], 0, "{nothing}: {status}");
        }
        assert!(end.said().contains("bringing in a new plan"), "{}", end.said());
    }
    // A plan that is not newer changes nothing.
    std::fs::rename(network.dir.path().join("plan"), network.dir.path().join("newest")).unwrap();
    network.plan("plan", None);
    ends[0].signal("HUP");
    wait_until("the old plan is refused", || ends[0].said().contains("is older than plan 4"));
    wait_until("all nodes answer, and know no other plan", || settled(4));
}

/// A controller and its nodes.
struct Controlled {
    network: Network,
    key: String,
    controller: Option<Running>,
    ends: Vec<End>,
}

impl Controlled {
    fn new() -> Option<Controlled> {
        let network = Network::new()?;
        let key = network.dir.path().join("c.key");
        let key = succeed(Command::new(ONCEWIRE).arg("keygen").arg(key));
        let key = String::from_utf8(key).unwrap().trim().to_owned();
        let mut controlled = Controlled { network, key, controller: None, ends: Vec::new() };
        controlled.start_controller();
        controlled.ends = (0..4).map(|node| controlled.start(node)).collect();
        Some(controlled)
    }

    fn place(&self, name: &str) -> std::path::PathBuf {
        self.network.dir.path().join(name)
    }

    fn start_controller(&mut self) {
        let log = std::fs::File::options().append(true).create(true).open(self.place("c.log"));
        let mut command = self.network.command(1, ONCEWIRE);
        command.args([
            "controller",
            "--listen",
            "10.99.0.2:7080",
            "--memory",
            "30M",
            "--interval",
            "1s",
            "--admin",
            "7078",
        ]);
        for (option, file) in
            [("key", "c.key"), ("topology", "net.json"), ("store", "c.redb"), ("socket", "c.sock")]
        {
            command.arg(format!("--{option}")).arg(self.place(file));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap());
        self.controller = Some(Running::start(&mut command).expect("a controller"));
    }

    fn start(&self, node: usize) -> End {
        let controller = format!("{}@10.99.0.2:7080", self.key);
        let file = self.place(&format!("{}.plan", NODES[node]));
        let plan = ["--controller", &controller, "--plan-file", file.to_str().unwrap()];
        self.network.start_with(node, &plan, &["--admin", "7079"])
    }

    /// What the controller answers; nothing if there is none.
    fn ask(&self, verb: &[&str]) -> Option<serde_json::Value> {
        let mut command = Command::new(ONCEWIRE);
        command.arg("controller").args(verb).arg("--json");
        let output = finish(command.arg("--socket").arg(self.place("c.sock")));
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// What the admin address at a port of a node's namespace answers.
    fn get(&self, node: usize, place: &str) -> String {
        let mut client = self.network.command(node, "curl");
        let output =
            finish(client.args(["-sS", "--fail"]).arg(format!("http://127.0.0.1:{place}")));
        assert!(output.status.success(), "{place}: {}", crate::support::text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Both admin addresses: metrics, state and a page.
    fn is_watched(&self) {
        // Another plan may be on its way.
        for line in
            ["oncewire_controller_nodes_done 4", "oncewire_controller_node_connected{node=\"C\"} 1"]
        {
            wait_until(line, || self.get(1, "7078/metrics").lines().any(|one| one == line));
        }
        let status: serde_json::Value = serde_json::from_str(&self.get(1, "7078/status")).unwrap();
        assert_eq!(status["network"], "star");
        let page = self.get(1, "7078/");
        assert!(page.contains("controller of star") && page.contains("carry out"), "{page}");
        wait_until("the page says so", || {
            let update: serde_json::Value =
                serde_json::from_str(&self.get(1, "7078/update")).unwrap();
            update["headline"] == "All nodes carry out the plan."
        });
        for line in ["oncewire_node_controller_connected 1", "oncewire_node_settled 1"] {
            wait_until(line, || self.get(0, "7079/metrics").lines().any(|one| one == line));
        }
        let metrics = self.get(0, "7079/metrics");
        assert!(metrics.contains("oncewire_link_peer_up{"), "{metrics}");
        assert!(self.get(0, "7079/").contains("Node A is connected with all neighbors."));
        let update: serde_json::Value = serde_json::from_str(&self.get(0, "7079/update")).unwrap();
        assert_eq!(update["positive"], true);
    }

    /// The map of the controller's page, as a browser gets it again and again.
    fn map(&self) -> String {
        let update = self.get(1, "7078/update");
        let update: serde_json::Value = serde_json::from_str(&update).unwrap();
        update["maps"][0].as_str().unwrap().to_owned()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.place("c.log")).unwrap_or_default()
    }

    /// The version that all nodes of a list carry out alone, if there is one.
    fn settled(&self, nodes: &[usize]) -> Option<u64> {
        let status = self.ask(&["status"])?;
        let is_done = |&at: &usize| status["nodes"][at]["phase"] == "done";
        nodes.iter().all(is_done).then(|| status["plan"].as_u64()).flatten()
    }

    fn pid(&self) -> String {
        // The program is a child of `ip`, which becomes it.
        self.controller.as_ref().unwrap().id().to_string()
    }
}

/// Nodes with a controller: it plans, from what they measure, and around a dead node; and nothing
/// stops when it does.
#[test]
fn a_controller_plans_from_what_nodes_measure() {
    need_tool!("ping");
    let (curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let Some(mut net) = Controlled::new() else { return };
    wait_until("all nodes carry out a plan", || net.settled(&[0, 1, 2, 3]).is_some());
    for end in &net.ends {
        wait_until("all neighbors are connected", || end.is_up());
    }
    net.is_watched();
    // The first plan needs no links between nodes.
    wait_until("packets arrive", || net.network.ping(0, &["-c", "5", "10.3.0.1"]));
    // A and C have most of the traffic, and the same content again and again.
    let content = oncewire_testkit::content::incompressible(9, 1_000_000);
    std::fs::write(net.place("file"), &content).unwrap();
    let mut server = net.network.command(2, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "10.3.0.1", "8080"]);
    server.current_dir(net.network.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running::start(&mut server).unwrap();
    let download = |net: &Controlled| {
        let mut client = net.network.command(0, curl.to_str().unwrap());
        let url = "http://10.3.0.1:8080/file";
        let output = finish(client.args(["-s", "--max-time", "25", url]));
        output.status.success() && output.stdout == content
    };
    wait_until("the server answers", || download(&net));
    wait_until("a plan is made from what was measured", || {
        assert!(download(&net));
        net.settled(&[0, 1, 2, 3]).is_some_and(|plan| plan > 1)
            && net.said().contains(" differs from what was planned with")
    });
    let sent = |net: &Controlled| net.ends[2].number("/sent/datagram_bytes");
    // While nothing is downloaded, another plan may come that expects nothing.
    let mut why = serde_json::Value::Null;
    wait_until("a download takes a tenth, and the plan says why", || {
        let before = sent(&net);
        assert!(download(&net));
        let taken = sent(&net) - before;
        why = net.ask(&["why", "C", "A"]).unwrap();
        let is_cached = why["uncached"].as_f64().unwrap() < 0.1;
        taken * 10 < content.len() as u64 && is_cached && why["volume"].as_f64().unwrap() > 1000.0
    });
    assert_eq!(why["repeats"][0][0], "A", "{why}");
    // B passes on what C has encoded: what its link to A carries, and would carry, is on the map.
    wait_until("the link from B to A carries less than it would", || {
        assert!(download(&net));
        let status = net.ask(&["status"]).unwrap();
        let links = status["links"].as_array().unwrap();
        let link = links.iter().find(|link| (&link["from"], &link["to"]) == (&json!(1), &json!(0)));
        let rate = |key: &str| link.unwrap()[key].as_f64().unwrap_or(0.0);
        rate("whole_per_second") > 4.0 * rate("bytes_per_second") && rate("bytes_per_second") > 0.0
    });
    let map = net.map();
    assert!(map.contains("<svg class=\"map\"") && map.contains("per second, "), "{map}");
    assert!(!map.contains("dead") && !map.contains("drained"), "{map}");
    let plan = net.ask(&["plan"]).unwrap();
    assert_eq!(plan["network"], "star");

    // It is killed: packets go on. A node starts with what it has on disk.
    succeed(Command::new("kill").args(["-KILL", &net.pid()]));
    net.controller.take().unwrap().wait(crate::support::PATIENCE).unwrap();
    assert!(net.ask(&["status"]).is_none());
    let version = net.ends[3].number("/plan_version");
    net.ends[3].kill();
    net.ends[3] = net.start(3);
    wait_until("D is back", || net.ends[3].is_up());
    assert_eq!(net.ends[3].number("/plan_version"), version);
    // It is up before its neighbor knows that.
    wait_until("packets of D arrive", || net.network.ping(3, &["-c", "5", "10.1.0.1"]));
    assert!(download(&net));
    net.start_controller();
    wait_until("all nodes have joined again", || net.settled(&[0, 1, 2, 3]) >= Some(version));

    // A dead node holds up no plan, and is in the next one when it is back.
    net.ends[3].kill();
    wait_until("plans leave D out", || {
        net.settled(&[0, 1, 2]).is_some() && net.ask(&["why", "A", "D"]).is_none()
    });
    let status = net.ask(&["status"]).unwrap();
    assert_eq!(status["nodes"][3]["phase"], "down", "{status}");
    let map = net.map();
    assert!(map.contains("dot dead") && map.contains(" down\""), "{map}");
    assert!(download(&net));
    net.ends[3] = net.start(3);
    wait_until("D is in the plan again", || {
        net.settled(&[0, 1, 2, 3]).is_some() && net.ask(&["why", "A", "D"]).is_some()
    });
    wait_until("packets for D arrive", || net.network.ping(0, &["-c", "5", "10.4.0.1"]));

    // C is emptied.
    assert!(net.ask(&["drain", "C"]).is_some() && net.ask(&["drain", "Q"]).is_none());
    wait_until("C is empty", || {
        let why = net.ask(&["why", "A", "C"]);
        net.settled(&[0, 1, 2, 3]).is_some() && why.is_some_and(|why| why["hops"][1]["bytes"] == 0)
    });
    assert!(net.map().contains("dot drained"));
    let mut text = Command::new(ONCEWIRE);
    let text = finish(text.args(["controller", "status", "--socket"]).arg(net.place("c.sock")));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("controller of star") && text.contains("drained"), "{text}");
    for end in &net.ends {
        let status = end.status().unwrap();
        assert_eq!(status["carried"]["damaged"], 0, "{status}");
        assert_eq!(status["carried"]["violations"], 0, "{status}");
        assert_eq!(status["controller"]["connected"], true, "{status}");
    }
    // Another key than a node's is not let in, and a second controller not started.
    let output = finish(
        net.network
            .command(0, ONCEWIRE)
            .args(["controller", "--listen", "10.99.0.1:7080", "--key"])
            .arg(net.place("c.key"))
            .arg("--topology")
            .arg(net.place("net.json"))
            .arg("--store")
            .arg(net.place("c.redb")),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("another process uses it"), "{said}");
}

/// A node with another secret does not connect, and one that does not fit the topology
/// does not start.
#[test]
fn nodes_of_another_network_do_not_connect() {
    let Some(network) = Network::new() else { return };
    let (a, b) = (network.start(0, &[]), network.start(1, &[]));
    wait_until("A is connected", || a.is_up());
    let secret = network.dir.path().join("secret");
    std::fs::write(&secret, "of another network").unwrap();
    let c = network.start(2, &["--network-secret", secret.to_str().unwrap()]);
    wait_until("C says why", || c.said().contains("cannot reach the other end"));
    assert!(!c.is_up() && b.said().matches("link up").count() == 1, "{}", c.said());
    let mut wrong = Command::new(ONCEWIRE);
    wrong.args(["node", "--name", "D", "--listen", "7081", "--key"]).arg(network.key(2));
    wrong.arg("--topology").arg(network.dir.path().join("net.json"));
    wrong.arg("--manifests").arg(network.dir.path().join("plan"));
    let wrong = finish(&mut wrong);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("the topology gives node D the public key"), "{said}");
}
