//! `oncewire demo`: versioned data over a real TCP connection on loopback, and what crossed it.

use crate::args::DemoArgs;
use crate::bench::rivals::{Gzip, Zstd};
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::quantity::{binary, bytes, rate, savings};
use crate::{progress, report, setup};
use comfy_table::{CellAlignment, Table, presets};
use oncewire_codec::{Decoded, Decoder, Encoder, MAX_BLOCK};
use serde::Serialize;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Three releases of the tz database (public domain), so that the program shows something wherever it runs.
const RELEASES: [(&str, &[u8]); 3] = [
    ("tzdata-2026.3.tar", include_bytes!("../../../testdata/tz/tzdata-2026.3.tar")),
    ("tzdata-2026.4.tar", include_bytes!("../../../testdata/tz/tzdata-2026.4.tar")),
    ("tzdata-2026.5.tar", include_bytes!("../../../testdata/tz/tzdata-2026.5.tar")),
];

/// Sizes of the cache that are chosen unasked.
const SMALLEST_CACHE: u64 = 64 << 20;
const LARGEST_CACHE: u64 = 4 << 30;

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
    /// The receiver had the same content every time, by its BLAKE3 digest.
    verified: bool,
    cache_bytes: u64,
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let versions: Vec<Version> = match &args.files[..] {
        [] => RELEASES.iter().map(|&(name, content)| Version::Built(name, content)).collect(),
        files => files.iter().cloned().map(Version::File).collect(),
    };
    let lens = versions.iter().map(Version::len).collect::<Outcome<Vec<u64>>>()?;
    let total: u64 = lens.iter().sum::<u64>() + lens[0];
    let cache = args.cache.unwrap_or_else(|| (2 * total).clamp(SMALLEST_CACHE, LARGEST_CACHE));
    // The first one twice, then each next version.
    let plan = [(0, "first time"), (0, "again")].into_iter().chain((1..versions.len()).map(|i| (i, "next version")));

    let mut encoder = args.codec.encoder()?.cache(cache).build().map_err(setup::config_failure)?;
    let mut decoder = Decoder::builder().cache(cache).build().map_err(setup::config_failure)?;
    // A link that has been up for a while has its memory; the first bytes should not be charged for getting it.
    encoder.prefault();
    decoder.prefault();
    let mut link = Link::open(encoder, decoder)?;
    let mut rivals = Rivals::new(total)?;
    let bar = progress::bar(Some(2 * total));
    let mut transfers = Vec::new();
    for (index, what) in plan {
        let version = &versions[index];
        let sent = link.send(version)?;
        bar.inc(sent.bytes);
        let other = rivals.send(version)?;
        bar.inc(sent.bytes);
        transfers.push(Transfer {
            name: version.name(),
            what: what.to_string(),
            bytes: sent.bytes,
            wire_bytes: sent.wire_bytes,
            savings: report::savings(sent.wire_bytes, sent.bytes),
            seconds: sent.time.as_secs_f64(),
            gzip_bytes: other.gzip,
            zstd_bytes: other.zstd,
            zstd_long_bytes: other.zstd_long,
        });
    }
    bar.finish_and_clear();
    if args.json {
        return report::json(&Document { transfers, verified: true, cache_bytes: cache });
    }
    report::text(&table(&transfers, cache))
}

fn table(transfers: &[Transfer], cache: u64) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["sent", "", "bytes", "on the wire", "saved", "speed", "gzip -6", "zstd -3", "zstd -3 --long"]);
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
        "{table}\nEvery byte was compared at the receiving end (BLAKE3). Sent over TCP on loopback in one process, content log {} \
         at each end;\nbytes on the wire are all that the connection carried, without TCP/IP headers. gzip and zstd begin anew with \
         each file;\nzstd --long is one stream over all of them, so it, too, remembers.\n",
        binary(cache)
    )
}

