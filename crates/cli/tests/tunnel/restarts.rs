//! `--drain-in-background`: a restart that refuses no connection and ends none. The test is the service
//! manager: it keeps the listeners, as systemd does, and starts the next process when the one before
//! has ended.
//!
//! `ONCEWIRE_OLD=PROGRAM` upgrades from that program, back to it, and so on; without it, the same
//! program is started again. The other program must have the option, and for QUIC it must
//! use the UDP socket that the manager passes.

use crate::support::*;
use oncewire_testkit::servers::incompressible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const DRAIN: [&str; 3] = ["--drain-in-background", "--drain", "60s"];

/// A service, and its listeners.
struct Service {
    name: &'static str,
    args: Vec<String>,
    listeners: Vec<TcpListener>,
    /// The UDP socket of a server, if the manager keeps one.
    udp: Option<UdpSocket>,
    /// How often it was started.
    starts: usize,
}

/// A listener for each address of an end; the end's arguments then name these addresses.
fn listen(args: &mut [String]) -> Vec<TcpListener> {
    let mut listeners = Vec::new();
    for arg in args {
        let Some(rest) = arg.strip_prefix("127.0.0.1:0") else { continue };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        *arg = format!("{}{rest}", listener.local_addr().expect("bound"));
        listeners.push(listener);
    }
    listeners
}

fn program(start: usize) -> PathBuf {
    let old = std::env::var_os("ONCEWIRE_OLD").filter(|_| start.is_multiple_of(2));
    old.map_or(ONCEWIRE.into(), PathBuf::from)
}

impl Service {
    /// Starts the next process, and waits until it answers.
    fn start(&mut self, dir: &Path) -> End {
        // Only standard input and output can be passed without unsafe code: a shell moves them.
        let mut kept: Vec<OwnedFd> = Vec::new();
        kept.extend(self.listeners.iter().map(|listener| listener.try_clone().unwrap().into()));
        kept.extend(self.udp.iter().map(|socket| OwnedFd::from(socket.try_clone().unwrap())));
        let count = kept.len();
        let mut kept = kept.into_iter();
        let mut next = || kept.next().map_or_else(Stdio::null, Stdio::from);
        let shell = r#"exec "$@" 3<&0 4<&1 0</dev/null 1>/dev/null"#;
        let mut command = Command::new("sh");
        command
            .args(["-c", shell, "sh"])
            .arg(program(self.starts))
            .env("LISTEN_FDS", count.to_string())
            .env("NOTIFY_SOCKET", dir.join("manager.sock"));
        self.starts += 1;
        End::start_on(command, dir, self.name, &self.args, [next(), next()])
    }

    fn ways(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|listener| listener.local_addr().expect("bound")).collect()
    }
}

/// A tunnel whose ends are services.
struct Services {
    /// It has the directory and the keys; its own processes have ended.
    tunnel: Tunnel,
    serve: (Service, End),
    connect: (Service, End),
    /// What the manager was told.
    told: Arc<Mutex<String>>,
}

impl Services {
    fn start(plan: Plan) -> Services {
        let mut tunnel = plan.serve(&DRAIN).connect(&DRAIN).start();
        tunnel.connect.process.terminate().unwrap();
        tunnel.connect.ends(PATIENCE);
        tunnel.serve.process.terminate().unwrap();
        tunnel.serve.ends(PATIENCE);
        let dir = tunnel.dir.path().to_path_buf();
        wait_until("no process is left", || draining(&dir).is_empty());
        let told = hear(&UnixDatagram::bind(dir.join("manager.sock")).unwrap());
        let mut serve_args = tunnel.serve_args.clone();
        let before = serve_args.last_mut().expect("--listen ADDRESS");
        let address = std::mem::replace(before, "127.0.0.1:0".into());
        let listeners = listen(&mut serve_args);
        let mut connect_args = tunnel.connect_args.clone();
        let server = connect_args.iter_mut().find(|arg| **arg == address).expect("its server");
        server.clone_from(serve_args.last().expect("--listen ADDRESS"));
        let udp = serve_args
            .iter()
            .any(|arg| arg == "quic")
            .then(|| UdpSocket::bind(listeners[0].local_addr().unwrap()).expect("the same port"));
        let mut serve = Service { name: "serve", args: serve_args, listeners, udp, starts: 0 };
        let listeners = listen(&mut connect_args);
        let mut connect =
            Service { name: "connect", args: connect_args, listeners, udp: None, starts: 0 };
        let ends = [serve.start(&dir), connect.start(&dir)];
        let [serve_end, connect_end] = ends;
        let services =
            Services { tunnel, serve: (serve, serve_end), connect: (connect, connect_end), told };
        wait_until("there is a session", || services.connect.1.is_established());
        services
    }

    fn dir(&self) -> PathBuf {
        self.tunnel.dir.path().to_path_buf()
    }

    /// As `systemctl restart`: SIGTERM, and the next process when that one has ended.
    fn restart(&mut self, name: &str) {
        let dir = self.dir();
        let (service, end) = if name == "serve" { &mut self.serve } else { &mut self.connect };
        signal(&end.process, "TERM");
        assert!(end.ends(PATIENCE).success(), "{}", end.said());
        *end = service.start(&dir);
    }
}

