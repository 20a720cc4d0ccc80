//! Counters and gauges, with what a program that exports them must know: kind, unit and help text.

/// How a metric changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from 0 on.
    Counter,
    /// It is the state now, and may fall.
    Gauge,
}

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Things: blocks, flows, packets.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Millionths of a second.
    Microseconds,
}

/// A metric, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in documents for programs: `sent_bytes`.
    pub name: &'static str,
    /// How it changes.
    pub kind: Kind,
    /// What it counts.
    pub unit: Unit,
    /// What it is, in a sentence.
    pub help: &'static str,
}

/// A set of counters and gauges, all of them whole numbers. [`metrics!`](crate::metrics) makes one.
pub trait Metrics: Sized {
    /// The metrics, in the order of [`values`](Metrics::values).
    const METRICS: &'static [Metric];

    /// Their values.
    fn values(&self) -> Vec<u64>;

    /// The set with these values. Missing ones are 0, further ones are ignored.
    fn from_values(values: impl IntoIterator<Item = u64>) -> Self;

    /// Metrics and their values.
    fn list(&self) -> impl Iterator<Item = (&'static Metric, u64)> {
        Self::METRICS.iter().zip(self.values())
    }
}

/// Defines a struct of counters and gauges that implements [`Metrics`] and can be added up. The
/// documentation of a field is also its help text, and its name that for programs, unless another
/// one is given:
///
/// ```
/// oncewire_session::metrics! {
///     /// What a door has seen.
///     pub struct Door {
///         /// People who came in.
///         entered: Counter, Count;
///         /// Memory in use now.
///         memory as "memory_bytes": Gauge, Bytes;
///     }
/// }
/// use oncewire_session::Metrics;
/// let door = Door { entered: 2, memory: 64 };
/// assert_eq!(door.list().map(|(metric, value)| (metric.name, value)).collect::<Vec<_>>(), [("entered", 2), ("memory_bytes", 64)]);
/// assert_eq!(Door::METRICS[0].help, "People who came in.");
/// ```
#[macro_export]
macro_rules! metrics {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Set:ident {
            $($(#[doc = $doc:literal])+ $name:ident $(as $label:literal)?: $kind:ident, $unit:ident;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $Set {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl $crate::Metrics for $Set {
            const METRICS: &'static [$crate::Metric] = &[$($crate::Metric {
                name: $crate::metrics!(@name $name $($label)?),
                kind: $crate::MetricKind::$kind,
                unit: $crate::MetricUnit::$unit,
                help: concat!($($doc),+).trim_ascii(),
            },)*];

            fn values(&self) -> Vec<u64> {
                vec![$(self.$name,)*]
            }

            fn from_values(values: impl IntoIterator<Item = u64>) -> $Set {
                let mut values = values.into_iter();
                $Set { $($name: values.next().unwrap_or(0),)* }
            }
        }

        impl std::ops::AddAssign for $Set {
            fn add_assign(&mut self, other: $Set) {
                $(self.$name = self.$name.saturating_add(other.$name);)*
            }
        }
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $label:literal) => { $label };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counters;
    use crate::link::{ReceiverStats, SenderStats};

    #[test]
    fn metrics_say_what_they_are() {
        let all = [Counters::METRICS, SenderStats::METRICS, ReceiverStats::METRICS].concat();
        for Metric { name, kind, unit, help } in all {
            assert!(
                help.ends_with('.') && !help.contains("  ") && !help.contains('`'),
                "{name}: {help}"
            );
            assert_eq!(help.contains(" now"), kind == Kind::Gauge, "{name}: {help}");
            let bytes =
                name.ends_with("bytes") || name.starts_with("log_") || name == "received_low";
            assert_eq!(bytes, unit == Unit::Bytes, "{name}");
            assert_eq!(name.ends_with("_us"), unit == Unit::Microseconds, "{name}");
        }
    }

    #[test]
    fn values_keep_their_order() {
        let counters = Counters { sent_bytes: 1, received_bytes: 2, ..Counters::default() };
        assert_eq!(counters.values()[..3], [1, 2, 0]);
        assert_eq!(Counters::from_values(counters.values()), counters);
        assert_eq!(Counters::from_values([1, 2]), counters);
    }
}
