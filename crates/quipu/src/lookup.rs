//! Finds analyses by name.

use crate::FORMATS;
use quipu_model::options::nearest;
use quipu_model::{Error, ErrorKind, Format, Options, Result, Tool, Trace};

/// The analyses for traces of a format: the format's own first, then those for any format. The format's own hide others with
/// the same name.
pub fn tools_of(format: &str) -> impl Iterator<Item = &'static dyn Tool> {
    let own =
        FORMATS.iter().find(|known| known.info().name == format).map_or(&[] as &[_], |known| known.tools());
    let is_hidden = |tool: &dyn Tool| own.iter().any(|other| other.info().name == tool.info().name);
    let shared = quipu_passes::TOOLS.iter().chain(quipu_sim::TOOLS).copied();
    own.iter().copied().chain(shared.filter(move |tool| !is_hidden(*tool)))
}

/// Returns the analysis called `name` for traces of `format`.
///
/// # Errors
/// `Usage` if there is none, or it is for traces of other formats; the hint lists the available ones.
pub fn tool(name: &str, format: &str) -> Result<&'static dyn Tool> {
    find(name, format, &|_| true)
}

/// Returns the analysis called `name` for this trace.
///
/// # Errors
/// As for [`tool`], except that the hint lists only analyses whose needs this trace meets.
pub fn tool_for(name: &str, trace: &dyn Trace) -> Result<&'static dyn Tool> {
    find(name, &trace.meta().format, &|tool| {
        let info = tool.info();
        // An analysis that needs one of several columns can only tell when it is built.
        let lacks = |error: &Error| matches!(error.kind(), ErrorKind::Missing | ErrorKind::Unsupported);
        let can_be_built = || !tool.build(&Options::default(), trace).is_err_and(|error| lacks(&error));
        info.needs.of(info.name, trace).is_ok() && (!info.needs.required.is_empty() || can_be_built())
    })
}

fn find(name: &str, format: &str, fits: &dyn Fn(&dyn Tool) -> bool) -> Result<&'static dyn Tool> {
    tools_of(format).find(|tool| tool.info().name == name).ok_or_else(|| {
        let known: Vec<&str> =
            tools_of(format).filter(|tool| fits(*tool)).map(|tool| tool.info().name).collect();
        let has = |other: &&&dyn Format| other.tools().iter().any(|tool| tool.info().name == name);
        let others: Vec<&str> = FORMATS.iter().filter(has).map(|other| other.info().name).collect();
        if !others.is_empty() {
            return Error::usage(format!("`{name}` is not for traces of format {format}")).hint(format!(
                "it is for traces of format {}; tools for this one: {}",
                others.join(", "),
                known.join(", ")
            ));
        }
        let error = Error::usage(format!("there is no tool `{name}`"));
        match nearest(name, known.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("tools: {}", known.join(", "))),
        }
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
        let Err(error) = tool("reuse_distanc", "drmemtrace") else { panic!("there is such a tool") };
        assert_eq!(error.advice(), Some("did you mean `reuse-distance`?"));
    }

    #[test]
    fn a_tool_of_another_format_is_an_error_that_names_the_format() {
        let Err(error) = tool("counts", "apitrace") else { panic!("there is such a tool") };
        assert_eq!(error.message(), "`counts` is not for traces of format apitrace");
        let start = "it is for traces of format drmemtrace, cacheray; tools for this one: frames, ";
        assert!(error.advice().is_some_and(|advice| advice.starts_with(start)), "{error:?}");
    }
}
