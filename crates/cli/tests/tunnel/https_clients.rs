//! HTTPS of named services, with clients as people use them.

use crate::https_support::{Certificates, Nginx, curl, fetched, service, tunnel};
use crate::support::{PATIENCE, Tunnel, succeed};
use oncewire_testkit::servers::{Running, free_port, incompressible, wait_for_port};
use oncewire_testkit::{need_tool, skip};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// An origin with TLS that serves files, git repositories by git's own CGI program, and WebSockets
/// (RFC 6455) that return each message.
const ORIGIN: &str = r#"
import base64, hashlib, http.server, os, ssl, subprocess, sys
class Origin(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_):
        pass
    def do_POST(self):
        self.do_GET()
    def do_GET(self):
        if self.headers.get('Upgrade', '').lower() == 'websocket':
            return self.echo()
        path, _, query = self.path.partition('?')
        if '.git/' not in path:
            return super().do_GET()
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        environment = {
            **os.environ, 'GIT_PROJECT_ROOT': os.getcwd(), 'GIT_HTTP_EXPORT_ALL': '1', 'PATH_INFO': path,
            'QUERY_STRING': query, 'REQUEST_METHOD': self.command,
            'CONTENT_TYPE': self.headers.get('Content-Type', ''),
            'HTTP_CONTENT_ENCODING': self.headers.get('Content-Encoding', ''),
            'GIT_PROTOCOL': self.headers.get('Git-Protocol', ''), 'CONTENT_LENGTH': str(len(body)),
        }
        answer = subprocess.run(['git', 'http-backend'], input=body, capture_output=True, env=environment).stdout
        head, _, content = answer.partition(b'\r\n\r\n')
        lines = [line.split(': ', 1) for line in head.decode().split('\r\n')]
        self.send_response(next((int(value.split()[0]) for name, value in lines if name == 'Status'), 200))
        for name, value in lines:
            if name != 'Status':
                self.send_header(name, value)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    def echo(self):
        key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        self.send_response(101)
        self.send_header('Upgrade', 'websocket')
        self.send_header('Connection', 'Upgrade')
        self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while True:
            first, second = self.rfile.read(2)
            length = second & 127
            if length > 125:
                length = int.from_bytes(self.rfile.read(2 if length == 126 else 8), 'big')
            mask = self.rfile.read(4)
            content = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            size = bytes([length]) if length < 126 else bytes([126]) + length.to_bytes(2, 'big')
            self.wfile.write(bytes([first]) + size + content)
            if first & 15 == 8:
                return
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Origin)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
"#;

/// An origin of a directory, and a tunnel that opens it.
pub(crate) struct Site {
    pub(crate) dir: TempDir,
    pub(crate) certificates: Certificates,
    pub(crate) port: u16,
    pub(crate) tunnel: Tunnel,
    _origin: Running,
}

impl Site {
    pub(crate) fn start(python: &Path, fill: impl FnOnce(&Path)) -> Site {
        let (dir, certificates, port) =
            (TempDir::new().unwrap(), Certificates::new(), free_port().unwrap());
        fill(dir.path());
        let mut command = Command::new(python);
        command.current_dir(dir.path()).args(["-c", ORIGIN, &port.to_string()]);
        command.args([certificates.path("good.crt"), certificates.path("good.key")]);
        let origin = Running::start(command.stderr(Stdio::null())).unwrap();
        wait_for_port(SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE).unwrap();
        let tunnel = tunnel(&certificates, &[port]);
        Site { dir, certificates, port, tunnel, _origin: origin }
    }

    pub(crate) fn proxy(&self) -> String {
        format!("http://{}", self.tunnel.way(0))
    }

    /// Fetches twice, and checks that the second time costs little.
    pub(crate) fn twice(&self, mut fetch: impl FnMut(&str)) {
        let ((), first) = self.tunnel.cost(|| fetch("one"));
        let ((), second) = self.tunnel.cost(|| fetch("two"));
        assert!(first > 300_000 && second < first / 10, "{first} bytes, then {second}");
        let status = service(&self.tunnel.connect, 0);
        assert!(status["opened"].as_u64() >= Some(2), "{status:#}");
        assert_eq!(status["passed"], serde_json::json!({}), "{status:#}");
    }
}

