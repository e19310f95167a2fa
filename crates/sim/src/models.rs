//! Caches of other simulators, with their faults: each with a configuration of its own and an analysis that runs it.

use crate::cacheray;
use quipu_model::{DynPass, Result, ToolInfo};

/// The caches of another simulator.
#[derive(Debug)]
pub struct OtherModel {
    /// The name on command lines.
    pub name: &'static str,
    /// Whose they are, for people.
    pub of: &'static str,
    /// What is known of the analysis that runs them.
    pub info: &'static ToolInfo,
    /// That analysis, for the text of a configuration.
    pub pass: fn(&str) -> Result<Box<dyn DynPass>>,
}

/// All of them.
pub static OTHER_MODELS: &[OtherModel] = &[OtherModel {
    name: "cacheray",
    of: "Cacheray's simulator",
    info: &cacheray::tool::INFO,
    pass: |text| Ok(Box::new(cacheray::ModelPass::new(&cacheray::Configuration::parse(text)?))),
}];
