//! Tests of this crate: every stored input is run through its target.

mod seeds;
