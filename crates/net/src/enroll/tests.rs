use super::*;
use crate::keys::{AuthorizedPeers, SecretKey};
use crate::{Endpoint, ServeConfig, Server, serve as serve_tunnel};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt;

struct World {
    directory: tempfile::TempDir,
    secret: SecretKey,
    peers: AuthorizedPeers,
    invitations: Invitations,
}

impl World {
    fn new() -> World {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("peers");
        // Without a line end, as editors may leave it.
        fs::write(&file, "# ours").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let peers = AuthorizedPeers::with_file([], &file).unwrap();
        let invitations = Invitations::at(&directory.path().join("invitations")).unwrap();
        World { secret: SecretKey::generate().unwrap(), peers, invitations, directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("peers")
    }

    fn invite(&self, words: &str, left: Duration) -> Token {
        let invitation = Invitation::new(words, SystemTime::now() + left).unwrap();
        self.invitations.add(&invitation, self.secret.public()).unwrap()
    }

    async fn serve(&self, invitations: bool) -> Server {
        let mut endpoint = Endpoint::new(self.secret.clone(), self.peers.clone());
        endpoint.invitations = invitations.then(|| self.invitations.clone());
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        serve_tunnel(ServeConfig { endpoint, listen, max_sessions: 4 }).await.unwrap()
    }
}

fn at(server: &Server) -> crate::target::Target {
    server.addresses()[0].to_string().parse().unwrap()
}

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_token_is_good_for_one_key() {
    let world = World::new();
    let server = world.serve(true).await;
    let token = world.invite("branch-7  allow=10.0.0.0/8:443", DAY);
    let (first, second) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    enroll(&at(&server), &token, &first).await.unwrap();
    assert!(world.peers.contains(&first.public()));
    assert_eq!(world.peers.name_of(&first.public()).as_deref(), Some("branch-7"));
    assert!(world.peers.rules_of(&first.public()).is_some());
    let text = fs::read_to_string(world.file()).unwrap();
    assert_eq!(text, format!("# ours\n{} branch-7 allow=10.0.0.0/8:443\n", first.public()));
    let mode = fs::metadata(world.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "permissions stay");

    let refused = enroll(&at(&server), &token, &second).await;
    assert!(matches!(refused, Err(EnrollError::Unknown)), "{refused:?}");
    assert!(!world.peers.contains(&second.public()));
    // The answer was lost: the same key comes again.
    enroll(&at(&server), &token, &first).await.unwrap();
    assert_eq!(fs::read_to_string(world.file()).unwrap(), text);
    let left = fs::read_dir(world.directory.path().join("invitations")).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn an_invitation_ends() {
    let world = World::new();
    let server = world.serve(true).await;
    let token = world.invite("late", Duration::ZERO);
    let refused = enroll(&at(&server), &token, &SecretKey::generate().unwrap()).await;
    assert!(matches!(refused, Err(EnrollError::Unknown)), "{refused:?}");
    assert!(world.peers.is_empty());
}

#[tokio::test]
async fn of_many_that_come_at_once_one_gets_in() {
    let world = World::new();
    let server = world.serve(true).await;
    let token = world.invite("one", DAY);
    let tries: Vec<_> = (0..16)
        .map(|_| {
            let (server, token) = (at(&server), token.clone());
            tokio::spawn(async move {
                enroll(&server, &token, &SecretKey::generate().unwrap()).await.is_ok()
            })
        })
        .collect();
    let mut accepted = 0;
    for one in tries {
        accepted += usize::from(one.await.unwrap());
    }
    assert_eq!((accepted, world.peers.len()), (1, 1));
}

#[tokio::test]
async fn another_server_and_one_without_invitations_say_so() {
    let world = World::new();
    let token = world.invite("branch", DAY);
    let key = SecretKey::generate().unwrap();
    let plain = world.serve(false).await;
    let refused = enroll(&at(&plain), &token, &key).await;
    assert!(matches!(refused, Err(EnrollError::NotOffered)), "{refused:?}");
    let other = World::new();
    let server = other.serve(true).await;
    let refused = enroll(&at(&server), &token, &key).await;
    let Err(EnrollError::Handshake(crate::HandshakeError::UnknownKey { key: shown })) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(shown, other.secret.public());
}

/// What cannot be written costs nobody an invitation.
#[tokio::test]
async fn a_token_stays_good_if_the_file_cannot_be_written() {
    let world = World::new();
    let server = world.serve(true).await;
    let token = world.invite("branch", DAY);
    let key = SecretKey::generate().unwrap();
    let text = fs::read_to_string(world.file()).unwrap();
    fs::write(world.file(), "not a peer\n").unwrap();
    let refused = enroll(&at(&server), &token, &key).await;
    assert!(matches!(refused, Err(EnrollError::Server)), "{refused:?}");
    assert_eq!(fs::read_to_string(world.file()).unwrap(), "not a peer\n");
    let files: Vec<_> = fs::read_dir(world.directory.path()).unwrap().collect();
    assert_eq!(files.len(), 2, "no other file is left: {files:?}");
    fs::write(world.file(), text).unwrap();
    enroll(&at(&server), &token, &key).await.unwrap();
    assert!(world.peers.contains(&key.public()));
}

/// A key that was enrolled for a session is one, and a stranger's is none, with invitations or not.
#[tokio::test]
async fn strangers_get_no_session() {
    let world = World::new();
    let server = world.serve(true).await;
    let key = SecretKey::generate().unwrap();
    let connect = || async {
        let only = AuthorizedPeers::new([crate::keys::Peer::from(world.secret.public())]);
        let config = crate::ConnectConfig {
            forwards: vec!["127.0.0.1:0:127.0.0.1:9".parse().unwrap()],
            ..crate::ConnectConfig::new(Endpoint::new(key.clone(), only), at(&server))
        };
        let connection = crate::connect(config).await.unwrap();
        let result = connection.established(Duration::from_secs(20)).await;
        connection.stop();
        result
    };
    let only = AuthorizedPeers::new([crate::keys::Peer::from(world.secret.public())]);
    let config = crate::tls::client_config(&key, &only, crate::tls::Credential::RawKey).unwrap();
    let stream = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(config);
    let mut stream = connector.connect(crate::tls::server_name(), stream).await.unwrap();
    stream.read_u8().await.expect_err("a stranger is refused when it shows its key");
    enroll(&at(&server), &world.invite("branch", DAY), &key).await.unwrap();
    connect().await.unwrap();
}

#[test]
fn tokens_survive_text_and_mistakes_are_found() {
    let token = Token::new(SecretKey::generate().unwrap().public()).unwrap();
    let text = token.to_string();
    assert_eq!(text.parse::<Token>().unwrap(), token);
    assert!(!format!("{token:?}").contains(&text[60..]), "no secret in logs");
    for at in 8..text.len() {
        let mut wrong = text.clone().into_bytes();
        wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
        let wrong = String::from_utf8(wrong).unwrap();
        assert_ne!(wrong.parse::<Token>().ok(), Some(token.clone()), "{at}");
    }
    for wrong in ["", "ow1join-", "ow1abc", &text[..74], &format!("{text}A"), "ow1join-é"] {
        assert!(wrong.parse::<Token>().is_err(), "{wrong}");
    }
}

#[test]
fn invitations_name_their_peer_and_nothing_else() {
    let until = SystemTime::now();
    for wrong in ["", "allow=a.example:1", "#x", "a #b", "a b", "a=b", "a expires=soon"] {
        assert!(Invitation::new(wrong, until).is_err(), "{wrong}");
    }
    let good = Invitation::new(" a  expires=2027-01-31 allow=b.example:1 ", until).unwrap();
    assert_eq!(good.name(), "a");
}

#[test]
fn others_must_not_read_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("invitations");
    let invitations = Invitations::at(&path).unwrap();
    assert!(!path.exists(), "nothing is made before there is an invitation");
    let invitation = Invitation::new("a", SystemTime::now()).unwrap();
    invitations.add(&invitation, SecretKey::generate().unwrap().public()).unwrap();
    Invitations::at(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let error = Invitations::at(&path).unwrap_err();
    assert!(error.to_string().contains("chmod 700"), "{error}");
    fs::write(directory.path().join("file"), "").unwrap();
    assert!(Invitations::at(&directory.path().join("file")).is_err());
    assert!(Invitations::at(&directory.path().join("no/such")).is_err());
}
