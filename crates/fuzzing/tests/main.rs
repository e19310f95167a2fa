//! The tests of this crate: every input that is kept goes through the body of its target.

mod seeds;
