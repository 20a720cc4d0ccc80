//! Three hubs behind one name, or behind HAProxy: a client stays with the hub that has its cache, goes
//! to another when that is killed, and stays there when it returns.

use crate::support::*;
use oncewire_testkit::servers::{Running, free_port, incompressible, wait_for_port};
use oncewire_testkit::{need_tool, skip};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Three hubs with one key, and what makes them start again.
struct Hubs {
    dir: TempDir,
    key: String,
    args: Vec<Vec<String>>,
    running: Vec<Option<End>>,
}

impl Hubs {
    fn start(addresses: [SocketAddr; 3], peer: &str, origin: SocketAddr, dir: TempDir) -> Hubs {
        let key = keygen(&dir.path().join("hub.key"));
        let secret = dir.path().join("hub.key").display().to_string();
        let args = addresses.map(|address| {
            ["serve", "--key", &secret, "--peer", peer, "--listen", &address.to_string()]
                .into_iter()
                .chain(["--memory", "64M", "--allow", &origin.to_string()])
                .map(String::from)
                .collect()
        });
        let mut hubs = Hubs { dir, key, args: args.into(), running: Vec::new() };
        hubs.running.resize_with(3, || None);
        (0..3).for_each(|hub| hubs.restart(hub));
        hubs
    }

    fn restart(&mut self, hub: usize) {
        let end = End::start(self.dir.path(), &format!("hub-{hub}"), &self.args[hub], None);
        self.running[hub] = Some(end);
    }

    fn kill(&mut self, hub: usize) {
        self.running[hub].take().expect("it runs").process.kill().expect("killed");
    }

    /// The hubs that have a session with a lane.
    fn with_session(&self) -> Vec<usize> {
        let has = |end: &End| {
            let sessions = end.status()["sessions"].take();
            sessions.as_array().is_some_and(|all| all.iter().any(|one| one["lanes_up"] != 0))
        };
        let hubs = self.running.iter().enumerate();
        hubs.filter(|(_, hub)| hub.as_ref().is_some_and(has)).map(|(at, _)| at).collect()
    }

    /// Waits until the client has a session with one hub, which is not `but`; returns the hub.
    #[track_caller]
    fn only(&self, client: &End, but: Option<usize>) -> usize {
        wait_until("one hub has the session", || {
            let hubs = self.with_session();
            client.is_established() && hubs.len() == 1 && Some(hubs[0]) != but
        });
        self.with_session()[0]
    }
}

fn total(status: &Value) -> u64 {
    let of = |name: &str| status[name].as_u64().expect("a number");
    of("transport_sent_bytes") + of("transport_received_bytes")
}

/// Bytes on the transport for a download, which must be right.
#[track_caller]
fn download(client: &End, content: &[u8]) -> u64 {
    let before = total(&client.status());
    let got = fetch(client.listening[0]).expect("an answer");
    assert_same(&got, content, "a download");
    // What the last second's counters do not have yet.
    wait_until("the connection is over", || client.counter("flows") == 0);
    total(&client.status()) - before
}

/// Ends all connections of the client to its hub without a word to either process.
fn reset(client: &End, targets: &[SocketAddr]) {
    for target in targets {
        let mut command = Command::new("ss");
        command.args(["-K", "dst"]).arg(target.ip().to_string());
        command.args(["dport", "=", &format!(":{}", target.port())]);
        succeed(&mut command);
    }
    wait_until("the client is back", || client.is_established());
}

