//! Properties of the help and the options of all commands.

use super::tunnel::{ConnectArgs, FLOW_MEMORY, FileArgs, RoleName, ServeArgs};
use super::*;
use crate::quantity::parse_size;
use clap::CommandFactory;
use oncewire_net::DEFAULT_MEMORY;
use std::collections::BTreeSet;
use std::path::Path;

/// The commands between `Examples:` and the next empty line of a help text on a terminal of 80
/// columns.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.clone().term_width(80).render_long_help().to_string();
    let lines = help
        .lines()
        .skip_while(|line| *line != "Examples:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let mut commands = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let text = line.strip_prefix(if goes_on { "    " } else { "  " });
        let text = text.unwrap_or_else(|| panic!("{line:?} was wrapped, or is not indented"));
        assert!(
            goes_on || !text.starts_with(' '),
            "{line:?} goes on with a line that does not say so"
        );
        let (text, more) = text.strip_suffix('\\').map_or((text, false), |text| (text, true));
        if goes_on {
            let last: &mut String = commands.last_mut().expect("a command that goes on");
            last.push_str(text);
        } else {
            commands.push(text.to_owned());
        }
        goes_on = more;
    }
    assert!(!goes_on);
    commands
}

/// Splits a command into words as a shell does, as far as these examples need it. Operators are
/// separate words.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quote, mut open) = (vec![], None, false);
    for c in command.chars() {
        match c {
            '\'' | '"' if quote == Some(c) => quote = None,
            '\'' | '"' if quote.is_none() => {
                (quote, open) = (
                    Some(c),
                    open || {
                        words.push(String::new());
                        true
                    },
                )
            }
            ' ' if quote.is_none() => open = false,
            c => {
                if !open {
                    words.push(String::new());
                    open = true;
                }
                words.last_mut().expect("it is open").push(c);
            }
        }
    }
    assert!(quote.is_none(), "an open quote: {command}");
    words
}

#[test]
fn examples_can_be_pasted() {
    let cli = Cli::command();
    for verb in cli.get_subcommands() {
        let commands = examples(verb);
        assert!(
            commands
                .iter()
                .any(|command| command.starts_with(&format!("oncewire {}", verb.get_name()))),
            "{}",
            verb.get_name()
        );
        for command in commands {
            assert!(!command.contains("..."), "{command}");
            let shell = std::process::Command::new("sh")
                .args(["-n", "-c", &command])
                .status()
                .expect("a shell");
            assert!(shell.success(), "{command}");
            let words = words(&command);
            let mut found = 0;
            for part in words.split(|word| matches!(&word[..], "|" | ">")) {
                if part.first().is_some_and(|program| program == "oncewire") {
                    found += 1;
                    if let Err(error) = Cli::try_parse_from(part) {
                        panic!("{command}: {error}");
                    }
                }
            }
            assert!(found > 0 || command.starts_with("curl "), "{command}");
        }
    }
}

