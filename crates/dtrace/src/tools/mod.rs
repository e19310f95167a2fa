//! Analyses of captures.

pub mod aggregations;
pub mod timeline;
