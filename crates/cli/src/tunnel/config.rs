//! From options to the parameters of an end: checks that concern several options, files that
//! options name.

use super::file::Options;
use super::https;
use crate::args::process::LogArgs;
use crate::args::tunnel::{EndpointArgs, FLOW_MEMORY, InsideName};
use crate::args::{ConnectArgs, RoleName, ServeArgs, TunnelArgs};
use crate::failure::{Failure, Outcome, without_number};
use crate::family::EntropyName;
use crate::price::Price;
use crate::quantity::{binary, size, time};
use oncewire_codec::{ConfigError, EncoderBuilder};
use oncewire_net::admin::Admin;
use oncewire_net::allow::AllowList;
use oncewire_net::enroll::Invitations;
use oncewire_net::keys::{AuthorizedPeers, Peer, PeersError, SecretKey};
use oncewire_net::proxy::{Passwords, ProxyAccess};
use oncewire_net::store::{StoreOptions, StoreSecret};
use oncewire_net::{ConnectConfig, Egress, Endpoint, ServeConfig, TransportKind};
use oncewire_session::{MAX_FLOWS, MAX_LANES, Opening};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Least time between probes of a silent peer.
const LEAST_KEEP_ALIVE: Duration = Duration::from_millis(100);

/// The process around an end.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) drain: Duration,
    pub(super) drain_in_background: bool,
    pub(super) status: Option<PathBuf>,
    pub(super) admin: Option<Admin>,
    pub(super) price: Option<Price>,
    pub(super) history: Option<PathBuf>,
    pub(super) logging: LogArgs,
    pub(super) log_flows: bool,
}

/// Bytes on disk that take a byte of memory to be found again. An eighth of the memory may go there.
const RECALL_MEMORY: u64 = 1024;
/// Least that may be written to a store in a day: each commit takes some.
const LEAST_WRITES: u64 = 100 << 20;
/// Least space for caches on disk, in bytes: that of two of the smallest.
const LEAST_STORE: u64 = 16 << 20;

fn endpoint<A: TunnelArgs>(options: &Options<A>) -> Outcome<(Endpoint, Process)> {
    let args = options.args.endpoint();
    let key = args.key.as_ref();
    let key = key.ok_or_else(|| {
        options.missing("no key: make one with `oncewire keygen FILE` and pass --key FILE")
    })?;
    let secret =
        SecretKey::load(key).map_err(|error| options.blame("key", super::key_failure(&error)))?;
    let (encoder, hurries) = encoder(options)?;
    let endpoint = Endpoint {
        memory: args.memory,
        lanes: args.lanes,
        max_flows: args.max_flows,
        transport: args.transport.into(),
        encoder: encoder.sharing(args.share.into()),
        hurries,
        opening: match args.inside {
            InsideName::Always => Opening::Always,
            InsideName::Auto | InsideName::Off => Opening::Auto,
        },
        store_for: args.store.store_for.into(),
        pad: args.pad.unwrap_or(0),
        cpu_budget: args.cpu_budget,
        keep_alive: args.keep_alive,
        dead_after: args.dead_after,
        grace: args.grace,
        ..Endpoint::new(secret, peers(options)?)
    };
    check(options, &endpoint)?;
    store(options)?;
    let name = format!("oncewire-{}.sock", A::ROLE.name());
    let process = Process {
        drain: args.drain,
        drain_in_background: args.drain_in_background,
        status: args
            .status
            .clone()
            .or_else(|| crate::status::runtime_dir().map(|dir| dir.join(name))),
        admin: super::admin(options, &args.watched)?,
        price: args.watched.admin_price.clone(),
        history: args.watched.history.clone(),
        logging: args.logging.clone(),
        log_flows: args.log_flows,
    };
    Ok((endpoint, process))
}

