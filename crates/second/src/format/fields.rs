//! The fields of transcoded literals: section 7.

use super::*;

/// The fields of a section.
pub(super) struct Fields<'a> {
    /// Position 0 stands for a place below the block.
    pub(super) sources: Vec<Match>,
    pub(super) residual_len: usize,
    /// The residual is a section of coded literals.
    pub(super) is_coded: bool,
    /// The sources are zstd blocks.
    pub(super) is_blocks: bool,
    pub(super) operations: &'a [u8],
    pub(super) residual: &'a [u8],
}

pub(super) fn fields(
    mut section: &[u8],
    o: u64,
    limit: u64,
    width: Option<u32>,
) -> Result<Fields<'_>, No> {
    let count = field(&mut section)?;
    let (count, is_blocks) = (count / 2, count % 2 == 1);
    if count > 256 {
        return Err(Invalid("source count"));
    }
    let mut sources = Vec::new();
    for _ in 0..count {
        let (distance, len) = (position(&mut section, width)?, field(&mut section)?);
        if distance > o || len == 0 || len > distance || len >= 1 << 32 {
            return Err(Invalid("source"));
        }
        sources.push(Match { at: 0, len, source: o - distance, distance });
    }
    let residual = field(&mut section)?;
    if residual / 2 > 2 * limit + 8 {
        return Err(Invalid("residual length"));
    }
    let operations = field(&mut section)? as usize;
    let (operations, residual_section) =
        section.split_at_checked(operations).ok_or(Invalid("operation length"))?;
    Ok(Fields {
        sources,
        residual_len: (residual / 2) as usize,
        is_coded: residual % 2 == 1,
        is_blocks,
        operations,
        residual: residual_section,
    })
}
