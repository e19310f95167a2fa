//! Tests of this crate: every stored input is run through its target, and the script that runs all that takes long.

mod seeds;
mod soak;
