//! The arranged part of the day: hosts, who requests what, and when.

mod play;

use crate::content::{Catalog, identity, product};
use crate::talk::{self, AGENTS, Browser, MS, Mail, Resource};
use crate::tcp::{Conversation, Ending, Message, Trouble};
use crate::wire::{self, Route};
use crate::zipf::Zipf;
use oncewire_kernels::random::{Xoshiro, mix};
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Nanoseconds per second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Settings from the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) hours: f64,
    pub(crate) clients: usize,
    pub(crate) servers: usize,
    pub(crate) megabytes: f64,
    pub(crate) seed: u64,
}

impl Settings {
    /// Length of the day in nanoseconds.
    pub(crate) fn end(&self) -> u64 {
        (self.hours * 3600.0 * SECOND as f64) as u64
    }

    /// Start of the capture in seconds since the Unix epoch: Monday, 2 March 2026, at midnight, or
    /// at 9:00 if the capture is shorter than a day.
    pub(crate) fn epoch(&self) -> u64 {
        1_772_409_600 + if self.hours < 24.0 { 9 * 3600 } else { 0 }
    }
}

/// A point of presence: the first two bytes of its IPv4 addresses, its name, and the milliseconds
/// from the tap to its hosts.
struct Pop(u8, u8, &'static str, u64);

const POPS: [Pop; 7] = [
    Pop(198, 18, "east", 9),
    Pop(198, 19, "west", 35),
    Pop(100, 64, "north", 17),
    Pop(100, 65, "south", 60),
    Pop(172, 20, "metro", 3),
    Pop(10, 30, "datacentre", 12),
    Pop(10, 40, "branch", 27),
];
const DATACENTRE: usize = 5;
const BRANCH: usize = 6;
/// Points of presence with customers of the site's own servers.
const PUBLIC: usize = 5;

/// The table of prefixes, one `PREFIX NAME` per line. `site` is inside the tap.
pub(crate) fn prefixes() -> String {
    let mut lines = "10.20.0.0/16 site\n2001:db8:20::/48 site\n".to_owned();
    for (i, Pop(a, b, name, _)) in POPS.iter().enumerate() {
        lines += &format!("{a}.{b}.0.0/16 {name}\n2001:db8:1{i:02}::/48 {name}\n");
    }
    lines
}

fn inside(host: u16, six: bool) -> IpAddr {
    let [a, b] = host.to_be_bytes();
    match six {
        false => Ipv4Addr::new(10, 20, a, b).into(),
        true => Ipv6Addr::new(0x2001, 0xdb8, 0x20, 0, 0, 0, 0, host).into(),
    }
}

fn outside(pop: usize, host: u16, six: bool) -> IpAddr {
    let (Pop(a, b, ..), [c, d]) = (&POPS[pop], host.to_be_bytes());
    match six {
        false => Ipv4Addr::new(*a, *b, c, d).into(),
        // 2001:db8:1NN::/48; the decimal digits of the number are used as hexadecimal digits.
        true => Ipv6Addr::new(
            0x2001,
            0xdb8,
            0x100 + (pop / 10 * 16 + pop % 10) as u16,
            0,
            0,
            0,
            0,
            host,
        )
        .into(),
    }
}

/// The `i`th client of the site, counting from 10.20.1.0.
fn client(i: usize) -> u16 {
    0x100 + (i % 0xfe00) as u16
}

/// Kinds of traffic, for the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    WebIn,
    WebOut,
    Tls,
    Share,
    Mail,
    Replication,
    Update,
    Dns,
    Other,
}

