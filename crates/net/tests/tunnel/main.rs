//! The tunnel, both ends in this process, on real sockets.

mod certificates;
mod domains;
mod ends;
mod faults;
mod flows;
mod hostile;
mod memory;
mod owners;
mod pair;
mod peers;
mod proxies;
mod reports;
