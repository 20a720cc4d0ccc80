//! `oncewire demo`: versioned files fetched over HTTP through a tunnel on loopback, and what crossed it.

use crate::args::DemoArgs;
use crate::bench::rivals::{Gzip, Zstd};
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::quantity::{binary, bytes, rate, savings};
use crate::{progress, report, setup};
use comfy_table::{CellAlignment, Table, presets};
use oncewire_net::loopback::Loopback;
use serde::Serialize;
use std::io::{Cursor, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tiny_http::{Header, Response, Server};

/// Three releases of the tz database (public domain), so that the program shows something wherever it runs.
const RELEASES: [(&str, &[u8]); 3] = [
    ("tzdata-2026.3.tar", include_bytes!("../../../testdata/tz/tzdata-2026.3.tar")),
    ("tzdata-2026.4.tar", include_bytes!("../../../testdata/tz/tzdata-2026.4.tar")),
    ("tzdata-2026.5.tar", include_bytes!("../../../testdata/tz/tzdata-2026.5.tar")),
];

/// Memory of each end that is chosen unasked.
const LEAST_MEMORY: u64 = 256 << 20;
const MOST_MEMORY: u64 = 8 << 30;

/// One of the things to send.
enum Version {
    Built(&'static str, &'static [u8]),
    File(PathBuf),
}

impl Version {
    fn name(&self) -> String {
        match self {
            Version::Built(name, _) => (*name).to_string(),
            // The last part of the path is what tells versions apart.
            Version::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }

    fn open(&self) -> Outcome<Input> {
        match self {
            Version::Built(name, content) => Ok(Input::memory(name, content)),
            Version::File(path) => Input::file(path),
        }
    }

    /// What the origin answers with.
    fn respond(&self) -> std::io::Result<Response<Box<dyn Read + Send>>> {
        let (reader, len): (Box<dyn Read + Send>, usize) = match self {
            Version::Built(_, content) => (Box::new(Cursor::new(*content)), content.len()),
            Version::File(path) => {
                let file = std::fs::File::open(path)?;
                let len = file.metadata()?.len();
                (Box::new(file), usize::try_from(len).unwrap_or(usize::MAX))
            }
        };
        let headers = Header::from_bytes("Content-Type", "application/octet-stream").into_iter().collect();
        Ok(Response::new(200.into(), headers, reader, Some(len), None))
    }

    /// Its length, if it can be known beforehand.
    fn len(&self) -> Outcome<u64> {
        let input = self.open()?;
        input.len.ok_or_else(|| Failure::usage(format!("{} is not a file; the demo sends files, some of them twice", input.name)))
    }
}

/// What became of one transfer.
#[derive(Serialize)]
struct Transfer {
    name: String,
    what: String,
    bytes: u64,
    /// Both ways, TLS included.
    wire_bytes: u64,
    savings: f64,
    seconds: f64,
    gzip_bytes: u64,
    zstd_bytes: u64,
    zstd_long_bytes: u64,
}

/// What `--json` says.
#[derive(Serialize)]
struct Document {
    transfers: Vec<Transfer>,
    /// The client had the same content every time, by its BLAKE3 digest.
    verified: bool,
    log_bytes: u64,
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let versions: Vec<Version> = match &args.files[..] {
        [] => RELEASES.iter().map(|&(name, content)| Version::Built(name, content)).collect(),
        files => files.iter().cloned().map(Version::File).collect(),
    };
    let lens = versions.iter().map(Version::len).collect::<Outcome<Vec<u64>>>()?;
    let total: u64 = lens.iter().sum::<u64>() + lens[0];
    // The log is about a third of it.
    let memory = args.memory.unwrap_or_else(|| (6 * total).clamp(LEAST_MEMORY, MOST_MEMORY));
    // The first one twice, then each next version.
    let plan = [(0, "first time"), (0, "again")].into_iter().chain((1..versions.len()).map(|i| (i, "next version")));

    let versions = Arc::new(versions);
    let mut site = Site::open(versions.clone(), memory, args)?;
    let mut rivals = Rivals::new(total)?;
    let bar = progress::bar(Some(2 * total));
    let mut transfers = Vec::new();
    for (index, what) in plan {
        let version = &versions[index];
        let fetched = site.fetch(index, version)?;
        bar.inc(fetched.bytes);
        let other = rivals.send(version)?;
        bar.inc(fetched.bytes);
        transfers.push(Transfer {
            name: version.name(),
            what: what.to_string(),
            bytes: fetched.bytes,
            wire_bytes: fetched.wire_bytes,
            savings: report::savings(fetched.wire_bytes, fetched.bytes),
            seconds: fetched.time.as_secs_f64(),
            gzip_bytes: other.gzip,
            zstd_bytes: other.zstd,
            zstd_long_bytes: other.zstd_long,
        });
    }
    bar.finish_and_clear();
    let log = site.log();
    if args.json {
        return report::json(&Document { transfers, verified: true, log_bytes: log });
    }
    report::text(&table(&transfers, log))
}

fn table(transfers: &[Transfer], log: u64) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["fetched", "", "bytes", "on the wire", "saved", "speed", "gzip -6", "zstd -3", "zstd -3 --long"]);
    for transfer in transfers {
        table.add_row([
            transfer.name.clone(),
            transfer.what.clone(),
            bytes(transfer.bytes),
            bytes(transfer.wire_bytes),
            savings(transfer.wire_bytes, transfer.bytes),
            rate(transfer.bytes, Duration::from_secs_f64(transfer.seconds)),
            bytes(transfer.gzip_bytes),
            bytes(transfer.zstd_bytes),
            bytes(transfer.zstd_long_bytes),
        ]);
    }
    let sum = |of: fn(&Transfer) -> u64| transfers.iter().map(of).sum::<u64>();
    let (whole, wire) = (sum(|t| t.bytes), sum(|t| t.wire_bytes));
    table.add_row([
        "all".to_string(),
        String::new(),
        bytes(whole),
        bytes(wire),
        savings(wire, whole),
        rate(whole, Duration::from_secs_f64(transfers.iter().map(|t| t.seconds).sum())),
        bytes(sum(|t| t.gzip_bytes)),
        bytes(sum(|t| t.zstd_bytes)),
        bytes(sum(|t| t.zstd_long_bytes)),
    ]);
    for column in 2..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "{table}\nFetched from an HTTP server through a tunnel on loopback, all in this process; every byte was compared (BLAKE3). Content \
         log {} a\ndirection; bytes on the wire are all that the tunnel's connection carried both ways, TLS and requests included, without \
         TCP/IP\nheaders. gzip and zstd begin anew with each file; zstd --long is one stream over all of them, so it, too, remembers.\n",
        binary(log)
    )
}

