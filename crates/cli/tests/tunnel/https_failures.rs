//! HTTPS of named services when an end is killed, and with many connections at once.

use crate::https_support::{Certificates, opening, python_server, service};
use crate::support::{Tunnel, wait_until};
use oncewire_testkit::need_tool;
use oncewire_testkit::servers::Running;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An origin, and a tunnel that opens it for a forward.
struct Site {
    certificates: Certificates,
    tunnel: Tunnel,
    _origin: Running,
}

impl Site {
    fn start(python: &Path, memory: &'static str, descriptors: Option<u32>) -> Site {
        let certificates = Certificates::new();
        let (port, origin) = python_server(python, &certificates);
        let tunnel = opening(&certificates, port)
            .descriptors(descriptors, descriptors)
            .memory(memory)
            .start();
        Site { certificates, tunnel, _origin: origin }
    }

    /// A client in Python, which gets the port and the CA.
    fn client(&self, python: &Path, script: &str) -> Command {
        let mut command = Command::new(python);
        command.args(["-c", script, &self.tunnel.way(0).port().to_string()]);
        command.arg(self.certificates.path("site.crt"));
        command
    }
}

/// Asks for a response of which only a part comes, says when its first part is there, and how it ended.
const DOWNLOAD: &str = "
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
raw = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
tls = context.wrap_socket(raw, server_hostname='localhost', suppress_ragged_eofs=False)
tls.sendall(b'GET /half HTTP/1.0\\r\\n\\r\\n')
got = 0
try:
    while data := tls.recv(65536):
        got += len(data)
        if got >= 100000 and got - len(data) < 100000:
            print('part', flush=True)
    print('whole')
except ssl.SSLEOFError:
    print('truncated')
except OSError:
    print('reset')
";

/// Starts a download, and waits for its first part.
fn downloading(site: &Site, python: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = site.client(python, DOWNLOAD).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "part\n");
    (child, said)
}

#[test]
fn a_download_never_looks_whole_after_either_end_is_killed() {
    let (_, python) = (need_tool!("openssl"), need_tool!("python3"));
    let mut site = Site::start(&python, "128M", None);
    for end in ["serve", "connect"] {
        let (mut child, mut said) = downloading(&site, &python);
        if end == "serve" {
            site.tunnel.kill_serve();
            site.tunnel.restart_serve();
        } else {
            site.tunnel.restart_connect();
        }
        let mut how = String::new();
        said.read_to_string(&mut how).unwrap();
        assert!(["truncated\n", "reset\n"].contains(&how.as_str()), "{end}: {how}");
        child.wait().unwrap();
        // The next one begins.
        site.tunnel.established();
        let (mut child, _) = downloading(&site, &python);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Opens connections, keeps all of them open, then sends a message on each and wants it back.
const MANY: &str = "
import resource, socket, ssl, sys
count = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, max(count + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
context = ssl.create_default_context(cafile=sys.argv[2])
def opened():
    raw = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    tls = context.wrap_socket(raw, server_hostname='localhost')
    tls.sendall(b'GET /echo HTTP/1.1\\r\\nUpgrade: x\\r\\n\\r\\n')
    got = b''
    while not got.endswith(b'\\r\\n\\r\\n'):
        got += tls.recv(4096)
    return tls
every = [opened() for _ in range(count)]
print('open', flush=True)
sys.stdin.readline()
for n, tls in enumerate(every):
    tls.sendall(str(n).encode())
for n, tls in enumerate(every):
    assert tls.recv(100) == str(n).encode(), n
print('all')
";

#[test]
fn many_connections_at_once_use_little_memory_and_all_work() {
    let (_, python) = (need_tool!("openssl"), need_tool!("python3"));
    let count: u64 = match std::env::var("ONCEWIRE_HTTPS_CONNECTIONS") {
        Ok(count) => count.parse().unwrap(),
        Err(_) => 300,
    };
    // A connection may use 256 KiB of it.
    let memory = if count > 500 { "4G" } else { "128M" };
    let site = Site::start(&python, memory, Some(u32::try_from(2 * count + 200).unwrap()));
    let ends = [&site.tunnel.connect, &site.tunnel.serve];
    let before = ends.map(|end| (end.resident(), end.descriptors()));
    let mut command = site.client(&python, MANY);
    command.arg(count.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    assert_eq!(service(&site.tunnel.connect, 0)["opened"], count);
    for (end, (resident, _)) in ends.iter().zip(before) {
        let each = end.resident().saturating_sub(resident) / count;
        eprintln!("{count} connections: {each} bytes of memory each, beside {resident}");
        assert!(each < 128 << 10, "{each} bytes each");
    }
    drop(child.stdin.take());
    line.clear();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "all\n");
    assert!(child.wait().unwrap().success());
    for (end, (_, descriptors)) in ends.iter().zip(before) {
        wait_until("connections are closed", || end.descriptors() <= descriptors + 8);
    }
}