impl Kind {
    pub(crate) const ALL: [(Kind, &'static str); 9] = [
        (Kind::WebIn, "HTTP, site's clients"),
        (Kind::WebOut, "HTTP, site's servers"),
        (Kind::Tls, "TLS"),
        (Kind::Share, "SMB-like file reads"),
        (Kind::Mail, "SMTP"),
        (Kind::Replication, "rsync-like replication"),
        (Kind::Update, "software update"),
        (Kind::Dns, "DNS"),
        (Kind::Other, "ICMP and telemetry"),
    ];

    /// The target share of bytes for this kind. DNS and the others result from the rest.
    fn share(self) -> f64 {
        match self {
            Kind::WebIn => 0.34,
            Kind::WebOut => 0.16,
            Kind::Tls => 0.11,
            Kind::Share => 0.12,
            Kind::Mail => 0.07,
            Kind::Replication => 0.12,
            Kind::Update => 0.08,
            Kind::Dns | Kind::Other => 0.0,
        }
    }
}

/// A plan entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Start in nanoseconds since the beginning.
    pub(crate) time: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A visit: popularity ranks of the objects.
    Web {
        outbound: bool,
        ranks: Vec<u32>,
    },
    Tls {
        up: u32,
        down: u32,
    },
    /// Which documents are copied.
    Share {
        documents: Vec<u32>,
    },
    Mail {
        attachment: u32,
    },
    /// One run's parts of a snapshot, sent to one of the mirrors.
    Replication {
        snapshot: u32,
        members: std::ops::Range<usize>,
        branch: bool,
    },
    Update,
    Ping {
        pop: usize,
    },
    Telemetry,
}

impl What {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            What::Web { outbound: false, .. } => Kind::WebIn,
            What::Web { outbound: true, .. } => Kind::WebOut,
            What::Tls { .. } => Kind::Tls,
            What::Share { .. } => Kind::Share,
            What::Mail { .. } => Kind::Mail,
            What::Replication { .. } => Kind::Replication,
            What::Update => Kind::Update,
            What::Ping { .. } | What::Telemetry => Kind::Other,
        }
    }
}

/// The traffic of an entry.
#[derive(Default)]
pub(crate) struct Played {
    /// Packets outside any conversation: DNS and others.
    pub(crate) packets: Vec<(u64, Vec<u8>)>,
    /// A conversation and its start time.
    pub(crate) conversation: Option<(u64, Conversation, Xoshiro)>,
}

/// Size of the largest object on the web servers, in bytes.
const WEB_MAX: u64 = 1_500_000;
/// Approximate size of one replication flow, in bytes.
const REPLICA_PART: u64 = 2_000_000;

/// Hosts, content pools, and the state of the simulation.
pub(crate) struct World {
    pub(crate) settings: Settings,
    catalog: Catalog,
    /// Objects of the web servers, most popular first.
    web: Vec<usize>,
    popularity: Zipf,
    /// Versions of each shared document. For documents with a single version, later versions are
    /// produced here by editing.
    documents: Vec<Vec<usize>>,
    document_popularity: Zipf,
    attachments: Vec<usize>,
    attachment_popularity: Zipf,
    /// What each replication run sends.
    snapshots: Vec<Vec<usize>>,
    /// Name and content of the software update.
    package: (String, Vec<u8>),
    /// Pairs of client and object in the clients' caches.
    seen: HashSet<(u16, u32)>,
}

/// Load by hour of the day, relative to the busiest: night, morning, lunch, afternoon, evening.
pub(crate) fn load(hour: f64) -> f64 {
    const CURVE: [f64; 25] = [
        0.10, 0.08, 0.07, 0.06, 0.06, 0.08, 0.14, 0.30, 0.62, 0.90, 1.00, 0.96, 0.72, 0.80, 0.97,
        0.94, 0.86, 0.66, 0.44, 0.34, 0.30, 0.26, 0.20, 0.14, 0.10,
    ];
    let hour = hour.rem_euclid(24.0);
    let (before, part) = (hour as usize, hour.fract());
    CURVE[before] * (1.0 - part) + CURVE[before + 1] * part
}

