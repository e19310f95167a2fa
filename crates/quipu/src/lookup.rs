//! Finding an analysis by its name.

use crate::FORMATS;
use quipu_model::{Error, Result, Tool};

/// The analyses for traces of a format: the format's own first, then those that any format may be given to. Where two
/// have the same name, the format's own is meant.
pub fn tools_of(format: &str) -> impl Iterator<Item = &'static dyn Tool> {
    let own =
        FORMATS.iter().find(|known| known.info().name == format).map_or(&[] as &[_], |known| known.tools());
    let is_hidden = |tool: &dyn Tool| own.iter().any(|other| other.info().name == tool.info().name);
    let shared = quipu_passes::TOOLS.iter().chain(quipu_sim::TOOLS).copied();
    own.iter().copied().chain(shared.filter(move |tool| !is_hidden(*tool)))
}

/// The analysis called `name`, for traces of `format`.
///
/// # Errors
/// `Usage` if there is none; the hint lists those that there are.
pub fn tool(name: &str, format: &str) -> Result<&'static dyn Tool> {
    tools_of(format).find(|tool| tool.info().name == name).ok_or_else(|| {
        let known: Vec<&str> = tools_of(format).map(|tool| tool.info().name).collect();
        Error::usage(format!("there is no tool `{name}`")).hint(format!("tools: {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tool_is_listed_twice() {
        for format in FORMATS {
            let mut names: Vec<&str> = tools_of(format.info().name).map(|tool| tool.info().name).collect();
            let n_listed = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), n_listed);
        }
    }

    #[test]
    fn an_unknown_tool_is_an_error_that_lists_the_known_ones() {
        let Err(error) = tool("nonsense", "drmemtrace") else { panic!("there is such a tool") };
        assert_eq!(error.message(), "there is no tool `nonsense`");
        assert!(error.advice().is_some_and(|advice| advice.starts_with("tools: counts, ")), "{error:?}");
    }
}
