//! Compressed responses that share a connection of HTTP/2, from servers that nobody here wrote.

use crate::https_clients::clean;
use crate::https_support::{Certificates, Nginx, service};
use crate::support::{PATIENCE, Plan, Tunnel, assert_same};
use http::Request;
use oncewire_testkit::content::{Rng, text_like};
use oncewire_testkit::need_tool;
use oncewire_testkit::servers::{Running, free_port, wait_for_port};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const NAMES: [&str; 2] = ["one", "two"];
const SIZE: usize = 3 << 20;

/// How files are compressed, and the share of their next versions that may cross the tunnel.
#[derive(Clone, Copy)]
enum Compressed {
    /// If one of two were not followed, half.
    Gzip,
    /// With a flush every 16 kB, as servers do that compress as they read. Nearly all of it if blocks
    /// that DATA frames divide were not found.
    Zstd,
}

impl Compressed {
    fn of(self, text: &[u8]) -> Vec<u8> {
        match self {
            Compressed::Gzip => {
                let mut gzip =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                gzip.write_all(text).unwrap();
                gzip.finish().unwrap()
            }
            Compressed::Zstd => {
                let mut context = zstd_safe::CCtx::create();
                let mut out = vec![0; zstd_safe::compress_bound(text.len()) + text.len() / 100];
                let mut output = zstd_safe::OutBuffer::around(&mut out[..]);
                for part in text.chunks(16_000) {
                    let mut input = zstd_safe::InBuffer::around(part);
                    while input.pos() < part.len() {
                        context.compress_stream(&mut output, &mut input).unwrap();
                    }
                    assert_eq!(context.flush_stream(&mut output).unwrap(), 0);
                }
                assert_eq!(context.end_stream(&mut output).unwrap(), 0);
                let len = output.pos();
                out.truncate(len);
                out
            }
        }
    }

    /// Bytes of the next versions of files of `size` bytes that may cross.
    fn most(self, size: u64) -> u64 {
        match self {
            Compressed::Gzip => size / 5,
            Compressed::Zstd => size * 2 / 3,
        }
    }
}

/// A version of a file: compressed text with a small edit in every 50 kB.
fn version(file: usize, version: u64, compressed: Compressed) -> Vec<u8> {
    let mut text = text_like(70 + file as u64, SIZE);
    let mut random = Rng::new(version);
    for part in text.chunks_mut(50_000).filter(|_| version > 0) {
        let at = random.below(part.len() as u64 - 8) as usize;
        part[at..at + 8].copy_from_slice(&random.next_u64().to_le_bytes());
    }
    compressed.of(&text)
}

/// Two files at once by one connection, then their next versions.
fn next_versions_cost_little(certificates: &Certificates, port: u16, root: &Path) {
    let tunnel = Plan::new()
        // With a small cache nothing is opened.
        .memory("512M")
        .only("localhost:*".into())
        .serve(&["--origin-ca", &certificates.path("origins.crt"), "--inside", "always"])
        .connect(&["--proxy", "127.0.0.1:0", "--ca", &certificates.path("site.key")])
        .connect(&["--terminate", &format!("localhost:{port}"), "--inside", "always"])
        .start();
    let mut connections = 0;
    for compressed in [Compressed::Gzip, Compressed::Zstd] {
        let mut sizes = [0, 0];
        let mut costs = [0, 0];
        for nth in 0..2 {
            let files = [0, 1].map(|file| version(file, nth as u64, compressed));
            for (name, file) in NAMES.iter().zip(&files) {
                std::fs::write(root.join(name), file).unwrap();
            }
            sizes[nth] = files.iter().map(|file| file.len() as u64).sum();
            costs[nth] = tunnel.cost(|| fetch_at_once(&tunnel, certificates, port, &files)).1;
            connections += 1;
            let status = service(&tunnel.connect, 0);
            assert_eq!(status["opened"], connections, "one connection for both: {status:#}");
        }
        assert!(costs[0] > sizes[0] / 2, "{costs:?} of {sizes:?} bytes");
        assert!(costs[1] < compressed.most(sizes[1]), "{costs:?} of {sizes:?} bytes");
    }
}

/// Two responses by one connection: a piece of one, a piece of the other. Neither server nor machine can send one first,
/// since a stream has a window of 64 kB.
fn fetch_at_once(tunnel: &Tunnel, certificates: &Certificates, port: u16, files: &[Vec<u8>]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let got = runtime.block_on(async {
        let stream = connected(tunnel.way(0), certificates, port).await;
        let mut client = h2::client::Builder::new();
        let client = client.initial_connection_window_size(1 << 20);
        let (client, connection) = client.handshake::<_, &[u8]>(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let responses = NAMES.map(|name| {
            let request = Request::get(format!("https://localhost:{port}/{name}"));
            client.send_request(request.body(()).unwrap(), true).unwrap().0
        });
        let mut bodies = Vec::new();
        for response in responses {
            bodies.push(response.await.unwrap().into_body());
        }
        let mut got = [Vec::new(), Vec::new()];
        while bodies.iter().any(|body| !body.is_end_stream()) {
            for (body, got) in bodies.iter_mut().zip(&mut got) {
                if let Some(piece) = body.data().await {
                    let piece = piece.unwrap();
                    body.flow_control().release_capacity(piece.len()).unwrap();
                    got.extend_from_slice(&piece);
                }
            }
        }
        drop((client, bodies));
        connection.await.unwrap().unwrap();
        got
    });
    for ((name, file), got) in NAMES.iter().zip(files).zip(&got) {
        assert_same(got, file, name);
    }
}

/// A TLS connection for HTTP/2 to the origin, by the proxy.
async fn connected(
    proxy: SocketAddr,
    certificates: &Certificates,
    port: u16,
) -> TlsStream<TcpStream> {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let request = format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificates.path("site.crt")).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream
}

#[test]
fn streams_of_nginx_that_interleave_are_each_opened() {
    let (nginx, _) = (need_tool!("nginx"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let nginx = Nginx::start(&nginx, &certificates, "");
    next_versions_cost_little(&certificates, nginx.port, &nginx.root());
}

#[test]
fn streams_of_caddy_that_interleave_are_each_opened() {
    let (caddy, _) = (need_tool!("caddy"), need_tool!("openssl"));
    let (certificates, port, dir) =
        (Certificates::new(), free_port().unwrap(), TempDir::new().unwrap());
    let config = dir.path().join("Caddyfile");
    let text = format!(
        "{{\n admin off\n auto_https off\n}}\nhttps://localhost:{port} {{\n bind 127.0.0.1\n tls {} {}\n root * {}\n file_server\n}}\n",
        certificates.path("good.crt"),
        certificates.path("good.key"),
        dir.path().display(),
    );
    std::fs::write(&config, text).unwrap();
    let mut command = clean(caddy.to_str().unwrap(), dir.path());
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&config);
    let _origin = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    wait_for_port(SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE).unwrap();
    next_versions_cost_little(&certificates, port, dir.path());
}
