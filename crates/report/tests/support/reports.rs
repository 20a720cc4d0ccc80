//! Sample reports: figures, and a network with its map.

use oncewire_report::{
    Axis, Block, Breakdown, Cell, Chart, ChartKind, Fact, Map, MapDevice, MapLink, MapNode, Part,
    Report, Section, Series, Summary, Table, TableView, Unit,
};
use oncewire_testkit::figures::{HOSTILE, figures, noise};

fn part(name: &str, packets: Option<u64>, bytes: u64) -> Part {
    Part { name: name.into(), packets, bytes }
}

/// A report with fifteen figures.
pub fn study() -> Report {
    let captures = vec![
        "branch-office-2026-03-02.pcapng".into(),
        HOSTILE.into(),
        format!("very/deep/{}.pcap", "directory-and-more/".repeat(12)),
    ];
    let facts = vec![
        ("captures".into(), captures),
        ("packets".into(), vec!["18,345,112".into()]),
        (HOSTILE.into(), vec![HOSTILE.into()]),
    ];
    let used = vec![
        part("TCP with payload", Some(12_010_443), 11_840_233_112),
        part("TCP without payload", Some(5_120_001), 338_000_000),
        part("UDP", Some(1_014_000), 402_500_000),
    ];
    let unused =
        vec![part("not IP", Some(100_500), 120_937_000), part(HOSTILE, Some(60_021), 32_200_000)];
    let kinds = vec![part("payload", None, 11_300_000_000), part("headers", None, 1_280_733_112)];
    let layers =
        vec![part("802.1Q", Some(18_345_112), 12_733_870_112), part("VXLAN", Some(12), 12_345)];
    let breakdown =
        |caption, whole, complete, groups| Breakdown { caption, whole, complete, groups };
    let breakdowns = vec![
        breakdown(
            "Packets by kind",
            12_733_870_112,
            true,
            vec![("used", used), ("not used", unused)],
        ),
        breakdown("Encapsulations", 12_733_870_112, false, vec![("within", layers)]),
        breakdown("Bytes of the used packets", 12_580_733_112, true, vec![("bytes", kinds)]),
    ];
    let mut sections = vec![
        Section::new("input", "Input").with(Block::Facts(facts)).with(Block::Damage(
            "damaged",
            vec![(HOSTILE.into(), "a record is longer than a packet can be".into())],
        )),
        Section::new("accounting", "Accounting").with(Block::Breakdown(breakdowns)),
    ];
    sections.extend(figures().iter().map(Section::figure));
    Report {
        kind: "Redundancy study",
        title: "3 captures".into(),
        about: "18,345,112 packets, 12.7 GB on the wire, in 4 h from 2026-03-02 08:20:00 UTC.".into(),
        summary: Summary {
            headline: "Deploy the tunnel, with a cache of 64 MB: it would save 41 % (22 to 58 %) of this traffic.".into(),
            positive: true,
            facts: vec![
                Fact::new("savings", "41.2 %", "of all wire bytes"),
                Fact::new("usual range", "22 to 58 %", ", 10th to 90th percentile over time"),
                Fact::new("cache", "64 MB", "for each direction"),
                Fact::new("saved in 30 days", "85.10", ": 121.20 instead of 206.30, at 0.09 per GB"),
                Fact::new("link busy", "80.2 min", "instead of 137 min, at 10.0 Mbit/s"),
            ],
            reasons: vec![
                "31 % of the bytes are TLS and would not shrink.".into(),
                "Next: `oncewire serve` at the data center, `oncewire connect` at the branch.".into(),
                HOSTILE.into(),
            ],
        },
        sections,
        footer: HOSTILE.into(),
    }
}

