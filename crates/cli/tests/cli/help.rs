//! Help, man pages and completions. Help texts are snapshots in `tests/snapshots`: a change shows
//! in the diff.
//!
//! `INSTA_UPDATE=always cargo test -p oncewire --test cli help` writes them anew, and `git diff`
//! shows what changed; `cargo insta review` does the same one by one.

use crate::support::*;

#[test]
fn help_is_what_was_reviewed_and_fits_80_columns() {
    let commands = commands();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for verb in [""].into_iter().chain(commands.iter().map(String::as_str)) {
        let help = help(verb);
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{verb}: {line}");
        }
        let name = if verb.is_empty() { "oncewire".to_owned() } else { format!("oncewire-{verb}") };
        settings.bind(|| insta::assert_snapshot!(name, help));
    }
}

#[test]
fn every_command_has_a_man_page() {
    let dir = Dir::new();
    run(args!["man", dir.join("man1")], b"").fine();
    let commands = commands();
    for name in commands.iter().map(|verb| format!("oncewire-{verb}")).chain(["oncewire".into()]) {
        let page =
            String::from_utf8(read(&dir.join("man1").join(format!("{name}.1")))).expect("text");
        let escaped = name.replace('-', "\\-");
        assert!(
            page.contains(".SH NAME") && page.contains(&escaped) && page.contains(".SH OPTIONS"),
            "{name}: {page}"
        );
    }
    assert_eq!(
        std::fs::read_dir(dir.join("man1")).expect("a directory").count(),
        commands.len() + 1
    );
    let page = String::from_utf8(run(args!["man"], b"").fine()).expect("text");
    assert!(page.contains(".SH NAME") && page.contains("check\\-config"), "{page}");
}

#[test]
fn completions_know_every_command_and_the_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(run(args!["completions", shell], b"").fine()).expect("text");
        for word in commands().iter().map(String::as_str).chain(["authorized-peers", "quic"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}
