//! Reports in headless Chromium. Skipped where no browser is installed.

use crate::support;

use oncewire_report::html;
use serde_json::{Value, json};
use support::browser::{Browser, SCREENS};
use support::reports;

/// A browser, or `None` and a message.
fn browser() -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        oncewire_testkit::skipped!("there is no chromium, chromium-browser or google-chrome");
    }
    browser
}

/// What is checked of a page with charts, as one object.
const LOOK: &str = r#"(() => {
    const inked = canvas => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Set();
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) seen.add(data[at] >> 4 << 8 | data[at + 1] >> 4 << 4 | data[at + 2] >> 4);
        return seen.size;
    };
    const beyond = [...document.querySelectorAll("main *, header *, footer *")].filter(one => {
        if (one.closest(".scroll, .u-over, svg, .skip, .tip, noscript")) return false;
        const box = one.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
    });
    return {
        inner: innerWidth,
        scroll: document.scrollingElement.scrollWidth,
        beyond: beyond.slice(0, 5).map(one => one.outerHTML.slice(0, 200)),
        expected: [...document.querySelectorAll("figure.chart")].filter(one => !one.querySelector(".empty")).length,
        colours: [...document.querySelectorAll("figure.chart canvas")].map(inked),
        labels: [...document.querySelectorAll("figure.chart .axis-label")].filter(one => one.dataset.named === "false").map(one => one.textContent),
        paper: getComputedStyle(document.body).backgroundColor,
        headings: document.querySelectorAll("section.figure").length,
        ran: typeof window.ran,
    };
})()"#;

/// A script for a page with dark colors: what is to be seen of these before, while and after it is
/// printed.
fn printed(look: &str) -> String {
    let script = r#"(async () => {
        const look = () => [LOOK];
        document.documentElement.dataset.theme = "dark";
        const before = look();
        dispatchEvent(new Event("beforeprint"));
        // uPlot draws at the end of the task.
        await null;
        const paper = look();
        dispatchEvent(new Event("afterprint"));
        await null;
        return [before, paper, look()];
    })()"#;
    script.replace("LOOK", look)
}

#[test]
fn charts_fit_every_screen() {
    let Some(mut browser) = browser() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.html");
    std::fs::write(&file, html::render(&reports::study())).unwrap();
    let figures = oncewire_testkit::figures::figures();
    let charts =
        figures.iter().flat_map(|figure| &figure.charts).filter(|chart| !chart.is_empty()).count();
    for screen in SCREENS {
        browser.open(&file, screen);
        let look = browser.evaluate(LOOK);
        assert_eq!(browser.complaints(&file), Vec::<String>::new(), "{screen:?}");
        assert_eq!(look["inner"], screen.width, "{screen:?}");
        assert!(look["scroll"].as_u64().unwrap() <= screen.width.into(), "{screen:?}: {look}");
        assert_eq!(look["beyond"], json!([]), "{screen:?}");
        assert_eq!(look["expected"], charts, "{screen:?}");
        assert_eq!(look["headings"], figures.len(), "{screen:?}");
        let colours = look["colours"].as_array().unwrap();
        assert_eq!(colours.len(), charts, "{screen:?}");
        // Text, grid and at least one series.
        assert!(colours.iter().all(|seen| seen.as_u64().unwrap() >= 3), "{screen:?}: {colours:?}");
        let labels = look["labels"].as_array().unwrap();
        assert!(labels.len() > charts, "{screen:?}");
        let units = ["count", "B", "%", "ns", "µs", "ms", "s", "min", "h", "d", "bit/s", "number"];
        let has_unit = |label: &str| {
            units
                .iter()
                .any(|unit| [")", ","].iter().any(|end| label.contains(&format!("({unit}{end}"))))
        };
        assert!(
            labels.iter().all(|label| has_unit(label.as_str().unwrap())),
            "{screen:?}: {labels:?}"
        );
        let paper = if screen.dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
        assert_eq!(look["paper"], paper, "{screen:?}");
    }
}

