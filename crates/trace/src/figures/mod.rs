//! The figures of the study, one module each.
