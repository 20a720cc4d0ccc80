use super::*;

fn list(rules: &[&str]) -> AllowList {
    AllowList::parse(rules).unwrap()
}

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// Resolves with a resolver that answers with these addresses.
async fn resolve(list: &AllowList, text: &str, answers: &[&str]) -> Result<Vec<String>, Refusal> {
    let answers = answers.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
    let found = list.resolve_with(&target(text), |_, _| async { Ok(answers) }).await?;
    Ok(found.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn nothing_is_allowed_by_default() {
    let list = AllowList::default();
    assert!(list.is_empty());
    for text in ["origin.example:80", "localhost:80", "127.0.0.1:80", "[::1]:80", "10.0.0.1:80"] {
        let target = target(text);
        let asked = list.resolve_with(&target, |_, _| async { panic!("asked the resolver") });
        assert_eq!(asked.await, Err(Refusal::NotAllowed), "{text}");
    }
}

#[test]
fn names_and_ports() {
    let list = list(&["origin.example:80", "*.Example.com:443", "10.0.0.0/8:1000-2000", "*:8443"]);
    for yes in [
        "origin.example:80",
        "ORIGIN.example.:80",
        "a.example.com:443",
        "a.b.example.com:443",
        "10.1.2.3:1000",
        "10.1.2.3:2000",
    ] {
        assert!(list.permits_name(&target(yes)), "{yes}");
    }
    for no in [
        "origin.example:81",
        "x.origin.example:80",
        "origin.example.evil:80",
        "example.com:443",
        "badexample.com:443",
        "a.example.com.evil:443",
        "10.1.2.3:999",
        "10.1.2.3:2001",
        "11.1.2.3:1000",
        "[::1]:8443",
        "127.0.0.1:8443",
    ] {
        assert!(!list.permits_name(&target(no)), "{no}");
    }
    assert!(
        list.permits_name(&target("any.example:8443"))
            && list.permits_name(&target("192.0.2.1:8443"))
    );
    // May turn out to be in 10.0.0.0/8.
    assert!(list.permits_name(&target("any.example:1500")));
}

#[tokio::test]
async fn a_name_does_not_lead_to_guarded_addresses() {
    let guarded = [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:100.100.100.200",
        "64:ff9b::168.63.129.16",
        "224.0.0.1",
        "239.1.2.3",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "ff02::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
    ];
    let rules = [
        "evil.example:80",
        "*.evil.example:80",
        "*:80",
        "0.0.0.0/0:80",
        "[::]/0:80",
        "localhost:80",
    ];
    for rules in [&rules[..1], &rules[1..2], &rules[2..3], &rules[3..5], &rules[..]] {
        let list = list(rules);
        for ip in guarded {
            for name in ["evil.example:80", "a.evil.example:80"] {
                let has_rule = match rules {
                    ["evil.example:80"] => name == "evil.example:80",
                    ["*.evil.example:80"] => name == "a.evil.example:80",
                    _ => true,
                };
                let address = SocketAddr::new(judged(ip.parse().unwrap()), 80);
                let expected = if has_rule {
                    Refusal::Guarded { address: Some(address) }
                } else {
                    Refusal::NotAllowed
                };
                assert_eq!(
                    resolve(&list, name, &[ip]).await,
                    Err(expected),
                    "{name} at {ip} with {rules:?}"
                );
            }
            let literal = Target::new(Host::Ip(ip.parse().unwrap()), 80).unwrap();
            assert!(!list.permits_name(&literal), "{ip} with {rules:?}");
        }
    }
}

#[tokio::test]
async fn the_good_addresses_of_a_name_remain() {
    let list = list(&["origin.example:80"]);
    let answers = ["127.0.0.1", "192.0.2.1", "::ffff:10.0.0.1", "::1", "2001:db8::1"];
    let found = resolve(&list, "origin.example:80", &answers).await.unwrap();
    assert_eq!(found, ["192.0.2.1:80", "[::ffff:10.0.0.1]:80", "[2001:db8::1]:80"]);
    assert_eq!(resolve(&list, "origin.example:80", &["192.0.2.1"; 99]).await.unwrap().len(), 16);
}

#[tokio::test]
async fn an_address_rule_allows_guarded_addresses_by_name() {
    let list = list(&["127.0.0.1:5432", "169.254.0.0/16:80", "[fe80::]/10:80", "app.example:5432"]);
    assert_eq!(
        resolve(&list, "app.example:5432", &["127.0.0.1", "127.0.0.2"]).await.unwrap(),
        ["127.0.0.1:5432"]
    );
    assert_eq!(
        resolve(&list, "other.example:80", &["169.254.169.254", "192.0.2.1"]).await.unwrap(),
        ["169.254.169.254:80"]
    );
    assert!(
        list.permits_name(&target("127.0.0.1:5432"))
            && list.permits_name(&target("[::ffff:127.0.0.1]:5432"))
    );
    assert!(list.permits_name(&target("[fe80::1]:80")));
    assert!(
        !list.permits_name(&target("127.0.0.1:5433")) && !list.permits_name(&target("[::1]:5432"))
    );
}

#[tokio::test]
async fn localhost_is_loopback_and_only_for_its_own_rule() {
    let named = list(&["localhost:5432"]);
    let answers = ["127.0.0.1", "::1", "192.0.2.1", "169.254.169.254", "0.0.0.0"];
    assert_eq!(
        resolve(&named, "localhost:5432", &answers).await.unwrap(),
        ["127.0.0.1:5432", "[::1]:5432"]
    );
    assert_eq!(resolve(&named, "localhost:5433", &answers).await, Err(Refusal::NotAllowed));
    assert_eq!(resolve(&named, "evil.localhost:5432", &answers).await, Err(Refusal::NotAllowed));
    assert!(!named.permits_name(&target("127.0.0.1:5432")));
    for rules in [["*:5432"], ["*.localhost:5432"]] {
        assert_eq!(
            resolve(&list(&rules), "localhost:5432", &answers[..2]).await,
            Err(match rules {
                ["*:5432"] => Refusal::Guarded { address: "127.0.0.1:5432".parse().ok() },
                _ => Refusal::NotAllowed,
            })
        );
    }
}

#[tokio::test]
async fn a_refusal_of_a_guarded_address_says_which_rule_to_write() {
    let rules = list(&["host.example:80", "10.0.0.0/8:80", "*:443"]);
    let refused = |text: &'static str, answers: &'static [&str]| {
        let rules = &rules;
        async move { resolve(rules, text, answers).await.unwrap_err() }
    };
    let guarded = refused("host.example:80", &["127.0.1.1", "::1"]).await;
    assert_eq!(
        guarded.to_string(),
        "it leads to 127.0.1.1, a guarded address (loopback, link-local or the like), which only a \
         rule for that address allows: --allow 127.0.1.1:80, if it may be reached"
    );
    // That rule is enough.
    let with = list(&["host.example:80", "127.0.1.1:80"]);
    assert_eq!(
        resolve(&with, "host.example:80", &["127.0.1.1", "::1"]).await.unwrap(),
        ["127.0.1.1:80"]
    );
    assert!(matches!(refused("[::1]:443", &[]).await, Refusal::Guarded { address: Some(_) }));
    // Guarded or not, no rule names these.
    assert_eq!(refused("other.example:80", &["127.0.1.1"]).await, Refusal::NotAllowed);
    assert_eq!(refused("127.0.0.1:80", &[]).await, Refusal::NotAllowed);
    assert_eq!(refused("host.example:81", &["127.0.1.1"]).await, Refusal::NotAllowed);
}

#[tokio::test]
async fn a_network_allows_names_that_resolve_into_it() {
    let list = list(&["10.0.0.0/8:*", "[2001:db8::]/32:*", "[::ffff:192.0.2.0]/120:*"]);
    assert_eq!(
        resolve(&list, "db.internal:1", &["10.1.2.3", "11.1.2.3"]).await.unwrap(),
        ["10.1.2.3:1"]
    );
    assert_eq!(
        resolve(&list, "db.internal:1", &["64:ff9b::10.1.2.3"]).await.unwrap(),
        ["[64:ff9b::a01:203]:1"]
    );
    assert_eq!(
        resolve(&list, "db.internal:1", &["2001:db8:9::1", "2001:db9::1"]).await.unwrap(),
        ["[2001:db8:9::1]:1"]
    );
    assert_eq!(
        resolve(&list, "db.internal:1", &["192.0.2.9", "192.0.3.9"]).await.unwrap(),
        ["192.0.2.9:1"]
    );
    assert_eq!(resolve(&list, "db.internal:1", &["192.0.3.9"]).await, Err(Refusal::NotAllowed));
}

#[tokio::test]
async fn the_resolver_is_called_once_and_its_errors_are_reported() {
    let list = list(&["origin.example:80", "192.0.2.1:80"]);
    assert_eq!(resolve(&list, "origin.example:80", &[]).await, Err(Refusal::NoSuchName));
    let origin = target("origin.example:80");
    let asked = |kind: io::ErrorKind| {
        list.resolve_with(&origin, move |_, _| async move { Err(kind.into()) })
    };
    assert_eq!(asked(io::ErrorKind::TimedOut).await, Err(Refusal::TimedOut));
    assert_eq!(asked(io::ErrorKind::Other).await, Err(Refusal::NoSuchName));
    let literal = target("192.0.2.1:80");
    let found =
        list.resolve_with(&literal, |_, _| async { panic!("asked the resolver for an address") });
    assert_eq!(found.await, Ok(vec!["192.0.2.1:80".parse().unwrap()]));
    // The port that was judged counts.
    let found =
        list.resolve_with(&origin, |_, _| async { Ok(vec!["192.0.2.1:22".parse().unwrap()]) });
    assert_eq!(found.await, Ok(vec!["192.0.2.1:80".parse().unwrap()]));
}

#[tokio::test]
async fn the_system_resolver_knows_localhost() {
    let found = list(&["localhost:80"]).resolve(&target("localhost:80")).await.unwrap();
    assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
}

#[test]
fn wrong_rules_are_reported() {
    let reason = |rule: &str| AllowList::parse(&["ok:1", rule]).unwrap_err().reason;
    assert_eq!(reason("origin"), RuleReason::Form);
    assert_eq!(reason("::1:80"), RuleReason::Form);
    for rule in ["a:", "a:0", "a:80-", "a:90-80", "a:65536", "a:**", "a:+1", "a:1-2-3"] {
        assert_eq!(reason(rule), RuleReason::Ports, "{rule}");
    }
    for rule in ["*a:80", "a.*:80", "a.*.b:80", "*.10.0.0.1:80", "**:80"] {
        assert!(matches!(reason(rule), RuleReason::Star), "{rule}");
    }
    for rule in [
        "10.0.0.0/33:80",
        "10.0.0.0/:80",
        "10.0.0.0/+8:80",
        "[::]/129:80",
        "[::]/400:80",
        "a.b/8:80",
    ] {
        assert_eq!(reason(rule), RuleReason::Prefix, "{rule}");
    }
    assert_eq!(reason("10.1.0.0/8:80"), RuleReason::Bits("10.0.0.0/8".parse().unwrap()));
    assert!(matches!(reason("a b:80"), RuleReason::Host(_)));
    assert!(matches!(reason("[10.0.0.1]:80"), RuleReason::Host(_)));
    assert!(matches!(reason("*.:80"), RuleReason::Host(_)));
    let error = AllowList::parse(&["10.1.0.0/8:80"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "the allow rule \"10.1.0.0/8:80\" is wrong: the address is not the first of its network: write 10.0.0.0/8, or the address alone"
    );
}
