//! The options of `serve`, `connect` and `link`: defaults, then the configuration file, then the
//! command line.

use crate::args::{FileArgs, RoleName};
use crate::failure::{Failure, Outcome, nearest};
use clap::parser::ValueSource;
use clap::{ArgMatches, ValueEnum};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The options of one end, and where they come from.
#[derive(Debug)]
pub(crate) struct Options<A> {
    pub(crate) args: A,
    /// Keys of options that the command line sets.
    flags: BTreeSet<String>,
    file: Option<File>,
}

impl<A: FileArgs> Options<A> {
    /// Reads the configuration file of `given`, if one is named, and applies the other options of
    /// `given` over it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has an unknown key or a value that cannot be parsed. The message
    /// names file, line and key.
    pub(crate) fn read(given: &ArgMatches) -> Outcome<Options<A>> {
        let config = given.get_one::<PathBuf>("config");
        let (mut args, file) = match config {
            Some(path) => File::read::<A>(path).map(|(args, file)| (args, Some(file)))?,
            None => (A::default(), None),
        };
        let (flags, defaults): (BTreeSet<String>, BTreeSet<String>) = A::ROLE
            .keys()
            .into_iter()
            .filter(|key| given.value_source(key).is_some())
            .partition(|key| given.value_source(key) == Some(ValueSource::CommandLine));
        // A default must not override the file.
        let mut flags_only = given.clone();
        for key in &defaults {
            let _ = flags_only.try_clear_id(key);
        }
        args.update_from_arg_matches_mut(&mut flags_only)
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Options { args, flags, file })
    }

    /// The options of a file, without a command line.
    pub(crate) fn of_file(path: &Path) -> Outcome<Options<A>> {
        let (args, file) = File::read::<A>(path)?;
        Ok(Options { args, flags: BTreeSet::new(), file: Some(file) })
    }

    /// Whether there is a configuration file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the command line sets the option.
    pub(crate) fn is_flag(&self, key: &str) -> bool {
        self.flags.contains(key)
    }

    /// Whether the file sets the option, and the command line does not.
    pub(crate) fn is_of_file(&self, key: &str) -> bool {
        !self.is_flag(key) && self.file.as_ref().is_some_and(|file| file.lines.contains_key(key))
    }

    /// Begins a message about element `element` of the option with the file and the line, if the
    /// file sets it. A key in the second table of an array of tables is `table[1].key`.
    pub(crate) fn place(&self, key: &str, element: usize) -> String {
        let file = self.file.as_ref().filter(|_| self.is_of_file(key));
        let line = file.and_then(|file| Some((file, file.lines.get(key)?.get(element)?)));
        line.map_or_else(String::new, |(file, line)| {
            format!("{}, line {line}: ", file.path.display())
        })
    }

    /// A usage failure about the option.
    pub(crate) fn wrong(&self, key: &str, why: impl std::fmt::Display) -> Failure {
        self.blame(key, Failure::usage(why.to_string()))
    }

    /// A failure about the option, with the file and the line if the file sets it.
    pub(crate) fn blame(&self, key: &str, failure: Failure) -> Failure {
        Failure { message: self.place(key, 0) + &failure.message, ..failure }
    }

    /// A usage failure about an option that neither the file nor the command line sets.
    pub(crate) fn missing(&self, why: &str) -> Failure {
        let file = self
            .file
            .as_ref()
            .map_or_else(String::new, |file| format!("{}: ", file.path.display()));
        Failure::usage(file + why)
    }
}

/// A configuration file.
#[derive(Debug)]
struct File {
    path: PathBuf,
    /// For each key, the lines of its elements if the value is an array, else the line of the
    /// value.
    lines: BTreeMap<String, Vec<usize>>,
}

impl File {
    fn read<A: FileArgs>(path: &Path) -> Outcome<(A, File)> {
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => {
                Failure::usage(format!("{}: not a text file", path.display()))
            }
            _ => Failure::io("read", path.display(), &error),
        })?;
        let table = DeTable::parse(&text).map_err(|error| wrong(path, &text, &error))?.into_inner();
        check_keys(path, &text, &table, A::ROLE)?;
        let args =
            A::from_toml(&text).map_err(|error| wrong_value::<A>(path, &text, &table, &error))?;
        let mut lines = BTreeMap::new();
        add_lines(&text, "", &table, &mut lines);
        Ok((args, File { path: path.to_path_buf(), lines }))
    }
}

