//! From a configuration file and flags to the parameters of an end.

use crate::args::{ConnectArgs, EndpointArgs, RoleName, ServeArgs, parse_entropy};
use crate::failure::{Failure, Outcome};
use crate::family::SamplerName;
use crate::quantity::{binary, parse_share, parse_size, parse_time};
use oncewire_codec::EncoderBuilder;
use oncewire_net::allow::AllowList;
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::{ConnectConfig, Endpoint, ServeConfig, TransportKind, WayOut};
use serde::Deserialize;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

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

const COMMON_KEYS: [&str; 19] = [
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
    "cpu_budget",
    "log",
    "log_json",
];
const SERVE_KEYS: [&str; 4] = ["listen", "allow", "allow_listen", "max_sessions"];
const CONNECT_KEYS: [&str; 4] = ["server", "forward", "reverse", "proxy"];

impl File {
    pub(super) fn read(path: Option<&Path>, role: RoleName) -> Outcome<File> {
        let Some(path) = path else { return Ok(File::default()) };
        let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", path.display(), &error))?;
        let wrong = |why: &dyn Display| Failure::usage(format!("{}: {why}", path.display()));
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(&plain(&text, &error)))?;
        let own: &[&str] = if role == RoleName::Serve { &SERVE_KEYS } else { &CONNECT_KEYS };
        let known = || COMMON_KEYS.iter().chain(own).copied();
        if let Some(unknown) = table.keys().find(|key| !known().any(|known| known == key.as_str())) {
            let close = |known: &&str| (strsim::normalized_damerau_levenshtein(known, unknown) * 1000.0) as u32;
            let nearest = known().max_by_key(close).unwrap_or_default();
            return Err(wrong(&format!("there is no key \"{unknown}\"; the nearest is \"{nearest}\"")));
        }
        toml::from_str(&text).map_err(|error| wrong(&plain(&text, &error)))
    }
}

/// The error in one line, with the number of the line it is about.
fn plain(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
    let message = error.message().replace('\n', " ");
    line.map_or(message.clone(), |line| format!("line {line}: {message}"))
}

/// How the process behaves besides.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) drain: Duration,
    pub(super) status: Option<PathBuf>,
    pub(super) log: tracing_subscriber::filter::LevelFilter,
    pub(super) log_json: bool,
}

/// Reads a value that was written somewhere as text.
fn parse<T: FromStr>(what: &str, text: &str) -> Outcome<T>
where
    T::Err: Display,
{
    text.parse().map_err(|error| Failure::usage(format!("{what} \"{text}\": {error}")))
}

fn parse_all<T: FromStr>(what: &str, texts: &[String]) -> Outcome<Vec<T>>
where
    T::Err: Display,
{
    texts.iter().map(|text| parse(what, text)).collect()
}

/// Flags where given, else the file.
fn either(flags: &[String], file: Vec<String>) -> Vec<String> {
    if flags.is_empty() { file } else { flags.to_vec() }
}

