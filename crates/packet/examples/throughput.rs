//! How fast a capture is read and taken apart: `cargo run --release -p oncewire-packet --example
//! throughput -- FILE [BYTES]`.
//!
//! Makes a capture of at least BYTES (default 1 GiB) in memory from the records of a pcap FILE,
//! over and over; or, if BYTES is 0, reads FILE itself as it is, from the page cache. Prints the
//! CPU time of reading it, and of reading and dissecting it: the median of five runs. Dissecting
//! adds up the lengths and the last bytes of payloads, so that they are seen.

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::Read,
};

use oncewire_packet::{CaptureReader, Dissector, Limits};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let path = args.next().ok_or("usage: throughput FILE [BYTES]")?;
    let least: usize = args.next().map_or(Ok(1 << 30), |arg| arg.parse())?;
    let mut big = Vec::new();
    if least > 0 {
        let file = fs::read(&path)?;
        big.clone_from(&file);
        while big.len() < least {
            big.extend_from_slice(file.get(24..).ok_or("not a pcap")?);
        }
    }
    let open = || -> Result<Box<dyn Read + '_>, std::io::Error> {
        Ok(if least > 0 { Box::new(&big[..]) } else { Box::new(File::open(&path)?) })
    };

    let (bytes, packets, payload, unused) = dissect(open()?)?;
    println!(
        "{bytes} bytes, {packets} packets, {payload} bytes of payload, {unused} packets unused"
    );
    for (name, dissecting) in [("read", false), ("read and dissect", true)] {
        let mut times = [0.0; 5];
        for time in &mut times {
            let start = cpu_time::ProcessTime::now();
            if dissecting {
                dissect(open()?)?;
            } else {
                read(open()?)?;
            }
            *time = start.elapsed().as_secs_f64();
        }
        times.sort_by(f64::total_cmp);
        let median = times[2];
        println!(
            "{name}: {:.2} GB/s, {:.2} million packets/s",
            bytes as f64 / median / 1e9,
            packets as f64 / median / 1e6
        );
    }
    Ok(())
}

fn read(capture: impl Read) -> Result<(), Box<dyn Error>> {
    let mut reader = CaptureReader::new(capture)?;
    let mut sum = 0u64;
    while let Some(record) = reader.next() {
        let record = record?;
        sum += u64::from(record.wire_len) + u64::from(record.data.last().copied().unwrap_or(0));
    }
    std::hint::black_box(sum);
    Ok(())
}

fn dissect(capture: impl Read) -> Result<(u64, u64, u64, u64), Box<dyn Error>> {
    let mut reader = CaptureReader::new(capture)?;
    let mut dissector = Dissector::new(Limits::default());
    let (mut payload, mut last) = (0, 0);
    while let Some(record) = reader.next() {
        if let Ok(packet) = dissector.dissect(&record?) {
            payload += packet.payload.len() as u64;
            last ^= packet.payload.last().copied().unwrap_or(0);
        }
    }
    std::hint::black_box(last);
    let counters = dissector.finish();
    Ok((reader.position(), counters.total.packets, payload, counters.skipped().packets))
}
