//! The pack container: frames in a file or a pipe. `docs/FORMAT.md`, section "Pack".
