//! From a configuration file and flags to the parameters of an end.

use crate::args::{ConnectArgs, EndpointArgs, RoleName, ServeArgs};
use crate::failure::{Failure, Outcome, nearest};
use crate::family::{EntropyName, SamplerName};
use crate::quantity::{binary, parse_share, parse_size, parse_time};
use oncewire_codec::{ConfigError, EncoderBuilder};
use oncewire_net::allow::AllowList;
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::{ConnectConfig, Endpoint, ServeConfig, TransportKind, WayOut};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where peers connect unless told otherwise.
const LISTEN: &str = "*:7077";
const MAX_SESSIONS: usize = 1024;
const MOST_MEMORY: u64 = 4 << 40;
/// Memory that stands for one flow: its share of what may wait for applications.
const FLOW_MEMORY: u64 = 256 << 10;
const DRAIN: Duration = Duration::from_secs(30);

/// A configuration file. The names are those of the flags.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    #[serde(skip)]
    places: Places,
    key: Option<PathBuf>,
    peer: Vec<String>,
    authorized_peers: Option<PathBuf>,
    memory: Option<String>,
    lanes: Option<usize>,
    max_flows: Option<u64>,
    transport: Option<String>,
    keep_alive: Option<String>,
    dead_after: Option<String>,
    grace: Option<String>,
    drain: Option<String>,
    status: Option<PathBuf>,
    window: Option<usize>,
    period: Option<usize>,
    sampler: Option<String>,
    entropy: Option<String>,
    level: Option<i32>,
    cpu_budget: Option<String>,
    log: Option<String>,
    log_json: Option<bool>,
    listen: Vec<String>,
    allow: Vec<String>,
    allow_listen: Vec<String>,
    max_sessions: Option<usize>,
    server: Option<String>,
    forward: Vec<String>,
    reverse: Vec<String>,
    proxy: Vec<String>,
}

const COMMON_KEYS: [&str; 20] = [
    "key",
    "peer",
    "authorized_peers",
    "memory",
    "lanes",
    "max_flows",
    "transport",
    "keep_alive",
    "dead_after",
    "grace",
    "drain",
    "status",
    "window",
    "period",
    "sampler",
    "entropy",
    "level",
    "cpu_budget",
    "log",
    "log_json",
];
const SERVE_KEYS: [&str; 4] = ["listen", "allow", "allow_listen", "max_sessions"];
const CONNECT_KEYS: [&str; 4] = ["server", "forward", "reverse", "proxy"];

/// Where the keys of a configuration file are.
#[derive(Debug, Default)]
struct Places {
    file: Option<PathBuf>,
    /// The lines of a key's elements, if it has several, else of its value.
    lines: BTreeMap<String, Vec<usize>>,
}

impl Places {
    fn new(file: &Path, text: &str, table: &DeTable<'_>) -> Places {
        let line = |value: &Spanned<DeValue<'_>>| line_of(text, value.span().start);
        let lines = table.iter().map(|(key, value)| {
            let elements = value.get_ref().as_array().filter(|array| !array.is_empty());
            let lines = elements.map_or_else(|| vec![line(value)], |array| array.iter().map(line).collect());
            (key.get_ref().to_string(), lines)
        });
        Places { file: Some(file.to_path_buf()), lines: lines.collect() }
    }

    /// What a message about an element of `key` begins with.
    fn of(&self, key: &str, element: usize) -> String {
        let line = self.lines.get(key).and_then(|lines| lines.get(element));
        match (&self.file, line) {
            (Some(file), Some(line)) => format!("{}, line {line}: ", file.display()),
            _ => self.file(),
        }
    }

    /// What a message about something that is missing begins with.
    fn file(&self) -> String {
        self.file.as_ref().map_or_else(String::new, |file| format!("{}: ", file.display()))
    }
}

/// A value, and where it was written.
struct Given {
    /// As it is written there: `keep_alive` or `--keep-alive`.
    name: String,
    text: String,
    place: String,
}

impl Given {
    fn read<T, E: Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Outcome<T> {
        parse(&self.text).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, why: &dyn Display) -> Failure {
        Failure::usage(format!("{}{} \"{}\": {why}", self.place, self.name, self.text))
    }
}

