//! A whole report: what it recommends, and the sections that say why.

use crate::{Chart, Figure, Map, Table};

/// A report. Text may come from outside; presenters sanitize and escape it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What kind of report it is: `Redundancy study`.
    pub kind: &'static str,
    /// Its subject: the name of a capture or a network.
    pub title: String,
    /// A sentence about the input.
    pub about: String,
    /// The result.
    pub summary: Summary,
    /// The sections.
    pub sections: Vec<Section>,
    /// What made the report, and how to read its numbers.
    pub footer: String,
}

/// The result in a sentence, a few numbers, and the reasons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// One sentence.
    pub headline: String,
    /// Whether it recommends something. Otherwise the page for browsers shows it without emphasis.
    pub positive: bool,
    /// The most important numbers.
    pub facts: Vec<Fact>,
    /// Reasons, caveats and the next step. Text between backticks is a command.
    pub reasons: Vec<String>,
}

/// A number of the summary: `savings`, `59.1 %`, `of all wire bytes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fact {
    /// Name, in lower case.
    pub name: &'static str,
    /// The number with its unit.
    pub value: String,
    /// Continues the value. Starts with a comma or a colon where a space would not do.
    pub note: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: &'static str, value: impl Into<String>, note: impl Into<String>) -> Fact {
        Fact { name, value: value.into(), note: note.into() }
    }
}

/// A section of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Name for links.
    pub id: &'static str,
    /// Title.
    pub title: String,
    /// Number of the figure that the section shows; zero for other sections.
    pub number: u8,
    /// Whether a terminal shows it, too. Some sections are for browsers only.
    pub brief: bool,
    /// Contents, in order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// An empty section, shown everywhere.
    pub fn new(id: &'static str, title: impl Into<String>) -> Section {
        Section { id, title: title.into(), number: 0, brief: true, blocks: Vec::new() }
    }

    /// The section of a figure.
    pub fn figure(figure: &Figure) -> Section {
        let section = Section { number: figure.number, ..Section::new(figure.id, figure.title) };
        section.with(Block::Figure(figure.clone()))
    }

    /// The section with another block.
    #[must_use]
    pub fn with(mut self, block: Block) -> Section {
        self.blocks.push(block);
        self
    }

    /// The section with a paragraph.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Section {
        self.with(Block::Text(text.into()))
    }

    /// The section with a table.
    #[must_use]
    pub fn table(self, table: impl Into<TableView>) -> Section {
        self.with(Block::Table(table.into()))
    }

    /// The section for browsers only.
    #[must_use]
    pub fn in_full(self) -> Section {
        Section { brief: false, ..self }
    }
}

/// Contents of a section.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A name with one or several lines for each: settings, properties of the input.
    Facts(Vec<(String, Vec<String>)>),
    /// A table.
    Table(TableView),
    /// A chart. A terminal shows charts of figures only.
    Chart(Chart),
    /// A figure. A terminal shows its finding, its first chart and its first table.
    Figure(Figure),
    /// Parts of a whole, in one or several tables.
    Breakdown(Vec<Breakdown>),
    /// A map. A terminal does not show it.
    Map(Map),
    /// Remarks.
    Notes(Vec<String>),
    /// Input that could not be read completely: the kind of damage, then name and reason of each.
    Damage(&'static str, Vec<(String, String)>),
}

/// A table with hints for its presenters. CSV files have all rows and columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableView {
    /// The table.
    pub table: Table,
    /// Names of columns with shares that a browser shows as a gauge.
    pub gauges: Vec<&'static str>,
    /// Most rows that a terminal shows. `None` for its default.
    pub rows: Option<usize>,
    /// Names of columns that a terminal leaves out.
    pub detail: Vec<&'static str>,
    /// Number of last columns that a narrow terminal leaves out.
    pub optional: usize,
}

impl TableView {
    /// A table of which a terminal shows all rows.
    pub fn complete(table: Table) -> TableView {
        TableView { rows: Some(usize::MAX), ..table.into() }
    }

    /// The table with this many last columns that a narrow terminal leaves out.
    #[must_use]
    pub fn optional(self, optional: usize) -> TableView {
        TableView { optional, ..self }
    }
}

impl From<Table> for TableView {
    fn from(table: Table) -> TableView {
        TableView { table, ..TableView::default() }
    }
}

/// Groups of parts that make up a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// What the parts are.
    pub caption: &'static str,
    /// Bytes of the whole.
    pub whole: u64,
    /// Whether the parts add up to the whole. Then a browser also draws them as a bar.
    pub complete: bool,
    /// Groups: name and parts.
    pub groups: Vec<(&'static str, Vec<Part>)>,
}

/// A part of a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Name.
    pub name: String,
    /// Packets, where they are counted.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: u64,
}
