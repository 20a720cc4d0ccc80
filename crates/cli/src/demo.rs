//! `oncewire demo`: three clients get and put versioned files over HTTP through one tunnel on
//! loopback, and what crossed it. The output fits a terminal of 24 lines.

mod versions;

use crate::args::DemoArgs;
use crate::bench::rivals::{Gzip, Zstd};
use crate::defaults::DEMO_MEMORY;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::quantity::{binary, rate};
use crate::{progress, setup, stdout, terminal};
use oncewire_net::loopback::Loopback;
use oncewire_report::{Cell, Report, Section, Table, TableView, Unit, format};
use oncewire_session::Opening;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tiny_http::{Request, Response, Server};
use versions::{Version, releases};

/// Independent clients, each with its own connections.
const CLIENTS: usize = 3;

/// A transfer is complete when the tunnel is silent for `QUIET`, which is longer than it delays an
/// acknowledgment, or after `LONGEST_QUIET`.
const QUIET: Duration = Duration::from_millis(60);
const LONGEST_QUIET: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Download,
    Upload,
}

/// A transfer: which client, direction and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    client: usize,
    direction: Direction,
    version: usize,
}

/// For the releases: two clients fetch the first, others each later one, then each of them in gzip.
/// Finally one uploads the last.
fn release_schedule() -> Vec<Task> {
    use Direction::{Download, Upload};
    let task = |(client, direction, version)| Task { client, direction, version };
    [
        (0, Download, 0),
        (1, Download, 0),
        (2, Download, 1),
        (0, Download, 2),
        (1, Download, 3),
        (2, Download, 4),
        (0, Download, 5),
        (1, Upload, 2),
    ]
    .map(task)
    .into()
}

/// For given files: two clients fetch the first version, and other clients each later one. Finally two clients
/// upload the last two versions.
fn schedule(versions: usize) -> Vec<Task> {
    let task = |client, direction, version| Task { client, direction, version };
    let mut tasks = vec![task(0, Direction::Download, 0), task(1, Direction::Download, 0)];
    tasks.extend(
        (1..versions).map(|version| task((version + 1) % CLIENTS, Direction::Download, version)),
    );
    tasks.push(task((versions + 1) % CLIENTS, Direction::Upload, versions.saturating_sub(2)));
    tasks.push(task((versions + 2) % CLIENTS, Direction::Upload, versions.saturating_sub(1)));
    tasks
}

/// The result of a transfer.
#[derive(Serialize)]
struct Transfer {
    /// From 1.
    client: usize,
    direction: Direction,
    name: String,
    bytes: u64,
    /// In both directions, with TLS.
    wire_bytes: u64,
    savings: f64,
    seconds: f64,
    #[serde(flatten)]
    others: Others,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    transfers: Vec<Transfer>,
    /// Everything arrived unchanged, by its BLAKE3 digest.
    verified: bool,
    log_bytes: u64,
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let versions: Vec<Version> = match &args.files[..] {
        [] => releases()?,
        files => files.iter().cloned().map(Version::File).collect(),
    };
    let lens = versions.iter().map(Version::len).collect::<Outcome<Vec<u64>>>()?;
    let tasks = if args.files.is_empty() { release_schedule() } else { schedule(versions.len()) };
    let of = |direction| {
        tasks
            .iter()
            .filter(|task| task.direction == direction)
            .map(|task| lens[task.version])
            .sum::<u64>()
    };
    let (down, up) = (of(Direction::Download), of(Direction::Upload));
    // The cache of a direction is about a third of it.
    let memory =
        args.memory.unwrap_or_else(|| (6 * down.max(up)).clamp(DEMO_MEMORY.start, DEMO_MEMORY.end));

    let versions = Arc::new(versions);
    let mut site = Site::open(versions.clone(), memory, args)?;
    let (mut downstream, mut upstream) = (Rivals::new(down)?, Rivals::new(up)?);
    let bar = progress::bar(Some(2 * (down + up)));
    let mut transfers = Vec::new();
    for task in tasks {
        let version = &versions[task.version];
        let moved = site.run(task, version)?;
        bar.inc(moved.bytes);
        let rivals =
            if task.direction == Direction::Download { &mut downstream } else { &mut upstream };
        let others = rivals.send(version)?;
        bar.inc(moved.bytes);
        transfers.push(Transfer {
            client: task.client + 1,
            direction: task.direction,
            name: version.name(),
            bytes: moved.bytes,
            wire_bytes: moved.wire_bytes,
            savings: stdout::savings(moved.wire_bytes, moved.bytes),
            seconds: moved.time.as_secs_f64(),
            others,
        });
    }
    bar.finish_and_clear();
    let log = site.log();
    if args.json {
        return stdout::json(&Document { transfers, verified: true, log_bytes: log });
    }
    terminal::print("--json", |page| page.answer(&report(&transfers, log)))
}

