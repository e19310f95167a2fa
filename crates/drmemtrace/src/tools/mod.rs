//! Analyses that need drmemtrace's native entries.

pub mod counts;
pub mod schedule_files;

use quipu_model::Tool;

/// The tools, in the order of listings.
pub const TOOLS: &[&dyn Tool] = &[&counts::COUNTS, &schedule_files::SCHEDULE_FILES, &crate::check::CHECK];
