use super::file::{SECRET_PREFIX, mode_of};
use super::peers::read_peers;
use super::public::crc16;
use super::*;
use crate::allow::AllowList;
use std::fs::File;
use std::path::Path;
use std::time::UNIX_EPOCH;
use tempfile::TempDir;

fn key(byte: u8) -> PublicKey {
    PublicKey([byte; 32])
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn the_checksum_is_crc_16_ibm_3740() {
    assert_eq!(crc16(b"123456789"), 0x29b1);
}

#[test]
fn a_public_key_is_one_short_word() {
    let key = SecretKey::generate().unwrap().public();
    let text = key.to_string();
    assert_eq!(text.len(), 49);
    assert!(text.starts_with("ow1"));
    assert_eq!(text.parse(), Ok(key));
    assert_eq!(PublicKey::from_spki(&key.to_spki()), Ok(key));
    assert_eq!(PublicKey::from_spki(&key.to_spki()[1..]), Err(PublicKeyError::Spki { len: 43 }));
    assert_eq!(
        PublicKey::from_spki(&[key.to_spki().as_slice(), &[0]].concat()),
        Err(PublicKeyError::Spki { len: 45 })
    );
}

#[test]
fn every_wrong_character_and_every_swap_is_detected() {
    let text = SecretKey::generate().unwrap().public().to_string();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for at in 3..text.len() {
        for &other in alphabet.iter().filter(|&&other| other != text.as_bytes()[at]) {
            let mut typed = text.clone().into_bytes();
            typed[at] = other;
            assert_eq!(
                String::from_utf8(typed).unwrap().parse::<PublicKey>(),
                Err(PublicKeyError::Check)
            );
        }
        let mut typed = text.clone().into_bytes();
        typed.swap(at - 1, at);
        let typed = String::from_utf8(typed).unwrap();
        assert!(typed == text || typed.parse::<PublicKey>().is_err());
    }
}

#[test]
fn other_texts_are_not_keys() {
    let good = key(7).to_string();
    assert_eq!("".parse::<PublicKey>(), Err(PublicKeyError::Prefix));
    assert_eq!(good[1..].parse::<PublicKey>(), Err(PublicKeyError::Prefix));
    assert_eq!(good[..48].parse::<PublicKey>(), Err(PublicKeyError::Length { len: 48 }));
    assert_eq!(format!("{good}A").parse::<PublicKey>(), Err(PublicKeyError::Length { len: 50 }));
    assert_eq!(
        good.replace("ow1B", "ow1é").parse::<PublicKey>(),
        Err(PublicKeyError::Character { position: 4, found: 'é' })
    );
    assert_eq!("ow1secret-AAAA".parse::<PublicKey>(), Err(PublicKeyError::Secret));
}

#[test]
fn a_secret_key_comes_back_from_its_file_and_is_not_overwritten() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("key");
    let secret = SecretKey::generate().unwrap();
    secret.save(&path).unwrap();
    assert_eq!(mode_of(&File::open(&path).unwrap()).unwrap(), Some(0o600));
    assert_eq!(SecretKey::load(&path).unwrap().public(), secret.public());
    assert!(matches!(secret.save(&path), Err(SecretKeyError::Exists { .. })));
    assert_eq!(SecretKey::load(&path).unwrap().public(), secret.public());
    let line = std::fs::read_to_string(&path).unwrap();
    assert_eq!(line.lines().count(), 1);
    assert!(!format!("{secret:?}").contains(&line[10..30]));
}

#[test]
fn a_secret_key_that_others_may_read_is_refused() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("key");
    SecretKey::generate().unwrap().save(&path).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o601] {
        set_mode(&path, mode);
        let error = SecretKey::load(&path).unwrap_err();
        assert!(
            matches!(error, SecretKeyError::File(FileError { problem: FileProblem::Permissions(found), .. }) if found == mode)
        );
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    set_mode(&path, 0o400);
    SecretKey::load(&path).unwrap();
}

