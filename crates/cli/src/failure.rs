//! How the program fails: one line that helps, and an exit code that means something.

use oncewire_net::keys::redact;
pub(crate) use oncewire_report::format::without_number;
use oncewire_report::text::sanitize;
use std::fmt::{self, Display};
use std::io::{self, Write};

/// Exit codes of every command, besides 0 for success. `docs/FORMAT.md` specifies the last one for
/// corrupt packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The work failed: a full disk, a missing file, a closed pipe.
    Failed = 1,
    /// Wrong options, values, configuration or output names. Nothing was started.
    Usage = 2,
    /// An input file is corrupt or of the wrong kind: a capture, a pack, a topology, a profile, a
    /// manifest, a table.
    Damaged = 3,
    /// The user interrupted the work: the result is partial. As shells say it of SIGINT.
    Interrupted = 130,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    /// The reader of standard output is gone. For a report this is not a failure.
    pub(crate) reader_gone: bool,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), reader_gone: false }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    pub(crate) fn damaged(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Damaged, message)
    }

    pub(crate) fn interrupted(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Interrupted, message)
    }

    /// "cannot `doing` `what`", with the system's reason and, for common errors, a remedy.
    pub(crate) fn io(doing: &str, what: impl Display, error: &io::Error) -> Failure {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull => "; free some space, or write to another file system",
            io::ErrorKind::BrokenPipe => "; the program that reads it has ended",
            io::ErrorKind::NotFound => "; check the name",
            io::ErrorKind::PermissionDenied => "; check its permissions",
            _ => "",
        };
        Failure::failed(format!("cannot {doing} {what}: {}{hint}", plain(error)))
    }

    /// Prints the message as one line on standard error.
    pub(crate) fn tell(&self) {
        note(&self.message);
    }

    /// For writing a report to standard output.
    pub(crate) fn report(error: &io::Error) -> Failure {
        let reader_gone = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { reader_gone, ..Failure::io("write the report to", "standard output", error) }
    }
}

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// Writes a line to standard error. Ignores errors: a closed pipe or a full disk there must not
/// stop the program.
pub(crate) fn say(line: &str) {
    let mut line = redact(line).into_owned();
    line.push('\n');
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Writes a line to standard error that begins with the name of the program.
pub(crate) fn note(message: &str) {
    say(&format!("oncewire: {}", sanitize(message)));
}

/// The known name closest to a misspelled one by edit distance, if less than half of it differs.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits = |known: &'a str| (strsim::damerau_levenshtein(known, name), known);
    let (edits, nearest) = known.into_iter().map(edits).min_by_key(|(edits, _)| *edits)?;
    (2 * edits < name.chars().count().max(nearest.chars().count())).then_some(nearest)
}

/// The system's message, in lower case and without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let mut text = without_number(error);
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_has_the_fewest_edits() {
        let known = ["listen", "allow", "allow_listen", "key", "keep_alive"];
        assert_eq!(nearest("listn", known), Some("listen"));
        assert_eq!(nearest("keep-alive", known), Some("keep_alive"));
        assert_eq!(nearest("kye", known), Some("key"));
        assert_eq!(nearest("alow_lisen", known), Some("allow_listen"));
        assert_eq!(nearest("serve", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