#[test]
fn charts_and_tables_respond() {
    let Some(mut browser) = browser() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.html");
    std::fs::write(&file, html::render(&reports::study())).unwrap();
    browser.open(&file, SCREENS[0]);

    // A click on a heading sorts by numbers, largest first; missing values stay last.
    let column = |click: usize| {
        format!(
            r#"(() => {{
                const table = document.querySelector("\#applications table");
                for (let at = 0; at < {click}; at += 1) table.tHead.rows[0].cells[4].querySelector("button").click();
                return [...table.tBodies[0].rows].map(row => row.cells[4].dataset.v ?? null);
            }})()"#
        )
        .replace("\\#", "#")
    };
    for rising in [false, true] {
        let cells: Vec<Option<f64>> = browser
            .evaluate(&column(1))
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell.as_str().map(|text| text.parse().unwrap()))
            .collect();
        let numbers: Vec<f64> = cells.iter().map_while(|cell| *cell).collect();
        assert!(numbers.len() > 100 && cells[numbers.len()..].iter().all(Option::is_none));
        assert!(numbers.is_sorted_by(|a, b| if rising { a <= b } else { a >= b }));
    }

    // The button changes the colors of charts and text.
    let both = r#"(() => {
        const picture = () => document.querySelector("figure.chart canvas").toDataURL();
        const before = [getComputedStyle(document.body).backgroundColor, picture()];
        document.getElementById("theme").click();
        const after = [getComputedStyle(document.body).backgroundColor, picture()];
        return before.map((one, at) => one !== after[at]);
    })()"#;
    assert_eq!(browser.evaluate(both), json!([true, true]));

    // The legend shows the values at the cursor, and hides a series.
    let hover = r#"(() => {
        const figure = document.querySelector("\#cache figure.chart"), over = figure.querySelector(".u-over"), box = over.getBoundingClientRect();
        const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
        over.dispatchEvent(new MouseEvent("mouseenter", at));
        over.dispatchEvent(new MouseEvent("mousemove", at));
        return new Promise(done => setTimeout(() => done([...figure.querySelectorAll(".legend .value")].map(one => one.textContent)), 100));
    })()"#
        .replace("\\#", "#");
    let values = browser.evaluate(&hover);
    let values: Vec<&str> =
        values.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect();
    assert_eq!(values.len(), 4);
    assert!(values[..3].iter().all(|value| value.ends_with(" %")), "{values:?}");
    assert!(values[3].ends_with('B'), "{values:?}");
    let hide = r#"(() => {
        const figure = document.querySelector("\#cache figure.chart"), picture = () => figure.querySelector("canvas").toDataURL(), before = picture();
        figure.querySelector(".legend button").click();
        return picture() !== before && figure.querySelector(".legend button").getAttribute("aria-pressed") === "false";
    })()"#
        .replace("\\#", "#");
    assert_eq!(browser.evaluate(&hide), true);
    assert_eq!(browser.complaints(&file), Vec::<String>::new());

    // Printing unfolds the details, uses light colors and the width of a sheet.
    let print = browser.evaluate(&printed(
        r#"document.querySelectorAll("main details:not([open])").length,
            getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)",
            Math.max(...[...document.querySelectorAll("figure.chart .uplot")].map(one => one.offsetWidth))"#,
    ));
    assert_eq!(print[1], json!([0, true, 670]));
    assert_eq!(print[0], print[2]);
    assert_eq!(print[0][0], 15);
    assert_eq!(print[0][1], false);

    // The policy runs no injected script, and lets nothing be fetched.
    let intrude = r##"(() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = 1";
        const box = document.createElement("div");
        box.innerHTML = "<img src=http://192.0.2.1/x onerror='window.ran = 2'>";
        document.body.append(script, box);
        return new Promise(done => setTimeout(() => done(String(window.ran)), 200));
    })()"##;
    browser.events.clear();
    assert_eq!(browser.evaluate(intrude), "undefined");
    let sent = |event: &Value| {
        event["method"] == "Network.responseReceived"
            || event["method"] == "Network.requestWillBeSentExtraInfo"
    };
    assert!(!browser.events.iter().any(sent));
}

/// What is checked of a page with a map, as one object.
const MAP_LOOK: &str = r#"(() => {
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
fn maps_fit_every_screen() {
    let Some(mut browser) = browser() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("plan.html");
    for (report, pops) in [
        (reports::network(70, 4, true), 70),
        (reports::network(30, 0, false), 30),
        (reports::network(1, 0, false), 1),
    ] {
        std::fs::write(&file, html::render(&report)).unwrap();
        for screen in SCREENS {
            browser.open(&file, screen);
            let look = browser.evaluate(MAP_LOOK);
            assert_eq!(browser.complaints(&file), Vec::<String>::new(), "{screen:?}");
            assert_eq!(look["inner"], screen.width, "{screen:?}");
            assert!(look["scroll"].as_u64().unwrap() <= screen.width.into(), "{screen:?}: {look}");
            assert_eq!(look["beyond"], json!([]), "{screen:?}");
            assert_eq!(look["outside"], json!([]), "{screen:?}");
            assert_eq!(look["met"], 0, "{screen:?}: overlapping names");
            assert!(look["names"].as_u64().unwrap() >= 1, "{screen:?}");
            assert_eq!(
                look["map"].as_str().unwrap().split(' ').next(),
                Some(pops.to_string().as_str()),
                "{screen:?}"
            );
            assert_eq!(look["charts"], 1, "{screen:?}");
            assert_eq!(look["ran"], "undefined");
            let paper = if screen.dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
            assert_eq!(look["paper"], paper, "{screen:?}");
        }
    }
    std::fs::write(&file, html::render(&reports::empty())).unwrap();
    browser.open(&file, SCREENS[0]);
    assert_eq!(browser.complaints(&file), Vec::<String>::new());
}

#[test]
fn maps_respond() {
    let Some(mut browser) = browser() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("plan.html");
    std::fs::write(&file, html::render(&reports::network(30, 0, false))).unwrap();
    browser.open(&file, SCREENS[0]);

    // The switch changes colors and widths without a script.
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

    // Hints show the name and use of a PoP, and the load of a link in both directions.
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
    let hint = browser.evaluate(&hover(".pops > g:last-child"));
    let hint = hint.as_str().unwrap();
    assert!(hint.starts_with("City ") && hint.contains("Fullest cache: "), "{hint}");
    let hint = browser.evaluate(&hover(".wires line:last-child"));
    assert!(
        hint.as_str().unwrap().contains('→') || hint.as_str().unwrap().contains("Fullest"),
        "{hint}"
    );

    // The buttons zoom in and back out.
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

    // Printing uses light colors and the width of a sheet.
    let print = browser.evaluate(&printed(
        r#"getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)",
            document.querySelector("svg.map").viewBox.baseVal.width"#,
    ));
    assert_eq!(print[1], json!([true, 670]));
    assert_eq!(print[0], print[2]);
    assert_eq!(print[0][0], false);

    // Tables sort, missing values last.
    let sort = r##"(() => {
        const table = document.querySelector("#devices table");
        table.tHead.rows[0].cells[3].querySelector("button").click();
        return [...table.tBodies[0].rows].map(row => Number(row.cells[3].dataset.v));
    })()"##;
    let cells: Vec<f64> =
        browser.evaluate(sort).as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(cells.len() > 50 && cells.is_sorted_by(|a, b| a >= b));
    assert_eq!(browser.complaints(&file), Vec::<String>::new());
}
