//! Which services may be opened.

use crate::target::{Host, Target, TargetError, parse_port};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Port of a service that is written without one.
const HTTPS: u16 = 443;

/// A service, written `name[:port]`: `registry.example`, `*.pypi.example:8443`.
///
/// `*.` stands for one label or more before the rest, not for none, as in rules of `--allow`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    below: bool,
    /// In lower case, without `*.`.
    name: String,
    port: u16,
}

/// A text that does not name a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Everything would be opened.
    #[error("* would open every site: name services, such as registry.example or *.example.com")]
    Everything,
    /// An address has no certificate for a name.
    #[error("{0} is an address: services are named as their certificates name them")]
    Address(String),
    /// A star in another place.
    #[error("* stands only for the labels before a name, as in *.example.com")]
    Star,
    /// The name is wrong.
    #[error(transparent)]
    Name(#[from] TargetError),
}

impl FromStr for Service {
    type Err = ServiceError;

    fn from_str(text: &str) -> Result<Service, ServiceError> {
        let text = text.trim();
        // An IPv6 address has more than one colon.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.starts_with('[') => {
                let port = parse_port(port).filter(|&port| port != 0);
                (host, port.ok_or(TargetError::Port)?)
            }
            _ => (text, HTTPS),
        };
        if host == "*" {
            return Err(ServiceError::Everything);
        }
        let (below, rest) = match host.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, host),
        };
        if rest.contains('*') {
            return Err(ServiceError::Star);
        }
        match rest.parse()? {
            Host::Name(name) => Ok(Service { below, name, port }),
            Host::Ip(_) => Err(ServiceError::Address(host.to_owned())),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)?;
        if self.port == HTTPS { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl Service {
    /// The name without `*.`: the base of the names that it stands for.
    pub fn base(&self) -> &str {
        &self.name
    }

    /// Whether it stands for every name below its base.
    pub fn is_wildcard(&self) -> bool {
        self.below
    }
}

/// Services that may be opened. Empty, as by `default()`, it opens nothing.
#[derive(Clone, Debug, Default)]
pub struct Services {
    list: Vec<Service>,
    exact: HashMap<(String, u16), usize>,
}

impl Services {
    /// A list without repetitions.
    pub fn new(services: impl IntoIterator<Item = Service>) -> Services {
        let mut all = Services::default();
        for service in services {
            if all.list.contains(&service) {
                continue;
            }
            if !service.below {
                all.exact.insert((service.name.clone(), service.port), all.list.len());
            }
            all.list.push(service);
        }
        all
    }

    /// The place in the list of the service that a target belongs to: its own name if that is
    /// listed, or else the longest `*.` that fits. An address belongs to none.
    pub fn find(&self, target: &Target) -> Option<usize> {
        let Host::Name(name) = target.host() else { return None };
        if let Some(&at) = self.exact.get(&(name.clone(), target.port())) {
            return Some(at);
        }
        let fits = |service: &Service| {
            let before = name.strip_suffix(service.name.as_str());
            service.below
                && service.port == target.port()
                && before.is_some_and(|before| before.len() > 1 && before.ends_with('.'))
        };
        let all = self.list.iter().enumerate().filter(|(_, service)| fits(service));
        all.max_by_key(|(_, service)| service.name.len()).map(|(at, _)| at)
    }

    /// All services, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Service> {
        self.list.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_as_written() {
        for (text, full) in [
            ("registry.example", "registry.example"),
            ("Registry.EXAMPLE.:443", "registry.example"),
            ("*.pypi.example:8443", "*.pypi.example:8443"),
            (" a.example ", "a.example"),
        ] {
            let service: Service = text.parse().unwrap();
            assert_eq!(service.to_string(), full);
            assert_eq!(full.parse(), Ok(service));
        }
        let parse = |text: &str| text.parse::<Service>().unwrap_err();
        assert_eq!(parse("*"), ServiceError::Everything);
        assert_eq!(parse("*:443"), ServiceError::Everything);
        for star in ["a*.example", "*.*.example", "a.*.example", "**.example"] {
            assert_eq!(parse(star), ServiceError::Star, "{star}");
        }
        for address in ["10.0.0.1", "10.0.0.1:443", "[::1]:443", "::1"] {
            assert!(matches!(parse(address), ServiceError::Address(_)), "{address}");
        }
        for name in
            ["", ":443", "a:0", "a:x", "a\0b.example", "a b", "*.", "a..b", "bücher.example"]
        {
            assert!(matches!(parse(name), ServiceError::Name(_)), "{name}");
        }
    }

    #[test]
    fn targets_belong_to_the_closest_service() {
        let names = ["*.example", "a.example", "*.deep.example", "b.example:8443", "*.example"];
        let services = Services::new(names.map(|name| name.parse().unwrap()));
        assert_eq!(services.iter().len(), 4);
        let find = |target: &str| services.find(&target.parse().unwrap());
        assert_eq!(find("a.example:443"), Some(1));
        assert_eq!(find("x.example:443"), Some(0));
        assert_eq!(find("x.y.deep.example:443"), Some(2));
        assert_eq!(find("B.example:8443"), Some(3));
        for none in [
            "example:443",
            "a.example:444",
            "notexample:443",
            "x.notexample.org:443",
            "b.c.example:8443",
            "10.0.0.1:443",
        ] {
            assert_eq!(find(none), None, "{none}");
        }
    }
}