/// What is known of a transfer.
struct Fetched {
    bytes: u64,
    wire_bytes: u64,
    time: Duration,
}

/// An HTTP server, a tunnel to it, and a client.
struct Site {
    tunnel: Loopback,
    agent: ureq::Agent,
}

impl Site {
    fn open(versions: Arc<Vec<Version>>, memory: u64, args: &DemoArgs) -> Outcome<Site> {
        let fail = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot start the HTTP server: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| fail(&error))?;
        // Its connections inherit this. Without it the last segment of an answer waits for an acknowledgement that is in no hurry.
        socket2::SockRef::from(&listener).set_tcp_nodelay(true).map_err(|error| fail(&error))?;
        let server = Server::from_listener(listener, None).map_err(|error| fail(&error))?;
        let address = server.server_addr().to_ip().ok_or_else(|| fail(&"it has no address"))?;
        // Ends with the process.
        std::thread::spawn(move || {
            for request in server.incoming_requests() {
                let version = request.url().strip_prefix('/').and_then(|index| versions.get(index.parse::<usize>().ok()?));
                // Whoever asked notices that an answer is missing or short.
                let _ = match version.map(Version::respond) {
                    Some(Ok(response)) => request.respond(response),
                    _ => request.respond(Response::empty(404)),
                };
            }
        });
        let encoder = args.codec.encoder()?;
        encoder.clone().cache(1 << 20).build().map_err(setup::config_failure)?;
        let adapt = |endpoint: &mut oncewire_net::Endpoint| {
            endpoint.memory = memory;
            endpoint.encoder = encoder.clone();
        };
        let tunnel = Loopback::start(address, adapt).map_err(|error| Failure::failed(error.to_string()))?;
        let agent = ureq::Agent::config_builder().timeout_connect(Some(Duration::from_secs(10))).build().into();
        Ok(Site { tunnel, agent })
    }

    /// Size of the content log of a direction, as agreed.
    fn log(&self) -> u64 {
        self.tunnel.status().1.sessions.first().map_or(0, |session| session.here.log_capacity)
    }

    fn wire_bytes(&self) -> u64 {
        let (client, _) = self.tunnel.status();
        client.transport_sent + client.transport_received
    }

    fn fetch(&mut self, index: usize, version: &Version) -> Outcome<Fetched> {
        let name = version.name();
        let expected = digest(version.open()?)?;
        let wire_before = self.wire_bytes();
        let begun = Instant::now();
        let fail = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot fetch {name} through the tunnel: {error}"));
        let response =
            self.agent.get(format!("http://{}/{index}", self.tunnel.address())).call().map_err(|error| fail(&error))?;
        let mut body = response.into_body().into_reader();
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 256 << 10];
        let (mut bytes, mut digest_time) = (0, Duration::ZERO);
        loop {
            let len = body.read(&mut buffer).map_err(|error| fail(&error))?;
            if len == 0 {
                break;
            }
            bytes += len as u64;
            // The check is the demo's, not the tunnel's.
            let check = Instant::now();
            hasher.update(&buffer[..len]);
            digest_time += check.elapsed();
        }
        let time = begun.elapsed().saturating_sub(digest_time);
        if hasher.finalize() != expected {
            return Err(Failure::failed(format!("{name} arrived changed: please report this")));
        }
        Ok(Fetched { bytes, wire_bytes: self.wire_bytes() - wire_before, time })
    }
}

/// What a version is when it has not been through anything.
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

/// What others need for one transfer, in bytes.
struct Others {
    gzip: u64,
    zstd: u64,
    zstd_long: u64,
}

/// The same content through other programs' methods.
struct Rivals {
    long: Zstd,
}

impl Rivals {
    fn new(total: u64) -> Outcome<Rivals> {
        // The window of the tool's own `--long`.
        Ok(Rivals { long: Zstd::long(3, 27, total)? })
    }

    fn send(&mut self, version: &Version) -> Outcome<Others> {
        let mut input = version.open()?;
        let (mut gzip, mut zstd) = (Gzip::new(6), Zstd::flushed(3)?);
        let mut others = Others { gzip: 0, zstd: 0, zstd_long: 0 };
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
            count(&mut out, &mut others.gzip);
            zstd.feed(block, len == 0, &mut out)?;
            count(&mut out, &mut others.zstd);
            // At the end of a file all that belongs to it must have come out.
            self.long.feed_on(block, len == 0, &mut out)?;
            count(&mut out, &mut others.zstd_long);
            if len == 0 {
                return Ok(others);
            }
        }
    }
}
