//! Whose a connection is decides what its content may be sent as.

use crate::pair::{LIMIT, Pair, Plan, echo, exchange, origin};
use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_testkit::content::incompressible;
use oncewire_testkit::faults::FaultProxy;
use oncewire_testkit::servers::{free_port, wait_for_port};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LEN: usize = 200_000;

/// How an application connects.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// A forward or listener, by its place.
    Port(usize),
    /// The proxy, with SOCKS5 and a user name.
    Socks(&'static str),
    /// The proxy, with HTTP CONNECT and these credentials.
    Connect(&'static str),
}

struct Tunnel {
    pair: Pair,
    path: FaultProxy,
    /// The forwards, the proxy, and the listeners at the server.
    ports: Vec<SocketAddr>,
    origin: SocketAddr,
}

impl Tunnel {
    async fn start(sharing: Sharing) -> Tunnel {
        let origin = origin(echo).await;
        let mut plan = Plan::new();
        let reverse = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
            endpoint.encoder = EncoderBuilder::default().sharing(sharing);
        }
        for option in ["", ",domain=a", ",domain=b"] {
            let forward = format!("127.0.0.1:0:{origin}{option}");
            plan.connect.forwards.push(forward.parse().unwrap());
        }
        plan.connect.proxies.push("127.0.0.1:0".parse().unwrap());
        plan.connect.reverse.push(format!("{reverse}:{origin},domain=a").parse().unwrap());
        plan.serve.endpoint.egress.allow_listen.push(reverse.to_string().parse().unwrap());
        let (pair, path) = plan.start_with_faults().await;
        let mut ports = pair.client.addresses().to_vec();
        ports.push(reverse);
        tokio::task::spawn_blocking(move || wait_for_port(reverse, LIMIT)).await.unwrap().unwrap();
        Tunnel { pair, path, ports, origin }
    }

    async fn connect(&self, way: Way) -> TcpStream {
        let origin = self.origin;
        match way {
            Way::Port(at) => TcpStream::connect(self.ports[at]).await.unwrap(),
            Way::Socks(user) => {
                let mut stream = TcpStream::connect(self.ports[3]).await.unwrap();
                let port = origin.port().to_be_bytes();
                let mut request = vec![5, 1, 2, 1, user.len() as u8];
                request.extend_from_slice(user.as_bytes());
                request.extend_from_slice(&[1, b'x', 5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]]);
                stream.write_all(&request).await.unwrap();
                let mut answer = [0; 14];
                timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
                assert_eq!(answer[..6], [5, 2, 1, 0, 5, 0]);
                stream
            }
            Way::Connect(credentials) => {
                let mut stream = TcpStream::connect(self.ports[3]).await.unwrap();
                let request = format!(
                    "CONNECT {origin} HTTP/1.1\r\nProxy-Authorization: Basic {credentials}\r\n\r\n"
                );
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(b"\r\n\r\n") {
                    answer.push(timeout(LIMIT, stream.read_u8()).await.unwrap().unwrap());
                }
                stream
            }
        }
    }

    /// Sends content to the origin and back; returns whether it crossed in full.
    async fn crosses(&self, way: Way, content: &[u8]) -> bool {
        let before = self.path.bytes_up() + self.path.bytes_down();
        assert!(exchange(self.connect(way).await, content).await == content);
        let crossed = self.path.bytes_up() + self.path.bytes_down() - before;
        let new = crossed as usize > 2 * LEN;
        assert!(new || (crossed as usize) < LEN / 5, "{way:?}: {crossed} bytes");
        new
    }

    fn stop(self) {
        self.pair.client.stop();
        self.pair.server.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_user_and_rule_is_a_domain_of_its_own() {
    let tunnel = Tunnel::start(Sharing::None).await;
    let content = incompressible(1, LEN);
    // This user without and with names at the proxy, and two rules.
    for way in [
        Way::Port(0),
        Way::Port(1),
        Way::Port(2),
        Way::Socks("alice"),
        Way::Socks("bob"),
        // "carol" and "dave", each with a password.
        Way::Connect("Y2Fyb2w6eA=="),
        Way::Connect("ZGF2ZTp4"),
    ] {
        assert!(tunnel.crosses(way, &content).await, "{way:?}: nobody of its domain has sent this");
        assert!(!tunnel.crosses(way, &content).await, "{way:?}: its own content again");
    }
    for way in [
        // The same users by another protocol; the same rule at the server's listener.
        Way::Connect("YWxpY2U6"),
        Way::Socks("carol"),
        Way::Port(4),
    ] {
        assert!(!tunnel.crosses(way, &content).await, "{way:?}: content of its domain");
    }
    tunnel.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_is_shared_content_crosses_once() {
    let tunnel = Tunnel::start(Sharing::All).await;
    let content = incompressible(2, LEN);
    assert!(tunnel.crosses(Way::Port(1), &content).await);
    for way in [Way::Port(0), Way::Port(2), Way::Socks("alice"), Way::Port(4)] {
        assert!(!tunnel.crosses(way, &content).await, "{way:?}");
    }
    tunnel.stop();
}