fn endpoint(args: &EndpointArgs, file: &File, role: RoleName) -> Outcome<(Endpoint, Process)> {
    let text = |flag: &Option<String>, file: &Option<String>| flag.clone().or_else(|| file.clone());
    let time = |name: &str, flag: &Option<String>, file: &Option<String>| match text(flag, file) {
        Some(text) => parse_time(&text).map(Some).map_err(|error| Failure::usage(format!("{name} \"{text}\": {error}"))),
        None => Ok(None),
    };
    let key = args.key.as_ref().or(file.key.as_ref());
    let key = key.ok_or_else(|| Failure::usage("no key; make one with `oncewire keygen FILE` and name it with --key FILE"))?;
    let secret = SecretKey::load(key).map_err(|error| super::key_failure(&error))?;
    // What stands where a key belongs may be a secret: it is counted, not quoted.
    let listed = either(&args.peer, file.peer.clone());
    let listed: Vec<Peer> = (1..)
        .zip(&listed)
        .map(|(at, text)| text.parse().map_err(|error| Failure::usage(format!("peer {at} of {}: {error}", listed.len()))))
        .collect::<Outcome<_>>()?;
    let list = args.authorized_peers.as_ref().or(file.authorized_peers.as_ref());
    if listed.is_empty() && list.is_none() {
        return Err(Failure::usage(
            "nobody may be the other end; name its public key with --peer KEY or --authorized-peers FILE",
        ));
    }
    let peers = match list {
        Some(path) => AuthorizedPeers::with_file(listed, path).map_err(|error| Failure::usage(error.to_string()))?,
        None => AuthorizedPeers::new(listed),
    };
    let mut endpoint = Endpoint::new(secret, peers);
    if let Some(memory) = text(&args.memory, &file.memory) {
        endpoint.memory = parse_size(&memory).map_err(|error| Failure::usage(format!("memory \"{memory}\": {error}")))?;
        if endpoint.memory > MOST_MEMORY {
            return Err(Failure::usage(format!("memory \"{memory}\": at most 4T")));
        }
    }
    if let Some(lanes) = args.lanes.or(file.lanes) {
        if !(1..=oncewire_session::MAX_LANES).contains(&lanes) {
            return Err(Failure::usage(format!("{lanes} lanes: 1 to {} are possible", oncewire_session::MAX_LANES)));
        }
        endpoint.lanes = lanes;
    }
    if let Some(flows) = args.max_flows.or(file.max_flows) {
        let most = endpoint.memory / FLOW_MEMORY;
        if !(1..=most).contains(&flows) {
            let memory = binary(flows.saturating_mul(FLOW_MEMORY));
            return Err(Failure::usage(format!("max-flows {flows}: 1 to {most} are possible; {flows} need --memory {memory}")));
        }
        endpoint.max_flows = Some(flows);
    }
    if let Some(kind) = text(&args.transport, &file.transport) {
        endpoint.transport = match &kind[..] {
            "tcp" => TransportKind::Tcp,
            "quic" => TransportKind::Quic,
            "auto" => TransportKind::Auto,
            _ => return Err(Failure::usage(format!("transport \"{kind}\": use tcp, quic or auto"))),
        };
    }
    for (name, flag, file, to) in [
        ("keep-alive", &args.keep_alive, &file.keep_alive, &mut endpoint.keep_alive),
        ("dead-after", &args.dead_after, &file.dead_after, &mut endpoint.dead_after),
        ("grace", &args.grace, &file.grace, &mut endpoint.grace),
    ] {
        if let Some(time) = time(name, flag, file)? {
            *to = time;
        }
    }
    if endpoint.keep_alive < Duration::from_millis(100) || endpoint.dead_after < 2 * endpoint.keep_alive {
        return Err(Failure::usage(format!(
            "keep-alive {:?} and dead-after {:?}: the first must be at least 100ms, the second twice the first or more",
            endpoint.keep_alive, endpoint.dead_after
        )));
    }
    endpoint.encoder = encoder(args, file)?;
    if let Some(share) = text(&args.cpu_budget, &file.cpu_budget) {
        let share = parse_share(&share).map_err(|error| Failure::usage(format!("cpu-budget \"{share}\": {error}")))?;
        endpoint.cpu_budget = Some(share);
    }
    // A session of these parameters must be possible, with or without the other end.
    endpoint.encoder.clone().cache(1 << 20).build().map_err(crate::setup::config_failure)?;
    let config = oncewire_session::Config::for_memory(endpoint.memory, endpoint.lanes, endpoint.encoder.clone());
    config.map_err(|error| super::too_little(&error))?;
    let name = if role == RoleName::Serve { "oncewire-serve.sock" } else { "oncewire-connect.sock" };
    let status = args.status.clone().or_else(|| file.status.clone()).or_else(|| super::runtime_dir().map(|dir| dir.join(name)));
    let log = text(&args.log, &file.log).unwrap_or_else(|| "info".into());
    let process = Process {
        drain: time("drain", &args.drain, &file.drain)?.unwrap_or(DRAIN),
        status,
        log: parse("log", &log).map_err(|_| Failure::usage(format!("log \"{log}\": use error, warn, info, debug or trace")))?,
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
    if let Some(sampler) = args.sampler.as_ref().or(file.sampler.as_ref()) {
        let name: SamplerName = sampler.parse().map_err(|error| Failure::usage(format!("sampler \"{sampler}\": {error}")))?;
        builder = builder.sampler(name.kind()?);
    }
    if let Some(entropy) = args.entropy.as_ref().or(file.entropy.as_ref()) {
        builder =
            builder.entropy(parse_entropy(entropy).map_err(|error| Failure::usage(format!("entropy \"{entropy}\": {error}")))?);
    }
    Ok(builder)
}

/// Parameters of `serve`.
pub(super) fn serve(args: &ServeArgs) -> Outcome<(ServeConfig, Process)> {
    let file = File::read(args.endpoint.config.as_deref(), RoleName::Serve)?;
    let (mut endpoint, process) = endpoint(&args.endpoint, &file, RoleName::Serve)?;
    endpoint.way_out = way_out(args, &file, &endpoint.way_out)?;
    let listen = either(&args.listen, file.listen);
    let listen = if listen.is_empty() { vec![LISTEN.into()] } else { listen };
    let max_sessions = args.max_sessions.or(file.max_sessions).unwrap_or(MAX_SESSIONS);
    Ok((ServeConfig { endpoint, listen: parse_all("listen", &listen)?, max_sessions }, process))
}

/// The rules of `serve`, which can be read again.
pub(super) fn way_out(args: &ServeArgs, file: &File, base: &WayOut) -> Outcome<WayOut> {
    let rules = either(&args.allow, file.allow.clone());
    Ok(WayOut {
        allow: AllowList::parse(&rules).map_err(|error| Failure::usage(error.to_string()))?,
        allow_listen: parse_all("allow-listen", &either(&args.allow_listen, file.allow_listen.clone()))?,
        ..base.clone()
    })
}

/// Parameters of `connect`.
pub(super) fn connect(args: &ConnectArgs) -> Outcome<(ConnectConfig, Process)> {
    let file = File::read(args.endpoint.config.as_deref(), RoleName::Connect)?;
    let (endpoint, process) = endpoint(&args.endpoint, &file, RoleName::Connect)?;
    let server = args.server.clone().or(file.server);
    let server = server.ok_or_else(|| Failure::usage("where is the other end? name it as host:port, such as site-b:7077"))?;
    let config = ConnectConfig {
        endpoint,
        server: parse("server", &server)?,
        forwards: parse_all("forward", &either(&args.forward, file.forward))?,
        reverse: parse_all("reverse", &either(&args.reverse, file.reverse))?,
        proxies: parse_all("proxy", &either(&args.proxy, file.proxy))?,
    };
    if config.forwards.is_empty() && config.reverse.is_empty() && config.proxies.is_empty() {
        return Err(Failure::usage("no way in: give -L, -R or --proxy"));
    }
    Ok((config, process))
}