impl File {
    pub(super) fn read(path: Option<&Path>, role: RoleName) -> Outcome<File> {
        let Some(path) = path else { return Ok(File::default()) };
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => Failure::usage(format!("{}: it is not text", path.display())),
            _ => Failure::io("read", path.display(), &error),
        })?;
        let table = DeTable::parse(&text).map_err(|error| wrong(path, &text, &error))?.into_inner();
        let own: &[&str] = if role == RoleName::Serve { &SERVE_KEYS } else { &CONNECT_KEYS };
        let known = || COMMON_KEYS.iter().chain(own).copied();
        // The first in the file.
        let unknown = table.keys().filter(|key| !known().any(|known| known == key.get_ref())).min_by_key(|key| key.span().start);
        if let Some(unknown) = unknown {
            let (line, unknown) = (line_of(&text, unknown.span().start), unknown.get_ref());
            let hint = match nearest(unknown, known()) {
                Some(nearest) => format!("did you mean \"{nearest}\"?"),
                None if SERVE_KEYS.contains(&&**unknown) => "it belongs to serve".into(),
                None if CONNECT_KEYS.contains(&&**unknown) => "it belongs to connect".into(),
                None => format!("the keys are {}", known().collect::<Vec<_>>().join(", ")),
            };
            return Err(Failure::usage(format!("{}, line {line}: there is no key \"{unknown}\"; {hint}", path.display())));
        }
        let file: File = toml::from_str(&text).map_err(|error| wrong(path, &text, &error))?;
        Ok(File { places: Places::new(path, &text, &table), ..file })
    }

    /// A flag where given, else the file's value.
    fn given(&self, key: &'static str, flag: &Option<String>, file: &Option<String>) -> Option<Given> {
        match (flag, file) {
            (Some(text), _) => Some(Given { name: flag_name(key), text: text.clone(), place: String::new() }),
            (None, Some(text)) => Some(Given { name: key.into(), text: text.clone(), place: self.places.of(key, 0) }),
            (None, None) => None,
        }
    }

    /// Flags where given, else the file's elements.
    fn each(&self, key: &'static str, flags: &[String], file: &[String]) -> Vec<Given> {
        if flags.is_empty() {
            let given = |(element, text): (usize, &String)| Given {
                name: key.into(),
                text: text.clone(),
                place: self.places.of(key, element),
            };
            return file.iter().enumerate().map(given).collect();
        }
        let given = |text: &String| Given { name: flag_name(key), text: text.clone(), place: String::new() };
        flags.iter().map(given).collect()
    }

    /// A failure about the file's value of `key`, unless a flag took its place.
    fn blame(&self, key: &str, flag: bool, failure: Failure) -> Failure {
        let place = if flag { String::new() } else { self.places.of(key, 0) };
        Failure { message: place + &failure.message, ..failure }
    }
}

/// What a key is called on the command line.
fn flag_name(key: &str) -> String {
    // The one that is no flag there.
    if key == "server" { key.into() } else { format!("--{}", key.replace('_', "-")) }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// The error in one line, with the file and the number of the line it is about.
fn wrong(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let line = error.span().map_or_else(String::new, |span| format!(", line {}", line_of(text, span.start)));
    Failure::usage(format!("{}{line}: {}", path.display(), error.message().replace('\n', " ")))
}

/// How the process behaves besides.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) drain: Duration,
    pub(super) status: Option<PathBuf>,
    pub(super) log: tracing_subscriber::filter::LevelFilter,
    pub(super) log_json: bool,
}

fn parse_all<T: FromStr>(given: &[Given]) -> Outcome<Vec<T>>
where
    T::Err: Display,
{
    given.iter().map(|given| given.read(str::parse)).collect()
}

