//! Events from other processes, through shared memory.
//!
//! A front end is in another process than the analysis. Two ways lead from one to the other, and each ends in
//! [`Sink`](crate::hooks::Sink):
//!
//! | file | what |
//! |---|---|
//! | [`receiver`] | our own: a ring for each producer in one file, through `quipu-ring`, which has the producers' side |
//! | [`core`] | Prism's: its core's side of eight buffers and two FIFOs for each channel |
//! | [`folder`] | the folder of either, private to the user, and what killed processes left |
//! | [`fault`] | what can be wrong with what another process delivers, and where |
//!
//! Nothing that another process does crashes this one: what it wrote is copied before it is looked at, and a file that it
//! cuts is an error.
//!
//! SPEC: prism.md#delivery

mod chunk;
pub mod core;
pub mod fault;
pub mod folder;
pub mod receiver;

pub use self::core::Core;
pub use fault::{Fault, Wrong};
/// The producers' side of our own delivery.
pub use quipu_ring::prism as producer;
pub use receiver::Receiver;
