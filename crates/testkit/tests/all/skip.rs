//! A skipped test says so on standard error, and fails where everything is required.

use std::process::{Command, Output};

/// Does nothing unless the tests below run it in a process of its own.
#[test]
fn a_test_without_its_data() {
    if std::env::var_os("ONCEWIRE_TEST_SKIP").is_some() {
        oncewire_testkit::skip!("there is no {}", "data");
    }
}

fn run(require_all: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "skip::a_test_without_its_data"]);
    command
        .env("ONCEWIRE_TEST_SKIP", "1")
        .env("ONCEWIRE_REQUIRE_ALL", require_all)
        .output()
        .expect("runs")
}

#[test]
fn a_skipped_test_says_so_and_passes() {
    let output = run("0");
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "skipped: skip::a_test_without_its_data: there is no data\n"
    );
}

#[test]
fn a_skipped_test_fails_where_everything_is_required() {
    let output = run("1");
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .starts_with("skipped: skip::a_test_without_its_data: there is no data\n")
    );
}
