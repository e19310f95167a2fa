//! Analyses of captures.

pub mod aggregations;
