//! The redundancy study: packets to flows to objects, what repeats in them, and what redundancy elimination would save.
//!
//! The study repeats the measurements of Anand's thesis (chapter 2), EndRE (NSDI 2010, sections 3, 8 and 9), Santos and Wetherall
//! (USENIX ATC 1998, section 2) and Martynov (WOSP/SIPEW 2010) on any trace. Its [`results`] are plain data: who shows them, and where, is
//! not its concern.

pub mod results;
