//! `edit`: replaces values, in all calls or in selected ones.
//!
//! [`substitute`](super::substitute) defines the rules; this file decides where they apply.
//! SPEC: apitrace.md#editing.

use super::substitute::{Applied, Reach, Rule};
use super::{CallEdit, Step, begin, rewrite};
use crate::callset::CallSet;
use crate::decode::Header;
use crate::{call_set, pattern, truth};
use quipu_model::options::{self, OptionSpec, Options};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::values::{Call, Kind, NO_NODE, Type, Types, Values};
use quipu_model::{Error, Result, ThreadId};
use regex_lite::Regex;

/// The edit.
#[derive(Debug)]
pub struct Sed;

const WHAT: &str = "Replacement";
const WHERE: &str = "Where";
const REPLACE: OptionSpec = OptionSpec::new(
    "replace",
    options::Kind::Text,
    "",
    "Replace strings, names of numbers and flags, and addresses that equal A by B.",
)
.short('e')
.value("s/A/B/")
.repeated()
.group(WHAT);
const REGEX: OptionSpec =
    truth("regex", "no", "Whether A is a regular expression, and B may have `$1`.").short('r').group(WHAT);
const SET: OptionSpec =
    OptionSpec::new("set", options::Kind::Text, "", "Give arguments or members of this name this value.")
        .value("ARG=VALUE")
        .repeated()
        .group(WHAT);
const ARG: OptionSpec = OptionSpec::new(
    "arg",
    options::Kind::Text,
    "",
    "Only in arguments or members of this name; `return` for the result.",
)
.repeated()
.group(WHERE);
const FUNCTION: OptionSpec = OptionSpec::new(
    "function",
    options::Kind::Text,
    "",
    "Only in calls of functions whose names match this regular expression.",
)
.value("REGEX")
.group(WHERE);
const CALLS: OptionSpec = OptionSpec::new(
    "calls",
    options::Kind::Set,
    "*",
    "Only in these calls: numbers, ranges, `frame`, `draw`, `fbo`, `@FILE`.",
)
.repeated()
.group(WHERE);
const PROPERTY: OptionSpec = OptionSpec::new("property", options::Kind::Text, "", "A property of the trace.")
    .value("NAME=VALUE")
    .repeated()
    .group(WHAT);

static INFO: TransformInfo = TransformInfo {
    name: "edit",
    title: "the same calls with some values replaced",
    options: &[REPLACE, REGEX, SET, ARG, FUNCTION, CALLS, PROPERTY],
};

/// The name that selects the result in a list of arguments.
const RESULT: &[u8] = b"return";

/// A rule and the arguments to which it applies; all if empty.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The replacement.
    pub rule: Rule,
    /// Names of arguments or of members of structures.
    pub args: Vec<Vec<u8>>,
    /// Which kinds of values the rule may change.
    pub reach: Reach,
}

/// Replaces values.
#[derive(Debug, Default)]
pub struct Replacer {
    /// Rules, applied in this order.
    pub rules: Vec<Placed>,
    /// Limits the edit to these calls; all if `None`.
    pub calls: Option<CallSet>,
    /// Limits the edit to calls of these threads; all if empty.
    pub threads: Vec<ThreadId>,
    /// Limits the edit to functions whose names match; all if `None`.
    pub function: Option<Regex>,
    /// Number of values replaced so far.
    pub n_values: u64,
    /// Number of calls with a replaced value.
    pub n_calls: u64,
    /// Number of names left unchanged, because no value of their type has the new name.
    pub n_unfit: u64,
    /// For each type, whether `function` matches it; `None` if not known yet.
    chosen: Vec<Option<bool>>,
}

impl Replacer {
    fn of(options: &Options, threads: &[ThreadId]) -> Result<Replacer> {
        let args: Vec<Vec<u8>> = options.texts(&ARG).map(|name| name.as_bytes().to_vec()).collect();
        let reach = if args.is_empty() { Reach::Texts } else { Reach::Numbers };
        let is_pattern = options.flag(&REGEX);
        let mut replacer = Replacer {
            threads: threads.to_vec(),
            calls: call_set(options, &CALLS)?,
            function: pattern(options, &FUNCTION)?,
            ..Replacer::default()
        };
        // The rules keep the order of the command line, because one may undo another.
        for (name, value) in options.iter() {
            if name == REPLACE.name {
                let rule = Rule::parse(value, is_pattern)?;
                replacer.rules.push(Placed { rule, args: args.clone(), reach });
            } else if name == SET.name {
                let (arg, value) = pair("set", value)?;
                let rule = Rule::Set { value: value.to_owned() };
                let args = vec![arg.as_bytes().to_vec()];
                replacer.rules.push(Placed { rule, args, reach: Reach::Numbers });
            }
        }
        Ok(replacer)
    }

