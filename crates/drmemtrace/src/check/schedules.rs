//! The rules for the schedule files beside a trace.

use super::log::Log;
use super::rules::Rule;
use crate::schedule::compare::{Files, Met};
use crate::schedule::{MAX_POINTS, Recording};
use quipu_model::Place;

/// Compares the schedule files with the recordings of the trace's own files and reports every difference.
pub(super) fn judge(files: &Files, recordings: Vec<Recording>, is_too_long: bool, log: &mut Log) {
    if files.is_empty() {
        return;
    }
    let n_points: usize = recordings.iter().map(Recording::len).sum();
    if is_too_long || n_points > MAX_POINTS {
        let message =
            format!("more than `{MAX_POINTS}` processor markers: the schedule files are not compared");
        return log.add(Rule::ScheduleTooLong, Place::default(), message, 0);
    }
    files.compare(recordings, |which, place, met| {
        let thread = match met {
            Met::Member { .. } => u64::MAX,
            Met::Stretch { in_file, .. } => in_file.thread.get(),
            Met::MissingCpu(_) => 0,
        };
        if let Some(finding) = met.finding(which, place)
            && let Some(rule) = Rule::named(&finding.rule)
        {
            log.add(rule, finding.place, finding.message, thread);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::log::Wanted;
    use crate::schedule::Stretch;

    #[test]
    fn a_schedule_of_too_many_points_is_not_compared() {
        let files = Files::of_serial(vec![Stretch::new(1, 2, 3, 4)]);
        let mut log = Log::new(Wanted::default());
        judge(&files, Vec::new(), true, &mut log);
        let rules: Vec<&str> = log.kept.iter().map(|violation| &*violation.finding.rule).collect();
        assert_eq!(rules, ["drmemtrace/schedule-too-long"]);
    }
}