/// Notes the lines of a table's values.
fn add_lines(
    text: &str,
    prefix: &str,
    table: &DeTable<'_>,
    lines: &mut BTreeMap<String, Vec<usize>>,
) {
    let line = |value: &Spanned<DeValue<'_>>| line_of(text, value.span().start);
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let elements = value.get_ref().as_array().filter(|array| !array.is_empty());
        for (at, element) in elements.into_iter().flatten().enumerate() {
            if let Some(table) = element.get_ref().as_table() {
                add_lines(text, &format!("{name}[{at}]."), table, lines);
            }
        }
        let of =
            elements.map_or_else(|| vec![line(value)], |array| array.iter().map(line).collect());
        lines.insert(name, of);
    }
}

/// Refuses the first key of the file that is no option of the command.
fn check_keys(path: &Path, text: &str, table: &DeTable<'_>, role: RoleName) -> Outcome {
    let known = role.keys();
    let unknown = |table: &DeTable<'_>, known: &[&str]| {
        let unknown = table.keys().filter(|key| !known.contains(&&**key.get_ref()));
        let first = unknown.min_by_key(|key| key.span().start)?;
        Some((line_of(text, first.span().start), first.get_ref().to_string()))
    };
    let wrong = |line, key: &str, of: &str, hint: String| {
        Err(Failure::usage(format!(
            "{}, line {line}: there is no key \"{key}\"{of}; {hint}",
            path.display()
        )))
    };
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some((line, key)) = unknown(table, &names) {
        let mut others =
            RoleName::value_variants().iter().filter(|&&other| other.name() != role.name());
        let hint = match nearest(&key, names.iter().copied()) {
            Some(nearest) => format!("did you mean \"{nearest}\"?"),
            None => match others.find(|other| other.keys().contains(&key)) {
                Some(other) => format!("it belongs to {}", other.name()),
                None => format!("the keys are {}", names.join(", ")),
            },
        };
        return wrong(line, &key, "", hint);
    }
    // Tables in arrays.
    for (name, value) in table {
        let known = role.table_keys(name.get_ref());
        let tables = value.get_ref().as_array().into_iter().flatten();
        for table in tables.filter_map(|element| element.get_ref().as_table()) {
            if let Some((line, key)) = unknown(table, known)
                && !known.is_empty()
            {
                let hint = match nearest(&key, known.iter().copied()) {
                    Some(nearest) => format!("did you mean \"{nearest}\"?"),
                    None => format!("the keys are {}", known.join(", ")),
                };
                return wrong(line, &key, &format!(" in [[{}]]", name.get_ref()), hint);
            }
        }
    }
    Ok(())
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// The error in one line, with the file and the line.
fn wrong(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let line = error
        .span()
        .map_or_else(String::new, |span| format!(", line {}", line_of(text, span.start)));
    Failure::usage(format!("{}{line}: {}", path.display(), error.message().replace('\n', " ")))
}

/// The error in one line, with the file, the line, the key and the value.
fn wrong_value<A: FileArgs>(
    path: &Path,
    text: &str,
    table: &DeTable<'_>,
    error: &toml::de::Error,
) -> Failure {
    let Some(span) = error.span() else { return wrong(path, text, error) };
    let contains = |value: &Spanned<DeValue<'_>>| {
        value.span().start <= span.start && span.end <= value.span().end
    };
    let Some((key, value)) = innermost(table, &contains) else {
        return wrong(path, text, error);
    };
    // The error is about a whole array: find the element.
    let is_wrong = |element: &&Spanned<DeValue<'_>>| {
        text.get(element.span())
            .is_some_and(|element| A::from_toml(&format!("{key} = [{element}]")).is_err())
    };
    let span = value
        .get_ref()
        .as_array()
        .and_then(|array| array.iter().find(is_wrong))
        .map_or(span, Spanned::span);
    let value = text
        .get(span.clone())
        .filter(|value| !value.contains('\n'))
        .map_or_else(String::new, |value| format!(" {value}"));
    let message = in_words(error.message());
    Failure::usage(format!(
        "{}, line {}: {key}{value}: {message}",
        path.display(),
        line_of(text, span.start)
    ))
}

