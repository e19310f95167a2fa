//! Prism (Sigil2): workload events, their two encodings, hooks and back ends.
//!
//! A front end watches a program and sends events: computations, accesses, synchronization, contexts, control flow. This crate
//! reads and writes these events, and hands them in batches to hooks. Back ends are the hooks that Prism brings along.
//!
//! | file | what |
//! |---|---|
//! | [`event`], [`batch`], [`detail`] | events; batches of one thread; which fields events have |
//! | [`fixed`], [`dump`] | the encoding of 18 bytes; dumps of its buffers |
//! | [`variable`] | the encoding of 1 to 258 bytes, with configuration events |
//! | [`convert`] | one encoding into the other, refused where something would be lost |
//! | [`hooks`] | what analyses implement, and how batches reach them |
//! | [`simplecount`], [`stgen`], [`sigilclassic`] | back ends |
//! | [`shadow`] | what is known of each byte of memory, in pages |
//! | [`delivery`] | events from other processes, through shared memory |
//! | [`fault`] | what can be wrong with a stream, and where |
//!
//! The events are described in docs/formats/prism.md.

pub mod batch;
pub mod convert;
pub mod delivery;
pub mod detail;
pub mod dump;
pub mod event;
pub mod fault;
pub mod fixed;
pub mod hooks;
pub mod shadow;
pub mod sigilclassic;
pub mod simplecount;
pub mod stgen;
pub mod variable;

pub use batch::Batch;
pub use detail::Detail;
pub use event::Event;
pub use fault::{Error, Fault, Result};
pub use hooks::Hooks;
