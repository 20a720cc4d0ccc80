//! Arguments of `keygen`, `serve`, `connect` and `check-config`.
//!
//! [`ServeArgs`] and [`ConnectArgs`] are the only definition of a tunnel's options. The command
//! line, the configuration file (TOML), `check-config`, help, man pages and completions all come
//! from them. A key of the file is the name of the field, and so the option's name with
//! underscores. `docs/examples` has a file with every key; a test compares it with these
//! structures.

use super::process::{LogArgs, WatchArgs};
use super::store::StoreArgs;
use super::values::{Group, choice, defaults, duration, groups, parsed, some_text, texts};
use super::{CodecArgs, OriginArgs, TerminateArgs};
use crate::quantity::{parse_share, parse_size, parse_time, size, time};
use clap::{Args, ValueEnum};
use oncewire_codec::Sharing;
use oncewire_codec::adapt::CpuShare;
use oncewire_net::listener::{Bind, Forward, ProxyListener};
use oncewire_net::proxy::ClientNetwork;
use oncewire_net::target::Target;
use oncewire_net::{DEFAULT_MEMORY, TransportKind};
use oncewire_session::{Config, LEAST_PAD, MAX_LANES, MOST_PAD};
use serde::Deserialize;
use serde::de::Deserializer;
use std::path::PathBuf;
use std::time::Duration;

/// Most memory that an end can be given, in bytes.
const LARGEST_MEMORY: u64 = 4 << 40;
/// Where `serve` listens for peers by default.
const LISTEN: &str = "*:7077";
/// Default limit on sessions.
const MAX_SESSIONS: usize = 1024;
/// Default time for open connections to finish after SIGTERM.
const DRAIN: Duration = Duration::from_secs(30);
/// Memory per connection, in bytes: its share of the queues toward applications.
pub(crate) const FLOW_MEMORY: u64 = 256 << 10;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire keygen a.key > a.pub
  oncewire keygen --show a.key

