//! The results of a study as plain data: figures made of tables and charts, what was read and what could not be used, and a verdict.
//!
//! Whoever shows them needs to know nothing of how they came about; every figure carries its definition, its source and its units.

use serde::Serialize;
use std::net::IpAddr;

/// All that a study found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was read.
    pub input: Input,
    /// The settings that figures share, each as name and value, in words: `cache`, `250 MB of payload in each direction`.
    pub settings: Vec<(String, String)>,
    /// Where every packet and every byte went.
    pub accounting: Accounting,
    /// What to do.
    pub verdict: Verdict,
    /// The figures, in the order of their numbers.
    pub figures: Vec<Figure>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Input {
    /// Names of the captures, as the user gave or would know them.
    pub captures: Vec<String>,
    /// Captures that ended in an error, with its words; what came before it is in the figures.
    pub damaged: Vec<(String, String)>,
    /// Packets read.
    pub packets: u64,
    /// Their bytes on the wire, link headers included.
    pub wire_bytes: u64,
    /// Bytes of these that were captured.
    pub captured_bytes: u64,
    /// Time of the first packet, in nanoseconds since the Unix epoch. `None` if there is none.
    pub start: Option<i64>,
    /// Seconds from the earliest to the latest packet.
    pub duration: f64,
}

/// Where every packet and every byte went. Packets and wire bytes of `used` and `unused` add up to [`Input`]'s.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Accounting {
    /// Packets with TCP or UDP that could be read to the payload, by what they are, such as `TCP with payload`, `TCP without payload`, `UDP`.
    pub used: Vec<Share>,
    /// All others, by reason, the most bytes first.
    pub unused: Vec<Share>,
    /// Wire bytes of the used packets by what they are: headers, payload, payload that was not captured, padding. They add up to `used`.
    pub bytes: Vec<Share>,
    /// Encapsulations crossed, with the packets and wire bytes that had them. A packet may have several.
    pub layers: Vec<Share>,
}

/// Some packets of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// Which.
    pub name: String,
    /// How many packets.
    pub packets: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// One figure of the study.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// Its number, 1 to 15, as in `docs/STUDY.md`.
    pub number: u8,
    /// Its name for `--figures`, files and links: `algorithms`, `locality`.
    pub id: &'static str,
    /// A short title: `Savings by algorithm and direction`.
    pub title: &'static str,
    /// What it repeats: `thesis, Tables 2.2 and 2.3; EndRE, Table 4`.
    pub source: &'static str,
    /// The exact definition of what is shown.
    pub definition: String,
    /// What stands out in this traffic, in a sentence or two for a network engineer. Empty if there is nothing to say.
    pub finding: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its charts.
    pub charts: Vec<Chart>,
    /// What limits it: content that was not looked at, estimates with their error.
    pub notes: Vec<String>,
    /// Most memory its own state took, in bytes, without caches that it shares.
    pub memory: u64,
}

/// A table of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Its name within the figure, for file names.
    pub id: &'static str,
    /// What it shows.
    pub caption: String,
    /// Columns; the first ones name the row.
    pub columns: Vec<Column>,
    /// Rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its heading: `savings`.
    pub name: String,
    /// How its numbers are meant.
    pub unit: Unit,
}

impl Column {
    /// A column of that name and unit.
    pub fn new(name: impl Into<String>, unit: Unit) -> Column {
        Column { name: name.into(), unit }
    }
}

/// How a number is meant, and so how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// No number.
    Text,
    /// Things counted.
    Count,
    /// Bytes, shown with a decimal prefix.
    Bytes,
    /// A share of one, shown in percent. Savings are shares.
    Share,
    /// Seconds.
    Seconds,
    /// Bits per second, shown with a decimal prefix.
    BitsPerSecond,
    /// A plain number.
    #[default]
    Number,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Any number. Never infinite or not a number: that is [`Cell::None`].
    Number(f64),
    /// Nothing was or could be measured.
    None,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        if number.is_finite() { Cell::Number(number) } else { Cell::None }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::None, Into::into)
    }
}

