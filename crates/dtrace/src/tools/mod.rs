//! Tools that analyse captures.

pub mod aggregations;
pub mod timeline;
