//! XML as a small tree. No DTD, no entities but the predefined ones, so nothing expands; depth and attributes are limited.

use quick_xml::{Reader, events::Event};

use super::{bad, quote};
use crate::Error;

/// GraphML and SNDlib need six.
const MAX_DEPTH: usize = 32;
const MAX_ATTRIBUTES: usize = 64;

/// An element without its namespace prefix.
pub(super) struct Element {
    pub(super) name: String,
    /// Where it starts, from 1.
    pub(super) line: usize,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    text: String,
}

impl Element {
    /// The first attribute of that name.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// An attribute without which there is no going on.
    pub(super) fn required(&self, name: &str) -> Result<&str, Error> {
        self.attribute(name).ok_or_else(|| bad(self.place(), format_args!("<{}> has no attribute {name}", quote(&self.name))))
    }

    /// The first child of that name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Children of that name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Its own text, trimmed.
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    /// Its text as a number.
    pub(super) fn number(&self) -> Result<f64, Error> {
        let text = self.text();
        text.parse().map_err(|_| bad(self.place(), format_args!("{} is no number", quote(text))))
    }

    pub(super) fn place(&self) -> String {
        format!("line {}", self.line)
    }
}

/// The root element.
pub(super) fn parse(text: &str) -> Result<Element, Error> {
    let mut reader = Reader::from_str(text);
    // Elements that are open, the outermost first.
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut counted = 0;
    let mut line = 1;
    loop {
        let at = (reader.buffer_position() as usize).min(text.len());
        line += text.as_bytes()[counted..at].iter().filter(|&&byte| byte == b'\n').count();
        counted = at;
        let place = format_args!("line {line}");
        let event = reader.read_event().map_err(|error| {
            let until = (reader.error_position() as usize).clamp(counted, text.len());
            let line = line + text.as_bytes()[counted..until].iter().filter(|&&byte| byte == b'\n').count();
            bad(format_args!("line {line}"), format_args!("not XML: {}", quote(&error.to_string())))
        })?;
        match event {
            Event::Start(ref tag) | Event::Empty(ref tag) => {
                if root.is_some() {
                    return Err(bad(place, "more than one outermost element"));
                }
                if open.len() == MAX_DEPTH {
                    return Err(bad(place, format_args!("elements are nested deeper than {MAX_DEPTH}")));
                }
                let mut attributes = Vec::new();
                // Without the reader's own check for double ones, which is quadratic.
                for attribute in tag.attributes().with_checks(false) {
                    let attribute = attribute.map_err(|error| bad(place, format_args!("an attribute: {error}")))?;
                    if attributes.len() == MAX_ATTRIBUTES {
                        return Err(bad(place, format_args!("more than {MAX_ATTRIBUTES} attributes")));
                    }
                    let value = quick_xml::escape::unescape(&attribute.value).map_err(|error| bad(place, error))?;
                    attributes.push((attribute.key.local_name().as_ref().to_owned(), value.into()));
                }
                let element = Element {
                    name: tag.local_name().as_ref().to_owned(),
                    line,
                    attributes,
                    children: Vec::new(),
                    text: String::new(),
                };
                if matches!(event, Event::Start(_)) {
                    open.push(element);
                } else {
                    close(&mut open, &mut root, element);
                }
            }
            Event::End(_) => {
                let Some(element) = open.pop() else { return Err(bad(place, "an end tag without a start")) };
                close(&mut open, &mut root, element);
            }
            Event::Text(part) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&part);
                }
            }
            Event::CData(part) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&part);
                }
            }
            Event::GeneralRef(name) => {
                let value = quick_xml::escape::unescape(&format!("&{};", &*name))
                    .map_err(|_| bad(place, format_args!("unknown entity {}", quote(&name))))?
                    .into_owned();
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&value);
                }
            }
            Event::DocType(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    match (open.last(), root) {
        (Some(element), _) => Err(bad(element.place(), format_args!("<{}> is never closed", quote(&element.name)))),
        (None, Some(root)) => Ok(root),
        (None, None) => Err(Error::Topology("no XML element".into())),
    }
}

fn close(open: &mut [Element], root: &mut Option<Element>, element: Element) {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None => *root = Some(element),
    }
}
