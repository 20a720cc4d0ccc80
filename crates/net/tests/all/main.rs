//! The tunnel, both ends in this process, on real sockets, and the proxy's protocols. One binary:
//! each takes time to compile and to link.
#![allow(missing_docs)]

mod certificates;
mod curl;
mod domains;
mod ends;
mod fairness;
mod faults;
mod flows;
mod hostile;
mod https;
mod memory;
mod owners;
mod pair;
mod peers;
mod protocol_doc;
mod proxies;
mod reports;