/// A report about a network of so many cities, mostly in a ring, with chords. With `hostile`, names
/// and numbers are, too.
pub fn network(cities: usize, access: u32, hostile: bool) -> Report {
    let map = map(cities, access, hostile);
    let mut random = noise(5);
    let name = |node: u32| map.nodes.get(node as usize).map_or("?", |node| &node.label);
    let rows = map.links.iter().map(|link| {
        vec![
            name(link.from).into(),
            name(link.to).into(),
            link.before.into(),
            link.after.into(),
            Cell::from(link.utilization[0]),
            Cell::from(link.utilization[1]),
        ]
    });
    let columns = [
        ("from", Unit::Text),
        ("to", Unit::Text),
        ("before", Unit::Bytes),
        ("after", Unit::Bytes),
        ("load before", Unit::Share),
        ("load after", Unit::Share),
    ];
    let links = Table::new("links", "Links; bytes per epoch", &columns, rows.collect());
    let rows = map.devices.iter().map(|device| {
        vec![
            name(device.node).into(),
            Cell::from(device.cache_use),
            Cell::from(device.operations_use),
            (random() * 1e6).into(),
        ]
    });
    let columns = [
        ("device", Unit::Text),
        ("cache used", Unit::Share),
        ("operations used", Unit::Share),
        ("operations", Unit::Number),
    ];
    let devices = Table::new("devices", "Devices", &columns, rows.collect());
    let curve = Chart {
        id: "deployment",
        caption: "Footprint reduction by the number of links with decoders".into(),
        kind: ChartKind::Line,
        x: Axis::new("links with decoders", Unit::Count),
        y: Axis::new("footprint reduction", Unit::Share),
        right: None,
        series: vec![Series::new(
            "reduction",
            (1..=40).map(|at| (f64::from(at), 0.4 - 0.4 / f64::from(at))).collect(),
        )],
    };
    let name = if hostile { HOSTILE } else { "invented" };
    let view = |table, gauges| TableView { gauges, rows: Some(10), table, ..TableView::default() };
    Report {
        kind: "Network plan",
        title: name.into(),
        about: format!("{} nodes, {} directed links.", map.nodes.len(), map.links.len()),
        summary: Summary {
            headline: "With the best plan links carry 27.7 % fewer bytes.".into(),
            positive: true,
            facts: vec![
                Fact::new(
                    "footprint",
                    "10.2 GB",
                    "per epoch, summed over links, instead of 14.1 GB",
                ),
                Fact::new("reduction", "27.7 %", ""),
                Fact::new(
                    "of Ideal",
                    "90.4 %",
                    "of what hop-by-hop elimination without limits would save",
                ),
                Fact::new("busiest link", "41.0 %", "of its capacity, instead of 61.0 %"),
                Fact::new("gap", "0.0 %", ": no plan is better by more"),
                Fact::new(
                    "solved in",
                    "1.78 ms",
                    ": interior point on the prices of devices, 23 iterations",
                ),
            ],
            reasons: Vec::new(),
        },
        sections: vec![
            Section::new("map", "Map").with(Block::Map(map)),
            Section::new("network", "Network")
                .with(Block::Facts(vec![("name".into(), vec![name.into()])])),
            Section::new("links", "Links")
                .with(Block::Table(view(links, vec!["load before", "load after"]))),
            Section::new("devices", "Devices")
                .with(Block::Table(view(devices, vec!["cache used", "operations used"]))),
            Section::new("deployment", "Deployment").with(Block::Chart(curve)),
            Section::new("notes", "Notes")
                .with(Block::Notes(vec![name.into(), "An assumption.".into()])),
        ],
        footer: "A network that does not exist.".into(),
    }
}

fn map(cities: usize, access: u32, hostile: bool) -> Map {
    let mut random = noise(3);
    let views = ["Without the plan", "With the plan"];
    let mut map = Map { views, per: "epoch", ..Map::default() };
    let volumes: Vec<f64> = (0..cities).map(|_| 1e8 + 4e9 * random().powi(3)).collect();
    for (pop, &volume) in volumes.iter().enumerate() {
        let position = Some([25.0 + 24.0 * random(), -120.0 + 50.0 * random()]);
        for router in 0..=access {
            map.nodes.push(MapNode {
                id: format!("{pop}+{router}"),
                label: format!("City {pop}, Land"),
                pop: pop as u32,
                core: router == 0,
                position,
                volume: volume / f64::from(access + 1),
                ..MapNode::default()
            });
        }
    }
    let core = |pop: usize| pop as u32 * (access + 1);
    let chords = (0..cities / 3).map(|at| (at, (at * 7 + 5) % cities));
    let ring = (0..cities).map(|at| (at, (at + 1) % cities));
    for (a, b) in ring.chain(chords).filter(|(a, b)| a != b) {
        for (from, to) in [(core(a), core(b)), (core(b), core(a))] {
            let load = random();
            map.links.push(MapLink {
                from,
                to,
                before: 2e9 * load,
                after: 1.4e9 * load,
                utilization: [Some(load), Some(0.7 * load)],
                is_down: false,
            });
            map.devices.push(MapDevice {
                node: to,
                cache_use: Some(random()),
                operations_use: Some(random() / 2.0),
            });
        }
    }
    if hostile {
        let nowhere = [
            None,
            Some([f64::NAN, 3.0]),
            Some([f64::INFINITY, 0.0]),
            Some([91.0, 0.0]),
            Some([0.0, 1e300]),
        ];
        for (pop, position) in nowhere.into_iter().enumerate() {
            for router in 0..=access {
                map.nodes[(core(pop) + router) as usize].position = position;
            }
        }
        // Two at one place, and a pole.
        map.nodes[core(6) as usize].position = map.nodes[core(5) as usize].position;
        map.nodes[core(7) as usize].position = Some([-90.0, 180.0]);
        let labels = [
            HOSTILE.into(),
            "日本語の長い名前の都市、そしてもっと".into(),
            String::new(),
            "W".repeat(3_000),
        ];
        for (pop, label) in labels.into_iter().enumerate() {
            map.nodes[core(pop) as usize].label = label;
        }
        map.nodes[0].volume = f64::INFINITY;
        map.nodes[1].volume = f64::NAN;
        map.nodes[2].volume = -5.0;
        map.links[0].before = f64::INFINITY;
        map.links[1].after = f64::NAN;
        map.links[2].utilization = [Some(f64::INFINITY), Some(f64::NAN)];
        map.links[3].to = u32::MAX;
        map.devices[0].cache_use = Some(f64::NAN);
        map.devices[1].cache_use = Some(f64::INFINITY);
        map.devices[2].operations_use = None;
        map.devices[3].operations_use = Some(-1.0);
        map.devices[4].node = u32::MAX;
    }
    map
}

/// A report without content.
pub fn empty() -> Report {
    Report {
        kind: "Network plan",
        title: "no name".into(),
        sections: vec![Section::new("map", "Map").with(Block::Map(Map::default()))],
        ..Report::default()
    }
}