/// A program without the user's configuration.
pub(crate) fn clean(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

#[test]
fn git_clones_twice_and_pays_once() {
    let (python, _, _) = (need_tool!("python3"), need_tool!("openssl"), need_tool!("git"));
    let site = Site::start(&python, |dir| {
        let git = |at: &Path, args: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=e@example"];
            succeed(clean("git", dir).current_dir(at).args(who).args(args));
        };
        git(dir, &["init", "-q", "-b", "main", "work"]);
        let work = dir.join("work");
        std::fs::write(work.join("file"), incompressible(1, 400_000)).unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "-q", "-m", "first"]);
        git(dir, &["clone", "-q", "--bare", "work", "depot.git"]);
    });
    let clones = TempDir::new().unwrap();
    site.twice(|name| {
        let mut git = clean("git", clones.path());
        git.current_dir(clones.path()).env("https_proxy", site.proxy());
        git.env("GIT_SSL_CAINFO", site.certificates.path("site.crt"));
        succeed(git.args([
            "clone",
            "-q",
            &format!("https://localhost:{}/depot.git", site.port),
            name,
        ]));
        let got = std::fs::read(clones.path().join(name).join("file")).unwrap();
        assert!(got == incompressible(1, 400_000), "{name}");
    });
}

/// Makes a wheel.
const WHEEL: &str = "
import sys, zipfile
with zipfile.ZipFile('simple/thing/thing-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.write('content', 'thing/content')
    info = 'thing-1.0.dist-info/'
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', '')
";

#[test]
fn pip_downloads_twice_and_pays_once() {
    let (python, _) = (need_tool!("python3"), need_tool!("openssl"));
    let has_pip = Command::new(&python).args(["-m", "pip", "--version"]).output();
    if !has_pip.is_ok_and(|output| output.status.success()) {
        skip!("pip is not installed");
    }
    let site = Site::start(&python, |dir| {
        std::fs::create_dir_all(dir.join("simple/thing")).unwrap();
        std::fs::write(dir.join("content"), incompressible(2, 400_000)).unwrap();
        succeed(Command::new(&python).current_dir(dir).args(["-c", WHEEL]));
        let link = "<a href=\"thing-1.0-py3-none-any.whl\">thing</a>";
        std::fs::write(dir.join("simple/thing/index.html"), link).unwrap();
    });
    let wheel = site.dir.path().join("simple/thing/thing-1.0-py3-none-any.whl");
    let downloads = TempDir::new().unwrap();
    site.twice(|name| {
        let mut pip = clean(python.to_str().unwrap(), downloads.path());
        pip.current_dir(downloads.path());
        pip.args(["-m", "pip", "download", "--isolated", "-q", "--no-cache-dir", "--no-deps"]);
        pip.args(["--disable-pip-version-check", "--proxy", &site.proxy(), "-d", name]);
        pip.args(["--cert", &site.certificates.path("site.crt"), "--index-url"]);
        succeed(pip.args([&format!("https://localhost:{}/simple", site.port), "thing"]));
        let got = downloads.path().join(name).join(wheel.file_name().unwrap());
        assert!(std::fs::read(got).unwrap() == std::fs::read(&wheel).unwrap(), "{name}");
    });
}

#[test]
fn apt_updates_and_downloads_twice_and_pays_once() {
    let (python, _, _) = (need_tool!("python3"), need_tool!("openssl"), need_tool!("apt-get"));
    let _ = need_tool!("dpkg-deb");
    let site = Site::start(&python, |dir| {
        let control = "Package: thing\nVersion: 1.0\nArchitecture: all\nMaintainer: n <e@example>\nDescription: x\n";
        std::fs::create_dir_all(dir.join("tree/DEBIAN")).unwrap();
        std::fs::write(dir.join("tree/DEBIAN/control"), control).unwrap();
        std::fs::write(dir.join("tree/content"), incompressible(3, 400_000)).unwrap();
        succeed(Command::new("dpkg-deb").current_dir(dir).args(["-b", "tree", "thing.deb"]));
        let sum = succeed(Command::new("sha256sum").arg(dir.join("thing.deb")));
        let size = dir.join("thing.deb").metadata().unwrap().len();
        let sum = String::from_utf8_lossy(&sum[..64]).into_owned();
        let entry = format!("{control}Filename: ./thing.deb\nSize: {size}\nSHA256: {sum}\n");
        std::fs::write(dir.join("Packages"), entry).unwrap();
    });
    let deb = std::fs::read(site.dir.path().join("thing.deb")).unwrap();
    let root = TempDir::new().unwrap();
    site.twice(|name| {
        let home = root.path().join(name);
        for dir in ["state/lists/partial", "cache/archives/partial", "etc"] {
            std::fs::create_dir_all(home.join(dir)).unwrap();
        }
        let list = format!("deb [trusted=yes] https://localhost:{}/ ./\n", site.port);
        std::fs::write(home.join("etc/sources.list"), list).unwrap();
        std::fs::write(home.join("status"), "").unwrap();
        let at = |path: &str| home.join(path).display().to_string();
        for action in [&["update"][..], &["download", "thing"]] {
            let mut apt = clean("apt-get", &home);
            apt.current_dir(&home).env("APT_CONFIG", "/dev/null").arg("-qq");
            for option in [
                format!("Dir::State={}", at("state")),
                format!("Dir::State::status={}", at("status")),
                format!("Dir::Cache={}", at("cache")),
                format!("Dir::Etc={}", at("etc")),
                "APT::Sandbox::User=".to_owned(),
                format!("Acquire::https::Proxy={}", site.proxy()),
                format!("Acquire::https::CAInfo={}", site.certificates.path("site.crt")),
            ] {
                apt.args(["-o", &option]);
            }
            succeed(apt.args(action));
        }
        let got = std::fs::read(home.join("thing_1.0_all.deb")).unwrap();
        assert!(got == deb, "{name}");
    });
}

#[test]
fn websockets_carry_messages_both_ways() {
    let (python, _) = (need_tool!("python3"), need_tool!("openssl"));
    let site = Site::start(&python, |_| {});
    let script = r#"
import base64, hashlib, os, socket, ssl, sys
raw = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
host = f'localhost:{sys.argv[2]}'
raw.sendall(f'CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode())
assert b' 200' in raw.recv(4096)
context = ssl.create_default_context(cafile=sys.argv[3])
context.set_alpn_protocols(['http/1.1'])
tls = context.wrap_socket(raw, server_hostname='localhost').makefile('rwb', 0)
key = base64.b64encode(os.urandom(16))
tls.write(b'GET /chat HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ' + key + b'\r\nSec-WebSocket-Version: 13\r\n\r\n')
def exactly(count):
    got = b''
    while len(got) < count:
        got += tls.read(count - len(got)) or sys.exit('closed')
    return got
head = b''
while not head.endswith(b'\r\n\r\n'):
    head += exactly(1)
accept = base64.b64encode(hashlib.sha1(key + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
assert b' 101 ' in head and accept in head, head
for opcode, size in [(1, 0), (2, 1), (9, 125), (2, 126), (1, 5000), (2, 65535), (8, 2)]:
    content, mask = os.urandom(size), os.urandom(4)
    length = bytes([128 | size]) if size < 126 else bytes([254]) + size.to_bytes(2, 'big')
    tls.write(bytes([128 | opcode]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(content)))
    first, length = exactly(2)
    if length == 126:
        length = int.from_bytes(exactly(2), 'big')
    assert (first, length) == (128 | opcode, size), (first, length)
    assert exactly(length) == content
print('closed' if tls.read(1) == b'' else 'open')
"#;
    let mut command = Command::new(&python);
    command.args(["-c", script, &site.tunnel.way(0).port().to_string(), &site.port.to_string()]);
    let said = succeed(command.arg(site.certificates.path("site.crt")));
    assert_eq!(String::from_utf8(said).unwrap(), "closed\n");
    assert_eq!(service(&site.tunnel.connect, 0)["opened"], 1);
}

#[test]
fn a_request_for_another_host_reaches_the_origin_of_the_name_that_was_verified() {
    let (nginx, _, _) = (need_tool!("nginx"), need_tool!("curl"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let strict = "if ($host != localhost) { return 421; }";
    let [first, second] = [strict, ""].map(|more| Nginx::start(&nginx, &certificates, more));
    second.publish("file", b"of another service");
    first.publish("file", b"of the service");
    let tunnel = tunnel(&certificates, &[first.port, second.port]);
    let site = certificates.path("site.crt");
    let url = format!("https://localhost:{}/file", first.port);
    for version in ["--http1.1", "--http2"] {
        let get = |host: &str| {
            let host = format!("Host: {host}");
            let args = [version, "-H", &host, "-w", "%{http_code}", &url];
            String::from_utf8(fetched(curl(&tunnel, "http", &site, &args))).unwrap()
        };
        assert_eq!(get("localhost"), "of the service200", "{version}");
        // The origin says that this is not its own; nobody connects elsewhere.
        for host in ["other.example", &format!("localhost.example:{}", second.port), "127.0.0.1"] {
            let got = get(host);
            assert!(got.ends_with("421") && !got.contains("another"), "{version} {host}: {got}");
        }
    }
    assert_eq!(service(&tunnel.connect, 1)["opened"], 0);
}
