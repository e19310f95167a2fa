//! All integration tests of the crate in one program, since linking takes longer than most tests. Without the feature `all`,
//! only the cases of the enabled families are tested.

#![allow(clippy::unwrap_used, unreachable_pub)]

#[cfg(feature = "all")]
mod carried;
#[cfg(feature = "all")]
mod columnar;
#[cfg(feature = "all")]
mod examples;
mod families;
#[cfg(feature = "all")]
mod opened_again;
#[cfg(feature = "all")]
mod parts;
#[cfg(feature = "all")]
mod passes_golden;
#[cfg(feature = "all")]
mod per_thread;
#[cfg(feature = "all")]
mod recognition;
#[cfg(feature = "all")]
mod results;
#[cfg(feature = "all")]
mod rows;
#[cfg(feature = "all")]
mod sweep;
#[cfg(feature = "all")]
mod threads;
#[cfg(feature = "all")]
mod types;