/// Both readers refuse a file; `word` is in the message.
fn refused(path: &Path, word: &str) {
    for error in
        [SecretKey::load(path).unwrap_err().to_string(), read_peers(path).unwrap_err().to_string()]
    {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn files_that_others_could_replace_are_refused() {
    let scratch = TempDir::new().unwrap();
    let directory = scratch.path().join("keys");
    let inner = directory.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    let (path, peers) = (inner.join("key"), inner.join("peers"));
    SecretKey::generate().unwrap().save(&path).unwrap();
    std::fs::write(&peers, "").unwrap();
    set_mode(&peers, 0o600);
    for at in [&directory, &inner] {
        for mode in [0o777, 0o757] {
            set_mode(at, mode);
            let place = || {
                OwnershipError::Directory { directory: at.clone(), mode, path: path.clone() }
                    .to_string()
            };
            assert_eq!(SecretKey::load(&path).unwrap_err().to_string(), place());
            assert!(matches!(
                read_peers(&peers),
                Err(PeersError::File(FileError {
                    problem: FileProblem::Ownership(OwnershipError::Directory { .. }),
                    ..
                }))
            ));
            let new = SecretKey::generate().unwrap().save(&inner.join("new"));
            assert!(matches!(
                new,
                Err(SecretKeyError::Ownership(OwnershipError::Directory { .. }))
            ));
        }
        // Others may add files to such a directory, but cannot touch this user's.
        set_mode(at, 0o1777);
        SecretKey::load(&path).unwrap();
        set_mode(at, 0o700);
        SecretKey::load(&path).unwrap();
        read_peers(&peers).unwrap();
    }
    // Behind a link, the directories of the file count.
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    SecretKey::load(&link).unwrap();
    set_mode(&inner, 0o777);
    refused(&link, "chmod go-w");
}

#[test]
fn files_of_other_users_are_refused() {
    if !nix::unistd::geteuid().is_root() {
        oncewire_testkit::skip!("only root can give a file away");
    }
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("key");
    SecretKey::generate().unwrap().save(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    refused(
        &path,
        "belongs to user 12345, not to user 0, who runs this, or to root: run `chown 0 ",
    );
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    SecretKey::load(&path).unwrap();
    let directory = path.parent().unwrap();
    std::os::unix::fs::chown(directory, Some(12_345), None).unwrap();
    refused(&path, "belongs to user 12345, who can replace ");
}

#[test]
fn secret_keys_are_not_shown() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("key");
    SecretKey::generate().unwrap().save(&path).unwrap();
    let line = std::fs::read_to_string(&path).unwrap();
    let secret = line.trim_end();
    let code = secret.strip_prefix(SECRET_PREFIX).unwrap();
    // With prefix, without, and in PEM as OpenSSL writes it.
    for typed in [secret, code, "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g"]
    {
        assert_eq!(typed.parse::<PublicKey>(), Err(PublicKeyError::Secret), "{typed}");
        let shown = redact(&format!("peer \"{typed}\": wrong, {typed}")).into_owned();
        assert_eq!(shown, "peer \"[a secret key, not shown]\": wrong, [a secret key, not shown]");
        let rule = crate::allow::AllowList::parse(&[typed]).unwrap_err();
        for said in [rule.to_string(), format!("{rule:?}")] {
            assert!(!said.contains(&typed[12..]), "{said}");
        }
    }
    // A truncated secret is still a secret.
    assert!(!redact(&secret[..60]).contains(&secret[20..60]));
    let public = key(1).to_string();
    for text in ["", "é wrong", "it is one line that begins with ow1secret-", &public] {
        assert_eq!(redact(text), text);
    }
    std::fs::write(&path, format!("{secret} paris\n")).unwrap();
    let error = read_peers(&path).unwrap_err();
    assert!(matches!(
        error,
        PeersError::Line { line: 1, error: PeerError::Key(PublicKeyError::Secret), .. }
    ));
    assert!(!format!("{error} {error:?}").contains(&code[..12]));
}

#[test]
fn a_corrupt_secret_key_is_refused() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("key");
    SecretKey::generate().unwrap().save(&path).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    for at in 10..good.len() - 1 {
        let mut bad = good.clone().into_bytes();
        bad[at] = if bad[at] == b'A' { b'B' } else { b'A' };
        std::fs::write(&path, bad).unwrap();
        assert!(
            matches!(SecretKey::load(&path), Err(SecretKeyError::Corrupt { .. })),
            "character {at}"
        );
    }
    for other in ["", "hello\n", &"x".repeat(1 << 16)] {
        std::fs::write(&path, other).unwrap();
        assert!(matches!(
            SecretKey::load(&path),
            Err(SecretKeyError::File(FileError { problem: FileProblem::Content, .. }))
        ));
    }
    assert!(matches!(
        SecretKey::load(&scratch.path().join("none")),
        Err(SecretKeyError::File(FileError { problem: FileProblem::Read(_), .. }))
    ));
}

#[test]
fn peers_come_from_the_list_and_the_file() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("peers");
    std::fs::write(
        &path,
        format!("# ours\n\n{} paris # north\n  {}\t#x\n{}\n", key(1), key(2), key(3)),
    )
    .unwrap();
    let listed = [format!("{} ship", key(3)).parse().unwrap(), key(4).into()];
    let peers = AuthorizedPeers::with_file(listed, &path).unwrap();
    assert_eq!(peers.len(), 4);
    assert_eq!(peers.name_of(&key(1)).as_deref(), Some("paris"));
    assert_eq!(peers.name_of(&key(2)), None);
    assert_eq!(peers.name_of(&key(3)).as_deref(), Some("ship"));
    assert!(peers.contains(&key(4)));
    assert!(!peers.contains(&key(5)));
}

