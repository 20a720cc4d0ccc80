//! Where a controller keeps its plan, and why it cannot.

use oncewire_plan::control::RecordError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a controller keeps its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAt {
    /// A file, for the only controller.
    File(PathBuf),
    /// etcd, for one of several.
    Etcd(EtcdAt),
}

/// Where etcd is, and under which name controllers of a network share a plan there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAt {
    /// Its members, `host:port`.
    pub endpoints: Vec<String>,
    /// What all keys begin with.
    pub prefix: String,
}

impl StoreAt {
    /// The path of a file, or `etcd://HOST:PORT[,HOST:PORT...]/PREFIX`.
    ///
    /// # Errors
    /// One line that says what is wrong with an address of etcd.
    pub fn parse(text: &Path) -> Result<StoreAt, String> {
        let Some(etcd) = text.to_str().and_then(|text| text.strip_prefix("etcd://")) else {
            return Ok(StoreAt::File(text.into()));
        };
        let (members, prefix) = etcd.split_once('/').unwrap_or((etcd, ""));
        let endpoints: Vec<String> = members.split(',').map(str::to_owned).collect();
        let has_port = |member: &String| {
            let port = member.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        };
        if let Some(wrong) = endpoints.iter().find(|member| !has_port(member)) {
            return Err(format!("{wrong:?} is no HOST:PORT of an etcd"));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() {
            return Err("it has no name after the members: write etcd://HOST:PORT/NETWORK".into());
        }
        Ok(StoreAt::Etcd(EtcdAt { endpoints, prefix: prefix.into() }))
    }
}

impl fmt::Display for StoreAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAt::File(path) => path.display().fmt(f),
            StoreAt::Etcd(at) => at.fmt(f),
        }
    }
}

impl fmt::Display for EtcdAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}/{}", self.endpoints.join(","), self.prefix)
    }
}

#[cfg(feature = "etcd")]
impl EtcdAt {
    /// A key.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }
}

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerStoreError {
    /// Another process has it open.
    #[error("another process uses it")]
    InUse,
    /// It cannot be read or written.
    #[error("{0}")]
    File(String),
    /// It is damaged, or another kind of file.
    #[error("it is damaged, or not a controller's store")]
    Damaged,
    /// Its content.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// This program cannot speak with etcd.
    #[error("this program is built without etcd; build it with `--features etcd`")]
    NoEtcd,
    /// etcd does not do what it is asked for.
    #[error("{0}")]
    Etcd(String),
    /// Another controller leads.
    #[error("this controller leads no more")]
    Deposed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_files_or_etcd() {
        let parse = |text: &str| StoreAt::parse(Path::new(text));
        assert_eq!(parse("a/b.redb"), Ok(StoreAt::File("a/b.redb".into())));
        let text = "etcd://10.0.0.1:2379,h:1,[::1]:2/a/net";
        let at = parse(text).unwrap();
        let StoreAt::Etcd(etcd) = &at else { panic!("{at:?}") };
        assert_eq!((etcd.endpoints.len(), etcd.prefix.as_str()), (3, "a/net"));
        assert_eq!(at.to_string(), text);
        for wrong in
            ["etcd://", "etcd:///a", "etcd://h/a", "etcd://h:x/a", "etcd://h:1", "etcd://h:1,/a"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
