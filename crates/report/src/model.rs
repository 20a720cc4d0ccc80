//! The data that presenters show. It serializes to the JSON that programs read.

use serde::Serialize;

/// One figure: a finding, tables and charts, with the definition of what they show.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// Number in the document that describes the figures, from 1. Zero if it has none.
    pub number: u8,
    /// Name for options, file names and links: `algorithms`, `locality`.
    pub id: &'static str,
    /// Short title: `Savings by algorithm and direction`.
    pub title: &'static str,
    /// The publication it repeats: `thesis, Tables 2.2 and 2.3; EndRE, Table 4`.
    pub source: &'static str,
    /// The exact definition of what is shown.
    pub definition: String,
    /// What stands out, in a sentence or two for a network engineer. Empty if there is nothing to
    /// say.
    pub finding: String,
    /// The finding in at most 60 characters, for an overview: `the newest 10 % of the cache bring
    /// 98.1 % of the savings`. Empty if there is nothing to say.
    pub brief: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its charts.
    pub charts: Vec<Chart>,
    /// Limitations: content that was skipped, estimates with their error.
    pub notes: Vec<String>,
    /// Peak memory of the figure's own state in bytes, without caches that it shares.
    pub memory: u64,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Name within its figure, for file names.
    pub id: &'static str,
    /// What it shows.
    pub caption: String,
    /// Columns; the first ones name the row.
    pub columns: Vec<Column>,
    /// Rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns and rows.
    pub fn new(
        id: &'static str,
        caption: impl Into<String>,
        columns: &[(&str, Unit)],
        rows: Vec<Vec<Cell>>,
    ) -> Table {
        let columns = columns.iter().map(|&(name, unit)| Column::new(name, unit)).collect();
        Table { id, caption: caption.into(), columns, rows }
    }

    /// The table without the columns of these names.
    pub fn without(mut self, names: &[&str]) -> Table {
        for name in names {
            if let Some(at) = self.columns.iter().position(|column| column.name == *name) {
                self.columns.remove(at);
                for row in &mut self.rows {
                    row.remove(at);
                }
            }
        }
        self
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Heading: `savings`.
    pub name: String,
    /// Unit of its numbers.
    pub unit: Unit,
}

impl Column {
    /// A column of that name and unit.
    pub fn new(name: impl Into<String>, unit: Unit) -> Column {
        Column { name: name.into(), unit }
    }
}

/// The unit of a number, which decides how presenters write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Not a number.
    Text,
    /// A count of things.
    Count,
    /// Bytes, shown with a decimal prefix.
    Bytes,
    /// A share of one, shown in percent. Savings are shares.
    Share,
    /// Seconds.
    Seconds,
    /// Bits per second, shown with a decimal prefix.
    BitsPerSecond,
    /// A number without a unit.
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
    /// Any number. Never infinite or NaN: those become [`Cell::None`].
    Number(f64),
    /// Not measured, or not defined.
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

/// A chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Name within its figure, for file names.
    pub id: &'static str,
    /// What it shows.
    pub caption: String,
    /// How its points are drawn.
    pub kind: ChartKind,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// A second vertical axis on the right, for the series that ask for it.
    pub right: Option<Axis>,
    /// The series.
    pub series: Vec<Series>,
}

impl Chart {
    /// Whether no series has a point.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }
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
    /// As bars over the categories of the horizontal axis, side by side.
    Bars,
    /// As bars on top of each other.
    StackedBars,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// The quantity along it: `cache size`.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// Whether it is logarithmic. Every point is then above 0 on this axis.
    pub log: bool,
    /// Names of the positions 0, 1, 2, ... of a chart with bars; otherwise empty.
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

    /// An axis with named positions.
    pub fn of(label: impl Into<String>, categories: Vec<String>) -> Axis {
        Axis { label: label.into(), unit: Unit::Text, log: false, categories }
    }
}

/// One line, one set of dots or one color of bars.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points, ascending in x. The caller thins them to a few thousand.
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