#[test]
fn peers_have_rules_and_a_last_day() {
    let day = |text: &str| format!("{} expires={text}", key(1)).parse::<Peer>();
    let seconds = |peer: Peer| peer.expires.unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // Until the day has ended.
    assert_eq!(seconds(day("1999-12-31").unwrap()), 946_684_800);
    assert_eq!(seconds(day("2024-02-28").unwrap()), seconds(day("2024-02-29").unwrap()) - 86_400);
    for text in ["2023-02-29", "2026-13-01", "2026-1-01", "2026-01-01T00", "+026-01-01", "-", ""] {
        assert_eq!(day(text), Err(PeerError::Date), "{text}");
    }
    for text in ["allow=a:1 allow=b:1", "a b", "expires=2026-01-01 expires=2026-01-01"] {
        let peer = format!("{} {text}", key(1)).parse::<Peer>();
        assert_eq!(peer, Err(PeerError::Excess), "{text}");
    }
    for text in ["alow=a:1", "paris expire=2026-01-01", "=", "Allow=a:1"] {
        let peer = format!("{} {text}", key(1)).parse::<Peer>();
        assert_eq!(peer, Err(PeerError::Option), "{text}");
    }
    let wrong = format!("{} allow=a:1,b", key(1)).parse::<Peer>();
    assert!(matches!(wrong, Err(PeerError::Rule(_))), "{wrong:?}");

    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("peers");
    let text = format!(
        "{} paris allow=10.0.0.0/8:80,*.example.com:443 expires=9998-12-31\n{} expires=2001-01-01\n",
        key(1),
        key(2)
    );
    std::fs::write(&path, text).unwrap();
    // What the file says of a listed peer is true of it.
    let peers = AuthorizedPeers::with_file([key(2).into(), key(3).into()], &path).unwrap();
    assert!(peers.contains(&key(1)) && peers.contains(&key(3)) && !peers.contains(&key(2)));
    assert_eq!((peers.len(), peers.with_rules()), (2, 1));
    let rules = AllowList::parse(&["10.0.0.0/8:80", "*.example.com:443"]).unwrap();
    assert_eq!(peers.rules_of(&key(1)).as_deref(), Some(&rules));
    assert_eq!(peers.rules_of(&key(3)), None);
}

#[test]
fn a_reload_changes_the_set_and_notifies() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("peers");
    std::fs::write(&path, format!("{}\n{}\n", key(1), key(2))).unwrap();
    let peers = AuthorizedPeers::with_file([key(9).into()], &path).unwrap();
    let (other, changes) = (peers.clone(), peers.subscribe());
    assert_eq!(peers.reload().unwrap(), Reload::default());
    assert!(!changes.has_changed().unwrap());
    std::fs::write(&path, format!("{}\n{} new\n", key(2), key(3))).unwrap();
    assert_eq!(peers.reload().unwrap(), Reload { added: vec![key(3)], removed: vec![key(1)] });
    assert!(changes.has_changed().unwrap());
    assert_eq!(other.generation(), 1);
    assert!(!other.contains(&key(1)) && other.contains(&key(9)));
    assert_eq!(peers.replace([]).unwrap(), Reload { added: vec![], removed: vec![key(9)] });
    assert_eq!(peers.generation(), 2);
}

#[test]
fn a_bad_file_leaves_the_set_and_names_the_line() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("peers");
    std::fs::write(&path, format!("{}\n", key(1))).unwrap();
    let peers = AuthorizedPeers::with_file([], &path).unwrap();
    let long = "n".repeat(65);
    for (text, line) in [
        (format!("# x\n{}\n", &key(2).to_string()[..40]), 2),
        (format!("{} a b\n", key(2)), 1),
        (format!("\n{} a expires=soon\n", key(2)), 2),
        (format!("\n\n{} {long}\n", key(2)), 3),
        (format!("{} a\u{1b}[m\n", key(2)), 1),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = peers.replace([key(5).into()]).unwrap_err();
        assert!(matches!(error, PeersError::Line { line: l, .. } if l == line), "{error}");
    }
    std::fs::write(&path, format!("{0}\n{0} a\n", key(2))).unwrap();
    assert!(matches!(peers.reload(), Err(PeersError::Repeated { line: 2, first: 1, .. })));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(
        peers.reload(),
        Err(PeersError::File(FileError { problem: FileProblem::Content, .. }))
    ));
    std::fs::write(&path, "").unwrap();
    set_mode(&path, 0o664);
    assert!(matches!(
        peers.reload(),
        Err(PeersError::File(FileError { problem: FileProblem::Permissions(0o664), .. }))
    ));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        peers.reload(),
        Err(PeersError::File(FileError { problem: FileProblem::Read(_), .. }))
    ));
    assert!(peers.contains(&key(1)) && peers.len() == 1 && peers.generation() == 0);
}
