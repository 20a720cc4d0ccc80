//! Values of configuration files, parsed as on the command line.

use crate::quantity::parse_time;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// What clap makes of an empty command line.
pub(super) fn defaults<A: Args>() -> A {
    let mut matches =
        A::augment_args(clap::Command::new("defaults")).get_matches_from(["defaults"]);
    A::from_arg_matches_mut(&mut matches).expect("nothing is required")
}

/// Options that several verbs have.
pub(super) trait Group: DeserializeOwned {
    /// As [`FileArgs::from_toml`](super::FileArgs::from_toml).
    fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// The defaults of groups of options are those of the command line.
macro_rules! groups {
    ($($group:ident),+) => {$(
        impl Default for $group {
            fn default() -> $group {
                $crate::args::values::defaults()
            }
        }

        impl $crate::args::values::Group for $group {}
    )+};
}
pub(super) use groups;

/// A value that TOML has as a string and the command line as text.
struct Text<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Text<T>, D::Error> {
        parsed(from, |text| text.parse().map_err(|error: T::Err| error.to_string())).map(Text)
    }
}

pub(super) fn parsed<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

pub(super) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<T, D::Error> {
    Text::deserialize(from).map(|Text(value)| value)
}

pub(super) fn some_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    text(from).map(Some)
}

pub(super) fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Text<T>>::deserialize(from)?.into_iter().map(|Text(value)| value).collect())
}

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parsed(from, parse_time)
}

pub(super) fn choice<'de, D: Deserializer<'de>, T: ValueEnum>(from: D) -> Result<T, D::Error> {
    parsed(from, |text| {
        T::from_str(text, true).map_err(|_| {
            let shown = T::value_variants()
                .iter()
                .filter_map(T::to_possible_value)
                .filter(|value| !value.is_hide_set());
            let mut names: Vec<String> = shown.map(|value| value.get_name().to_owned()).collect();
            let last = names.pop().unwrap_or_default();
            format!("use {} or {last}", names.join(", "))
        })
    })
}