impl World {
    /// Fills the pools from the catalog.
    pub(crate) fn new(catalog: Catalog, settings: Settings) -> io::Result<World> {
        let mut rng = Xoshiro::new(settings.seed, 1);
        let filled: Vec<usize> =
            (0..catalog.objects.len()).filter(|&object| catalog.objects[object].len > 0).collect();
        if filled.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the content has no file with bytes in it",
            ));
        }
        let sized = |low: u64, high: u64| {
            let some: Vec<_> = filled
                .iter()
                .copied()
                .filter(|&object| (low..=high).contains(&catalog.objects[object].len))
                .collect();
            if some.is_empty() { filled.clone() } else { some }
        };
        let budget = settings.megabytes * 1e6;

        // Source trees have more small files than the web.
        let mut web: Vec<usize> = sized(200, WEB_MAX)
            .into_iter()
            .filter(|&object| catalog.objects[object].len > 4000 || rng.chance(0.25))
            .collect();
        rng.shuffle(&mut web);
        web.truncate(((budget * 0.5 / 36_000.0) as usize).clamp(50, 20_000));
        if web.is_empty() {
            web.clone_from(&filled);
        }

        let readable = |&object: &usize| (8_000..=600_000).contains(&catalog.objects[object].len);
        let mut documents: Vec<Vec<usize>> = catalog.documents();
        documents.retain(|versions| versions.iter().all(readable));
        rng.shuffle(&mut documents);
        let count = ((budget / 5e6) as usize).clamp(8, 400);
        documents.truncate(count / 2);
        let mut single = sized(8_000, 600_000);
        rng.shuffle(&mut single);
        let missing = count - documents.len();
        documents.extend(single.into_iter().take(missing).map(|object| vec![object]));
        rng.shuffle(&mut documents);

        let mut attachments = sized(20_000, 400_000);
        rng.shuffle(&mut attachments);
        attachments.truncate(((budget / 8e6) as usize).clamp(4, 500));

        let snapshots =
            snapshots(&catalog, &filled, (budget * Kind::Replication.share() / 2.0) as u64);
        let package = package(
            &catalog,
            &filled,
            budget * Kind::Update.share() / (settings.clients.clamp(1, 40) as f64),
        )?;
        Ok(World {
            popularity: Zipf::new(web.len(), 0.9),
            document_popularity: Zipf::new(documents.len(), 0.7),
            attachment_popularity: Zipf::new(attachments.len(), 0.8),
            settings,
            catalog,
            web,
            documents,
            attachments,
            snapshots,
            package,
            seen: HashSet::new(),
        })
    }

    /// Describes the pools.
    pub(crate) fn describe(&self) -> String {
        let distinct =
            |objects: &mut dyn Iterator<Item = usize>| objects.collect::<HashSet<_>>().len();
        let versions = self.documents.iter().filter(|versions| versions.len() > 1).count();
        let (name, content) = &self.package;
        format!(
            "content: {} objects in {} archives and other files\n\
             web servers: {} objects, Zipf with exponent 0.9\n\
             shared documents: {}, of which {versions} have real versions; the others are edited here\n\
             attachments: {}\n\
             replication: {} runs over {} objects, each to two mirrors\n\
             software update: {name}, {} bytes\n",
            self.catalog.objects.len(),
            self.catalog.archives.len(),
            self.web.len(),
            self.documents.len(),
            self.attachments.len(),
            self.snapshots.len(),
            distinct(&mut self.snapshots.iter().flatten().copied()),
            content.len(),
        )
    }

    /// The whole day, ordered by time.
    pub(crate) fn arrange(&self) -> Vec<Entry> {
        let mut rng = Xoshiro::new(self.settings.seed, 2);
        let (budget, end) = (self.settings.megabytes * 1e6, self.settings.end());
        // Headers of Ethernet, IP and TCP, acknowledgments and retransmissions, per byte of
        // messages.
        let message_bytes = |kind: Kind| budget * kind.share() / 1.085;
        let mut entries = Vec::new();
        for kind in [Kind::WebIn, Kind::WebOut, Kind::Tls, Kind::Share, Kind::Mail, Kind::Update] {
            let mut left = message_bytes(kind);
            while left > 0.0 {
                let time = match kind {
                    Kind::Update => {
                        // Released after four tenths of the day. Clients download it over the next
                        // hours, most of them at first.
                        let after = -(1.0 - rng.unit()).ln() * end as f64 * 0.05;
                        ((end as f64 * 0.4 + after) as u64).min(end.saturating_sub(SECOND))
                    }
                    _ => self.draw_time(&mut rng),
                };
                let (what, bytes) = self.draw(kind, &mut rng);
                left -= bytes;
                entries.push(Entry { time, what });
            }
        }
        let runs = self.snapshots.len() as u64;
        for (snapshot, members) in self.snapshots.iter().enumerate() {
            let begin = end * (2 * snapshot as u64 + 1) / (2 * runs.max(1));
            for branch in [false, true] {
                let (mut start, mut bytes, mut part) = (0, 0, 0);
                for i in 0..members.len() {
                    bytes += self.catalog.objects[members[i]].len;
                    if bytes >= REPLICA_PART || i + 1 == members.len() {
                        // The second mirror's copy follows within minutes.
                        let time = begin + (20 * part + if branch { 300 } else { 0 }) * SECOND;
                        let what = What::Replication {
                            snapshot: snapshot as u32,
                            members: start..i + 1,
                            branch,
                        };
                        entries.push(Entry { time, what });
                        (start, bytes, part) = (i + 1, 0, part + 1);
                    }
                }
            }
        }
        for tick in 0..end / (300 * SECOND) {
            let pop = (tick % POPS.len() as u64) as usize;
            entries.push(Entry { time: tick * 300 * SECOND, what: What::Ping { pop } });
            entries.push(Entry { time: (tick * 300 + 60) * SECOND, what: What::Telemetry });
        }
        entries.sort_by_key(|entry| entry.time);
        entries
    }

    /// A random time, distributed by the load curve.
    fn draw_time(&self, rng: &mut Xoshiro) -> u64 {
        loop {
            let time = rng.unit() * self.settings.end() as f64;
            let hour = (self.settings.epoch() as f64 + time / SECOND as f64) / 3600.0;
            if rng.chance(load(hour)) {
                return time as u64;
            }
        }
    }

    /// A random entry of a kind, and the approximate number of bytes it produces.
    fn draw(&self, kind: Kind, rng: &mut Xoshiro) -> (What, f64) {
        let len = |object: usize| self.catalog.objects[object].len as f64;
        match kind {
            Kind::WebIn | Kind::WebOut => {
                let count = 1 + rng.below(8);
                let ranks: Vec<u32> =
                    (0..count).map(|_| self.popularity.draw(rng) as u32).collect();
                let bytes = ranks
                    .iter()
                    .map(|&rank| {
                        let object = self.web[rank as usize];
                        let name = &self.catalog.objects[object].name;
                        // As in `talk::response`; text compresses to about a third.
                        let encoded =
                            talk::media_type(name).1 && (identity(name) >> 8).is_multiple_of(2);
                        850.0 + if encoded { len(object) * 0.27 } else { len(object) }
                    })
                    .sum();
                (What::Web { outbound: kind == Kind::WebOut, ranks }, bytes)
            }
            Kind::Share => {
                let documents: Vec<u32> = (0..1 + rng.below(4))
                    .map(|_| self.document_popularity.draw(rng) as u32)
                    .collect();
                let bytes = documents
                    .iter()
                    .map(|&document| 500.0 + len(self.documents[document as usize][0]))
                    .sum();
                (What::Share { documents }, bytes)
            }
            Kind::Mail => {
                let attachment = self.attachment_popularity.draw(rng);
                (
                    What::Mail { attachment: attachment as u32 },
                    1500.0 + 1.37 * len(self.attachments[attachment]),
                )
            }
            Kind::Update => (What::Update, self.package.1.len() as f64),
            _ => {
                // Heavy-tailed: most connections are small.
                let down = (2000.0 / (1.0 - rng.unit()).powf(0.9)).min(3e6) as u32;
                let up = (500.0 / (1.0 - rng.unit()).powf(0.8)).min(1e6) as u32;
                (What::Tls { up, down }, 4200.0 + f64::from(up) + f64::from(down))
            }
        }
    }
}

