//! Origins with TLS, certificates and clients, for tests of HTTPS.

use crate::support::{End, ONCEWIRE, PATIENCE, Plan, Tunnel, finish, succeed, text};
use oncewire_testkit::servers::{Running, free_port, wait_for_port};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A tunnel with a forward to a port of this machine, which it opens.
pub(crate) fn opening(certificates: &Certificates, port: u16) -> Plan {
    let (site, service) = (certificates.path("site.key"), format!("localhost:{port}"));
    Plan::new()
        .only("localhost:*".into())
        .forward_to(&service)
        .serve(&["--origin-ca", &certificates.path("origins.crt")])
        .connect(&["--terminate", &service, "--ca", &site])
}

/// Certificates in a directory: a CA of the site for `connect`, and one that signs origins.
pub(crate) struct Certificates {
    dir: TempDir,
}

impl Certificates {
    pub(crate) fn new() -> Certificates {
        let dir = TempDir::new().unwrap();
        for name in ["site", "origins"] {
            let [key, certificate] =
                ["key", "crt"].map(|end| dir.path().join(format!("{name}.{end}")));
            succeed(
                Command::new(ONCEWIRE)
                    .arg("ca")
                    .args([key, certificate])
                    .args(["--only", "localhost"]),
            );
        }
        let all = Certificates { dir };
        all.sign("good", "localhost", "30");
        all
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Makes a certificate that its own key signs.
    pub(crate) fn self_sign(&self, file: &str, name: &str) {
        let [key, certificate] = ["key", "crt"].map(|end| self.path(&format!("{file}.{end}")));
        let alternative = format!("subjectAltName=DNS:{name}");
        succeed(
            Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
                .args(["-nodes", "-subj", "/CN=x", "-addext", &alternative])
                .args(["-keyout", &key, "-out", &certificate]),
        );
    }

    /// Has the origins' CA sign a certificate for a name.
    pub(crate) fn sign(&self, file: &str, name: &str, days: &str) {
        let [key, request, certificate, extensions] =
            ["key", "csr", "crt", "ext"].map(|end| self.path(&format!("{file}.{end}")));
        std::fs::write(&extensions, format!("subjectAltName=DNS:{name}\n")).unwrap();
        let openssl = || Command::new("openssl");
        succeed(
            openssl()
                .args(["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
                .args(["-nodes", "-subj", "/CN=x", "-keyout", &key, "-out", &request]),
        );
        succeed(
            openssl()
                .args(["x509", "-req", "-in", &request, "-days", days, "-extfile", &extensions])
                .args([
                    "-CA",
                    &self.path("origins.crt"),
                    "-CAkey",
                    &self.path("origins.key"),
                    "-set_serial",
                    "7",
                    "-out",
                    &certificate,
                ]),
        );
    }
}

/// A tunnel that opens `localhost` at these ports, with a proxy.
pub(crate) fn tunnel(certificates: &Certificates, ports: &[u16]) -> Tunnel {
    let services: Vec<_> = ports.iter().map(|port| format!("localhost:{port}")).collect();
    Plan::new()
        .only("localhost:*".into())
        .serve(&["--origin-ca", &certificates.path("origins.crt")])
        .connect(&["--proxy", "127.0.0.1:0", "--ca", &certificates.path("site.key")])
        .connect(&["--terminate", &services.join(",")])
        .start()
}

/// A tunnel that opens `localhost` at this port, with a forward to it.
pub(crate) fn forward(certificates: &Certificates, port: u16) -> Tunnel {
    Plan::new()
        .only("localhost:*".into())
        .forward_to(&format!("localhost:{port}"))
        .serve(&["--origin-ca", &certificates.path("origins.crt")])
        .connect(&["--terminate", &format!("localhost:{port}")])
        .connect(&["--ca", &certificates.path("site.key")])
        .start()
}

/// What `status --json` says of a service.
pub(crate) fn service(end: &End, at: usize) -> Value {
    end.status()["https"][at].clone()
}

/// curl through the tunnel's proxy, trusting only the CA of this file.
pub(crate) fn curl(tunnel: &Tunnel, scheme: &str, ca: &str, args: &[&str]) -> Output {
    let proxy = format!("{scheme}://{}", tunnel.way(0));
    let mut command = Command::new("curl");
    command.args(["-sS", "--noproxy", "", "-m", "25", "--proxy", &proxy, "--cacert", ca]);
    finish(command.args(args))
}

#[track_caller]
pub(crate) fn fetched(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", text(&output));
    output.stdout
}

/// nginx with TLS and HTTP/2, which serves a directory.
pub(crate) struct Nginx {
    pub(crate) port: u16,
    dir: TempDir,
    _running: Running,
}

impl Nginx {
    pub(crate) fn start(program: &Path, certificates: &Certificates, more: &str) -> Nginx {
        let dir = TempDir::new().unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let (path, port) = (dir.path().display(), free_port().unwrap());
        std::fs::create_dir(dir.path().join("www")).unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {path}/{name};\n"))
            .concat();
        let (certificate, key) = (certificates.path("good.crt"), certificates.path("good.key"));
        let config = format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/error.log warn;
            events {{ worker_connections 256; }}
            http {{
              access_log off; default_type application/octet-stream; {temporary}
              server {{
                listen 127.0.0.1:{port} ssl http2; root {path}/www;
                ssl_certificate {certificate}; ssl_certificate_key {key}; {more}
              }}
            }}\n"
        );
        std::fs::write(dir.path().join("nginx.conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg("-e").arg(dir.path().join("log")).arg("-c").arg(dir.path().join("nginx.conf"));
        let running = Running::start(command.stderr(Stdio::null())).unwrap();
        wait_for_port(SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE).unwrap();
        Nginx { port, dir, _running: running }
    }

    /// What it serves.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("www")
    }

    pub(crate) fn publish(&self, name: &str, content: &[u8]) {
        std::fs::write(self.root().join(name), content).unwrap();
    }
}

/// `openssl s_server` that answers each request with a page.
pub(crate) fn s_server(args: &[&str]) -> (u16, Running) {
    let port = free_port().unwrap();
    let mut command = Command::new("openssl");
    command
        .args(["s_server", "-quiet", "-www", "-accept", &format!("127.0.0.1:{port}")])
        .args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running::start(&mut command).unwrap();
    wait_for_port(SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE).unwrap();
    (port, running)
}

/// A TLS server in Python, for what other programs cannot do.
pub(crate) const SERVER: &str = "
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=1024)
def serve(raw):
    try:
        # Otherwise each response waits until the session ticket before it is acknowledged: 40 ms.
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = context.wrap_socket(raw, server_side=True)
        asked = tls.recv(4096)
        if asked.startswith(b'GET /echo'):
            tls.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: x\\r\\n\\r\\n')
            while True:
                data = tls.recv(4096)
                if not data:
                    break
                tls.sendall(data)
        else:
            tls.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n' + b'x' * 100000)
            if asked.startswith(b'GET /half'):
                tls.recv(1)
        if not asked.startswith(b'GET /cut'):
            tls.unwrap()
        tls.close()
    except (OSError, ssl.SSLError):
        raw.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

pub(crate) fn python_server(python: &Path, certificates: &Certificates) -> (u16, Running) {
    let port = free_port().unwrap();
    let mut command = Command::new(python);
    command.args([
        "-c",
        SERVER,
        &port.to_string(),
        &certificates.path("good.crt"),
        &certificates.path("good.key"),
    ]);
    let running = Running::start(command.stderr(Stdio::null())).unwrap();
    wait_for_port(SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE).unwrap();
    (port, running)
}
