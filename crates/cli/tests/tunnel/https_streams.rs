//! Compressed responses that share a connection of HTTP/2, from servers that nobody here wrote.

use crate::https_clients::clean;
use crate::https_support::{Certificates, Nginx, curl, fetched, service};
use crate::support::{PATIENCE, Plan, Tunnel, assert_same};
use oncewire_testkit::content::{Rng, text_like};
use oncewire_testkit::need_tool;
use oncewire_testkit::servers::{Running, free_port, wait_for_port};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

const NAMES: [&str; 2] = ["one", "two"];
const SIZE: usize = 3 << 20;

/// A version of a file as gzip writes it: text with a small edit in every 50 kB.
fn version(file: usize, version: u64) -> Vec<u8> {
    let mut text = text_like(70 + file as u64, SIZE);
    let mut random = Rng::new(version);
    for part in text.chunks_mut(50_000).filter(|_| version > 0) {
        let at = random.below(part.len() as u64 - 8) as usize;
        part[at..at + 8].copy_from_slice(&random.next_u64().to_le_bytes());
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text).unwrap();
    gzip.finish().unwrap()
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
    let mut sizes = [0, 0];
    let mut costs = [0, 0];
    for nth in 0..2 {
        let files = [0, 1].map(|file| version(file, nth as u64));
        for (name, file) in NAMES.iter().zip(&files) {
            std::fs::write(root.join(name), file).unwrap();
        }
        sizes[nth] = files.iter().map(|file| file.len() as u64).sum();
        costs[nth] = tunnel.cost(|| fetch_at_once(&tunnel, certificates, port, &files)).1;
        let status = service(&tunnel.connect, 0);
        assert_eq!(status["opened"], nth as u64 + 1, "one connection for both: {status:#}");
    }
    assert!(costs[0] > sizes[0] / 2, "{costs:?} of {sizes:?} bytes");
    // If one of them were not followed, half.
    assert!(costs[1] < sizes[1] / 5, "{costs:?} of {sizes:?} bytes");
}

fn fetch_at_once(tunnel: &Tunnel, certificates: &Certificates, port: u16, files: &[Vec<u8>]) {
    let got = TempDir::new().unwrap();
    let mut args = vec!["--http2".to_owned(), "--parallel".to_owned()];
    // Neither response is over before the other one begins.
    args.extend(["--limit-rate".to_owned(), "4M".to_owned()]);
    args.extend(["-w".to_owned(), "%{time_starttransfer} %{time_total}\n".to_owned()]);
    for name in NAMES {
        args.extend(["-o".to_owned(), got.path().join(name).display().to_string()]);
        args.push(format!("https://localhost:{port}/{name}"));
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = fetched(curl(tunnel, "http", &certificates.path("site.crt"), &args));
    let times = String::from_utf8(said).unwrap();
    let times: Vec<f64> = times.split_whitespace().map(|time| time.parse().unwrap()).collect();
    assert!(times[0] < times[3] && times[2] < times[1], "one after the other: {times:?}");
    for (name, file) in NAMES.iter().zip(files) {
        assert_same(&std::fs::read(got.path().join(name)).unwrap(), file, name);
    }
}

#[test]
fn streams_of_nginx_that_interleave_are_each_opened() {
    let (nginx, _, _) = (need_tool!("nginx"), need_tool!("curl"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let nginx = Nginx::start(&nginx, &certificates, "");
    next_versions_cost_little(&certificates, nginx.port, &nginx.root());
}

#[test]
fn streams_of_caddy_that_interleave_are_each_opened() {
    let (caddy, _, _) = (need_tool!("caddy"), need_tool!("curl"), need_tool!("openssl"));
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