/// What the sender knows of a transfer.
struct Sent {
    bytes: u64,
    wire_bytes: u64,
    time: Duration,
}

/// What the receiver knows of it.
struct Received {
    digest: blake3::Hash,
    wire_bytes: u64,
}

/// An encoder here, and a decoder behind a TCP port. Each transfer is a connection; the logs live on.
struct Link {
    encoder: Encoder,
    address: SocketAddr,
    results: Receiver<Outcome<Received>>,
}

impl Link {
    fn open(encoder: Encoder, decoder: Decoder) -> Outcome<Link> {
        let fail = |error: io::Error| Failure::io("listen on", "127.0.0.1", &error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let (tell, results) = channel();
        // Ends with the process, or when nobody listens to its results any more.
        std::thread::spawn(move || serve(&listener, decoder, &tell));
        Ok(Link { encoder, address, results })
    }

    fn send(&mut self, version: &Version) -> Outcome<Sent> {
        let mut input = version.open()?;
        let mut hasher = blake3::Hasher::new();
        let mut block = vec![0; MAX_BLOCK];
        let mut total = 0;
        let begun = Instant::now();
        let mut digest_time = Duration::ZERO;
        let fail = |error: io::Error| Failure::io("send to", self.address, &error);
        let mut socket = TcpStream::connect(self.address).map_err(fail)?;
        loop {
            let len = input.fill(&mut block)?;
            if len == 0 {
                break;
            }
            let frame = self
                .encoder
                .encode_frame(&block[..len], 0)
                .map_err(|error| Failure::failed(format!("cannot encode {}: {error}", input.name)))?;
            write_parts(&mut socket, frame.parts()).map_err(fail)?;
            total += len as u64;
            // The check is the demo's, not the codec's.
            let check = Instant::now();
            hasher.update(&block[..len]);
            digest_time += check.elapsed();
        }
        drop(socket);
        let received = self.results.recv().map_err(|_| Failure::failed("the receiver ended early: please report this"))??;
        let time = begun.elapsed().saturating_sub(digest_time);
        if received.digest != hasher.finalize() {
            return Err(Failure::failed(format!("{} arrived changed: please report this", input.name)));
        }
        Ok(Sent { bytes: total, wire_bytes: received.wire_bytes, time })
    }
}

/// Writes all parts, in one system call where the socket takes them.
fn write_parts(socket: &mut TcpStream, parts: [&[u8]; 3]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut left = &mut slices[..];
    while left.iter().any(|slice| !slice.is_empty()) {
        match socket.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut left, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The receiving end: decodes one connection after the other.
fn serve(listener: &TcpListener, mut decoder: Decoder, tell: &Sender<Outcome<Received>>) {
    loop {
        let received = match listener.accept() {
            Ok((socket, _)) => receive(socket, &mut decoder),
            Err(error) => Err(Failure::io("accept on", "loopback", &error)),
        };
        if tell.send(received).is_err() {
            return;
        }
    }
}

fn receive(mut socket: TcpStream, decoder: &mut Decoder) -> Outcome<Received> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 4 * MAX_BLOCK];
    let (mut start, mut end, mut wire_bytes) = (0, 0, 0);
    loop {
        match decoder.decode(&buffer[start..end]) {
            Ok(Decoded::Block { content, consumed, .. }) => {
                hasher.update(content);
                start += consumed;
            }
            Ok(Decoded::NeedMore(_)) => {
                buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
                let n = socket.read(&mut buffer[end..]).map_err(|error| Failure::io("read from", "loopback", &error))?;
                if n == 0 && end > 0 {
                    return Err(Failure::failed("the connection ended inside a frame: please report this"));
                }
                if n == 0 {
                    return Ok(Received { digest: hasher.finalize(), wire_bytes });
                }
                end += n;
                wire_bytes += n as u64;
            }
            other => return Err(Failure::failed(format!("cannot decode what was sent: {other:?}; please report this"))),
        }
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