fn endpoint(args: &EndpointArgs, file: &File, role: RoleName) -> Outcome<(Endpoint, Process)> {
    let key = args.key.as_ref().or(file.key.as_ref());
    let missing = |why: &str| Failure::usage(format!("{}{why}", file.places.file()));
    let key = key.ok_or_else(|| missing("no key; make one with `oncewire keygen FILE` and name it with --key FILE"))?;
    let secret = SecretKey::load(key).map_err(|error| file.blame("key", args.key.is_some(), super::key_failure(&error)))?;
    // What stands where a key belongs may be a secret: it is counted, not quoted.
    let listed = file.each("peer", &args.peer, &file.peer);
    let listed: Vec<Peer> = (1..)
        .zip(&listed)
        .map(|(at, Given { text, place, .. })| {
            text.parse().map_err(|error| Failure::usage(format!("{place}peer {at} of {}: {error}", listed.len())))
        })
        .collect::<Outcome<_>>()?;
    let list = args.authorized_peers.as_ref().or(file.authorized_peers.as_ref());
    if listed.is_empty() && list.is_none() {
        return Err(missing("nobody may be the other end; name its public key with --peer KEY or --authorized-peers FILE"));
    }
    let peers = match list {
        Some(path) => AuthorizedPeers::with_file(listed, path).map_err(|error| {
            file.blame("authorized_peers", args.authorized_peers.is_some(), Failure::usage(error.to_string()))
        })?,
        None => AuthorizedPeers::new(listed),
    };
    let mut endpoint = Endpoint::new(secret, peers);
    let memory = file.given("memory", &args.memory, &file.memory);
    if let Some(memory) = &memory {
        endpoint.memory = memory.read(parse_size)?;
        if endpoint.memory > MOST_MEMORY {
            return Err(memory.wrong(&"at most 4T"));
        }
    }
    if let Some(lanes) = args.lanes.or(file.lanes) {
        if !(1..=oncewire_session::MAX_LANES).contains(&lanes) {
            let why = format!("{lanes} lanes: 1 to {} are possible", oncewire_session::MAX_LANES);
            return Err(file.blame("lanes", args.lanes.is_some(), Failure::usage(why)));
        }
        endpoint.lanes = lanes;
    }
    if let Some(flows) = args.max_flows.or(file.max_flows) {
        let most = endpoint.memory / FLOW_MEMORY;
        if !(1..=most).contains(&flows) {
            let memory = binary(flows.saturating_mul(FLOW_MEMORY));
            let why = format!("{flows} flows: 1 to {most} are possible with this memory; {flows} need {memory}");
            return Err(file.blame("max_flows", args.max_flows.is_some(), Failure::usage(why)));
        }
        endpoint.max_flows = Some(flows);
    }
    if let Some(kind) = file.given("transport", &args.transport, &file.transport) {
        endpoint.transport = match &kind.text[..] {
            "tcp" => TransportKind::Tcp,
            "quic" => TransportKind::Quic,
            "auto" => TransportKind::Auto,
            _ => return Err(kind.wrong(&"use tcp, quic or auto")),
        };
    }
    for (key, flag, value, to) in [
        ("keep_alive", &args.keep_alive, &file.keep_alive, &mut endpoint.keep_alive),
        ("dead_after", &args.dead_after, &file.dead_after, &mut endpoint.dead_after),
        ("grace", &args.grace, &file.grace, &mut endpoint.grace),
    ] {
        if let Some(time) = file.given(key, flag, value) {
            *to = time.read(parse_time)?;
        }
    }
    if endpoint.keep_alive < Duration::from_millis(100) || endpoint.dead_after < 2 * endpoint.keep_alive {
        let why = Failure::usage(format!(
            "keep-alive {:?} and dead-after {:?}: the first must be at least 100ms, the second twice the first or more",
            endpoint.keep_alive, endpoint.dead_after
        ));
        let key = if file.dead_after.is_some() { "dead_after" } else { "keep_alive" };
        return Err(file.blame(key, args.keep_alive.is_some() || args.dead_after.is_some(), why));
    }
    endpoint.encoder = encoder(args, file)?;
    if let Some(share) = file.given("cpu_budget", &args.cpu_budget, &file.cpu_budget) {
        endpoint.cpu_budget = Some(share.read(parse_share)?);
    }
    // A session of these parameters must be possible, with or without the other end.
    endpoint.encoder.clone().cache(1 << 20).build().map_err(|error| {
        let (key, flag) = match &error {
            ConfigError::Window { .. } => ("window", args.window.is_some()),
            ConfigError::Period { .. } => ("period", args.period.is_some()),
            ConfigError::Level { .. } => ("level", args.level.is_some()),
            _ => ("", false),
        };
        file.blame(key, flag, crate::setup::config_failure(error))
    })?;
    oncewire_session::Config::for_memory(endpoint.memory, endpoint.lanes, endpoint.encoder.clone())
        .map_err(|error| file.blame("memory", args.memory.is_some(), super::too_little(&error)))?;
    let name = if role == RoleName::Serve { "oncewire-serve.sock" } else { "oncewire-connect.sock" };
    let status = args.status.clone().or_else(|| file.status.clone()).or_else(|| super::runtime_dir().map(|dir| dir.join(name)));
    let log = file.given("log", &args.log, &file.log);
    let level = |log: &Given| log.text.parse().map_err(|_| log.wrong(&"use error, warn, info, debug or trace"));
    let process = Process {
        drain: file.given("drain", &args.drain, &file.drain).map_or(Ok(DRAIN), |drain| drain.read(parse_time))?,
        status,
        log: log.as_ref().map_or(Ok(tracing_subscriber::filter::LevelFilter::INFO), level)?,
        log_json: args.log_json || file.log_json.unwrap_or(false),
    };
    Ok((endpoint, process))
}

