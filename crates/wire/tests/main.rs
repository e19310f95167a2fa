//! All integration tests of the crate in one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used)]

mod cbor;
mod records;