/// Where caches are kept on disk, if they are. Opens nothing but the key's file.
pub(super) fn store<A: TunnelArgs>(options: &Options<A>) -> Outcome<Option<StoreOptions>> {
    let args = &options.args.endpoint().store;
    let Some(dir) = args.store.clone() else {
        for (key, is_set) in [
            ("store_size", options.is_flag("store_size") || options.is_of_file("store_size")),
            ("store_per_peer", args.store_per_peer.is_some()),
            ("store_writes", args.store_writes.is_some()),
            ("store_for", options.is_flag("store_for") || options.is_of_file("store_for")),
            ("store_key", args.store_key.is_some()),
            ("store_plain", args.store_plain),
        ] {
            if is_set {
                let why = "no directory for caches on disk: pass --store DIR, too";
                return Err(options.wrong(key, why));
            }
        }
        return Ok(None);
    };
    let secret = match (&args.store_key, args.store_plain) {
        (Some(_), true) => {
            let why = "caches on disk are either encrypted with a key or plain: drop one of --store-key and --store-plain";
            return Err(options.wrong("store_plain", why));
        }
        (Some(path), false) => StoreSecret::load(path)
            .map_err(|error| options.blame("store_key", Failure::failed(without_number(&error))))?,
        (None, true) => StoreSecret::Plain,
        (None, false) => StoreSecret::Own,
    };
    let size = args.store_size;
    if size < LEAST_STORE {
        let why = format!(
            "--store-size {}: use at least {}",
            crate::quantity::size(size),
            crate::quantity::size(LEAST_STORE)
        );
        return Err(options.wrong("store_size", why));
    }
    let memory = options.args.endpoint().memory;
    let log = match args.store_per_peer {
        Some(each) if each < LEAST_STORE || each > size / 2 => {
            let why = format!(
                "--store-per-peer {}: use {} to {}, half of --store-size",
                crate::quantity::size(each),
                crate::quantity::size(LEAST_STORE),
                crate::quantity::size(size / 2)
            );
            return Err(options.wrong("store_per_peer", why));
        }
        Some(each) if each / 2 > memory / 8 * RECALL_MEMORY => {
            let why = format!(
                "--store-per-peer {}: what finds it again takes a thousandth in memory; with --memory {} use at most {}",
                crate::quantity::size(each),
                crate::quantity::size(memory),
                crate::quantity::size(memory / 4 * RECALL_MEMORY)
            );
            return Err(options.wrong("store_per_peer", why));
        }
        Some(each) => each / 2,
        None => 0,
    };
    let writes = args.store_writes;
    if let Some(day) = writes.filter(|&day| day < LEAST_WRITES) {
        let why = format!(
            "--store-writes {}/day: use at least {}/day",
            crate::quantity::size(day),
            crate::quantity::size(LEAST_WRITES)
        );
        return Err(options.wrong("store_writes", why));
    }
    Ok(Some(StoreOptions { dir, size, log, writes, secret }))
}

fn peers<A: TunnelArgs>(options: &Options<A>) -> Outcome<AuthorizedPeers> {
    let args = options.args.endpoint();
    let count = args.peer.len();
    // What stands in the place of a key may be a secret: it is counted, not quoted.
    let parse = |(at, text): (usize, &String)| {
        let place = options.place("peer", at);
        text.parse::<Peer>()
            .map_err(|error| Failure::usage(format!("{place}peer {} of {count}: {error}", at + 1)))
    };
    let listed = args.peer.iter().enumerate().map(parse).collect::<Outcome<Vec<_>>>()?;
    match &args.authorized_peers {
        Some(path) => AuthorizedPeers::with_file(listed, path).map_err(|error| {
            let message = without_number(&error);
            // As for a secret key that cannot be read.
            let failure = if matches!(error, PeersError::File(_)) {
                Failure::failed(message)
            } else {
                Failure::usage(message)
            };
            options.blame("authorized_peers", failure)
        }),
        None if listed.is_empty() => {
            Err(options
                .missing("no peer is authorized: pass the other end's public key with --peer KEY, or --authorized-peers FILE"))
        }
        None => Ok(AuthorizedPeers::new(listed)),
    }
}