    /// Notes for the user about a replacement that had no effect.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.n_values == 0 && !self.rules.is_empty() {
            notes.push("nothing was replaced: no value is like what was looked for".to_owned());
        }
        if self.n_unfit > 0 {
            notes.push(format!(
                "names left as they were, for no value of their kind is called as they were to be: {}",
                self.n_unfit
            ));
        }
        notes
    }

    fn is_chosen(&mut self, call: &Call, types: &Types) -> bool {
        if self.calls.as_ref().is_some_and(|calls| !calls.has(call.number, call.flags))
            || (!self.threads.is_empty() && !self.threads.contains(&call.thread.into()))
        {
            return false;
        }
        let Some(pattern) = &self.function else { return true };
        let position = call.function as usize;
        if self.chosen.len() <= position {
            self.chosen.resize(position + 1, None);
        }
        *self.chosen[position].get_or_insert_with(|| {
            types
                .function(call.function)
                .is_some_and(|function| pattern.is_match(&String::from_utf8_lossy(&function.name)))
        })
    }
}

/// Applies one rule to values, given their names, and counts changes.
struct Visitor<'a> {
    placed: &'a Placed,
    values: &'a mut Values,
    types: &'a Types,
    n_changed: u64,
    n_unfit: u64,
}

impl Visitor<'_> {
    /// Visits the value at `index`, named `name`. `is_inside` is true if it is part of a selected value.
    fn value(&mut self, index: u32, name: &[u8], is_inside: bool) -> Result<()> {
        let Placed { rule, args, reach } = self.placed;
        let is_inside = is_inside || args.is_empty() || args.iter().any(|arg| arg == name);
        let node = self.values.node(index);
        match node.kind {
            // QUIRK: of a value in two forms, apitrace changes only the one for people.
            Kind::Pair => self.value(index + 1, name, is_inside),
            Kind::Array => {
                let mut part = index + 1;
                for _ in 0..node.halves().0 {
                    self.value(part, name, is_inside)?;
                    part = self.values.behind(part);
                }
                Ok(())
            }
            Kind::Struct => {
                let types = self.types;
                let Some(Type::Struct(structure)) = types.get(node.ty) else { return Ok(()) };
                let mut part = index + 1;
                for member in &structure.members {
                    self.value(part, member, is_inside)?;
                    part = self.values.behind(part);
                }
                Ok(())
            }
            _ if is_inside => {
                match rule.apply(index, *reach, self.values, self.types)? {
                    Applied::Changed => self.n_changed += 1,
                    Applied::Unfit => self.n_unfit += 1,
                    Applied::Same => {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl CallEdit for Replacer {
    fn step(&mut self, at: usize, values: &mut Values, types: &Types) -> Result<Step> {
        let call = values.calls[at];
        if !self.is_chosen(&call, types) {
            return Ok(Step::Keep);
        }
        let mut n_changed = 0;
        for placed in &self.rules {
            let mut visitor = Visitor { placed, values: &mut *values, types, n_changed: 0, n_unfit: 0 };
            let names = types.function(call.function).map_or(&[][..], |function| &function.args);
            let mut visit = || {
                for arg in call.args.0..call.args.1 {
                    let Some(arg) = visitor.values.args.get(arg as usize).copied() else { break };
                    let name = names.get(arg.index as usize).map_or(&b""[..], |name| name);
                    visitor.value(arg.node, name, false)?;
                }
                if call.result != NO_NODE {
                    visitor.value(call.result, RESULT, false)?;
                }
                Ok(())
            };
            visit().map_err(|error: Error| error.hint(format!("this is about call {}", call.number)))?;
            n_changed += visitor.n_changed;
            self.n_unfit += visitor.n_unfit;
        }
        self.n_values += n_changed;
        self.n_calls += u64::from(n_changed > 0);
        Ok(Step::Keep)
    }
}

/// Returns the header with properties added; of several with the same name, the last is effective.
///
/// # Errors
/// `Usage` if one is not of the form `NAME=VALUE`.
pub fn with_properties<'p>(header: &Header, properties: impl Iterator<Item = &'p str>) -> Result<Header> {
    let mut header = header.clone();
    for property in properties {
        let (name, value) = pair("property", property)?;
        header.properties.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    }
    Ok(header)
}

fn pair<'t>(option: &str, text: &'t str) -> Result<(&'t str, &'t str)> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Error::usage(format!("`{option}` wants NAME=VALUE, found `{text}`")))
}

impl Transform for Sed {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn reads_again(&self, _: &quipu_model::Options) -> bool {
        true
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let mut replacer = Replacer::of(job.options, &job.opening.threads)?;
        if replacer.rules.is_empty() && !job.options.has(&PROPERTY) {
            return Err(Error::usage("nothing is to be replaced").hint("say --replace, --set or --property"));
        }
        let (trace, options) = begin(job)?;
        let header = with_properties(trace.header(), job.options.texts(&PROPERTY))?;
        let done = rewrite(&trace, &header, job.output, &options, &mut replacer, progress)?;
        let mut more = vec![
            Fact::new("values_replaced", "values replaced", replacer.n_values),
            Fact::new("calls_changed", "calls changed", replacer.n_calls),
        ];
        if replacer.n_unfit > 0 {
            more.push(Fact::new("names_left", "names left as they were", replacer.n_unfit));
        }
        let notes = replacer.notes();
        Ok(Transformed { notes, ..done.edited(options.packing, more) })
    }
}