fn report(transfers: &[Transfer], log: u64) -> Report {
    let saved =
        |wire, whole| if whole == 0 { Cell::None } else { stdout::savings(wire, whole).into() };
    let columns = [
        ("client", Unit::Text),
        ("transfer", Unit::Text),
        ("bytes", Unit::Bytes),
        ("gzip -6", Unit::Bytes),
        ("zstd --long", Unit::Bytes),
        ("Oncewire", Unit::Bytes),
        ("saved", Unit::Share),
    ];
    let row = |transfer: &Transfer| {
        let verb = if transfer.direction == Direction::Download { "GET" } else { "PUT" };
        vec![
            format!("{:>6}", transfer.client).into(),
            format!("{verb} {}", transfer.name).into(),
            transfer.bytes.into(),
            transfer.others.gzip_bytes.into(),
            transfer.others.zstd_long_bytes.into(),
            transfer.wire_bytes.into(),
            saved(transfer.wire_bytes, transfer.bytes),
        ]
    };
    let sum = |of: fn(&Transfer) -> u64| transfers.iter().map(of).sum::<u64>();
    let (whole, wire) = (sum(|transfer| transfer.bytes), sum(|transfer| transfer.wire_bytes));
    let mut rows: Vec<Vec<Cell>> = transfers.iter().map(row).collect();
    rows.push(vec![
        "   all".into(),
        "transfers".into(),
        whole.into(),
        sum(|transfer| transfer.others.gzip_bytes).into(),
        sum(|transfer| transfer.others.zstd_long_bytes).into(),
        wire.into(),
        saved(wire, whole),
    ]);
    let table = TableView::complete(Table::new("transfers", "", &columns, rows));
    let time = Duration::from_secs_f64(transfers.iter().map(|transfer| transfer.seconds).sum());
    let sections = vec![
        Section::new("about", "About")
            .text("Three clients and a server at two sites; one tunnel for all connections."),
        Section::new("transfers", "Transfers").table(table),
        Section::new("notes", "Notes")
            .text(format!(
                "Others need {} (ssh -C) or {} (zstd -3 for each transfer). zstd --long remembers earlier files, too, but only within one stream, \
                 which independent connections cannot share, and it finds little in compressed files.",
                format::bytes(sum(|transfer| transfer.others.ssh_bytes)),
                format::bytes(sum(|transfer| transfer.others.zstd_bytes)),
            ))
            .text(format!(
                "Oncewire's bytes include TLS, HTTP headers and acknowledgments of both ways, the others' none. Each direction keeps up to {} of \
                 history. Moved at {}; every byte was compared.",
                binary(log),
                rate(whole, time)
            )),
    ];
    Report { kind: "Demo", title: "transfers".into(), sections, ..Report::default() }
}

/// Bytes and time of a transfer.
struct Moved {
    bytes: u64,
    wire_bytes: u64,
    time: Duration,
}

/// An HTTP server, a tunnel to it, and its clients.
struct Site {
    tunnel: Loopback,
    clients: Vec<ureq::Agent>,
    /// Bytes of earlier transfers, and of the handshake.
    counted: u64,
}

