//! What tests share. Never part of a release.
