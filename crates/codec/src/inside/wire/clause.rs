//! Why transcoded literals are refused: which clause of `docs/FORMAT.md`, section 7, they break.

use crate::error::FrameError;

macro_rules! clauses {
    ($($name:ident: $text:literal, $rule:literal;)*) => {
        /// A clause that transcoded literals can break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::inside) enum Clause {
            $(#[doc = concat!("Reject: ", $text, ".")] $name,)*
        }

        impl Clause {
            /// What is wrong.
            fn text(self) -> &'static str {
                match self {
                    $(Clause::$name => concat!("transcoded: ", $text),)*
                }
            }
        }

        /// Every clause, and the words of the document that state it.
        #[cfg(test)]
        const RULES: &[(Clause, &str)] = &[$((Clause::$name, $rule),)*];
    };
}

clauses! {
    // From deflate tokens.
    Idle: "three operations in a row write nothing", "if idle > 2: reject";
    TooLong: "more is written than there are literals", "What is written must not exceed `8 l` bits";
    ResidualEnd: "the residual ends early", "nothing may be read beyond the end of the residual";
    ResidualLeft: "bytes of the residual are left over",
        "if a whole byte of the residual was not read: reject";
    SourceBit: "a position lies in no source", "if source is not a source bit: reject";
    SourceEnd: "a token reaches beyond its source",
        "whatever is read from sources must lie in one of them";
    Description: "the description of a code is invalid",
        "The description must be valid and lie in one source, or in what is written.";
    KnownCode: "a code was not named before", "the number must be less than the number of entries";
    CodeHere: "a jump takes a code from the literals", "Symbol 2 is valid in a *part* only.";
    NoTarget: "there is no code to write with", "are invalid without a target";
    NoCode: "there is no code to read the source with", "if code = none: reject";
    Token: "a token is invalid, has no word in the code, or does not fit",
        "writing a token for whose symbols there is no word is invalid";
    Distance: "a distance is not 1 to 32768", "if that is not 1 to 32768: reject";
    // From sequences of zstd.
    Block: "a zstd block is invalid", "A block is invalid if";
    Kind: "a source has an unknown kind", "kind = number(control); if kind > 4: reject";
    Continued: "the last source is continued", "The last source must not be of kind 4.";
    Joined: "sources in pieces are too long", "if the sources in pieces have more than 2^19 bytes: reject";
    Sizes: "the sources have too many literals or sequences",
        "have more than 2^19 literals or 2^16 sequences: reject";
    Table: "a block uses a table that is missing", "uses a table that is missing";
    TablesOnly: "sequences are taken from a source that gives tables only",
        "Sequences and literals are taken from kinds 0 and 1 only.";
    Number: "a number is too large", "must be below 2^32";
    Signed: "a step is too large", "Its absolute value must be less than 2^44.";
    ColumnEnd: "a column of the residual ends early", "Each is read from its beginning";
    ColumnLeft: "columns of the residual have bytes left over",
        "at the end, nothing must be left of any of them";
    Shifts: "there are too many shifts", "n = number(control); if n > 1024: reject";
    ShiftOrder: "shifts do not ascend", "from is not above the one before: reject";
    Blocks: "there are too many blocks", "There are at most 256 blocks";
    Open: "too many blocks are divided at once", "there may be 8 open blocks";
    Piece: "a piece of a block is empty, or all that is left of it", "Otherwise the number must be less than what is left of it.";
    OpenLeft: "a block is not written to its end", "if a block is open: reject";
    Outside: "more bytes than literals are outside of blocks", "is above l - written: reject";
    Missing: "what is referred to does not exist", "what is referred to must exist";
    BlockLength: "a block is empty or longer than the literals left",
        "there must be one left, and not more than l - written";
    Sum: "blocks and bytes do not add up to the literals", "written must be l";
    Sequences: "a block has fewer sequences than are given",
        "if the head does not say n more sequences: reject";
    Run: "a run is empty", "n = number(control); if n = 0: reject";
    Literals: "a block has fewer literals than are given",
        "literals of a block must not exceed those of its head";
    Following: "a source has fewer literals than are taken after a sequence",
        "there must be that many";
    NoSequence: "literals are taken after no sequence", "if n > 0 and next = 0: reject";
    Change: "an offset changes in an unknown way", "o = number(offsets) else: reject";
}

impl From<Clause> for FrameError {
    fn from(clause: Clause) -> FrameError {
        FrameError::Literals { method: clause.text() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_states_every_clause() {
        // The package has no documents.
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
        let Ok(document) = std::fs::read_to_string(path) else {
            oncewire_testkit::skipped!("there is no docs/FORMAT.md");
            return;
        };
        let (_, section) = document.split_once("### Transcoded literals\n").unwrap();
        let (section, _) = section.split_once("### Work\n").unwrap();
        // Wherever its lines break.
        let section: String = section.split_whitespace().collect::<Vec<_>>().join(" ");
        for (clause, rule) in RULES {
            assert!(section.contains(rule), "{clause:?}: {rule}");
        }
    }
}