impl Site {
    fn open(versions: Arc<Vec<Version>>, memory: u64, args: &DemoArgs) -> Outcome<Site> {
        let fail = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("cannot start the HTTP server: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| fail(&error))?;
        // Its connections inherit this. Without it the last segment of an answer waits for an
        // acknowledgement that is in no hurry.
        socket2::SockRef::from(&listener).set_tcp_nodelay(true).map_err(|error| fail(&error))?;
        let server = Server::from_listener(listener, None).map_err(|error| fail(&error))?;
        let address = server.server_addr().to_ip().ok_or_else(|| fail(&"it has no address"))?;
        // Ends with the process.
        std::thread::spawn(move || {
            for request in server.incoming_requests() {
                serve(request, &versions);
            }
        });
        let encoder = args.codec.encoder(args.inside.looks_inside())?;
        encoder.clone().cache(1 << 20).build().map_err(setup::config_failure)?;
        let adapt = |endpoint: &mut oncewire_net::Endpoint| {
            endpoint.memory = memory;
            endpoint.encoder = encoder.clone();
            // Loopback is faster than any link that this stands for.
            endpoint.opening = Opening::Always;
        };
        let tunnel =
            Loopback::start(address, adapt).map_err(|error| Failure::failed(error.to_string()))?;
        let client = || {
            ureq::Agent::config_builder()
                .timeout_connect(Some(Duration::from_secs(10)))
                // A connection for each transfer, as curl makes.
                .max_idle_connections(0)
                .build()
                .into()
        };
        let mut site =
            Site { tunnel, clients: (0..CLIENTS).map(|_| client()).collect(), counted: 0 };
        site.counted = site.wire_bytes();
        Ok(site)
    }

    /// Size of the content log of a direction, as agreed.
    fn log(&self) -> u64 {
        self.tunnel.status().1.sessions.first().map_or(0, |session| session.here.log_capacity)
    }

    /// Bytes that the tunnel's connection has carried. Waits until it is silent, as the last
    /// acknowledgments belong to the last transfer.
    fn wire_bytes(&self) -> u64 {
        let (mut last, begun) = (self.tunnel.wire_bytes(), Instant::now());
        loop {
            std::thread::sleep(QUIET);
            let now = self.tunnel.wire_bytes();
            if now == last || begun.elapsed() > LONGEST_QUIET {
                return now;
            }
            last = now;
        }
    }

    fn run(&mut self, task: Task, version: &Version) -> Outcome<Moved> {
        let name = version.name();
        let expected = digest(version.open()?)?;
        let fail = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("cannot send {name} through the tunnel: {error}"))
        };
        let before = self.counted;
        let client = &self.clients[task.client];
        let url = format!("http://{}/{}", self.tunnel.address(), task.version);
        let (found, moved) = match task.direction {
            Direction::Download => download(client, &url).map_err(|error| fail(&error))?,
            Direction::Upload => upload(client, &url, version).map_err(|error| fail(&error))?,
        };
        if found != expected {
            return Err(Failure::failed(format!("{name} arrived changed: please report this")));
        }
        let (bytes, time) = moved;
        self.counted = self.wire_bytes();
        Ok(Moved { bytes, time, wire_bytes: self.counted - before })
    }
}

/// Digest of the received bytes, their number and the time taken.
type Arrived = (blake3::Hash, (u64, Duration));

fn download(client: &ureq::Agent, url: &str) -> Result<Arrived, ureq::Error> {
    let begun = Instant::now();
    let mut body = client.get(url).call()?.into_body().into_reader();
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    let (mut bytes, mut digest_time) = (0, Duration::ZERO);
    loop {
        let len = body.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        bytes += len as u64;
        // The time of the check is not the tunnel's.
        let check = Instant::now();
        hasher.update(&buffer[..len]);
        digest_time += check.elapsed();
    }
    Ok((hasher.finalize(), (bytes, begun.elapsed().saturating_sub(digest_time))))
}

/// The server responds with the digest and the length of the content that it received.
fn upload(client: &ureq::Agent, url: &str, version: &Version) -> Result<Arrived, ureq::Error> {
    let begun = Instant::now();
    let response = match version {
        Version::Built(_, content) => client.put(url).send(*content),
        Version::File(path) => client.put(url).send(File::open(path)?),
    }?;
    let time = begun.elapsed();
    let answer = response.into_body().read_to_string()?;
    let read = || {
        let (digest, len) = answer.split_once(' ')?;
        Some((blake3::Hash::from_hex(digest).ok()?, (len.parse().ok()?, time)))
    };
    read().ok_or_else(|| io::Error::other("the server's answer is incomplete").into())
}

/// Responds to a GET with a version, and to a PUT with the digest and length of the content.
/// Clients detect missing and short responses.
fn serve(mut request: Request, versions: &[Version]) {
    if *request.method() == tiny_http::Method::Put {
        let mut hasher = blake3::Hasher::new();
        let _ = match io::copy(request.as_reader(), &mut hasher) {
            Ok(len) => {
                request.respond(Response::from_string(format!("{} {len}", hasher.finalize())))
            }
            Err(_) => request.respond(Response::empty(400)),
        };
        return;
    }
    let version = request
        .url()
        .strip_prefix('/')
        .and_then(|index| versions.get(index.parse::<usize>().ok()?));
    let _ = match version.map(Version::respond) {
        Some(Ok(response)) => request.respond(response),
        _ => request.respond(Response::empty(404)),
    };
}

/// Digest of a version as it is stored.
fn digest(mut input: Input) -> Outcome<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match input.fill(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            len => hasher.update(&buffer[..len]),
        };
    }
}

/// Bytes that other compressors need for one transfer.
#[derive(Default, Serialize)]
struct Others {
    gzip_bytes: u64,
    zstd_bytes: u64,
    ssh_bytes: u64,
    zstd_long_bytes: u64,
}