fn encoder(args: &EndpointArgs, file: &File) -> Outcome<EncoderBuilder> {
    let mut builder = EncoderBuilder::default();
    if let Some(window) = args.window.or(file.window) {
        builder = builder.window(window);
    }
    if let Some(period) = args.period.or(file.period) {
        builder = builder.period(period);
    }
    if let Some(sampler) = file.given("sampler", &args.sampler, &file.sampler) {
        let kind = sampler.read(str::parse::<SamplerName>)?.kind();
        builder = builder.sampler(kind.map_err(|failure| file.blame("sampler", args.sampler.is_some(), failure))?);
    }
    let entropy = file.given("entropy", &args.entropy, &file.entropy);
    // A flag does not meet what the file says of the other.
    let level = args.level.or(file.level.filter(|_| args.entropy.is_none()));
    let named = match &entropy {
        Some(entropy) => entropy.read(str::parse)?,
        None => EntropyName::Zstd(None),
    };
    let named = match named {
        EntropyName::Zstd(Some(_)) if args.entropy.is_none() && args.level.is_some() => EntropyName::Zstd(None),
        named => named,
    };
    let stage = named
        .stage(level)
        .map_err(|why| file.blame("level", args.level.is_some() || args.entropy.is_some(), Failure::usage(why)))?;
    Ok(builder.entropy(stage))
}

/// Parameters of `serve`.
pub(super) fn serve(args: &ServeArgs) -> Outcome<(ServeConfig, Process)> {
    let file = File::read(args.endpoint.config.as_deref(), RoleName::Serve)?;
    let (mut endpoint, process) = endpoint(&args.endpoint, &file, RoleName::Serve)?;
    endpoint.way_out = way_out(args, &file, &endpoint.way_out)?;
    let mut listen = file.each("listen", &args.listen, &file.listen);
    if listen.is_empty() {
        listen.push(Given { name: "listen".into(), text: LISTEN.into(), place: String::new() });
    }
    let max_sessions = args.max_sessions.or(file.max_sessions).unwrap_or(MAX_SESSIONS);
    Ok((ServeConfig { endpoint, listen: parse_all(&listen)?, max_sessions }, process))
}

/// The rules of `serve`, which can be read again.
pub(super) fn way_out(args: &ServeArgs, file: &File, base: &WayOut) -> Outcome<WayOut> {
    let rules = file.each("allow", &args.allow, &file.allow);
    // One by one, to say which.
    for rule in &rules {
        AllowList::parse(&[&rule.text]).map_err(|error| Failure::usage(format!("{}{error}", rule.place)))?;
    }
    let rules: Vec<String> = rules.into_iter().map(|rule| rule.text).collect();
    Ok(WayOut {
        allow: AllowList::parse(&rules).map_err(|error| Failure::usage(error.to_string()))?,
        allow_listen: parse_all(&file.each("allow_listen", &args.allow_listen, &file.allow_listen))?,
        ..base.clone()
    })
}

/// Parameters of `connect`.
pub(super) fn connect(args: &ConnectArgs) -> Outcome<(ConnectConfig, Process)> {
    let file = File::read(args.endpoint.config.as_deref(), RoleName::Connect)?;
    let (endpoint, process) = endpoint(&args.endpoint, &file, RoleName::Connect)?;
    let missing = |why: &str| Failure::usage(format!("{}{why}", file.places.file()));
    let server = file.given("server", &args.server, &file.server);
    let server = server.ok_or_else(|| missing("where is the other end? name it as host:port, such as site-b:7077"))?;
    let config = ConnectConfig {
        endpoint,
        server: server.read(str::parse)?,
        forwards: parse_all(&file.each("forward", &args.forward, &file.forward))?,
        reverse: parse_all(&file.each("reverse", &args.reverse, &file.reverse))?,
        proxies: parse_all(&file.each("proxy", &args.proxy, &file.proxy))?,
    };
    if config.forwards.is_empty() && config.reverse.is_empty() && config.proxies.is_empty() {
        return Err(missing("no way in: give -L, -R or --proxy"));
    }
    Ok((config, process))
}
