//! A study as one JSON document.

use oncewire_trace::results::Report;
use serde::Serialize;

/// Format of the document. The number increases when a field changes its meaning or is removed.
const FORMAT: &str = "oncewire-study/3";

/// The whole study. Tables have named columns with units, and rows as arrays in the order of the
/// columns.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    format: &'static str,
    #[serde(flatten)]
    report: &'a Report,
}

/// The document of a study, for [`crate::stdout::json`].
pub(crate) fn document(report: &Report) -> Document<'_> {
    Document { format: FORMAT, report }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use serde_json::Value;

    #[test]
    fn a_document_names_its_format_columns_and_units() {
        let text = serde_json::to_string(&super::document(&sample::report())).unwrap();
        assert!(!text.contains("NaN"));
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["format"], "oncewire-study/3");
        assert_eq!(document["figures"].as_array().unwrap().len(), 2);
        let table = &document["figures"][0]["tables"][0];
        let columns = table["columns"].as_array().unwrap();
        assert_eq!(columns[0]["name"], "algorithm");
        assert_eq!(columns[2]["unit"], "bytes");
        for row in table["rows"].as_array().unwrap() {
            assert_eq!(row.as_array().unwrap().len(), columns.len());
        }
        assert_eq!(document["input"]["captures"][1], sample::HOSTILE);
        assert_eq!(document["verdict"]["deploy"], "tunnel");
    }

    #[test]
    fn nan_and_infinity_are_null() {
        let mut report = sample::report();
        report.verdict.savings = f64::NAN;
        let document = serde_json::to_value(super::document(&report)).unwrap();
        assert!(document["verdict"]["savings"].is_null());
    }
}
