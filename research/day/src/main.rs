//! Makes a capture of an **arranged day**: real content, replayed by many clients, servers and
//! destinations over simulated hours.
//!
//! ```text
//! cargo run --release -p oncewire-research-day -- --out day.pcap --prefixes day.prefixes \
//!     --hours 24 --clients 200 --servers 12 --megabytes 300 --seed 1 CONTENT...
//! ```
//!
//! CONTENT is files, directories and tar archives. Archives named `name-VERSION.tar` with the same
//! name are versions of one product. A text file next to the capture describes the arrangement and
//! counts the resulting traffic.
//!
//! **Real**: the bytes of the objects, and therefore the repeats within them, between them and
//! between their versions.
//!
//! **Arranged**: everything else. Who requests what and when (popularity by Zipf's law, load by a
//! curve over the hours), protocol shares, headers, cookies, cacheability, which servers compress,
//! edits of documents without real versions, TLS (outline handshakes and random bytes), round-trip
//! times, rates, losses. Savings measured on such a day show how programs and studies behave; they
//! say nothing about any real network.
//!
//! The site is 10.20.0.0/16 and 2001:db8:20::/48, and the tap is at its access link. The rest of
//! the world is named prefixes, which `--prefixes` writes as lines `PREFIX NAME`. In part of the
//! HTTP traffic, the site's own servers answer clients in all prefixes. The same arguments always
//! produce the same bytes.

mod content;
mod plan;
mod talk;
mod tcp;
mod wire;
mod zipf;

use plan::{Kind, SECOND, Settings, World};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let catalog = content::Catalog::list(&arguments.content)?;
    let mut world = World::new(catalog, arguments.settings)?;
    let out = BufWriter::with_capacity(1 << 20, File::create(&arguments.out)?);
    let (_, counts) = make(&mut world, out)?;
    if let Some(path) = &arguments.prefixes {
        std::fs::write(path, plan::prefixes())?;
    }
    let text = summary(&world, &counts);
    std::fs::write(arguments.out.with_extension("txt"), &text)?;
    print!("{text}");
    Ok(())
}

struct Arguments {
    out: PathBuf,
    prefixes: Option<PathBuf>,
    settings: Settings,
    content: Vec<PathBuf>,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
        let mut parsed = Arguments {
            out: PathBuf::from("day.pcap"),
            prefixes: None,
            settings: Settings {
                hours: 24.0,
                clients: 200,
                servers: 12,
                megabytes: 300.0,
                seed: 1,
            },
            content: Vec::new(),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match &argument[..] {
                "--out" => parsed.out = value()?.into(),
                "--prefixes" => parsed.prefixes = Some(value()?.into()),
                "--hours" => parsed.settings.hours = value()?.parse()?,
                "--clients" => parsed.settings.clients = value()?.parse()?,
                "--servers" => parsed.settings.servers = value()?.parse()?,
                "--megabytes" => parsed.settings.megabytes = value()?.parse()?,
                "--seed" => parsed.settings.seed = value()?.parse()?,
                option if option.starts_with("--") => {
                    return Err(format!("there is no option {option}").into());
                }
                _ => parsed.content.push(argument.into()),
            }
        }
        let Settings { hours, clients, servers, megabytes, .. } = parsed.settings;
        let sensible = hours > 0.0 && hours <= 1000.0 && megabytes > 0.0 && megabytes <= 1e6;
        if !sensible || !(1..=60_000).contains(&clients) || !(1..=100).contains(&servers) {
            return Err(
                "hours up to 1000, megabytes up to 1000000, clients up to 60000 and servers up to 100, all above 0".into()
            );
        }
        if parsed.content.is_empty() {
            return Err("name some content: files, directories, tar archives".into());
        }
        Ok(parsed)
    }
}

/// The traffic produced for one kind of plan entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    conversations: u64,
    packets: u64,
    bytes: u64,
}

/// An event. Events at the same time run in the order in which they were created.
struct Event {
    time: u64,
    order: u64,
    kind: Kind,
    what: Happening,
}

enum Happening {
    Packet(Vec<u8>),
    Step(Box<tcp::Flow>),
}