The file gets the secret key, and only its owner can read it. The public key, one line, goes to standard output: give it to the \
other end, as --peer KEY or as a line of its --authorized-peers file.")]
pub(crate) struct KeygenArgs {
    /// File for the secret key; an existing one is never overwritten
    pub(crate) file: PathBuf,
    /// Print the public key of an existing file instead
    #[arg(long)]
    pub(crate) show: bool,
    /// Print one JSON document instead of the line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of both ends of a tunnel.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointArgs {
    /// Read options from this file (TOML); those on the command line override it
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Secret key of this end, made by `oncewire keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Public key of the other end, with an optional name: "KEY NAME"; repeatable. For `serve`,
    /// allow=RULE,... says what only this peer may reach, instead of --allow. With
    /// expires=YYYY-MM-DD it is accepted until that day ends, by UTC
    #[arg(long, value_name = "KEY")]
    pub(crate) peer: Vec<String>,
    /// File of peers, one per line as for --peer; SIGHUP reloads it
    #[arg(long, value_name = "FILE")]
    pub(crate) authorized_peers: Option<PathBuf>,
    /// Memory for everything that grows: content caches, tables, queues
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, default_value = size(DEFAULT_MEMORY), help_heading = "Limits")]
    #[serde(deserialize_with = "memory")]
    pub(crate) memory: u64,
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Limits", help = format!(
        "Parallel transports to the peer, 1 to {MAX_LANES}; the smaller number of the two ends applies"
    ))]
    pub(crate) lanes: usize,
    #[arg(long, value_name = "N", help_heading = "Limits", help = format!(
        "Connections open at once per session; more wait for a second, then are refused [default and maximum: one per {} of \
         --memory]", size(FLOW_MEMORY)
    ))]
    pub(crate) max_flows: Option<u64>,
    /// Protocol that carries the tunnel
    #[arg(long, value_name = "KIND", default_value = "tcp")]
    #[serde(deserialize_with = "choice")]
    pub(crate) transport: TransportName,
    /// What this end's encoder may refer to across isolation domains. A domain is a client address,
    /// a user of this machine, a user name at the proxy, or what domain=NAME says. With `all`,
    /// sizes on the wire let one domain guess what others send. Each end decides for what it sends
    #[arg(long, value_name = "WHAT", default_value = "chunks")]
    #[serde(deserialize_with = "choice")]
    pub(crate) share: ShareName,
    /// Hide the exact size of what this end sends: fill each write to the network up to a power of
    /// two of bytes, from 64 B on, and beyond SIZE to a multiple of SIZE [default: no padding]
    #[arg(long, value_name = "SIZE", value_parser = parse_pad)]
    #[serde(deserialize_with = "pad")]
    pub(crate) pad: Option<u32>,
    /// Silence after which this end probes the peer
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Config::default().keep_alive), help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) keep_alive: Duration,
    /// Silence after which this end gives up a transport; at least twice --keep-alive
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Config::default().dead_after), help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) dead_after: Duration,
    /// How long connections survive an outage of the path
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Config::default().grace), help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) grace: Duration,
    /// How long open connections may take to finish after SIGTERM
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(DRAIN), help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) drain: Duration,
    /// After SIGTERM, end at once, so that a successor can start, and let another process finish
    /// open connections meanwhile
    #[arg(long, help_heading = "Timeouts")]
    pub(crate) drain_in_background: bool,
    #[command(flatten, next_help_heading = "Codec, for what this end sends")]
    #[serde(skip)]
    pub(crate) codec: CodecArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) store: StoreArgs,
    /// When to find repeats inside gzip, zlib, zip, PNG and zstd. Takes a seventh of the cache's
    /// size and 20 MB of memory. Needs the entropy stage coded
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Codec, for what this end sends"
    )]
    #[serde(deserialize_with = "choice")]
    pub(crate) inside: InsideName,
    /// Share of one core that encoding may use per session, such as 25%. When over budget it first
    /// compresses less, then searches less, and finally sends data unchanged [default: no limit]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Codec, for what this end sends")]
    #[serde(deserialize_with = "share")]
    pub(crate) cpu_budget: Option<CpuShare>,
    /// Unix socket for `oncewire status` [default: oncewire-serve.sock or oncewire-connect.sock in
    /// $XDG_RUNTIME_DIR, if that is set]
    #[arg(long, value_name = "PATH", help_heading = "Process")]
    pub(crate) status: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) watched: WatchArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) logging: LogArgs,
    /// Log one line for each connection that ends or is denied: whose, where to, bytes, seconds
    #[arg(long, help_heading = "Process")]
    pub(crate) log_flows: bool,
}

#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
#[command(mut_arg("level", super::level_of_tunnel))]
#[command(after_help = "\
Examples:
  oncewire serve --key b.key --peer \"$(cat a.pub)\" --allow origin.example:80
  oncewire serve --config /etc/oncewire/serve.toml

Peers reach only the destinations that --allow names; without any, none. A rule is a name or a network, then a port, a range of \
ports or *: origin.example:80, *.example.com:443, 10.0.0.0/8:8000-8100, [2001:db8::]/32:*, localhost:5432.

SIGHUP reloads the rules of the configuration file and the authorized peers. SIGTERM drains open connections first.")]
pub(crate) struct ServeArgs {
    /// Listen for peers on [bind:]port; repeatable. * is every address, IPv6 and IPv4
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    #[serde(deserialize_with = "texts")]
    pub(crate) listen: Vec<Bind>,
    /// Destination that peers may reach, host:ports; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Address on which peers may make this end listen (their -R), [bind:]port; repeatable
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "texts")]
    pub(crate) allow_listen: Vec<Bind>,
    /// Sessions open at once
    #[arg(long, value_name = "N", default_value_t = MAX_SESSIONS, help_heading = "Limits")]
    pub(crate) max_sessions: usize,
    /// Directory of invitations made by `oncewire invite`, for peers that join with a token. Their
    /// keys are added to the file of --authorized-peers
    #[arg(long, value_name = "DIR")]
    pub(crate) invitations: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) origins: OriginArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) endpoint: EndpointArgs,
}

#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
#[command(mut_arg("level", super::level_of_tunnel))]
#[command(after_help = "\
Examples:
  oncewire connect site-b:7077 --key a.key --peer \"$(cat b.pub)\" \\
    -L 8080:origin.example:80
  oncewire connect site-b:7077 --key a.key --peer \"$(cat b.pub)\" --proxy 1080
  curl --proxy socks5h://localhost:1080 http://origin.example/
  oncewire connect site-b:7077 --key a.key --peer \"$(cat b.pub)\" \\
    --proxy 10.1.0.1:1080 --proxy-users users --proxy-clients 10.1.0.0/16

-L and -R are written as for ssh: [bind:]port:host:hostport. With ,domain=NAME after -L, -R or --proxy, their connections are of \
that isolation domain (--share), at either end. The proxy serves SOCKS5, HTTP CONNECT and plain HTTP on one port. \
The end that connects to a target resolves its name.")]
pub(crate) struct ConnectArgs {
    /// Where the other end listens, host:port
    #[serde(deserialize_with = "some_text")]
    pub(crate) server: Option<Target>,
    /// Listen here and forward connections to a target on the other side; repeatable
    #[arg(short = 'L', long, value_name = "FORWARD")]
    #[serde(deserialize_with = "texts")]
    pub(crate) forward: Vec<Forward>,
    /// Listen on the other side and forward connections to a target here; repeatable. The other end
    /// must allow it with --allow-listen
    #[arg(short = 'R', long, value_name = "FORWARD")]
    #[serde(deserialize_with = "texts")]
    pub(crate) reverse: Vec<Forward>,
    /// Run a proxy on [bind:]port; repeatable
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "texts")]
    pub(crate) proxy: Vec<ProxyListener>,
    /// File of those who may use the proxy, a line name:password for each, mode 0600; SIGHUP reloads
    /// it. Without it, clients need no password
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_users: Option<PathBuf>,
    /// Network whose clients may use the proxy, such as 10.1.0.0/16; repeatable [default: all who
    /// can connect]
    #[arg(long, value_name = "NETWORK")]
    #[serde(deserialize_with = "texts")]
    pub(crate) proxy_clients: Vec<ClientNetwork>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) https: TerminateArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) endpoint: EndpointArgs,
}

/// Options that a configuration file can set.
pub(crate) trait FileArgs: Args + Default {
    const ROLE: RoleName;

    /// The options of a file's text over the defaults. Unknown keys are ignored.
    ///
    /// # Errors
    ///
    /// If a value is of the wrong type or cannot be parsed; the error has its span.
    fn from_toml(text: &str) -> Result<Self, toml::de::Error>;
}

/// Implements [`FileArgs`] for a role: each group of options is read from the same text.
macro_rules! file_args {
    ($args:ident, $role:expr, $($group:ident),+) => {
        impl Default for $args {
            fn default() -> $args {
                $crate::args::values::defaults()
            }
        }

        impl $crate::args::FileArgs for $args {
            const ROLE: $crate::args::RoleName = $role;

            fn from_toml(text: &str) -> Result<$args, toml::de::Error> {
                $(let $group = $crate::args::values::Group::from_toml(text)?;)+
                Ok($args { $($group,)+ ..toml::from_str(text)? })
            }
        }
    };
}
pub(super) use file_args;

/// Options of one end of a tunnel.
pub(crate) trait TunnelArgs: FileArgs {
    fn endpoint(&self) -> &EndpointArgs;
}

impl TunnelArgs for ServeArgs {
    fn endpoint(&self) -> &EndpointArgs {
        &self.endpoint
    }
}

file_args!(ServeArgs, RoleName::Serve, endpoint, origins);

impl TunnelArgs for ConnectArgs {
    fn endpoint(&self) -> &EndpointArgs {
        &self.endpoint
    }
}

file_args!(ConnectArgs, RoleName::Connect, endpoint, https);

impl Group for EndpointArgs {
    fn from_toml(text: &str) -> Result<EndpointArgs, toml::de::Error> {
        Ok(EndpointArgs {
            codec: toml::from_str(text)?,
            store: toml::from_str(text)?,
            watched: toml::from_str(text)?,
            logging: toml::from_str(text)?,
            ..toml::from_str(text)?
        })
    }
}

impl Default for EndpointArgs {
    fn default() -> EndpointArgs {
        defaults()
    }
}

groups!(CodecArgs);

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parsed(from, parse_memory)
}

fn pad<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    parsed(from, parse_pad).map(Some)
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CpuShare>, D::Error> {
    parsed(from, parse_share).map(Some)
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes > LARGEST_MEMORY {
        Err(format!("at most {}", size(LARGEST_MEMORY)))
    } else {
        Ok(bytes)
    }
}

fn parse_pad(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    let fits = u32::try_from(bytes).ok().filter(|pad| (LEAST_PAD..=MOST_PAD).contains(pad));
    fits.ok_or_else(|| format!("{} to {}", size(LEAST_PAD.into()), size(MOST_PAD.into())))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShareName {
    /// Everything, for a link whose users trust each other
    All,
    /// Whole pieces of content of a kilobyte or more, which cannot be guessed byte by byte
    Chunks,
    /// Nothing
    None,
}

impl From<ShareName> for Sharing {
    fn from(name: ShareName) -> Sharing {
        match name {
            ShareName::All => Sharing::All,
            ShareName::Chunks => Sharing::Chunks,
            ShareName::None => Sharing::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InsideName {
    /// Where that is not slower than sending such content as it is, which is tried as it moves
    Auto,
    /// Even where it is slower, for the fewest bytes
    Always,
    /// Never
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportName {
    /// TLS 1.3 over TCP
    Tcp,
    /// QUIC, over UDP
    Quic,
    /// QUIC, and TCP where QUIC does not get through
    Auto,
}

impl From<TransportName> for TransportKind {
    fn from(name: TransportName) -> TransportKind {
        match name {
            TransportName::Tcp => TransportKind::Tcp,
            TransportName::Quic => TransportKind::Quic,
            TransportName::Auto => TransportKind::Auto,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire check-config serve /etc/oncewire/serve.toml

Parses every key, loads the secret key and the authorized peers, and computes whether the memory suffices. Resolves no name, \
opens no port and no connection.")]
pub(crate) struct CheckConfigArgs {
    /// Command that the file configures
    #[arg(value_enum)]
    pub(crate) role: RoleName,
    /// Configuration file
    pub(crate) file: PathBuf,
    /// Print one JSON document instead of the line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// The server end of a tunnel
    Serve,
    /// The client end of a tunnel
    Connect,
    /// An end of a packet link
    #[cfg(target_os = "linux")]
    Link,
    /// A node of a network
    #[cfg(target_os = "linux")]
    Node,
    /// The controller of a network of nodes
    #[cfg(target_os = "linux")]
    Controller,
}

impl RoleName {
    /// The command's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RoleName::Serve => "serve",
            RoleName::Connect => "connect",
            #[cfg(target_os = "linux")]
            RoleName::Link => "link",
            #[cfg(target_os = "linux")]
            RoleName::Node => "node",
            #[cfg(target_os = "linux")]
            RoleName::Controller => "controller",
        }
    }

    /// The command's definition.
    pub(crate) fn command(self) -> clap::Command {
        match self {
            RoleName::Serve => ServeArgs::augment_args(clap::Command::new("serve")),
            RoleName::Connect => ConnectArgs::augment_args(clap::Command::new("connect")),
            #[cfg(target_os = "linux")]
            RoleName::Link => super::LinkArgs::augment_args(clap::Command::new("link")),
            #[cfg(target_os = "linux")]
            RoleName::Node => super::NodeArgs::augment_args(clap::Command::new("node")),
            #[cfg(target_os = "linux")]
            RoleName::Controller => {
                super::ControllerRunArgs::augment_args(clap::Command::new("controller"))
            }
        }
    }

    /// The keys of its configuration file: all its options, except the file itself and those that
    /// name the peer of a link, which has tables of peers instead.
    pub(crate) fn keys(self) -> Vec<String> {
        let ids = self
            .command()
            .get_arguments()
            .map(|option| option.get_id().to_string())
            .collect::<Vec<_>>();
        let is_key = |id: &String| {
            let is_peers =
                !self.table_keys("peer").is_empty() && ["server", "allowed"].contains(&id.as_str());
            id != "config" && !is_peers
        };
        ids.into_iter().filter(is_key).collect()
    }

    /// The keys of each table in an array of tables; none, if the key has another value.
    pub(crate) fn table_keys(self, key: &str) -> &'static [&'static str] {
        match (self, key) {
            #[cfg(target_os = "linux")]
            (RoleName::Link, "peer") => &super::PEER_KEYS,
            _ => &[],
        }
    }
}