/// What each replication run sends: the first members of the versions of the largest product, or
/// else the same files repeatedly. `budget` is in bytes per mirror.
fn snapshots(catalog: &Catalog, filled: &[usize], budget: u64) -> Vec<Vec<usize>> {
    let mut names: Vec<_> = catalog.archives.iter().map(|(stem, _)| product(stem)).collect();
    names.sort_by_key(|name| {
        let members = catalog
            .archives
            .iter()
            .filter(|(stem, _)| product(stem) == *name)
            .map(|(_, members)| members.len());
        (std::cmp::Reverse(members.sum::<usize>()), name.clone())
    });
    let runs: Vec<Vec<usize>> = match names.first() {
        Some(name) => {
            let versions = catalog.archives.iter().filter(|(stem, _)| product(stem) == *name);
            versions.map(|(_, members)| members.clone().collect()).collect()
        }
        None => vec![filled.to_vec(); 4],
    };
    let each = budget / runs.len().max(1) as u64;
    runs.into_iter()
        .map(|members| {
            let mut left = each as i64;
            let taken = members.into_iter().take_while(|&object| {
                let room = left > 0;
                left -= catalog.objects[object].len.min(REPLICA_PART) as i64;
                room
            });
            taken.collect()
        })
        .collect()
}

/// The software update: a compressed file of about `target` bytes (or the start of a larger one),
/// or else gzipped text.
fn package(catalog: &Catalog, filled: &[usize], target: f64) -> io::Result<(String, Vec<u8>)> {
    let target = target.clamp(50_000.0, 8e6) as u64;
    let extension = |object: usize| {
        catalog.objects[object].name.rsplit_once('.').map_or("", |(_, extension)| extension)
    };
    let packed = |&&object: &&usize| {
        ["deb", "tgz", "whl", "zip", "xz"].contains(&extension(object))
            && catalog.objects[object].len > target / 4
    };
    let candidates = filled.iter().filter(packed);
    if let Some(&object) =
        candidates.min_by_key(|&&object| catalog.objects[object].len.abs_diff(target))
    {
        let name = catalog.objects[object].name.rsplit('/').next().unwrap_or("package").to_owned();
        return Ok((name, catalog.read(object, target)?));
    }
    let mut plain = Vec::new();
    for &object in filled.iter().rev() {
        if plain.len() as u64 > target * 4 {
            break;
        }
        plain.extend(catalog.read(object, target)?);
    }
    Ok(("package.tar.gz".to_owned(), talk::gzip(&plain)))
}

