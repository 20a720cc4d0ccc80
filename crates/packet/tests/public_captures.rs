//! Every public capture of the data set against its index, which another program made, and against tcpdump.
//!
//! The data set is found through `ONCEWIRE_DATA`, or as `shared/data` beside the workspace. Without it nothing is tested.

use std::{collections::HashMap, env, fs, path::PathBuf, process::Command};

use oncewire_packet::{CaptureError, CaptureReader, Counters, Dissector, Layer, Limits, Transport, Unused};

fn data() -> Option<PathBuf> {
    let data = env::var_os("ONCEWIRE_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    if data.join("index.tsv").exists() {
        Some(data)
    } else {
        eprintln!("skipped: no data set; set ONCEWIRE_DATA");
        None
    }
}

#[derive(Debug, Default)]
struct Sums {
    packets: u64,
    captured: u64,
    wire: u64,
    cut: bool,
    error: Option<String>,
    tcp: u64,
    udp: u64,
    fragments: u64,
    counters: Counters,
    unused: HashMap<Unused, u64>,
}

fn sums(file: &[u8]) -> Sums {
    let mut sums = Sums::default();
    let mut reader = CaptureReader::new(file).expect("a capture");
    let mut dissector = Dissector::new(Limits::default());
    while let Some(record) = reader.next() {
        let record = match record {
            Ok(record) => record,
            Err(CaptureError::Cut { .. }) => {
                sums.cut = true;
                break;
            }
            Err(e) => {
                sums.error = Some(e.to_string());
                break;
            }
        };
        sums.packets += 1;
        sums.captured += record.data.len() as u64;
        sums.wire += u64::from(record.wire_len);
        match dissector.dissect(&record) {
            Ok(d) => {
                let total = u64::from(d.headers) + d.payload.len() as u64 + u64::from(d.missing) + u64::from(d.trailer);
                assert_eq!(total, d.wire_len);
                let sum = if matches!(d.transport, Transport::Tcp { .. }) { &mut sums.tcp } else { &mut sums.udp };
                *sum += d.payload.len() as u64;
                sums.fragments += u64::from(d.layers.contains(Layer::Fragment));
            }
            Err(why) => *sums.unused.entry(why).or_default() += 1,
        }
    }
    sums.counters = *dissector.finish();
    sums
}

#[test]
fn index() {
    let Some(data) = data() else { return };
    let index = fs::read_to_string(data.join("index.tsv")).unwrap();
    let mut lines = index.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    for line in lines {
        let row: HashMap<&str, &str> = names.iter().copied().zip(line.split('\t')).collect();
        let number = |name: &str| row[name].parse::<u64>().unwrap();
        let file = fs::read(data.join(row["path"])).unwrap();
        let s = sums(&file);
        assert_eq!(s.counters.total.packets, s.counters.used.packets + s.counters.unused().packets);
        assert_eq!(s.counters.total.bytes, s.counters.used.bytes + s.counters.unused().bytes);
        assert_eq!(s.wire, s.counters.total.bytes);
        let mut d = String::new();
        for (n, v) in
            [("npkts", s.packets), ("cap_bytes", s.captured), ("wire_bytes", s.wire), ("pay_tcp", s.tcp), ("pay_udp", s.udp)]
        {
            if number(n) != v {
                d += &format!(" {n} {}->{v}", number(n));
            }
        }
        if !d.is_empty() || s.error.is_some() || s.cut != row["fmt"].ends_with("!cut") {
            println!(
                "{} {} [{}] {:?} {d} enc={} {:?} frag={} reas={}",
                row["path"], row["fmt"], s.cut, s.error, row["encaps"], s.unused, s.fragments, s.counters.reassembled
            );
        }
    }
}