/// The innermost key whose value contains something, and that value.
fn innermost<'a, 'b>(
    table: &'a DeTable<'b>,
    contains: &dyn Fn(&Spanned<DeValue<'b>>) -> bool,
) -> Option<(&'a str, &'a Spanned<DeValue<'b>>)> {
    // The span of a table is that of its header: look into all.
    let inner = table.values().find_map(|value| {
        let tables = value.get_ref().as_array().into_iter().flatten();
        tables.filter_map(|element| innermost(element.get_ref().as_table()?, contains)).next()
    });
    let own = || table.iter().find(|(_, value)| contains(value));
    inner.or_else(|| own().map(|(key, value)| (&**key.get_ref(), value)))
}

/// What to write, if the error is that a value has the wrong type.
fn in_words(message: &str) -> String {
    let expected = message
        .strip_prefix("invalid type: ")
        .and_then(|types| Some(types.rsplit_once(", expected ")?.1));
    match expected {
        Some("a string" | "path string") => "write it as text, in quotes".to_owned(),
        Some("a sequence") => "write a list, in brackets".to_owned(),
        Some("a boolean") => "write true or false, without quotes".to_owned(),
        Some("usize" | "u64" | "u32" | "u16" | "u8" | "i64" | "i32") => {
            "write a whole number, without quotes".to_owned()
        }
        _ => message.replace('\n', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ServeArgs;
    use crate::family::EntropyName;
    use std::time::Duration;

    fn read(file: &str, flags: &[&str]) -> Outcome<Options<ServeArgs>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve.toml");
        std::fs::write(&path, file).unwrap();
        let line = ["serve", "--config", path.to_str().unwrap()];
        Options::read(&RoleName::Serve.command().get_matches_from(line.iter().chain(flags)))
    }

    #[test]
    fn flags_override_the_file_and_the_file_overrides_defaults() {
        let file = "memory = \"1G\"\ngrace = \"2m\"\nlog_json = true\nentropy = \"lz4\"\nallow = [\"a:1\", \"b:2\"]";
        let Options { args, .. } = read(file, &[]).unwrap();
        assert_eq!(
            (args.endpoint.memory, args.endpoint.grace),
            (1 << 30, Duration::from_secs(120))
        );
        assert!(args.endpoint.logging.log_json && args.endpoint.codec.entropy == EntropyName::Lz4);
        assert_eq!((args.allow.len(), args.max_sessions, args.listen.len()), (2, 1024, 1));
        let options = read(file, &["--memory", "2G", "--allow", "c:3", "--drain", "1s"]).unwrap();
        let args = &options.args;
        assert_eq!((args.endpoint.memory, &args.allow[..]), (2 << 30, &["c:3".to_owned()][..]));
        assert_eq!(
            (args.endpoint.grace, args.endpoint.drain),
            (Duration::from_secs(120), Duration::from_secs(1))
        );
        assert!(args.endpoint.logging.log_json && args.endpoint.codec.entropy == EntropyName::Lz4);
        assert!(
            options.is_flag("memory") && !options.is_flag("grace") && options.is_of_file("grace")
        );
        assert_eq!(
            (options.place("memory", 0), options.place("drain", 0)),
            (String::new(), String::new())
        );
        assert!(options.place("grace", 0).ends_with("serve.toml, line 2: "));
    }

    #[test]
    fn a_wrong_value_is_named_with_file_line_and_key() {
        for (file, words) in [
            (
                "memory = \"1G\"\n\ngrace = \"soon\"",
                "serve.toml, line 3: grace \"soon\": not a time",
            ),
            ("listen = [\n  \"7077\",\n  \"x\",\n]", "serve.toml, line 3: listen \"x\": "),
            ("window = \"32\"", "line 1: window \"32\": write a whole number, without quotes"),
            ("memory = 512", "line 1: memory 512: write it as text, in quotes"),
            ("key = 5", "line 1: key 5: write it as text, in quotes"),
            ("listen = \"7077\"", "line 1: listen \"7077\": write a list, in brackets"),
            ("listen = [7077]", "line 1: listen 7077: write it as text, in quotes"),
            ("log_json = 1", "line 1: log_json 1: write true or false, without quotes"),
            ("memory = \"5T\"", "serve.toml, line 1: memory \"5T\": at most 4T"),
            ("log = \"loud\"", "line 1: log \"loud\": use error, warn, info, debug or trace"),
        ] {
            let message = read(file, &[]).unwrap_err().message;
            assert!(message.contains(words), "{message}");
        }
        assert_eq!(
            read("log = \"DEBUG\"\ntransport = \"quic\"", &["--log", "5"])
                .unwrap()
                .args
                .endpoint
                .logging
                .log as u8,
            5
        );
    }
}