/// Every size in a help text can be passed as a size.
#[test]
fn sizes_are_read_as_help_prints_them() {
    let cli = Cli::command();
    let mut seen = 0;
    for argument in cli.get_subcommands().flat_map(clap::Command::get_arguments) {
        let sizes = argument.get_value_names().is_some_and(|names| names == ["SIZE"]);
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults = argument
            .get_default_values()
            .iter()
            .map(|value| value.to_str().unwrap_or_default().to_owned());
        let shown = help
            .split_once("[default: ")
            .and_then(|(_, default)| default.split([']', ',']).next())
            .map(str::to_owned);
        for size in defaults
            .chain(shown.filter(|shown| shown.starts_with(|c: char| c.is_ascii_digit())))
            .filter(|_| sizes)
        {
            let size = size.split(" to ").next().unwrap_or_default();
            parse_size(size)
                .unwrap_or_else(|error| panic!("{}: {size}: {error}", argument.get_id()));
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
}

/// Options of the same name take the same kind of value in all commands.
#[test]
fn options_are_called_the_same_everywhere() {
    let cli = Cli::command();
    for (option, value) in [
        ("csv", "DIR"),
        ("entropy", "STAGE"),
        ("level", "N"),
        ("report", "FILE"),
        ("memory", "SIZE"),
        ("cache", "SIZE"),
    ] {
        let mut verbs = 0;
        for argument in cli
            .get_subcommands()
            .flat_map(clap::Command::get_arguments)
            .filter(|found| found.get_long() == Some(option))
        {
            let names = argument.get_value_names().unwrap_or_default();
            assert_eq!(names, [value], "--{option}");
            verbs += 1;
        }
        assert!(verbs >= 2, "--{option}");
    }
    for verb in cli.get_subcommands() {
        let has = |option| verb.get_arguments().any(|argument| argument.get_long() == Some(option));
        assert_eq!(has("entropy"), has("level"), "{}", verb.get_name());
    }
}

fn from_toml(role: RoleName, text: &str) -> Result<(), toml::de::Error> {
    match role {
        RoleName::Serve => ServeArgs::from_toml(text).map(drop),
        RoleName::Connect => ConnectArgs::from_toml(text).map(drop),
        #[cfg(target_os = "linux")]
        RoleName::Link => super::LinkArgs::from_toml(text).map(drop),
        #[cfg(target_os = "linux")]
        RoleName::Node => super::NodeArgs::from_toml(text).map(drop),
        #[cfg(target_os = "linux")]
        RoleName::Controller => super::ControllerRunArgs::from_toml(text).map(drop),
    }
}

/// Every option of a tunnel and of a link can be in the configuration file: each key refuses a value that is of
/// no valid type.
#[test]
fn every_option_is_a_key_of_the_configuration_file() {
    for &role in RoleName::value_variants() {
        let keys = role.keys();
        assert!(keys.len() >= 10 && keys.iter().any(|key| key == "log_json"), "{keys:?}");
        for key in keys {
            assert!(
                from_toml(role, &format!("{key} = {{}}")).is_err(),
                "{}: {key} is not read",
                role.name()
            );
        }
        from_toml(role, "").expect("nothing is required");
    }
}

/// Each sample file names every key once, set or commented out, and shows the default of all that
/// have one.
#[test]
fn sample_files_show_every_key_with_its_default() {
    for &role in RoleName::value_variants() {
        let path =
            format!("{}/../../docs/examples/{}.toml", env!("CARGO_MANIFEST_DIR"), role.name());
        let text = std::fs::read_to_string(Path::new(&path)).expect(&path);
        let keys: BTreeSet<String> = role.keys().into_iter().collect();
        let lines = text.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
        // Tables come last; their keys are shown in the first one.
        let is_table = |line: &&str| line.starts_with("[[");
        let options: Vec<&str> = lines.clone().take_while(|line| !is_table(line)).collect();
        let lines = options
            .into_iter()
            .filter(|line| line.split_once(" = ").is_some_and(|(key, _)| keys.contains(key)));
        let all = lines.collect::<Vec<_>>().join("\n");
        let tables: Vec<&str> = text
            .lines()
            .skip_while(|line| !is_table(line))
            .filter(|line| !line.starts_with('#'))
            .collect();
        let all = format!("{all}\n{}", tables.join("\n"));
        // A key that is there twice is an error.
        let table: toml::Table =
            toml::from_str(&all).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(table.keys().cloned().collect::<BTreeSet<_>>(), keys, "{path}");
        from_toml(role, &all).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut command = role.command();
        command.build();
        for option in
            command.get_arguments().filter(|option| keys.contains(option.get_id().as_str()))
        {
            let shown = match &table[option.get_id().as_str()] {
                toml::Value::String(text) => text.clone(),
                toml::Value::Array(values) => {
                    values.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
                }
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                value => panic!("{value:?}"),
            };
            let defaults = option.get_default_values().iter().filter_map(|value| value.to_str());
            let default = match option.get_id().as_str() {
                "max_flows" => (DEFAULT_MEMORY / FLOW_MEMORY).to_string(),
                "level" => level_help()
                    .rsplit(' ')
                    .next()
                    .expect("a word")
                    .trim_end_matches(']')
                    .to_owned(),
                _ => defaults.collect::<Vec<_>>().join(","),
            };
            assert!(
                default.is_empty() || shown == default,
                "{path}: {} = {shown}, but its default is {default}",
                option.get_id()
            );
        }
    }
}
