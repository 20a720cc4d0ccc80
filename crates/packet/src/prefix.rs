//! Tables of prefixes, which map addresses to networks.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;
use std::collections::HashMap;
use std::net::IpAddr;

/// A table of IPv4 and IPv6 prefixes with names, searched by longest match.
///
/// Prefixes with the same name are one network, such as those behind a PoP of an ISP.
#[derive(Clone, Default)]
pub struct Prefixes {
    v4: PrefixMap<Ipv4Net, PrefixId>,
    v6: PrefixMap<Ipv6Net, PrefixId>,
    names: Vec<String>,
}

/// A name of a [`Prefixes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrefixId(pub u32);

/// Most prefixes of a table: four times the routes of today's Internet.
pub const MAX_PREFIXES: usize = 1 << 22;

/// Longest name in bytes.
pub const MAX_NAME: usize = 255;

/// An invalid line of a prefix table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PrefixError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The reason.
    pub problem: PrefixProblem,
}

/// Why a line of a prefix table is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixProblem {
    /// The first word is neither a prefix nor an address.
    #[error("\"{0}\" is not a prefix such as 192.0.2.0/24 or 2001:db8::/32, nor an address")]
    NotAPrefix(String),
    /// The name is too long.
    #[error("the name has {0} bytes, more than {MAX_NAME}")]
    LongName(usize),
    /// The prefix came before, with another name.
    #[error("{prefix} is called {name} here and {earlier} before")]
    Twice {
        /// The prefix.
        prefix: IpNet,
        /// Its name in this line.
        name: String,
        /// Its name in the earlier line.
        earlier: String,
    },
    /// There are too many prefixes.
    #[error("more than {MAX_PREFIXES} prefixes")]
    TooMany,
}

impl Prefixes {
    /// Reads lines of the form `PREFIX [NAME]`. Text after a `#` is a comment. A bare address is a
    /// prefix of its full length; bits of an address beyond the length of the prefix are ignored;
    /// the name is the rest of the line, and defaults to the prefix itself.
    ///
    /// # Errors
    /// [`PrefixError`] for the first invalid line.
    pub fn parse(text: &str) -> Result<Prefixes, PrefixError> {
        let mut prefixes = Prefixes::default();
        let mut ids = HashMap::new();
        for (line, text) in text.lines().enumerate() {
            let text = text.split_once('#').map_or(text, |(before, _)| before).trim();
            if !text.is_empty() {
                prefixes
                    .add(text, &mut ids)
                    .map_err(|problem| PrefixError { line: line + 1, problem })?;
            }
        }
        Ok(prefixes)
    }

