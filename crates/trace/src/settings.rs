//! Settings of a study.

use crate::algorithm::{Algorithm, Sizes};
use crate::batch::Charge;
use crate::figures::FigureId;
use crate::prefix::Prefixes;
use crate::survey::Survey;
use oncewire_family::SamplerKind;
use oncewire_report::Unit;
use oncewire_report::format::cache;
use oncewire_report::format::{binary, money, number};
use std::collections::BTreeSet;

/// What a study measures, and within which limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Window in bytes, 12 to 64.
    pub window: usize,
    /// Sampling period in bytes, 4 to 1024.
    pub period: usize,
    /// Payload in bytes that the cache of each direction holds. The index is extra.
    pub cache: u64,
    /// The sampler of the reference algorithm.
    pub sampler: SamplerKind,
    /// Bytes charged for each packet with matches, on top of 4 bytes per match.
    pub shim: u32,
    /// How long a compression window stays open, in nanoseconds.
    pub compression_window: i64,
    /// The inside networks. With `None`, all packets share one cache.
    pub inside: Option<Prefixes>,
    /// Names of destination networks, for figure 13. With `None`, destinations are grouped by /16
    /// and /32.
    pub prefixes: Option<Prefixes>,
    /// The figures to make.
    pub figures: BTreeSet<FigureId>,
    /// The rows of figure 1.
    pub algorithms: Vec<Algorithm>,
    /// Whether figures 3 and 5 measure each cache size. Otherwise figure 3 follows from the distances
    /// of the reference algorithm's matches, and figure 5 has one size.
    pub sweeps: bool,
    /// Whether the packets are a sample of the trace, so that their sum over time says nothing.
    pub is_sample: bool,
    /// The result of a first pass over the same trace. Caches and tables are then no larger than
    /// their content.
    pub survey: Option<Survey>,
    /// Memory limit of each figure for its own state, in bytes.
    pub figure_memory: u64,
    /// Memory limit of all caches per host pair together, in bytes.
    pub pair_memory: u64,
    /// Whether figure 16 may show bytes of payload.
    pub show_content: bool,
    /// Price of a gigabyte (10^9 bytes), in any currency.
    pub price: Option<f64>,
    /// Rate of the link in bits per second.
    pub link: Option<f64>,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            window: 32,
            period: 32,
            cache: 250_000_000,
            sampler: SamplerKind::Maxp,
            shim: 12,
            compression_window: 10_000_000,
            inside: None,
            prefixes: None,
            figures: FigureId::ALL.into(),
            algorithms: Algorithm::ALL.to_vec(),
            sweeps: true,
            is_sample: false,
            survey: None,
            figure_memory: 64 << 20,
            pair_memory: 1 << 30,
            show_content: false,
            price: None,
            link: None,
            threads: 0,
        }
    }
}

impl Settings {
    /// A cache size, limited to what the survey found: no cache needs to be larger than the payload
    /// it holds.
    pub(crate) fn fit(&self, cache: u64) -> u64 {
        self.survey.map_or(cache, |survey| cache.min(survey.most().max(1 << 20)))
    }

    /// Sizes of the caches of all directions, for a cache of `cache` bytes.
    pub(crate) fn sizes(&self, cache: u64) -> Sizes {
        Sizes::new(cache, self.survey)
    }

    pub(crate) fn charge(&self) -> Charge {
        Charge { per_match: 4, per_packet: self.shim }
    }

    /// Cache sizes of figure 3 in bytes, ascending: four times the cache, halved up to 13 times.
    /// Only the smallest of those that hold the whole trace is kept.
    pub(crate) fn cache_sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = (0..14)
            .map(|halvings| self.cache.saturating_mul(4) >> halvings)
            .filter(|&size| size >= 64 << 10)
            .collect();
        sizes.reverse();
        if let Some(enough) =
            self.survey.and_then(|survey| sizes.iter().position(|&size| size >= survey.most()))
        {
            sizes.truncate(enough + 1);
        }
        sizes
    }

    /// Cache sizes in bytes, ascending, of the curve that the verdict reads: the cache, halved up to
    /// 12 times.
    pub(crate) fn smaller_caches(&self) -> Vec<u64> {
        let cache = self.cache.max(1);
        let mut sizes: Vec<u64> =
            (1..13).map(|halvings| cache >> halvings).filter(|&size| size >= 64 << 10).collect();
        sizes.reverse();
        sizes.push(cache);
        sizes
    }

    /// The settings as name and value, for readers.
    pub(crate) fn words(&self) -> Vec<(String, String)> {
        let mut words = vec![
            (
                "reference algorithm",
                format!("max-match over {}, window {} bytes, period {} bytes", self.sampler.name(), self.window, self.period),
            ),
            ("cache", format!("{} of payload in each direction, first in, first out; the index is extra", cache(self.cache))),
            ("charged", format!("4 bytes per match, and a shim of {} bytes per packet with matches", self.shim)),
            (
                "directions",
                match &self.inside {
                    Some(_) => "by the inside networks".to_owned(),
                    None => "all packets share one cache; name your networks with --inside to separate directions".to_owned(),
                },
            ),
            (
                "memory",
                format!(
                    "{} for the state of each figure, {} for caches per host pair",
                    binary(self.figure_memory),
                    binary(self.pair_memory)
                ),
            ),
        ];
        if let Some(price) = self.price {
            words.push(("price", format!("{} per gigabyte", money(price))));
        }
        if let Some(link) = self.link {
            words.push(("link", number(link, Unit::BitsPerSecond)));
        }
        words.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
