//! Writes the sample reports, pictures of them in headless Chromium, and prints, to look at.
//!
//! ```sh
//! cargo run -p oncewire-report --example pictures -- DIRECTORY
//! cargo run -p oncewire-report --example pictures -- DIRECTORY http://localhost:7078/
//! ```
//!
//! With an address, it takes pictures of that page instead, such as the page of a running process.

#[path = "../tests/support/mod.rs"]
mod support;

use oncewire_report::terminal::Page;
use oncewire_report::{Block, Report, html};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::browser::{Browser, SCREENS, Screen};
use support::reports;

/// Pictures of one page at most.
const MOST: usize = 24;

fn main() {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: pictures DIRECTORY");
        std::process::exit(2);
    };
    std::fs::create_dir_all(&directory).unwrap();
    if let Some(address) = std::env::args().nth(2) {
        let mut browser = Browser::start().expect("a browser");
        for screen in SCREENS {
            browser.open_at(&address, screen);
            whole(&mut browser, screen, &directory.join("page"));
        }
        return;
    }
    let mut circle = reports::network(30, 0, false);
    for block in circle.sections.iter_mut().flat_map(|section| &mut section.blocks) {
        if let Block::Map(map) = block {
            map.nodes.iter_mut().for_each(|node| node.position = None);
        }
    }
    let all = [
        ("study", reports::study()),
        ("network", reports::network(30, 4, false)),
        ("hostile", reports::network(70, 4, true)),
        ("circle", circle),
    ];
    let mut browser = Browser::start();
    if browser.is_none() {
        eprintln!(
            "there is no chromium, chromium-browser or google-chrome: only text and HTML are written"
        );
    }
    for (name, report) in &all {
        let file = directory.join(format!("{name}.html"));
        std::fs::write(&file, html::render(report)).unwrap();
        for width in [80, 120] {
            let mut text = Vec::new();
            Page::new(&mut text, width, false).report(report).unwrap();
            std::fs::write(directory.join(format!("{name}-{width}.txt")), text).unwrap();
        }
        if let Some(browser) = &mut browser {
            pictures(browser, report, &file, &directory.join(name));
        }
    }
}

fn look(screen: Screen) -> String {
    let device = if screen.phone { "phone" } else { "desk" };
    format!("{device}-{}", if screen.dark { "dark" } else { "light" })
}

/// Pictures of all of the open page.
fn whole(browser: &mut Browser, screen: Screen, place: &Path) {
    let look = look(screen);
    let height = browser.evaluate("document.scrollingElement.scrollHeight").as_u64().unwrap();
    for (at, top) in (0..height).step_by(1_500).take(MOST).enumerate() {
        let clip = json!({"x": 0, "y": top, "width": screen.width, "height": (height - top).min(1_500), "scale": 1});
        let picture = browser.picture(Some(clip));
        std::fs::write(format!("{}-{look}-{at:02}.png", place.display()), picture).unwrap();
    }
}

/// Pictures whose names begin with `place`.
fn pictures(browser: &mut Browser, report: &Report, file: &Path, place: &Path) {
    let has_map = report.sections.iter().any(|section| section.id == "map");
    let write = |suffix: &str, data: Vec<u8>| {
        std::fs::write(format!("{}-{suffix}", place.display()), data).unwrap();
    };
    for screen in SCREENS {
        browser.open(file, screen);
        whole(browser, screen, place);
        let look = look(screen);
        if !screen.phone {
            browser.evaluate(if has_map {
                "document.querySelector('.zoom button').click(); document.querySelector('#map').scrollIntoView({behavior: 'instant'})"
            } else {
                "document.querySelector('.chart').scrollIntoView({behavior: 'instant'})"
            });
            browser
                .ask("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": 700, "y": 300}));
            std::thread::sleep(Duration::from_millis(300));
            write(&format!("{look}-hover.png"), browser.picture(None));
        }
        if screen.dark && !screen.phone {
            write("print.pdf", browser.pdf());
        }
    }
}
