//! Capture files: what the runtime of instrumented programs writes, and what traces are made of.
//!
//! A capture file is mapped by the program that is traced, so that nothing is lost when it is killed: what stands in a
//! buffer stands in the file. This crate knows numbers and bytes, and nothing else: no files, no maps, no threads. It is
//! linked into the traced program, so it depends on nothing and allocates nothing but where it says so.
//!
//! | file | what |
//! |---|---|
//! | [`layout`] | where things stand: the header, buffers, chunks |
//! | [`cell`] | the 16 bytes that everything is written in, and the kinds of them |
//! | [`event`] | cells ⇄ events |
//! | [`pack`] | cells ⇄ fewer bytes, by predicting them |
//!
//! The format is described in docs/formats/capture.md.

pub mod cell;
pub mod event;
pub mod layout;
pub mod pack;
