//! How parts of a status are written in its document, and read from it.

use oncewire_session::{Counters, Metrics};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Durations as seconds.
pub(super) mod seconds {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        f64::deserialize(deserializer).map(of)
    }

    /// Seconds that no duration can have are 0.
    pub(in super::super) fn of(seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// Metrics as a map from names to values.
pub(super) mod named {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer, M: Metrics>(
        metrics: &M,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(metrics.list().map(|(metric, value)| (metric.name, value)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>, M: Metrics>(
        deserializer: D,
    ) -> Result<M, D::Error> {
        deserializer.deserialize_map(Values(PhantomData))
    }

    struct Values<M>(PhantomData<M>);

    impl<'de, M: Metrics> Visitor<'de> for Values<M> {
        type Value = M;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a map of counters")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<M, A::Error> {
            let mut values = vec![0; M::METRICS.len()];
            while let Some(name) = map.next_key::<String>()? {
                match M::METRICS.iter().position(|metric| metric.name == name) {
                    Some(at) => values[at] = map.next_value()?,
                    None => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(M::from_values(values))
        }
    }
}

/// Counters of a session, with a summary of why content was not reduced.
pub(super) mod counters {
    use super::*;

    #[derive(Serialize)]
    struct NotReduced {
        not_seen_before_bytes: u64,
        incompressible_blocks: u64,
        sent_again_bytes: u64,
        logs_begun: u64,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        counters: &Counters,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (metric, value) in counters.list() {
            map.serialize_entry(metric.name, &value)?;
        }
        let not_reduced = NotReduced {
            not_seen_before_bytes: counters.sent_bytes.saturating_sub(counters.matched_bytes),
            incompressible_blocks: counters.incompressible_blocks,
            sent_again_bytes: counters.repeated_bytes,
            logs_begun: counters.epochs,
        };
        map.serialize_entry("not_reduced", &not_reduced)?;
        map.end()
    }

    pub(in super::super) use super::named::deserialize;
}

/// The peer's counters and their age, or two nulls.
pub(super) mod there {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Known(#[serde(with = "counters")] Counters);

    #[derive(Serialize, Deserialize)]
    struct Keys {
        there: Option<Known>,
        there_age_seconds: Option<f64>,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        there: &Option<(Counters, Duration)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let keys = Keys {
            there: there.map(|(counters, _)| Known(counters)),
            there_age_seconds: there.map(|(_, age)| age.as_secs_f64()),
        };
        keys.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<(Counters, Duration)>, D::Error> {
        let keys = Keys::deserialize(deserializer)?;
        let age = keys.there_age_seconds.map(seconds::of).unwrap_or_default();
        Ok(keys.there.map(|Known(counters)| (counters, age)))
    }
}
