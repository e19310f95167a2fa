//! Analyses that need drmemtrace's native entries.

pub mod counts;

use quipu_model::Tool;

/// The tools, in the order in which they are listed.
pub const TOOLS: &[&dyn Tool] = &[&counts::COUNTS, &crate::check::CHECK];
