//! Caches of other simulators, reproduced with their faults. Each has its own configuration, and an analysis that runs it.

use crate::cacheray;
use quipu_model::{DynPass, Result, ToolInfo};

/// The caches of another simulator.
#[derive(Debug)]
pub struct OtherModel {
    /// Name on command lines.
    pub name: &'static str,
    /// Name of the simulator, for people.
    pub of: &'static str,
    /// Static description of the analysis.
    pub info: &'static ToolInfo,
    /// Builds the analysis from the text of a configuration.
    pub pass: fn(&str) -> Result<Box<dyn DynPass>>,
}

/// All other models.
pub static OTHER_MODELS: &[OtherModel] = &[OtherModel {
    name: "cacheray",
    of: "Cacheray's simulator",
    info: &cacheray::tool::INFO,
    pass: |text| Ok(Box::new(cacheray::ModelPass::new(&cacheray::Configuration::parse(text)?))),
}];