/// Hears what the manager is told, as long as the tests run: a full queue would block who tells it.
fn hear(manager: &UnixDatagram) -> Arc<Mutex<String>> {
    let (manager, told) = (manager.try_clone().unwrap(), Arc::<Mutex<String>>::default());
    let all = told.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len) = manager.recv(&mut buffer) {
            *all.lock().unwrap() += &String::from_utf8_lossy(&buffer[..len]);
        }
    });
    told
}

/// Status sockets of processes that finish what an earlier process of their service had open.
fn draining(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("draining-")).collect()
}

/// Exchanges small content on new connections until it is told to stop. Counts what came back, and
/// what did not.
fn knock(way: SocketAddr, stop: &AtomicBool, [whole, failed]: [&AtomicU64; 2]) {
    while !stop.load(Ordering::Relaxed) {
        let small = incompressible(whole.load(Ordering::Relaxed), 3_000);
        let done = exchange(way, &small).is_ok_and(|back| back == small);
        [failed, whole][usize::from(done)].fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_restart_refuses_no_connection_and_ends_none() {
    refuses_none_and_ends_none(|plan| plan);
}

/// The processes share a UDP port: each gets the datagrams of its own connections.
#[test]
fn a_restart_over_quic_refuses_no_connection_and_ends_none() {
    let quic = ["--transport", "quic"];
    refuses_none_and_ends_none(|plan| plan.serve(&quic).connect(&quic));
}

fn refuses_none_and_ends_none(over: impl Fn(Plan) -> Plan) {
    let content = incompressible(71, 24 << 20);
    let plan = Plan::new().to(slow_sender(content.clone())).to(echo());
    let mut services = Services::start(over(plan));
    let ways = services.connect.0.ways();
    let mut open: Vec<TcpStream> = Vec::new();
    let stop = AtomicBool::new(false);
    let [whole, failed] = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| knock(ways[1], &stop, [&whole, &failed]));
        }
        for (round, name) in ["serve", "connect", "connect", "serve"].into_iter().enumerate() {
            let mut stream = application(ways[0]);
            stream.read_exact(&mut [0; 1000]).unwrap();
            open.push(stream);
            services.restart(name);
            let before = whole.load(Ordering::Relaxed);
            wait_until("the successor carries new connections", || {
                whole.load(Ordering::Relaxed) > before + 5 || failed.load(Ordering::Relaxed) > 0
            });
            assert!(!draining(&services.dir()).is_empty(), "round {round}: nobody drains");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.load(Ordering::Relaxed), 0, "{} were whole", whole.load(Ordering::Relaxed));
    for (n, mut stream) in open.into_iter().enumerate() {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap_or_else(|why| panic!("connection {n}: {why}"));
        assert_same(&rest, &content[1000..], "a connection that was open at a restart");
    }
    let dir = services.dir();
    wait_until("the earlier processes have ended", || draining(&dir).is_empty());
    // What systemd needs to keep listeners that it was not told of.
    let told = services.told.lock().unwrap().clone();
    assert!(!told.contains("FDSTORE"), "it has those already: {told}");
    assert_eq!(told.matches("STOPPING=1").count(), 4, "{told}");
    assert_eq!(told.matches("READY=1").count(), 6, "{told}");
}

/// The restarted end gets its cache from disk while its earlier process still has a connection, and the
/// other end gives its own to the new session.
#[test]
fn caches_on_disk_go_to_the_successor() {
    let disk = tempfile::tempdir().expect("a directory");
    let content = incompressible(72, 2_000_000);
    let store = |name: &str| {
        let dir = disk.path().join(name).to_str().expect("text").to_owned();
        ["--store".to_owned(), dir, "--store-size".into(), "1G".into()]
    };
    let [serve, connect] = ["serve", "connect"].map(store);
    let plan = Plan::new()
        .to(echo())
        .to(sender(content.clone()))
        .serve(&serve.each_ref().map(String::as_str))
        .connect(&connect.each_ref().map(String::as_str));
    let mut services = Services::start(plan);
    let ways = services.connect.0.ways();
    assert_same(&fetch(ways[1]).unwrap(), &content, "first");
    let mut open = Vec::new();
    for name in ["serve", "connect", "connect", "serve", "connect"] {
        let mut stream = application(ways[0]);
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        open.push(stream);
        for end in [&services.serve.1, &services.connect.1] {
            wait_until("there is a commit", || {
                let status = end.status();
                let number = |name: &str| status["store"][name].as_u64();
                number("held_bytes") >= Some(2_000_000) && number("pending_bytes") == Some(0)
            });
        }
        services.restart(name);
        wait_until("there is a new session", || {
            services.serve.1.is_established() && services.connect.1.is_established()
        });
        // Only what is new is in this process.
        let end = if name == "serve" { &services.serve.1 } else { &services.connect.1 };
        let carried = || {
            let status = end.status();
            let number = |name: &str| status[name].as_u64().expect("a number");
            number("transport_sent_bytes") + number("transport_received_bytes")
        };
        let before = carried();
        assert_same(&fetch(ways[1]).unwrap(), &content, name);
        let cost = carried() - before;
        eprintln!("2 MB again after a restart of {name}: {cost} bytes");
        assert!(cost < 500_000, "{name}: {cost}");
        assert!(!draining(&services.dir()).is_empty(), "{name}: nobody drains");
    }
}
