//! Two ends and an origin on loopback, all real sockets.

use oncewire_net::allow::AllowList;
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::{ConnectConfig, Connection, Endpoint, ServeConfig, Server, connect, serve};
use oncewire_testkit::faults::FaultProxy;
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;

/// Time limit for anything in these tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);

/// Both ends of a tunnel.
pub(crate) struct Pair {
    pub(crate) server: Server,
    pub(crate) client: Connection,
}

/// Parameters of both ends, to change before they start.
pub(crate) struct Plan {
    pub(crate) serve: ServeConfig,
    pub(crate) connect: ConnectConfig,
}

impl Plan {
    /// Ends that accept each other; the server allows everything on loopback.
    pub(crate) fn new() -> Plan {
        let (here, there) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let trust = |key: &SecretKey| AuthorizedPeers::new([Peer::from(key.public())]);
        let mut server = Endpoint::new(there.clone(), trust(&here));
        server.egress.allow =
            AllowList::parse(&["127.0.0.0/8:*", "[::1]:*", "localhost:*"]).unwrap();
        server.memory = 128 << 20;
        let mut client = Endpoint::new(here, trust(&there));
        client.memory = 128 << 20;
        Plan {
            serve: ServeConfig {
                endpoint: server,
                listen: vec!["127.0.0.1:0".parse().unwrap()],
                max_sessions: 64,
            },
            connect: ConnectConfig::new(client, "127.0.0.1:1".parse().unwrap()),
        }
    }

    /// A forward to `origin`; its address is the next of [`Connection::addresses`].
    pub(crate) fn forward(mut self, origin: SocketAddr) -> Plan {
        self.connect.forwards.push(format!("127.0.0.1:0:{origin}").parse().unwrap());
        self
    }

    /// Ends that notice silence within a second, and wait `grace` for a transport.
    pub(crate) fn impatient(mut self, grace: Duration) -> Plan {
        for endpoint in [&mut self.serve.endpoint, &mut self.connect.endpoint] {
            endpoint.keep_alive = Duration::from_millis(250);
            endpoint.dead_after = Duration::from_millis(700);
            endpoint.grace = grace;
        }
        self
    }

    pub(crate) fn lanes(mut self, lanes: usize) -> Plan {
        self.serve.endpoint.lanes = lanes;
        self.connect.endpoint.lanes = lanes;
        self
    }

    pub(crate) async fn start(self) -> Pair {
        let server = serve(self.serve).await.unwrap();
        let client = client(self.connect, server.addresses()[0]).await;
        client.established(LIMIT).await.unwrap();
        Pair { server, client }
    }

    /// With a proxy between the ends that can inject faults.
    pub(crate) async fn start_with_faults(self) -> (Pair, FaultProxy) {
        let server = serve(self.serve).await.unwrap();
        let proxy = FaultProxy::start(server.addresses()[0]).unwrap();
        let client = client(self.connect, proxy.addr()).await;
        client.established(LIMIT).await.unwrap();
        (Pair { server, client }, proxy)
    }
}

/// A client of the server at `address`.
pub(crate) async fn client(mut config: ConnectConfig, address: SocketAddr) -> Connection {
    config.server = address.to_string().parse().unwrap();
    connect(config).await.unwrap()
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = tokio::time::Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Pair {
    /// A connection of an application to the first forward.
    pub(crate) async fn application(&self) -> TcpStream {
        TcpStream::connect(self.client.addresses()[0]).await.unwrap()
    }
}

/// Whether a connection to `address` is reset before anything arrives, perhaps so early that
/// connecting fails.
pub(crate) async fn is_reset(address: SocketAddr) -> bool {
    let attempt = async {
        let mut stream = TcpStream::connect(address).await?;
        // A reset is reported once, to whichever call comes first.
        stream.write_all(b"x").await?;
        stream.read(&mut [0; 1]).await
    };
    let end = tokio::time::timeout(LIMIT, attempt).await.expect("it is neither served nor refused");
    end.is_err_and(|error| {
        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
    })
}

/// An origin that does the same with every connection.
pub(crate) async fn origin<F, R>(act: F) -> SocketAddr
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(act(stream));
        }
    });
    address
}

/// An origin that sends `content` while it receives, and reports what it received once the other
/// side has finished.
pub(crate) async fn trader(content: Vec<u8>) -> (SocketAddr, UnboundedReceiver<Vec<u8>>) {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let content: std::sync::Arc<[u8]> = content.into();
    let address = origin(move |mut stream| {
        let (tell, content) = (tell.clone(), content.clone());
        async move {
            let (mut reader, mut writer) = stream.split();
            let send = async {
                writer.write_all(&content).await?;
                writer.shutdown().await
            };
            let mut got = Vec::new();
            if tokio::try_join!(send, reader.read_to_end(&mut got)).is_ok() {
                let _ = tell.send(got);
            }
        }
    })
    .await;
    (address, told)
}

/// Sends back what it gets, and finishes when the other side does.
pub(crate) async fn echo(mut stream: TcpStream) {
    let (mut reader, mut writer) = stream.split();
    let _ = tokio::io::copy(&mut reader, &mut writer).await;
    let _ = writer.shutdown().await;
}

/// Sends `bytes`, finishes, and returns all that comes back.
pub(crate) async fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = stream.split();
    let send = async {
        writer.write_all(bytes).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let receive = async { reader.read_to_end(&mut back).await.unwrap() };
    tokio::time::timeout(LIMIT, async { tokio::join!(send, receive) })
        .await
        .expect("it took too long");
    back
}
