//! Tables and charts as CSV (RFC 4180).
//!
//! Numbers are plain: shares of one, seconds, bytes. A value that was not measured is an empty
//! field. A text that a spreadsheet would take for a formula begins with an apostrophe.

use crate::{Cell, Chart, Table, Unit};
use ::csv::{Result, Writer};
use std::borrow::Cow;
use std::io::Write;

/// Writes a heading, and a line for each row.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn table<W: Write>(table: &Table, out: &mut Writer<W>) -> Result<()> {
    let heads = table.columns.iter().map(|column| heading(&column.name, column.unit));
    out.write_record(heads.map(|head| text(&head).into_owned()))?;
    for row in &table.rows {
        out.write_record(row.iter().map(field))?;
    }
    Ok(())
}

/// Writes a heading, and a line for each point.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn chart<W: Write>(chart: &Chart, out: &mut Writer<W>) -> Result<()> {
    let named = !chart.x.categories.is_empty();
    let x = heading(&chart.x.label, if named { Unit::Text } else { chart.x.unit });
    let mut head = vec!["series".to_string(), x, heading(&chart.y.label, chart.y.unit)];
    if let Some(right) = &chart.right {
        head.push(heading(&right.label, right.unit));
    }
    out.write_record(head.iter().map(|head| text(head).into_owned()))?;
    for series in &chart.series {
        for &(x, y) in &series.points {
            let category =
                if named && x >= 0.0 { chart.x.categories.get(x as usize) } else { None };
            let category = category.map(|name| text(name).into_owned());
            let name = text(&series.name).into_owned();
            let mut line = vec![name, category.unwrap_or_else(|| number(x)), number(y)];
            if chart.right.is_some() {
                line.insert(if series.right { 2 } else { 3 }, String::new());
            }
            out.write_record(&line)?;
        }
    }
    Ok(())
}

/// A name with the unit of its numbers: `savings (share)`.
fn heading(name: &str, unit: Unit) -> String {
    let unit = match unit {
        Unit::Text | Unit::Number => return name.to_owned(),
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
        Unit::Seconds => "s",
        Unit::BitsPerSecond => "bit/s",
    };
    format!("{name} ({unit})")
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(value) => text(value).into_owned(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(value) => number(*value),
        Cell::None => String::new(),
    }
}

/// A text that no spreadsheet takes for a formula. Texts that are numbers stay numbers.
fn text(text: &str) -> Cow<'_, str> {
    let formula = text
        .trim_start_matches([' ', '\u{a0}'])
        .starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    if formula && text.trim().parse::<f64>().is_err() {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::csv::{Terminator, WriterBuilder};

    #[test]
    fn no_text_is_a_formula_and_numbers_stay_numbers() {
        let texts = [
            ("=1+1", "'=1+1"),
            ("+49", "+49"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            (" =1", "' =1"),
            ("\t=1", "'\t=1"),
            ("-3.2", "-3.2"),
            ("-1e-5", "-1e-5"),
            ("a -> b", "a -> b"),
            ("-", "'-"),
            ("", ""),
        ];
        for (given, written) in texts {
            assert_eq!(text(given), written);
        }
        let rows = vec![vec!["=A".into(), (-3.2).into()]];
        let table = Table::new("x", "", &[("=head", Unit::Text), ("b", Unit::Share)], rows);
        let mut out = WriterBuilder::new().from_writer(Vec::new());
        super::table(&table, &mut out).unwrap();
        let written = String::from_utf8(out.into_inner().unwrap()).unwrap();
        assert_eq!(written, "'=head,b (share)\n'=A,-3.2\n");
        let chart = Chart {
            id: "x",
            caption: String::new(),
            kind: crate::ChartKind::Line,
            x: crate::Axis::new("+x", Unit::Text),
            y: crate::Axis::new("y", Unit::Number),
            right: None,
            series: vec![crate::Series::new("@s", vec![(-1.0, -2.5)])],
        };
        let mut out = WriterBuilder::new().from_writer(Vec::new());
        super::chart(&chart, &mut out).unwrap();
        let written = String::from_utf8(out.into_inner().unwrap()).unwrap();
        assert_eq!(written, "series,'+x,y\n'@s,-1,-2.5\n");
    }

    #[test]
    fn fields_are_quoted_by_rfc_4180() {
        let rows = vec![
            vec!["say \"hi\", twice\r\nor not".into(), 0.25.into()],
            vec![" kept ".into(), Cell::None],
            vec!["".into(), 1e21.into()],
        ];
        let table = Table::new("quotes", "", &[("a", Unit::Text), ("b", Unit::Share)], rows);
        let mut out = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
        super::table(&table, &mut out).unwrap();
        let text = String::from_utf8(out.into_inner().unwrap()).unwrap();
        let expected = "a,b (share)\r\n\"say \"\"hi\"\", twice\r\nor not\",0.25\r\n kept ,\r\n,1000000000000000000000\r\n";
        assert_eq!(text, expected);
    }
}