/// Whether a session with these parameters is possible, whatever the other end wants.
fn check<A: TunnelArgs>(options: &Options<A>, endpoint: &Endpoint) -> Outcome {
    if !(1..=MAX_LANES).contains(&endpoint.lanes) {
        return Err(
            options.wrong("lanes", format!("{} lanes: use 1 to {MAX_LANES}", endpoint.lanes))
        );
    }
    if let Some(flows) = endpoint.max_flows {
        let most = (endpoint.memory / FLOW_MEMORY).min(MAX_FLOWS);
        if !(1..=most).contains(&flows) {
            let needed = size(flows.saturating_mul(FLOW_MEMORY));
            let why = format!(
                "{flows} flows: use 1 to {most} with --memory {}; {flows} need {needed}",
                size(endpoint.memory)
            );
            return Err(options.wrong("max_flows", why));
        }
    }
    if endpoint.keep_alive < LEAST_KEEP_ALIVE || endpoint.dead_after < 2 * endpoint.keep_alive {
        let key = ["dead_after", "keep_alive"].into_iter().find(|key| options.is_flag(key));
        let key = key.unwrap_or(if options.is_of_file("dead_after") {
            "dead_after"
        } else {
            "keep_alive"
        });
        let why = format!(
            "keep-alive {} and dead-after {}: keep-alive must be at least {}, and dead-after at least twice keep-alive",
            time(endpoint.keep_alive),
            time(endpoint.dead_after),
            time(LEAST_KEEP_ALIVE)
        );
        return Err(options.wrong(key, why));
    }
    endpoint.encoder.clone().cache(1 << 20).build().map_err(|error| {
        let key = match &error {
            ConfigError::Window { .. } => "window",
            ConfigError::Period { .. } => "period",
            ConfigError::Level { .. } => "level",
            _ => "",
        };
        options.blame(key, crate::setup::config_failure(error))
    })?;
    oncewire_session::Config::for_memory(endpoint.memory, endpoint.lanes, endpoint.encoder.clone())
        .map_err(|error| options.blame("memory", super::session_failure(&error)))?;
    Ok(())
}

/// The encoder, and whether its level may change.
fn encoder<A: TunnelArgs>(options: &Options<A>) -> Outcome<(EncoderBuilder, bool)> {
    let &EndpointArgs { ref codec, inside, .. } = options.args.endpoint();
    let mut codec = codec.clone();
    // Of stage and level, an option on the command line replaces what the file says of either.
    if options.is_flag("entropy") && !options.is_flag("level") {
        codec.level = None;
    }
    if options.is_flag("level")
        && !options.is_flag("entropy")
        && matches!(codec.entropy, EntropyName::Coded(_))
    {
        codec.entropy = EntropyName::Coded(None);
    }
    codec.entropy().map_err(|failure| options.blame("level", failure))?;
    let hurries = codec.entropy == EntropyName::Coded(None) && codec.level.is_none();
    let encoder = codec
        .encoder(inside != InsideName::Off)
        .map_err(|failure| options.blame("sampler", failure))?;
    Ok((encoder, hurries))
}

/// Parameters of `serve`.
pub(super) fn serve(options: &Options<ServeArgs>) -> Outcome<(ServeConfig, Process)> {
    let (mut endpoint, process) = endpoint(options)?;
    endpoint.egress = egress(options, &endpoint.egress)?;
    endpoint.egress.origins = https::origins(options)?;
    if let Some(directory) = &options.args.invitations {
        if options.args.endpoint.authorized_peers.is_none() {
            return Err(options.wrong(
                "invitations",
                "invitations need a file for the keys of those who come: pass --authorized-peers FILE",
            ));
        }
        if endpoint.transport == TransportKind::Quic {
            return Err(options.wrong(
                "invitations",
                "peers join over TCP, and --transport quic does not listen there",
            ));
        }
        let invitations = Invitations::at(directory).map_err(|error| {
            options.blame("invitations", Failure::failed(without_number(&error)))
        })?;
        endpoint.invitations = Some(invitations);
    }
    let mut listen = options.args.listen.clone();
    if listen.is_empty() {
        listen = ServeArgs::default().listen;
    }
    for (at, address) in listen.iter().enumerate() {
        if listen[..at].contains(address) {
            let why = format!("{}{address} is listed twice", options.place("listen", at));
            return Err(Failure::usage(why));
        }
    }
    Ok((ServeConfig { endpoint, listen, max_sessions: options.args.max_sessions }, process))
}

/// The rules of `serve`, which SIGHUP reloads.
pub(super) fn egress(options: &Options<ServeArgs>, base: &Egress) -> Outcome<Egress> {
    let ServeArgs { allow, allow_listen, .. } = &options.args;
    // One by one, to say which.
    for (at, rule) in allow.iter().enumerate() {
        AllowList::parse(&[rule])
            .map_err(|error| Failure::usage(format!("{}{error}", options.place("allow", at))))?;
    }
    let allow = AllowList::parse(allow).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Egress { allow, allow_listen: allow_listen.clone(), ..base.clone() })
}

