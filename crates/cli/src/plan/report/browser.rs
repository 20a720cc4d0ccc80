//! The page in a real browser. Skipped, with a message, where there is none.

use super::{html, sample};
use crate::page::browser::{Browser, SCREENS, unbase64};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// All that is asked of a page, as one object.
const LOOK: &str = r#"(() => {
    const beyond = [...document.querySelectorAll("main *, header *, footer *")].filter(one => {
        if (one.closest(".scroll, .u-over, svg, .skip, .tip, noscript, .choice")) return false;
        const box = one.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
    });
    const map = document.querySelector("svg.map").getBoundingClientRect();
    const outside = [...document.querySelectorAll("svg.map .pops > g, svg.map .names text:not(.crowded)")].filter(one => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && (box.right > map.right + 8 || box.left < map.left - 8 || box.top < map.top - 8 || box.bottom > map.bottom + 8);
    });
    const shown = [...document.querySelectorAll("svg.map .names text:not(.crowded)")].map(one => one.getBoundingClientRect());
    const meet = (a, b) => a.left + 2 < b.right && b.left + 2 < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
    let met = 0;
    shown.forEach((a, at) => shown.slice(at + 1).forEach(b => { if (meet(a, b)) met += 1; }));
    return {
        inner: innerWidth,
        scroll: document.scrollingElement.scrollWidth,
        beyond: beyond.slice(0, 5).map(one => one.outerHTML.slice(0, 200)),
        outside: outside.slice(0, 5).map(one => one.outerHTML.slice(0, 300)),
        met, names: shown.length,
        charts: document.querySelectorAll("figure.chart canvas").length,
        map: document.documentElement.dataset.map,
        paper: getComputedStyle(document.body).backgroundColor,
        ran: typeof window.ran,
    };
})()"#;

#[test]
fn the_page_is_whole_on_every_screen() {
    let Some(mut browser) = Browser::start() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("plan.html");
    for (document, pops) in [(sample::document(), 70), (sample::invented(30), 30), (sample::invented(1), 1)] {
        std::fs::write(&file, html::render(&document)).unwrap();
        for screen in SCREENS {
            browser.open(&file, screen);
            let look = browser.evaluate(LOOK);
            assert_eq!(browser.complaints(&file), Vec::<String>::new(), "{screen:?}");
            assert_eq!(look["inner"], screen.width, "{screen:?}");
            assert!(look["scroll"].as_u64().unwrap() <= screen.width.into(), "{screen:?}: {look}");
            assert_eq!(look["beyond"], json!([]), "{screen:?}");
            assert_eq!(look["outside"], json!([]), "{screen:?}");
            assert_eq!(look["met"], 0, "{screen:?}: names on names");
            assert!(look["names"].as_u64().unwrap() >= 1, "{screen:?}");
            assert_eq!(look["map"].as_str().unwrap().split(' ').next(), Some(pops.to_string().as_str()), "{screen:?}");
            assert_eq!(look["charts"], if pops == 1 { 0 } else { 2 }, "{screen:?}");
            assert_eq!(look["ran"], "undefined");
            let paper = if screen.dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
            assert_eq!(look["paper"], paper, "{screen:?}");
        }
    }
    std::fs::write(&file, html::render(&sample::empty())).unwrap();
    browser.open(&file, SCREENS[0]);
    assert_eq!(browser.complaints(&file), Vec::<String>::new());
}

