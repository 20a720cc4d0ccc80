use super::*;
use oncewire_testkit::need_tool;
use std::process::Command;
use tempfile::TempDir;

fn new(only: &[&str]) -> NewAuthority {
    let only = only.iter().map(|name| name.parse().unwrap()).collect();
    NewAuthority { only, name: None, days: 30 }
}

/// A CA in a directory.
fn saved(dir: &TempDir, only: &[&str]) -> (PathBuf, PathBuf, Authority) {
    let [key, certificate] = ["ca.key", "ca.crt"].map(|name| dir.path().join(name));
    let authority = new(only).save(&key, &certificate).unwrap();
    (key, certificate, authority)
}

#[test]
fn a_ca_is_read_as_written_and_never_overwritten() {
    let dir = TempDir::new().unwrap();
    let (key, certificate, made) = saved(&dir, &["*.pypi.example", "registry.example"]);
    let read = Authority::load(&key, &certificate).unwrap();
    assert_eq!(read.certificate(), made.certificate());
    assert_eq!(read.permitted(), ["pypi.example", "registry.example"]);
    let check = |name: &str| read.check([&name.parse().unwrap()]);
    assert!(check("a.pypi.example").is_ok() && check("*.registry.example:8443").is_ok());
    let error = check("other.example").unwrap_err().to_string();
    assert!(error.contains("for other.example: it is for pypi.example, registry"), "{error}");
    let before = [&key, &certificate].map(|path| std::fs::read(path).unwrap());
    for exists in [&certificate, &key] {
        let error = new(&["a.example"]).save(&key, &certificate).unwrap_err();
        assert!(matches!(error, AuthorityError::Exists(_)), "{error}");
        std::fs::rename(exists, dir.path().join("kept")).unwrap();
        let error = new(&["a.example"]).save(&key, &certificate).unwrap_err();
        assert!(matches!(error, AuthorityError::Exists(_)), "{error}");
        std::fs::rename(dir.path().join("kept"), exists).unwrap();
    }
    assert_eq!(before, [&key, &certificate].map(|path| std::fs::read(path).unwrap()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    }
}

#[test]
fn openssl_accepts_only_names_within_the_constraints() {
    let openssl = need_tool!("openssl");
    let dir = TempDir::new().unwrap();
    let (_, certificate, authority) = saved(&dir, &["*.pypi.example", "registry.example"]);
    let pair = KeyPair::generate().unwrap();
    let verify = |name: &str| {
        let leaf = dir.path().join("leaf.crt");
        std::fs::write(&leaf, pem("CERTIFICATE", &authority.issue(name, &pair).unwrap())).unwrap();
        let mut command = Command::new(&openssl);
        command.args(["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", name]);
        command.arg("-CAfile").arg(&certificate).arg(&leaf);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for name in ["files.pypi.example", "registry.example"] {
        let (good, said) = verify(name);
        assert!(good, "{name}: {said}");
    }
    for name in ["example", "notpypi.example", "pypi.example.org", "registry.example.net"] {
        let (good, said) = verify(name);
        assert!(!good && said.contains("permitted subtree violation"), "{name}: {said}");
    }
}

#[test]
fn cas_that_cannot_be_used_say_why() {
    let dir = TempDir::new().unwrap();
    let (key, certificate, _) = saved(&dir, &["a.example"]);
    let at = |name: &str| dir.path().join(name);
    let text = std::fs::read_to_string(&certificate).unwrap();
    std::fs::write(at("cut.crt"), &text[..text.len() / 2]).unwrap();
    std::fs::write(at("empty.crt"), "").unwrap();
    let write = |name: &str, der: &[u8]| std::fs::write(at(name), pem("CERTIFICATE", der)).unwrap();
    write("short.crt", &[0x30, 0x03, 0x02, 0x01, 0x00]);
    // Certificates of the same key.
    let pair = KeyPair::try_from(&private_key(&key).unwrap()).unwrap();
    let mut params = new(&["a.example"]).params(&pair).unwrap();
    params.not_after = OffsetDateTime::now_utc() - Duration::days(1);
    params.not_before = params.not_after - Duration::days(1);
    write("expired.crt", params.self_signed(&pair).unwrap().der());
    let leaf = CertificateParams::new(vec!["a.example".to_string()]).unwrap();
    write("leaf.crt", leaf.self_signed(&pair).unwrap().der());
    let other = KeyPair::generate().unwrap();
    let of_other = new(&["a.example"]).params(&other).unwrap();
    write("other.crt", of_other.self_signed(&other).unwrap().der());
    for (name, says) in [
        ("cut.crt", "has no certificate in PEM, or a truncated one"),
        ("empty.crt", "has no certificate in PEM"),
        ("short.crt", "has no certificate in PEM"),
        ("none.crt", "cannot read the certificate file"),
        ("expired.crt", "is valid from 20"),
        ("leaf.crt", "is no CA"),
        ("other.crt", "is not the key of"),
    ] {
        let error = Authority::load(&key, &at(name)).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{name}: {error}");
    }
    let error = Authority::load(&certificate, &certificate).unwrap_err().to_string();
    #[cfg(unix)]
    assert!(error.contains("others can use the private key"), "{error}");
    // A CA that permits everything is usable, and says so.
    write("open.crt", new(&[]).params(&pair).unwrap().self_signed(&pair).unwrap().der());
    assert!(Authority::load(&key, &at("open.crt")).unwrap().permitted().is_empty());
}

#[test]
fn cas_of_others_keep_their_subject_and_key_identifier() {
    let openssl = need_tool!("openssl");
    let dir = TempDir::new().unwrap();
    let [key, certificate, leaf] =
        ["ca.key", "ca.crt", "leaf.crt"].map(|name| dir.path().join(name));
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for (kind, subject) in [
        ("ec_paramgen_curve:P-384", "/C=DE/CN=Standort\u{fc}bergreifend"),
        // Several attributes of one kind, as Active Directory has, and several in one part.
        ("ec_paramgen_curve:P-256", "/DC=example/DC=corp/OU=a/OU=b+CN=c"),
        ("ec_paramgen_curve:P-256", "/O=a/O=a"),
    ] {
        let mut command = Command::new(&openssl);
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", kind, "-nodes", "-utf8"]);
        command.args(["-multivalue-rdn", "-subj", subject, "-days", "3"]);
        command.args(["-addext", "keyUsage=critical,keyCertSign"]);
        command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        run(&mut command);
        let authority = Authority::load(&key, &certificate).unwrap();
        let issued = authority.issue("a.example", &KeyPair::generate().unwrap()).unwrap();
        let key_id = authority.facts.key_id.clone().unwrap();
        assert!(issued.windows(key_id.len()).any(|bytes| bytes == key_id), "no key identifier");
        std::fs::write(&leaf, pem("CERTIFICATE", &issued)).unwrap();
        let mut command = Command::new(&openssl);
        command.args(["verify", "-x509_strict", "-verify_hostname", "a.example", "-CAfile"]);
        run(command.arg(&certificate).arg(&leaf));
    }
}