/// Parameters of `connect`.
pub(super) fn connect(options: &Options<ConnectArgs>) -> Outcome<(ConnectConfig, Process)> {
    let (endpoint, process) = endpoint(options)?;
    if endpoint.peers.with_rules() > 0 {
        return Err(Failure::usage(
            "allow= of a peer is for `serve`, which opens connections for its peers",
        ));
    }
    let ConnectArgs { server, forward, reverse, proxy, .. } = options.args.clone();
    let server = server.ok_or_else(|| {
        options.missing("no server: name the other end as host:port, such as site-b:7077")
    })?;
    if forward.is_empty() && reverse.is_empty() && proxy.is_empty() {
        return Err(options.missing("nothing to forward: pass -L, -R or --proxy"));
    }
    let proxy_access = proxy_access(options)?;
    let https = https::https(options)?;
    let config = ConnectConfig {
        endpoint,
        server,
        forwards: forward,
        reverse,
        proxies: proxy,
        proxy_access,
        https,
    };
    Ok((config, process))
}

/// Who may use the proxies.
fn proxy_access(options: &Options<ConnectArgs>) -> Outcome<ProxyAccess> {
    let ConnectArgs { proxy, proxy_users, proxy_clients, .. } = &options.args;
    if proxy.is_empty() {
        let of_proxy =
            [("proxy_users", proxy_users.is_some()), ("proxy_clients", !proxy_clients.is_empty())];
        if let Some((key, _)) = of_proxy.into_iter().find(|(_, is_set)| *is_set) {
            let why = "no proxy that it could be for: pass --proxy ADDRESS, too";
            return Err(options.wrong(key, why));
        }
    }
    let load = |path: &PathBuf| {
        Passwords::load(path)
            .map_err(|error| options.blame("proxy_users", Failure::failed(without_number(&error))))
    };
    let passwords = proxy_users.as_ref().map(load).transpose()?;
    Ok(ProxyAccess { clients: proxy_clients.clone(), passwords })
}

/// What `check-config` found in the file of a server, and why that will not work although it is
/// valid.
pub(crate) fn describe_server(file: &Path) -> Outcome<(String, Vec<&'static str>)> {
    let config = serve(&Options::of_file(file)?)?.0;
    let rules = &config.endpoint.egress;
    let mut warnings = Vec::new();
    let with_rules = config.endpoint.peers.with_rules();
    if rules.allow.is_empty() && rules.allow_listen.is_empty() && with_rules == 0 {
        warnings.push("peers can reach nothing: add allow or allow_listen");
    }
    let mut parts = vec![
        format!("listens on {}", counted(config.listen.len(), "address", "addresses")),
        counted(rules.allow.len(), "rule for destinations", "rules for destinations"),
        counted(
            rules.allow_listen.len(),
            "address for peers to listen on",
            "addresses for peers to listen on",
        ),
    ];
    if with_rules > 0 {
        parts.push(counted(
            with_rules,
            "peer with rules of its own",
            "peers with rules of their own",
        ));
    }
    Ok(describe(RoleName::Serve, &config.endpoint, &parts, warnings))
}

/// As [`describe_server`], of a client.
pub(crate) fn describe_client(file: &Path) -> Outcome<(String, Vec<&'static str>)> {
    let config = connect(&Options::of_file(file)?)?.0;
    let mut parts = vec![
        format!("server {}", config.server),
        counted(config.forwards.len(), "forward", "forwards"),
        counted(config.reverse.len(), "reverse forward", "reverse forwards"),
        counted(config.proxies.len(), "proxy", "proxies"),
    ];
    if let Some(passwords) = &config.proxy_access.passwords {
        parts.push(counted(passwords.len(), "password", "passwords"));
    }
    let mut warnings = Vec::new();
    if let Some(https) = &config.https {
        parts.push(counted(https.services().len(), "HTTPS service", "HTTPS services"));
        warnings.extend(https::warnings(https));
    }
    Ok(describe(RoleName::Connect, &config.endpoint, &parts, warnings))
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn describe(
    role: RoleName,
    endpoint: &Endpoint,
    parts: &[String],
    mut warnings: Vec<&'static str>,
) -> (String, Vec<&'static str>) {
    let (key, peers) = (
        endpoint.secret.public(),
        counted(endpoint.peers.len(), "authorized peer", "authorized peers"),
    );
    if endpoint.peers.is_empty() {
        warnings.push("no peer is authorized, so every handshake will fail");
    }
    let memory = format!("{} of memory are enough", binary(endpoint.memory));
    let found = format!(
        "valid for `oncewire {}`: public key {key}, {peers}, {}, {memory}",
        role.name(),
        parts.join(", ")
    );
    (found, warnings)
}