/// What all balancers must keep to.
fn follows_its_cache(hubs: &mut Hubs, client: &End, targets: &[SocketAddr], content: &[u8]) {
    let mut at = hubs.only(client, None);
    let (first, second) = (download(client, content), download(client, content));
    assert!(first > content.len() as u64 && second * 20 < content.len() as u64, "{second}");
    // A broken transport returns to the hub that has the cache.
    for _ in 0..3 {
        reset(client, targets);
        assert_eq!(hubs.only(client, None), at);
        let again = download(client, content);
        assert!(again * 20 < content.len() as u64, "hub {at} no longer has the cache: {again}");
    }
    // Each time its hub is killed, it goes to one of the others, which has to learn the content once.
    // The first hub returns, and is not disturbed until the second is killed.
    for round in 0..3 {
        hubs.kill(at);
        let next = hubs.only(client, Some(at));
        let (first, second) = (download(client, content), download(client, content));
        eprintln!("round {round}: hub {at} killed, hub {next} sends {first} bytes, then {second}");
        assert!(second * 20 < content.len() as u64, "{second}");
        hubs.restart(at);
        wait_for_port(targets[0], PATIENCE).unwrap();
        reset(client, targets);
        assert_eq!(hubs.only(client, None), next, "it left the hub that has its cache");
        at = next;
    }
}

fn start_client(dir: &Path, hubs_key: &str, server: &str, origin: SocketAddr, hosts: &Path) -> End {
    let key = dir.join("client.key").display().to_string();
    let text = format!(
        "connect {server} --key {key} --peer {hubs_key} --memory 64M -L 127.0.0.1:0:{origin}"
    );
    let args: Vec<String> = text.split(' ').map(String::from).collect();
    End::start_with_hosts(dir, "client", &args, hosts)
}

fn needs() -> bool {
    let mut probe = Command::new("unshare");
    let probe = probe.args(["--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
}

#[test]
fn a_client_stays_with_its_hub_of_three_behind_one_name() {
    let _ = need_tool!("ss");
    if !needs() {
        skip!("a file of hosts of its own needs root");
    }
    let dir = TempDir::new().unwrap();
    let content = incompressible(71, 1_000_000);
    let (origin, port) = (sender(content.clone()), free_port().unwrap());
    let addresses = [11, 12, 13].map(|n| SocketAddr::from((Ipv4Addr::new(127, 0, 71, n), port)));
    let peer = keygen(&dir.path().join("client.key"));
    let hosts = dir.path().join("hosts");
    let lines = addresses.map(|address| format!("{} hub.example\n", address.ip()));
    std::fs::write(&hosts, lines.concat()).unwrap();
    let home = TempDir::new().unwrap();
    let mut hubs = Hubs::start(addresses, &peer, origin, home);
    let server = format!("hub.example:{port}");
    let client = start_client(dir.path(), &hubs.key, &server, origin, &hosts);
    follows_its_cache(&mut hubs, &client, &addresses, &content);
}

#[test]
fn a_client_stays_with_its_hub_of_three_behind_haproxy() {
    let (haproxy, _) = (need_tool!("haproxy"), need_tool!("ss"));
    if !needs() {
        skip!("to reset connections needs root");
    }
    let dir = TempDir::new().unwrap();
    let content = incompressible(72, 1_000_000);
    let origin = sender(content.clone());
    let [balancer, hubs @ ..] =
        [(); 4].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap())));
    let peer = keygen(&dir.path().join("client.key"));
    let mut group = Hubs::start(hubs, &peer, origin, TempDir::new().unwrap());
    // The configuration as the document has it, with other addresses.
    let document = include_str!("../../../../docs/OPERATING.md");
    let (_, text) = document.split_once("```haproxy\n").expect("a configuration");
    let (text, _) = text.split_once("```").unwrap();
    let mut text = text.replace("bind :7077", &format!("bind {balancer}"));
    for (n, hub) in hubs.iter().enumerate() {
        let documented = format!("10.8.0.{}:7077", n + 1);
        assert!(text.contains(&documented), "{documented}");
        text = text.replace(&documented, &hub.to_string());
    }
    let config = dir.path().join("haproxy.cfg");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(haproxy);
    command.args(["-db", "-f"]).arg(&config).stdin(Stdio::null());
    let _balancer = Running::start(&mut command).unwrap();
    wait_for_port(balancer, PATIENCE).unwrap();
    let hosts = Path::new("/etc/hosts");
    let client = start_client(dir.path(), &group.key, &balancer.to_string(), origin, hosts);
    follows_its_cache(&mut group, &client, &[balancer], &content);
}