/// A chart of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Its name within the figure, for file names.
    pub id: &'static str,
    /// What it shows.
    pub caption: String,
    /// How its points are drawn.
    pub kind: ChartKind,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// A second vertical axis, at the right, for the series that ask for it.
    pub right: Option<Axis>,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How the points of a chart are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// Joined by lines.
    #[default]
    Line,
    /// Joined by steps: a distribution.
    Step,
    /// As dots.
    Points,
    /// As bars over the categories of the horizontal axis, one beside the other.
    Bars,
    /// As bars on top of each other.
    StackedBars,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What runs along it: `cache size`.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// Whether it is logarithmic; then no point has 0 or less there.
    pub log: bool,
    /// Names of the places 0, 1, 2, ... of a chart with bars; else empty.
    pub categories: Vec<String>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { label: label.into(), unit, log: false, categories: Vec::new() }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { log: true, ..Axis::new(label, unit) }
    }

    /// An axis with named places.
    pub fn of(label: impl Into<String>, categories: Vec<String>) -> Axis {
        Axis { label: label.into(), unit: Unit::Text, log: false, categories }
    }
}

/// One line, one set of dots, one colour of bars.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points, ascending in x; at most a few thousand, whoever makes them thins them out.
    pub points: Vec<(f64, f64)>,
    /// Whether it belongs to the right axis.
    pub right: bool,
}

impl Series {
    /// A series of the left axis.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, right: false }
    }
}

/// What to deploy, and what it would bring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The choice.
    pub deploy: Deploy,
    /// In one line: `Deploy the tunnel: it would save 61.0 % (40.2 % to 75.3 % over time) of all bytes on the wire.`
    pub headline: String,
    /// The reasons, the caveats, and the next step with its command, each a sentence or two.
    pub reasons: Vec<String>,
    /// Bytes of cache for each direction, at the knee of the savings curve.
    pub cache: Option<u64>,
    /// Flows larger than that cache (or, if none is advised, than the one that was set), if there are any.
    pub large_flows: Option<LargeFlows>,
    /// Share of all wire bytes that it would save, over the whole trace.
    pub savings: f64,
    /// The tenth and the ninetieth percentile of the savings of the trace's minutes (or of its hundredths, if it is shorter than 100 minutes),
    /// weighted by their bytes.
    pub spread: Option<(f64, f64)>,
    /// Given a price: money saved per month if the traffic went on as in the trace.
    pub money: Option<Money>,
    /// Given a link's rate: what its users would notice.
    pub time: Option<Time>,
}

/// Flows that carried more than a cache holds. If their content comes again, what follows has always just been dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LargeFlows {
    /// Bytes of the cache.
    pub cache: u64,
    /// How many flows; the two directions of a connection are two.
    pub flows: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// Payload of the largest in bytes.
    pub largest: u64,
}

/// What to deploy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deploy {
    /// `oncewire serve` and `connect`: TCP flows through a tunnel.
    Tunnel,
    /// `oncewire link`: whole packets.
    PacketLink,
    /// Nothing: there is too little to gain.
    Nothing,
}

/// Money saved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Money {
    /// Price of a gigabyte (10^9 bytes), in the user's currency.
    pub per_gigabyte: f64,
    /// What 30 days of traffic like the trace's would cost as they are.
    pub month_before: f64,
    /// And with the savings.
    pub month_after: f64,
}

/// Time saved on a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Time {
    /// The link's rate in bits per second.
    pub link: f64,
    /// Seconds that the trace's bytes occupy the link, in the direction that takes longest.
    pub busy_before: f64,
    /// And with the savings.
    pub busy_after: f64,
}

/// One match of the reference algorithm, for those who look at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchRow {
    /// When its packet was seen, in nanoseconds since the Unix epoch.
    pub time: i64,
    /// Which way its packet goes: [`crate::Direction::name`].
    pub direction: &'static str,
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Captured payload of the packet in bytes.
    pub packet_length: u32,
    /// Length of the match in bytes.
    pub length: u32,
    /// How far back its content lies, in bytes of cached payload.
    pub distance: u64,
    /// What its packet shares with the one it is taken from, as in figure 7.
    pub origin: &'static str,
}
