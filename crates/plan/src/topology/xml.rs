//! XML for GraphML and SNDlib, parsed by `roxmltree`. A scan before parsing refuses references to
//! declared entities, so nothing expands, and limits what the parser's work and memory are not
//! linear in: attributes per element, namespaces, and depth.

use std::fmt;

use roxmltree::{Document, Node, ParsingOptions};

use crate::{
    Error,
    error::{TopologyError, invalid, quote},
};

/// GraphML and SNDlib need six.
const MAX_DEPTH: usize = 32;
const MAX_ATTRIBUTES: usize = 64;
/// Namespace declarations in a document. The parser copies those in scope for each element.
const MAX_NAMESPACES: usize = 64;

/// Parses a text and calls `read` with its root element.
pub(super) fn parse<T>(
    text: &str,
    read: impl FnOnce(Element<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    check_limits(text)?;
    // `check_limits` has seen to it that nothing refers to the DTD.
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::NoRootNode => malformed("no XML element"),
        roxmltree::Error::UnclosedRootNode => malformed("not XML: an element is never closed"),
        error => invalid(
            format_args!("line {}", error.pos().row),
            format_args!("not XML: {}", quote(&error.to_string())),
        ),
    })?;
    read(Element(document.root_element()))
}

fn malformed(what: &str) -> Error {
    TopologyError::Malformed(what.into()).into()
}

/// One pass over the text that knows tags, quotes, comments, CDATA and processing instructions.
/// What is not XML is left for the parser to refuse.
fn check_limits(text: &str) -> Result<(), Error> {
    let bytes = text.as_bytes();
    let refuse = |at: usize, what: fmt::Arguments<'_>| {
        Err(invalid(format_args!("line {}", line_of(text, at)), what))
    };
    let (mut at, mut depth, mut namespaces) = (0, 0_usize, 0);
    loop {
        let start = text[at..].find('<').map_or(text.len(), |found| at + found);
        check_references(text, at, start)?;
        let rest = &text[start..];
        if rest.is_empty() {
            return Ok(());
        }
        let skip = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")]
            .into_iter()
            .find(|(open, _)| rest.starts_with(open));
        if let Some((open, close)) = skip {
            let Some(end) = rest[open.len()..].find(close) else { return Ok(()) };
            at = start + open.len() + end + close.len();
            continue;
        }
        // A DTD ends with what is in its brackets, which is scanned like the rest.
        let declaration = rest.starts_with("<!");
        let (mut end, mut attributes, mut quoted) = (start + 1, 0, None);
        while end < bytes.len()
            && (quoted.is_some() || !(bytes[end] == b'>' || declaration && bytes[end] == b'['))
        {
            match (quoted, bytes[end]) {
                (None, b'"' | b'\'') => {
                    quoted = Some(bytes[end]);
                    attributes += 1;
                }
                (None, b'x') => namespaces += usize::from(bytes[end..].starts_with(b"xmlns")),
                (Some(quote), byte) if byte == quote => quoted = None,
                _ => {}
            }
            end += 1;
        }
        if attributes > MAX_ATTRIBUTES {
            return refuse(start, format_args!("more than {MAX_ATTRIBUTES} attributes"));
        }
        if namespaces > MAX_NAMESPACES {
            return refuse(start, format_args!("more than {MAX_NAMESPACES} namespaces"));
        }
        if !declaration {
            check_references(text, start, end)?;
            match bytes.get(start + 1) {
                Some(b'/') => depth = depth.saturating_sub(1),
                _ if bytes[end - 1] == b'/' => {}
                _ => depth += 1,
            }
        }
        if depth > MAX_DEPTH {
            return refuse(start, format_args!("elements are nested deeper than {MAX_DEPTH}"));
        }
        at = (end + 1).min(bytes.len());
    }
}

/// Refuses references to entities other than the predefined ones, so that declarations in a DTD
/// have no effect.
fn check_references(text: &str, from: usize, to: usize) -> Result<(), Error> {
    for (at, _) in text[from..to].match_indices('&') {
        let name = text[from + at + 1..to].split(';').next().unwrap_or_default();
        if !name.starts_with('#') && !["lt", "gt", "amp", "quot", "apos"].contains(&name) {
            let place = format!("line {}", line_of(text, from + at));
            return Err(invalid(place, format_args!("unknown entity {}", quote(name))));
        }
    }
    Ok(())
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

/// An element; names are without namespace prefixes.
#[derive(Clone, Copy)]
pub(super) struct Element<'a>(Node<'a, 'a>);

impl<'a> Element<'a> {
    pub(super) fn name(self) -> &'a str {
        self.0.tag_name().name()
    }

    /// The first attribute of that name.
    pub(super) fn attribute(self, name: &str) -> Option<&'a str> {
        self.0
            .attributes()
            .find(|attribute| attribute.name() == name)
            .map(|attribute| attribute.value())
    }

    /// An attribute that must be present.
    pub(super) fn required(self, name: &str) -> Result<&'a str, Error> {
        let missing = || {
            invalid(self.place(), format_args!("<{}> has no attribute {name}", quote(self.name())))
        };
        self.attribute(name).ok_or_else(missing)
    }

    /// Child elements.
    pub(super) fn children(self) -> impl Iterator<Item = Element<'a>> {
        self.0.children().filter(|child| child.is_element()).map(Element)
    }

    /// The first child of that name.
    pub(super) fn child(self, name: &str) -> Option<Element<'a>> {
        self.children().find(|child| child.name() == name)
    }

    /// Children of that name.
    pub(super) fn all(self, name: &'static str) -> impl Iterator<Item = Element<'a>> {
        self.children().filter(move |child| child.name() == name)
    }

    /// Its own text, trimmed.
    pub(super) fn text(self) -> String {
        let text: String =
            self.0.children().filter(Node::is_text).filter_map(|child| child.text()).collect();
        text.trim().to_owned()
    }

    /// Its text as a number.
    pub(super) fn number(self) -> Result<f64, Error> {
        let text = self.text();
        text.parse()
            .map_err(|_| invalid(self.place(), format_args!("{} is not a number", quote(&text))))
    }

    /// Where it starts. The line is only counted when it is displayed.
    pub(super) fn place(self) -> Place<'a> {
        Place(self.0)
    }
}

/// Line of an element.
pub(super) struct Place<'a>(Node<'a, 'a>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", line_of(self.0.document().input_text(), self.0.range().start))
    }
}
