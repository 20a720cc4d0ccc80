//! The tables of a history file.

use redb::{Builder, TableDefinition};

/// Properties of the file: `format`.
pub(super) const ABOUT: TableDefinition<'static, &str, u64> = TableDefinition::new("about");
/// Public keys and names of peers, by the numbers that records have.
pub(super) const NAMES: TableDefinition<'static, u32, (&str, &str)> = TableDefinition::new("peers");
/// Records by the second in which they end, since 1970.
pub(super) const SECONDS_TABLE: TableDefinition<'static, u64, &[u8]> =
    TableDefinition::new("seconds");
/// Records by the second in which their minute begins.
pub(super) const MINUTES_TABLE: TableDefinition<'static, u64, &[u8]> =
    TableDefinition::new("minutes");

/// Memory for pages, in bytes.
const CACHE: usize = 2 << 20;

pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}