/// The compressors that see all transfers of one direction as one stream.
struct Rivals {
    ssh: Gzip,
    long: Zstd,
}

/// Largest packet of a connection that OpenSSH forwards; its compressor is flushed after each.
/// OpenSSH 9.2 compressed the six transfers of the releases to 883 kB, with HTTP headers; this
/// makes 881 kB.
const SSH_PACKET: usize = 32 << 10;

impl Rivals {
    fn new(total: u64) -> Outcome<Rivals> {
        // The level of ssh -C, and the window of zstd --long.
        Ok(Rivals { ssh: Gzip::new(6), long: Zstd::long(3, 27, total)? })
    }

    fn send(&mut self, version: &Version) -> Outcome<Others> {
        let mut input = version.open()?;
        let (mut gzip, mut zstd) = (Gzip::new(6), Zstd::flushed(3)?);
        let mut others = Others::default();
        let mut block = vec![0; zstd_safe::BLOCKSIZE_MAX as usize];
        let mut out = Vec::new();
        let count = |out: &mut Vec<u8>, total: &mut u64| {
            *total += out.len() as u64;
            out.clear();
        };
        loop {
            let len = input.fill(&mut block)?;
            let block = &block[..len];
            gzip.feed(block, len == 0, &mut out)?;
            count(&mut out, &mut others.gzip_bytes);
            zstd.feed(block, len == 0, &mut out)?;
            count(&mut out, &mut others.zstd_bytes);
            for packet in block.chunks(SSH_PACKET) {
                self.ssh.feed_on(packet, &mut out)?;
                count(&mut out, &mut others.ssh_bytes);
            }
            // At the end of a file all that belongs to it must have come out.
            self.long.feed_on(block, len == 0, &mut out)?;
            count(&mut out, &mut others.zstd_long_bytes);
            if len == 0 {
                return Ok(others);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::{Page, columns};

    #[test]
    fn every_version_is_fetched_and_both_directions_are_used() {
        for versions in 1..8 {
            let tasks = schedule(versions);
            for version in 0..versions {
                assert!(
                    tasks.iter().any(
                        |task| task.version == version && task.direction == Direction::Download
                    )
                );
            }
            assert_eq!(tasks.iter().filter(|task| task.direction == Direction::Upload).count(), 2);
            // What is sent again or in its next version is another client's.
            for (one, next) in tasks.iter().zip(&tasks[1..]) {
                assert_ne!(one.client, next.client, "{tasks:?}");
                assert!(one.client < CLIENTS && next.version < versions);
            }
        }
    }

    #[test]
    fn releases_are_fetched_plain_and_compressed() {
        let tasks = release_schedule();
        let versions = releases().unwrap();
        for (version, content) in versions.iter().enumerate() {
            let first = tasks.iter().find(|task| task.version == version).unwrap();
            assert_eq!(first.direction, Direction::Download);
            assert_eq!(content.name().ends_with(".gz"), version >= versions::RELEASE_NAMES.len());
        }
        for (one, next) in tasks.iter().zip(&tasks[1..]) {
            assert_ne!(one.client, next.client, "{tasks:?}");
        }
    }

    #[test]
    fn the_tables_fit_and_cut_no_number() {
        let transfer = |client, direction, name: &str| Transfer {
            client,
            direction,
            name: name.into(),
            bytes: 99_900_000_000,
            wire_bytes: 10_100_000_000,
            savings: 0.0,
            seconds: 1.0,
            others: Others {
                gzip_bytes: 20_200_000_000,
                zstd_bytes: 30_300_000_000,
                ssh_bytes: 40_400_000_000,
                zstd_long_bytes: 1_230_000_000,
            },
        };
        let transfers = [
            transfer(1, Direction::Download, "tzdata-2026.3.tar"),
            transfer(
                3,
                Direction::Upload,
                "a-file-with-a-name-that-is-as-long-as-names-get.tar.gz.part\u{1b}[2J",
            ),
        ];
        for width in [80, 97, 120] {
            let mut out = Vec::new();
            Page::new(&mut out, width, false).answer(&report(&transfers, 96_700_000)).unwrap();
            let text = String::from_utf8(out).unwrap();
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
            for number in [
                "99.9 GB", "10.1 GB", "20.2 GB", "60.6 GB", "80.8 GB", "1.23 GB", "2.46 GB",
                "92.2 MiB", "200 GB",
            ] {
                assert!(text.contains(number), "{width}: {number} is missing:\n{text}");
            }
            assert!(!text.contains("Also in") && !text.contains('\u{1b}'), "{text}");
        }
    }
}
