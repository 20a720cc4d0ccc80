//! Reports on standard output, as wide as the terminal.

use crate::failure::{Failure, Outcome};
use crate::stdout;
pub(crate) use oncewire_report::terminal::Page;
#[cfg(test)]
pub(crate) use oncewire_report::text::columns;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// Width of standard output in columns, and whether to use bold and dim text.
///
/// `COLUMNS` wins over the size of the terminal; files and pipes have 80 columns.
pub(crate) fn page() -> (usize, bool) {
    let out = io::stdout();
    let terminal = out.is_terminal();
    let real = terminal_size::terminal_size_of(&out)
        .filter(|_| terminal)
        .map(|(width, _)| usize::from(width.0));
    let width = width_of(std::env::var_os("COLUMNS").as_deref(), real);
    (width, terminal && std::env::var_os("NO_COLOR").is_none())
}

fn width_of(requested: Option<&OsStr>, terminal: Option<usize>) -> usize {
    let requested = requested.and_then(OsStr::to_str).and_then(|text| text.trim().parse().ok());
    let nonzero = |width: &usize| *width > 0;
    requested
        .filter(nonzero)
        .or(terminal.filter(nonzero))
        .unwrap_or(oncewire_report::terminal::NARROWEST)
}

/// Writes a page to standard output. Where a table is cut short, the page names `option`, which has
/// all of it.
pub(crate) fn print(
    option: &'static str,
    write: impl FnOnce(&mut Page<'_, Vec<u8>>) -> io::Result<()>,
) -> Outcome {
    let (width, color) = page();
    let mut text = Vec::new();
    write(&mut Page::new(&mut text, width, color).complete_in(option))
        .map_err(|error| Failure::report(&error))?;
    stdout::text(&String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_wins_over_the_terminal() {
        let of = |wish: &str, terminal| width_of(Some(OsStr::new(wish)), terminal);
        assert_eq!(of("100", None), 100);
        assert_eq!(of("100", Some(90)), 100);
        for nothing in ["", "0", "-1", "wide", "1e3"] {
            assert_eq!((of(nothing, Some(90)), of(nothing, None)), (90, 80), "{nothing:?}");
        }
        assert_eq!(
            (width_of(None, Some(90)), width_of(None, Some(0)), width_of(None, None)),
            (90, 80, 80)
        );
    }
}