impl Ord for Event {
    /// Reversed, so that the heap returns the earliest event first.
    fn cmp(&self, other: &Event) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

/// Plays the day into `out`. Memory holds the plan and the messages of all open conversations.
fn make<W: Write>(world: &mut World, out: W) -> io::Result<(W, Vec<Count>)> {
    let mut capture = wire::Pcap::new(out, world.settings.epoch())?;
    let mut counts = vec![Count::default(); Kind::ALL.len()];
    let (mut heap, mut order) = (BinaryHeap::new(), 0);
    let mut push = |heap: &mut BinaryHeap<Event>, time, kind, what| {
        order += 1;
        heap.push(Event { time, order, kind, what });
    };
    let entries = world.arrange();
    let mut entries = entries.iter().enumerate().peekable();
    loop {
        // No entry produces traffic before its own time.
        let due = heap.peek().map_or(u64::MAX, |event: &Event| event.time);
        if let Some((number, entry)) = entries.next_if(|(_, entry)| entry.time <= due) {
            let kind = entry.what.kind();
            let played = world.play(number, entry)?;
            for (time, frame) in played.packets {
                let kind = if kind == Kind::Other { kind } else { Kind::Dns };
                push(&mut heap, time, kind, Happening::Packet(frame));
            }
            if let Some((time, conversation, rng)) = played.conversation {
                counts[kind as usize].conversations += 1;
                push(
                    &mut heap,
                    time,
                    kind,
                    Happening::Step(Box::new(tcp::Flow::new(conversation, rng))),
                );
            }
            continue;
        }
        let Some(Event { time, kind, what, .. }) = heap.pop() else { break };
        // The capture ends even if conversations are still open.
        if time >= world.settings.end() {
            break;
        }
        match what {
            Happening::Packet(frame) => {
                let count = &mut counts[kind as usize];
                count.packets += 1;
                count.bytes += frame.len() as u64;
                capture.write(time, &frame)?;
            }
            Happening::Step(mut flow) => {
                let next = flow.step(time, &mut |at, frame| {
                    push(&mut heap, at, kind, Happening::Packet(frame))
                });
                if let Some(next) = next {
                    push(&mut heap, next, kind, Happening::Step(flow));
                }
            }
        }
    }
    Ok((capture.finish()?, counts))
}

fn summary(world: &World, counts: &[Count]) -> String {
    let Settings { hours, clients, servers, megabytes, seed } = world.settings;
    let mut text = format!(
        "An arranged day: the content is real; who asked for what and when, protocols, headers, losses and times are arranged\n\
         (research/day). Savings measured on it say nothing about any real network.\n\n\
         hours {hours}, clients {clients}, servers {servers}, megabytes {megabytes}, seed {seed}; first packet after {}\n{}\n",
        talk::http_date(world.settings.epoch()),
        world.describe()
    );
    let _ = writeln!(
        text,
        "{:<24} {:>13} {:>10} {:>13} {:>7}",
        "kind", "conversations", "packets", "frame bytes", "share"
    );
    let all: u64 = counts.iter().map(|count| count.bytes).sum();
    for ((_, name), count) in Kind::ALL.iter().zip(counts) {
        let Count { conversations, packets, bytes } = count;
        let share = 100.0 * *bytes as f64 / all.max(1) as f64;
        let _ = writeln!(
            text,
            "{name:<24} {conversations:>13} {packets:>10} {bytes:>13} {share:>6.1}%"
        );
    }
    let packets: u64 = counts.iter().map(|count| count.packets).sum();
    let _ = writeln!(
        text,
        "{:<24} {:>13} {packets:>10} {all:>13}",
        "all",
        counts.iter().map(|count| count.conversations).sum::<u64>()
    );
    let _ = writeln!(
        text,
        "mean rate {:.1} kbit/s",
        all as f64 * 8.0 / (world.settings.end() as f64 / SECOND as f64) / 1e3
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use content::tests::{scratch, tar};
    use oncewire_kernels::random::Xoshiro;
    use std::collections::{HashMap, HashSet};
    use std::net::IpAddr;

    const SETTINGS: Settings =
        Settings { hours: 2.0, clients: 20, servers: 3, megabytes: 3.0, seed: 7 };

    fn day(name: &str, settings: Settings) -> (Vec<u8>, Vec<Count>) {
        let root = scratch(name);
        let mut rng = Xoshiro::new(1, 2);
        let mut page = |len: usize| {
            let words = ["alpha ", "beta ", "gamma\n", "delta ", "<p>", "epsilon "];
            let mut text = Vec::new();
            while text.len() < len {
                text.extend(rng.pick(&words).as_bytes());
                text.extend(format!("{:x}", rng.below(1 << 20)).as_bytes());
            }
            text
        };
        let pages: Vec<Vec<u8>> = (1..30).map(|i| page(i * 900)).collect();
        for version in ["1.0", "1.1", "1.10"] {
            let names: Vec<String> =
                (0..pages.len()).map(|i| format!("site-{version}/page{i}.html")).collect();
            let members: Vec<_> = names
                .iter()
                .zip(&pages)
                .map(|(name, page)| (&name[..], &page[version.len()..]))
                .collect();
            std::fs::write(root.join(format!("site-{version}.tar")), tar(&members)).unwrap();
        }
        let catalog = content::Catalog::list(std::slice::from_ref(&root)).unwrap();
        let mut world = World::new(catalog, settings).unwrap();
        let made = make(&mut world, Vec::new()).unwrap();
        std::fs::remove_dir_all(root).unwrap();
        made
    }

    /// Time in microseconds and frame of each packet.
    fn packets(capture: &[u8]) -> Vec<(u64, &[u8])> {
        let (mut rest, mut packets) = (&capture[24..], Vec::new());
        while !rest.is_empty() {
            let field =
                |at: usize| u64::from(u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()));
            let (time, len) = (field(0) * 1_000_000 + field(4), field(8) as usize);
            packets.push((time, &rest[16..16 + len]));
            rest = &rest[16 + len..];
        }
        packets
    }

    #[test]
    fn a_day_is_ordered_and_has_valid_checksums() {
        let (capture, counts) = day("order", SETTINGS);
        let packets = packets(&capture);
        assert!(packets.is_sorted_by_key(|&(time, _)| time));
        assert!(packets.iter().all(|&(time, _)| time / 1_000_000 - SETTINGS.epoch() < 7200));
        assert_eq!(packets.len() as u64, counts.iter().map(|count| count.packets).sum::<u64>());
        let bytes: u64 = counts.iter().map(|count| count.bytes).sum();
        assert_eq!(bytes, packets.iter().map(|(_, frame)| frame.len() as u64).sum::<u64>());
        assert!((1_800_000..4_500_000).contains(&bytes), "{bytes} for 3 MB");
        let (mut flows, mut fragments, mut six) = (HashSet::new(), 0, 0);
        for (_, frame) in &packets {
            assert!(frame.len() <= wire::ETHERNET + wire::MTU);
            if frame[12..14] == [8, 0] && frame[20] & 0x3f | frame[21] != 0 {
                fragments += 1;
                assert_eq!(wire::checksum(&[&frame[14..34]]), 0);
                continue;
            }
            let (protocol, from, to, rest) = wire::tests::open(frame);
            assert!(wire::is_inside(from) != wire::is_inside(to), "every packet crosses the tap");
            six += u32::from(from.is_ipv6());
            if protocol == wire::TCP {
                flows.insert((from, rest[..2].to_vec(), to, rest[2..4].to_vec()));
            }
        }
        assert!(fragments > 0 && six > 0 && flows.len() > 50, "{fragments} {six} {}", flows.len());
        for (i, count) in counts.iter().enumerate() {
            assert!(count.packets > 0, "{:?}", Kind::ALL[i]);
        }
    }

    #[test]
    fn the_seed_determines_the_day() {
        let first = day("seed-a", SETTINGS).0;
        assert!(first == day("seed-b", SETTINGS).0);
        assert!(first != day("seed-c", Settings { seed: 8, ..SETTINGS }).0);
    }

    #[test]
    fn no_two_connections_share_addresses_and_ports() {
        // Readers identify a flow by its addresses and ports, so a second use would confuse them.
        let (capture, _) = day("flows", SETTINGS);
        let mut opened: HashMap<(IpAddr, IpAddr, [u8; 4]), u32> = HashMap::new();
        for (_, frame) in packets(&capture) {
            if frame[12..14] == [8, 0] && frame[20] & 0x3f | frame[21] != 0 {
                continue;
            }
            let (protocol, from, to, rest) = wire::tests::open(frame);
            if protocol == wire::TCP && rest[13] & (wire::SYN | wire::ACK) == wire::SYN {
                *opened.entry((from, to, rest[..4].try_into().unwrap())).or_default() += 1;
            }
        }
        assert!(!opened.is_empty() && opened.values().all(|&count| count == 1));
    }
}