#[cfg(test)]
mod tests {
    use super::play::edit;
    use super::*;

    #[test]
    fn load_follows_the_curve() {
        assert!(load(3.0) < 0.1 && load(10.0) == 1.0 && load(34.0) == 1.0);
        assert!((0..240).all(|tenth| (0.0..=1.0).contains(&load(f64::from(tenth) / 10.0))));
    }

    #[test]
    fn prefixes_hold_the_hosts() {
        let table = prefixes();
        assert!(table.lines().all(|line| line.split(' ').count() == 2));
        for (pop, Pop(_, _, name, _)) in POPS.iter().enumerate() {
            for six in [false, true] {
                let address = outside(pop, 0x1234, six).to_string();
                assert!(!wire::is_inside(outside(pop, 9, six)) && wire::is_inside(inside(9, six)));
                let held = table.lines().any(|line| {
                    let (prefix, of) = line.split_once(' ').unwrap();
                    let start = prefix.split('/').next().unwrap();
                    let start = if six {
                        start.trim_end_matches(':')
                    } else {
                        start.trim_end_matches(".0.0")
                    };
                    of == *name && address.starts_with(start)
                });
                assert!(held, "{address} is in no prefix of {name}");
            }
        }
    }

    #[test]
    fn edits_change_a_small_part() {
        let content = Xoshiro::new(1, 1).bytes(50_000);
        let mut edited = content.clone();
        edit(&mut edited, 1, 2);
        let mut again = content.clone();
        edit(&mut again, 1, 2);
        assert!(edited == again && edited != content && edited.len() - content.len() < 200);
    }
}
