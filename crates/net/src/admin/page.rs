//! What a browser gets.

use crate::history::History;
use crate::status::Document;
use std::sync::Arc;

/// Most bytes of a query that are read.
const LONGEST_QUERY: usize = 256;

/// What a page is made of.
pub struct View<'a> {
    /// The state of the process.
    pub document: &'a Document,
    /// What it carried in the last hour.
    pub history: &'a History,
    /// The price of traffic that the request has. Hostile.
    pub price: Option<&'a str>,
}

/// A page, and what it may do.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The document.
    pub html: String,
    /// Its Content-Security-Policy. Frames are excluded in any case.
    pub policy: String,
}

/// Makes the answers for browsers.
#[derive(Clone)]
pub struct Pages {
    /// The page at `/`.
    pub page: Arc<dyn Fn(&View<'_>) -> Page + Send + Sync>,
    /// New data for that page, as JSON, at `/update`.
    pub update: Arc<dyn Fn(&View<'_>) -> String + Send + Sync>,
}

/// Makes the answers of a process whose state is a `T`: a node, or a controller.
#[derive(Clone, Copy, Debug)]
pub struct Site<T> {
    /// The state as JSON, at `/status`.
    pub status: fn(&T) -> String,
    /// The page at `/`.
    pub page: fn(&T) -> Page,
    /// New data for that page, as JSON, at `/update`.
    pub update: fn(&T) -> String,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pages")
    }
}

/// The price in a query: `price=0.09%2FGB`. `None` if there is none or its encoding is invalid.
pub(super) fn price(query: &str) -> Option<String> {
    let value = query.get(..query.len().min(LONGEST_QUERY))?;
    let value = value.split('&').find_map(|part| part.strip_prefix("price="))?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
