//! Files beside a trace: lists of functions, and schedules, which show which threads and cores should have files.

use crate::funclist;
use crate::listing::Listing;
use crate::schedule::{self, Stretch};
use quipu_model::options::nearest;
use quipu_model::trace::{Fact, Function};
use quipu_model::{Amount, Error, Finding, Loss, Place, Severity, ThreadId};
use quipu_source::Source;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// Turns an error in a file beside the trace into a finding, since the trace itself can be read.
fn beside(error: &Error, rule: &'static str) -> Finding {
    let (place, message) = (error.place().clone(), error.message().to_owned());
    Finding::new(rule, Severity::Warning, place, message)
}

/// The functions in the list beside a trace. A list that cannot be read becomes a finding.
pub(super) fn functions_of(listing: &Listing, workload: u16, findings: &mut Vec<Finding>) -> Vec<Function> {
    match listing.functions.as_ref().map(funclist::read) {
        Some(Ok(mut functions)) => {
            functions.iter_mut().for_each(|function| function.workload = workload);
            functions
        }
        Some(Err(error)) => {
            findings.push(beside(&error, "drmemtrace/function-list"));
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// The rule of schedule files that cannot be read.
pub(super) const SCHEDULE_FILE: &str = "drmemtrace/schedule-file";

/// The finding for threads that are arranged by the schedule file beside the trace.
pub(super) fn by_file(source: &Source) -> Finding {
    Finding {
        rule: "drmemtrace/schedule-source".into(),
        severity: Severity::Note,
        place: Place { file: Some(source.name().to_owned()), ..Place::default() },
        message: "the trace's own processor markers do not tell where all threads ran; this file tells of the others"
            .to_owned(),
        count: 1,
        loss: None,
        is_stated: false,
        doubtful_from: None,
    }
}

/// Most threads that an error lists.
const MAX_LISTED: usize = 16;

/// The error if no file has the selected threads or shards. If threads were selected, it lists those that have files.
#[cold]
pub(super) fn nothing_of(wanted: &[ThreadId], present: &FxHashSet<u64>) -> Error {
    let error = Error::missing("no file of the trace has the threads or shards asked for");
    if wanted.is_empty() || present.is_empty() {
        return error;
    }
    let mut present: Vec<ThreadId> = present.iter().map(|word| ThreadId::from_packed(*word)).collect();
    present.sort_unstable();
    let names: Vec<String> = present.iter().map(ToString::to_string).collect();
    let near = wanted.iter().find_map(|tid| nearest(&tid.to_string(), names.iter().map(String::as_str)));
    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    let listed = names.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if names.len() > MAX_LISTED { ", …" } else { "" };
    error.hint(format!("{near}threads: {listed}{more}"))
}

/// The threads or cores that should have files.
pub(super) struct Wanted<'w> {
    /// The selected threads; empty for all.
    pub(super) threads: &'w [ThreadId],
    /// The threads that have files; `None` if files were left out.
    pub(super) present: Option<&'w FxHashSet<u64>>,
    /// The numbers in the names of files of cores, if they have any; `None` if the files are of threads, or if some were
    /// left out.
    pub(super) cores: Option<Vec<Option<u64>>>,
}

impl Wanted<'_> {
    /// Reports threads of a schedule without files. Only files of threads name their thread in the header.
    fn missing_files(&self, source: &Source, members: &[(String, Vec<Stretch>)]) -> Option<Finding> {
        let present = self.present?;
        let mut missing: BTreeMap<u64, u64> = BTreeMap::new();
        for stretch in members.iter().flat_map(|(_, stretches)| stretches) {
            let tid = stretch.thread.get();
            let is_wanted = self.threads.is_empty() || self.threads.contains(&ThreadId::from_packed(tid));
            if is_wanted && !present.contains(&tid) {
                let n_instrs = missing.entry(tid).or_default();
                *n_instrs = stretch.start_instr.get().max(*n_instrs);
            }
        }
        let (first, n_instrs) = (missing.keys().next()?, missing.values().sum());
        let message = match missing.len() {
            1 => format!("thread `{first}` has no file"),
            n => format!("`{n}` threads have no files, the first of them `{first}`"),
        };
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        let loss = Loss { instrs: Amount::AtLeast(n_instrs), ..Loss::default() };
        Some(Finding::new(MISSING_FILE, Severity::Error, place, message).losing(loss))
    }
}

impl Wanted<'_> {
    /// Reports cores of a schedule without files. Files of cores do not name their core in the header, so they are only
    /// counted.
    fn missing_cores(&self, source: &Source, members: &[(String, Vec<Stretch>)]) -> Option<Finding> {
        let files = self.cores.as_ref()?;
        let stretches = members.iter().flat_map(|(_, stretches)| stretches);
        let cores: BTreeSet<u64> = stretches.map(|stretch| stretch.cpu.get()).collect();
        let n_missing = cores.len().checked_sub(files.len()).filter(|n| *n > 0)?;
        // A file may be named by the number of its core, or by a count from 0.
        let absent: Vec<u64> = cores.iter().copied().filter(|core| !files.contains(&Some(*core))).collect();
        let message = match (n_missing, absent.first().filter(|_| absent.len() == n_missing)) {
            (1, Some(core)) => format!("core `{core}` has no file"),
            (n, Some(core)) => format!("`{n}` cores have no files, the first of them `{core}`"),
            (_, None) => format!("`{}` cores have stretches, and `{}` have files", cores.len(), files.len()),
        };
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        Some(Finding::new(MISSING_FILE, Severity::Error, place, message).losing(Loss::default()))
    }
}

/// The rule for missing files.
const MISSING_FILE: &str = "drmemtrace/missing-file";

/// Facts from the schedule files beside the trace; a broken file is a finding, not an error.
pub(super) fn schedule_facts(
    listing: &Listing,
    wanted: &Wanted<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut read = |source: &Option<Source>| match source.as_ref().map(schedule::read) {
        Some(Ok(members)) => Some(members),
        Some(Err(error)) => {
            findings.push(beside(&error, SCHEDULE_FILE));
            None
        }
        None => None,
    };
    let serial = read(&listing.serial_schedule);
    let cpus = read(&listing.cpu_schedule);
    let named = [(&listing.serial_schedule, &serial), (&listing.cpu_schedule, &cpus)];
    let schedule = named.into_iter().find_map(|(source, members)| source.as_ref().zip(members.as_ref()));
    if let Some((source, members)) = schedule {
        findings.extend(wanted.missing_files(source, members));
        findings.extend(wanted.missing_cores(source, members));
    }
    if let Some(members) = serial {
        let n: usize = members.iter().map(|(_, stretches)| stretches.len()).sum();
        facts.push(Fact::new("serial_schedule_stretches", "stretches in the serial schedule", n));
    }
    if let Some(members) = cpus {
        let cpus = members.iter().filter(|(_, stretches)| !stretches.is_empty()).count();
        facts.push(Fact::new("schedule_cpus", "processors in the schedule", cpus));
    }
    facts
}