    fn add(
        &mut self,
        text: &str,
        ids: &mut HashMap<String, PrefixId>,
    ) -> Result<(), PrefixProblem> {
        let (word, name) = text
            .split_once(char::is_whitespace)
            .map_or((text, ""), |(word, name)| (word, name.trim()));
        let prefix = word.parse::<IpNet>().or_else(|_| word.parse::<IpAddr>().map(IpNet::from));
        let prefix =
            prefix.map_err(|_| PrefixProblem::NotAPrefix(word.chars().take(64).collect()))?.trunc();
        if name.len() > MAX_NAME {
            return Err(PrefixProblem::LongName(name.len()));
        }
        let name = if name.is_empty() { prefix.to_string() } else { name.to_owned() };
        if self.len() >= MAX_PREFIXES {
            return Err(PrefixProblem::TooMany);
        }
        let id = *ids.entry(name.clone()).or_insert_with(|| {
            self.names.push(name.clone());
            PrefixId(self.names.len() as u32 - 1)
        });
        let earlier = match prefix {
            IpNet::V4(prefix) => self.v4.insert(prefix, id),
            IpNet::V6(prefix) => self.v6.insert(prefix, id),
        };
        match earlier {
            Some(earlier) if earlier != id => {
                Err(PrefixProblem::Twice { prefix, name, earlier: self.name(earlier).to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The name of the longest prefix that contains an address. An IPv4 address written as IPv6
    /// (`::ffff:192.0.2.1`) is looked up as IPv4.
    pub fn lookup(&self, address: IpAddr) -> Option<PrefixId> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.get_lpm(&Ipv4Net::from(address)).map(|(_, id)| *id),
            IpAddr::V6(address) => self.v6.get_lpm(&Ipv6Net::from(address)).map(|(_, id)| *id),
        }
    }

    /// Whether a prefix contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.lookup(address).is_some()
    }

    /// The name of an id from [`Prefixes::lookup`] of this table.
    ///
    /// # Panics
    /// If the id is from another table and out of range here.
    pub fn name(&self, id: PrefixId) -> &str {
        &self.names[id.0 as usize]
    }

    /// All names, in the order of their first lines.
    pub fn names(&self) -> impl Iterator<Item = (PrefixId, &str)> {
        self.names.iter().zip(0..).map(|(name, id)| (PrefixId(id), name.as_str()))
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether any prefix is of IPv6 (`true`) or of IPv4 (`false`).
    pub fn has_family(&self, ipv6: bool) -> bool {
        if ipv6 { !self.v6.is_empty() } else { !self.v4.is_empty() }
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prefixes({} prefixes, {} names)", self.len(), self.names.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named<'a>(prefixes: &'a Prefixes, address: &str) -> Option<&'a str> {
        prefixes.lookup(address.parse().unwrap()).map(|id| prefixes.name(id))
    }

    #[test]
    fn the_longest_prefix_counts() {
        let text = "# PoPs\n10.0.0.0/8 Seattle\n10.1.0.0/16\tNew York # east\n\n 10.1.2.3 a host \n2001:db8::/32 Seattle\n192.0.2.77/24\n";
        let prefixes = Prefixes::parse(text).unwrap();
        assert_eq!(prefixes.len(), 5);
        assert!(prefixes.has_family(false) && prefixes.has_family(true));
        let v6 = Prefixes::parse("2001:db8::/32").unwrap();
        assert!(!v6.has_family(false) && v6.has_family(true));
        assert_eq!(named(&prefixes, "10.200.0.1"), Some("Seattle"));
        assert_eq!(named(&prefixes, "10.1.255.255"), Some("New York"));
        assert_eq!(named(&prefixes, "10.1.2.3"), Some("a host"));
        assert_eq!(named(&prefixes, "::ffff:10.1.2.3"), Some("a host"));
        assert_eq!(named(&prefixes, "192.0.2.1"), Some("192.0.2.0/24"));
        assert_eq!(named(&prefixes, "11.0.0.0"), None);
        assert_eq!(
            prefixes.lookup("2001:db8::1".parse().unwrap()),
            prefixes.lookup("10.2.0.0".parse().unwrap())
        );
        assert!(!prefixes.contains("2001:db9::1".parse().unwrap()));
        let all = Prefixes::parse("0.0.0.0/0\n::/0").unwrap();
        assert!(all.contains("1.2.3.4".parse().unwrap()) && all.contains("::1".parse().unwrap()));
        assert!(Prefixes::parse("").unwrap().is_empty());
        let names: Vec<&str> = prefixes
            .names()
            .inspect(|&(id, name)| assert_eq!(prefixes.name(id), name))
            .map(|(_, name)| name)
            .collect();
        assert_eq!(names, ["Seattle", "New York", "a host", "192.0.2.0/24"]);
    }

    #[test]
    fn errors_name_the_line() {
        let problem = |text: &str| Prefixes::parse(text).unwrap_err().to_string();
        assert_eq!(
            problem("# x\n10.0.0.0/33"),
            "line 2: \"10.0.0.0/33\" is not a prefix such as 192.0.2.0/24 or 2001:db8::/32, nor an address"
        );
        assert_eq!(
            problem("10.0.0.0/8 a\n10.1.0.0/8 b"),
            "line 2: 10.0.0.0/8 is called b here and a before"
        );
        assert_eq!(
            problem(&format!("::1 {}", "x".repeat(256))),
            "line 1: the name has 256 bytes, more than 255"
        );
        assert!(Prefixes::parse("10.0.0.0/8 a\n10.0.0.0/8 a").is_ok());
    }

    proptest! {
        #[test]
        fn lookup_is_a_search_of_all_prefixes(
            v4 in proptest::collection::vec((any::<[u8; 2]>(), 0u8..=32), 0..40),
            v6 in proptest::collection::vec((any::<[u8; 2]>(), 0u8..=128), 0..40),
            addresses in proptest::collection::vec((any::<[u8; 2]>(), any::<bool>()), 1..40),
        ) {
            // Two random bytes at the top, so that prefixes nest and addresses hit.
            let address = |[a, b]: [u8; 2], six: bool| -> IpAddr {
                if six { [u16::from_be_bytes([0x20 | a & 3, b]), 0, 0, 0, 0, 0, u16::from(b), u16::from(a)].into() } else { [a & 3, b, a, b].into() }
            };
            let prefix = |(bytes, len): (&[u8; 2], u8), six| IpNet::new(address(*bytes, six), len).unwrap().trunc();
            let mut nets: Vec<IpNet> = v4.iter().map(|(bytes, len)| prefix((bytes, *len), false)).collect();
            nets.extend(v6.iter().map(|(bytes, len)| prefix((bytes, *len), true)));
            let text: Vec<String> = nets.iter().map(|net| net.to_string()).collect();
            let prefixes = Prefixes::parse(&text.join("\n")).unwrap();
            for (bytes, six) in addresses {
                let address = address(bytes, six);
                let naive = nets.iter().filter(|net| net.contains(&address)).max_by_key(|net| net.prefix_len());
                prop_assert_eq!(prefixes.lookup(address).map(|id| prefixes.name(id).to_owned()), naive.map(|net| net.to_string()));
            }
        }

        #[test]
        fn any_text_is_a_table_or_an_error(text in "[0-9a-f.:/# \n]{0,80}") {
            let _ = Prefixes::parse(&text);
        }
    }
}