#[test]
fn the_map_answers_its_reader() {
    let Some(mut browser) = Browser::start() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("plan.html");
    std::fs::write(&file, html::render(&sample::invented(30))).unwrap();
    browser.open(&file, SCREENS[0]);

    // The switch changes colours and widths; it needs no script.
    let switch = r##"(() => {
        const styles = () => [...document.querySelectorAll(".wires line")].map(one => getComputedStyle(one).stroke + getComputedStyle(one).strokeWidth);
        const after = styles();
        document.querySelector("label[for=load-before]").click();
        const before = styles();
        document.querySelector("label[for=load-after]").click();
        return [after.filter((one, at) => one !== before[at]).length, JSON.stringify(styles()) === JSON.stringify(after)];
    })()"##;
    let switched = browser.evaluate(switch);
    assert!(switched[0].as_u64().unwrap() > 10, "{switched}");
    assert_eq!(switched[1], true);

    // A PoP says its name and use, a link its load in both directions.
    let hover = |what: &str| {
        format!(
            r#"(() => {{
                const svg = document.querySelector("svg.map"), one = document.querySelector("{what}"), box = one.getBoundingClientRect();
                const at = {{ clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true }};
                svg.dispatchEvent(new PointerEvent("pointermove", at));
                return document.querySelector(".drawing .tip").innerText;
            }})()"#
        )
    };
    let told = browser.evaluate(&hover(".pops > g:last-child"));
    let told = told.as_str().unwrap();
    assert!(told.starts_with("City ") && told.contains("Fullest cache: "), "{told}");
    let told = browser.evaluate(&hover(".wires line:last-child"));
    assert!(told.as_str().unwrap().contains('→') || told.as_str().unwrap().contains("Fullest"), "{told}");

    // Enlarging shows more names, no fewer PoPs; and the whole map comes back.
    let zoom = r##"(() => {
        const look = () => [document.querySelector(".pops > g").getAttribute("transform"), document.querySelectorAll(".names text:not(.crowded)").length];
        const first = look();
        const button = way => document.querySelector(`.zoom button[data-zoom="${way}"]`).click();
        button(1); button(1); button(1);
        const large = look();
        button(0);
        return [first, large, look()];
    })()"##;
    let zoomed = browser.evaluate(zoom);
    assert_ne!(zoomed[0], zoomed[1]);
    assert_eq!(zoomed[0], zoomed[2]);

    // Paper: light, as wide as a sheet; and back.
    let print = r#"(async () => {
        const look = () => [
            getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)",
            document.querySelector("svg.map").viewBox.baseVal.width,
        ];
        document.documentElement.dataset.theme = "dark";
        const before = look();
        dispatchEvent(new Event("beforeprint"));
        await null;
        const paper = look();
        dispatchEvent(new Event("afterprint"));
        await null;
        return [before, paper, look()];
    })()"#;
    let print = browser.evaluate(print);
    assert_eq!(print[1], json!([true, 670]));
    assert_eq!(print[0], print[2]);
    assert_eq!(print[0][0], false);

    // Tables sort, missing cells last.
    let sort = r##"(() => {
        const table = document.querySelector("#devices table");
        table.tHead.rows[0].cells[4].querySelector("button").click();
        return [...table.tBodies[0].rows].map(row => Number(row.cells[4].dataset.v));
    })()"##;
    let cells: Vec<f64> = browser.evaluate(sort).as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(cells.len() > 50 && cells.is_sorted_by(|a, b| a >= b));
    assert_eq!(browser.complaints(&file), Vec::<String>::new());
}

/// Writes pictures of the page and its print to the directory `ONCEWIRE_REPORT_SHOTS`, for a look.
#[test]
#[ignore = "writes pictures for people: ONCEWIRE_REPORT_SHOTS=DIR cargo test -p oncewire plan -- --ignored pictures"]
fn pictures() {
    let place = PathBuf::from(std::env::var_os("ONCEWIRE_REPORT_SHOTS").expect("ONCEWIRE_REPORT_SHOTS names a directory"));
    std::fs::create_dir_all(&place).unwrap();
    let mut documents = vec![
        ("hostile", sample::document()),
        ("circle", {
            let mut document = sample::invented(30);
            document.nodes.iter_mut().for_each(|node| node.position = None);
            document
        }),
    ];
    let maps = [
        ("sprint", "rocketfuel-1239-Sprint-pop.json", 4),
        ("ntt", "rocketfuel-2914-NTT-Verio-pop.json", 0),
        ("abilene", "topozoo-Abilene.json", 0),
    ];
    documents
        .extend(maps.into_iter().filter_map(|(name, file, access)| sample::real(file, access).map(|document| (name, document))));
    let Some(mut browser) = Browser::start() else { return };
    for (name, document) in documents {
        let file = place.join(format!("{name}.html"));
        std::fs::write(&file, html::render(&document)).unwrap();
        for screen in SCREENS {
            browser.open(&file, screen);
            let height = browser.evaluate("document.scrollingElement.scrollHeight").as_u64().unwrap();
            let step = if screen.phone { 1_500 } else { 1_400 };
            let look =
                format!("{name}-{}-{}", if screen.phone { "phone" } else { "desk" }, if screen.dark { "dark" } else { "light" });
            for (at, top) in (0..height).step_by(step).take(4).enumerate() {
                let clip =
                    json!({"x": 0, "y": top, "width": screen.width, "height": (height - top).min(step as u64), "scale": 1});
                let shot =
                    browser.ask("Page.captureScreenshot", json!({"format": "png", "clip": clip, "captureBeyondViewport": true}));
                std::fs::write(place.join(format!("{look}-{at}.png")), unbase64(shot["data"].as_str().unwrap())).unwrap();
            }
            if !screen.phone {
                browser.evaluate("document.querySelector('.zoom button').click(); document.querySelector('.zoom button').click(); document.querySelector('#map').scrollIntoView({behavior: 'instant'})");
                browser.ask("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": 700, "y": 400}));
                std::thread::sleep(Duration::from_millis(200));
                let shot = browser.ask("Page.captureScreenshot", json!({"format": "png"}));
                std::fs::write(place.join(format!("{look}-zoom.png")), unbase64(shot["data"].as_str().unwrap())).unwrap();
            }
            if screen.dark && !screen.phone {
                let print = browser.ask("Page.printToPDF", json!({"preferCSSPageSize": true, "printBackground": false}));
                std::fs::write(place.join(format!("{name}.pdf")), unbase64(print["data"].as_str().unwrap())).unwrap();
            }
        }
    }
}
