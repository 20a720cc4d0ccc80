//! The page of a running process in headless Chromium. Skipped where no browser is installed.

use crate::browser::{Browser, SCREENS};
use crate::support::*;
use oncewire_testkit::servers::incompressible;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LEN: usize = 400_000;

/// Waits until an expression is true, although the page may be loaded again meanwhile.
#[track_caller]
fn wait(browser: &mut Browser, until: &str) {
    let begun = Instant::now();
    while browser.evaluate(&format!("Boolean({until})")) != true {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {until}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What is checked of every page, as one object.
const LOOK: &str = r#"(() => {
    const beyond = [...document.querySelectorAll("main *, header *, footer *")].filter(one => {
        if (one.closest(".scroll, .u-over, svg, .skip, .tip, noscript")) return false;
        const box = one.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
    });
    return {
        beyond: beyond.slice(0, 5).map(one => one.outerHTML.slice(0, 200)),
        drawn: document.querySelectorAll("figure.chart canvas").length,
        paper: getComputedStyle(document.body).backgroundColor,
        injected: document.querySelectorAll("main b, main i, main img").length,
    };
})()"#;

#[test]
fn the_page_shows_what_a_process_carries() {
    let Some(mut browser) = Browser::start() else {
        oncewire_testkit::skip!("there is no chromium, chromium-browser or google-chrome");
    };
    let content = incompressible(6, LEN);
    let mut tunnel = Plan::new()
        .to(sender(content.clone()))
        .connect(&["--admin", "0", "--admin-price", "$9/MB"])
        .start();
    // The server's name, as hostile as a configuration can have it.
    let peer = tunnel.connect_args.iter().position(|arg| arg == "--peer").unwrap() + 1;
    tunnel.connect_args[peer] += " <b>x</b>";
    tunnel.restart_connect();
    tunnel.established();
    for _ in 0..2 {
        assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
    }
    let origin = format!("http://{}/", admin_of_last(&tunnel.connect));
    let own = |url: &str| url.starts_with(&origin) || url == "data:,";
    for screen in SCREENS {
        browser.open_at(&origin, screen);
        wait(&mut browser, "document.documentElement.dataset.updates >= 1");
        wait(&mut browser, "document.querySelectorAll('figure.chart canvas').length === 3");
        let look = browser.evaluate(LOOK);
        let paper = if screen.dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
        let expected = json!({"beyond": [], "drawn": 3, "paper": paper, "injected": 0});
        assert_eq!(look, expected, "{screen:?}");
        assert_eq!(browser.complaints_unless(own), Vec::<String>::new(), "{screen:?}");
    }

    // Twice 400 kB, half of it saved; then three times.
    let headline = "document.querySelector('.headline').textContent";
    wait(&mut browser, &format!("/^4\\d[.]\\d.% of 800 kB did not/.test({headline})"));
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
    wait(&mut browser, &format!("/^6\\d[.]\\d.% of 1[.]20 MB did not/.test({headline})"));
    let row = |n: usize| format!("document.querySelectorAll('#peers td, #peers tbody th')[{n}]");
    wait(&mut browser, &format!("{}.textContent === '1.20 MB'", row(1)));
    assert_eq!(browser.evaluate(&format!("{}.textContent", row(0))), "<b>x</b>");
    let money = format!("{}.textContent", row(4));
    let shown = browser.evaluate(&money);
    assert!(shown.as_str().unwrap().starts_with('$'), "{shown}");
    // Another price, by hand.
    let price = "(() => { const field = document.getElementById('price'); const had = field.value; field.value = '1 EUR/MB'; field.dispatchEvent(new Event('change')); return had; })()";
    assert_eq!(browser.evaluate(price), "$9/MB");
    wait(&mut browser, &format!("{money}.endsWith(' EUR')"));
    assert_eq!(browser.evaluate("location.hash"), "#price=1%20EUR%2FMB");
    assert_eq!(browser.complaints_unless(own), Vec::<String>::new());
    // Everything can be reached by keyboard.
    let reach: Value = browser.evaluate(
        "[...document.querySelectorAll('main button, header button, header input, nav a')].filter(one => one.tabIndex < 0 || one.disabled).length",
    );
    assert_eq!(reach, 0);
}

/// The admin address of the process that was started last.
fn admin_of_last(end: &End) -> std::net::SocketAddr {
    let said = end.said();
    let line = said.lines().rfind(|line| line.contains("over HTTP")).expect("a line");
    line.split("address=").nth(1).and_then(|rest| rest.trim().parse().ok()).expect("an address")
}
