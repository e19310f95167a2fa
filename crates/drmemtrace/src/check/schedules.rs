//! The schedule files beside a trace, compared with the trace.

use super::log::Log;
use super::rules::Rule;
use super::time::MAX_POINTS;
use crate::record::VERSION_BRANCH_INFO;
use crate::schedule::{self, Difference, Recording, Schedule, Stretch};
use crate::trace::DrmemTrace;
use quipu_model::{Place, ShardKind};
use quipu_source::Source;

/// One schedule file as read: its name, and its members.
#[derive(Debug)]
struct Read {
    name: String,
    members: Vec<(String, Vec<Stretch>)>,
}

/// What lies beside the trace; empty files are as good as none.
#[derive(Debug, Default)]
pub(super) struct Files {
    serial: Option<Read>,
    cpus: Option<Read>,
    /// Instructions in a chunk, if the files count instructions modulo it.
    chunk_instrs: u64,
}

impl Files {
    /// Reads the files beside a trace whose shards are threads.
    pub(super) fn beside(trace: &DrmemTrace) -> Files {
        let headers = || trace.files().iter().map(|file| &file.header);
        let is_threads =
            quipu_model::Trace::shards(trace).iter().all(|shard| shard.kind == ShardKind::Thread);
        // Without processors in the trace there is nothing to compare with.
        if !is_threads {
            return Files::default();
        }
        let is_old = headers().any(|header| header.version < VERSION_BRANCH_INFO);
        let chunk_instrs = headers().map(|header| header.chunk_instrs).max().unwrap_or(0);
        Files {
            serial: trace.serial_schedule().and_then(read),
            cpus: trace.cpu_schedule().and_then(read),
            chunk_instrs: if is_old { chunk_instrs } else { 0 },
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.serial.is_none() && self.cpus.is_none()
    }

    /// Compares them with what the files of the trace say.
    pub(super) fn compare(&self, recordings: Vec<Recording>, is_too_long: bool, log: &mut Log) {
        if self.is_empty() {
            return;
        }
        let n_points: usize = recordings.iter().map(Recording::len).sum();
        if is_too_long || n_points > MAX_POINTS {
            let message =
                format!("more than `{MAX_POINTS}` processor markers: the schedule files are not compared");
            return log.add(Rule::ScheduleTooLong, Place::default(), message, 0);
        }
        let full = Schedule::full(recordings);
        let collapsed = full.collapsed();
        if let Some(Read { name, members }) = &self.serial {
            let file: Vec<Stretch> = members.iter().flat_map(|(_, stretches)| stretches).copied().collect();
            let place = Place { file: Some(name.clone()), ..Place::default() };
            let rules = (Rule::SerialScheduleCount, Rule::SerialScheduleEntry);
            self.compare_one(file, [&full.serial, &collapsed.serial], place, rules, log);
        }
        let Some(Read { name, members }) = &self.cpus else { return };
        for (member, file) in members {
            let place = Place { file: Some(name.clone()), member: Some(member.clone()), ..Place::default() };
            let of = |schedule: &Schedule| {
                let cpu = member.parse().ok().or_else(|| file.first().map(|stretch| stretch.cpu.get()));
                cpu.and_then(|cpu| schedule.cpus.get(&cpu).cloned()).unwrap_or_default()
            };
            let rules = (Rule::CpuScheduleCount, Rule::CpuScheduleEntry);
            self.compare_one(file.clone(), [&of(&full), &of(&collapsed)], place, rules, log);
        }
        let missing =
            full.cpus.keys().filter(|cpu| !members.iter().any(|(member, _)| member.parse() == Ok(**cpu)));
        for cpu in missing {
            let place = Place { file: Some(name.clone()), ..Place::default() };
            log.add(
                Rule::CpuScheduleCount,
                place,
                format!("processor `{cpu}` of the trace has no member"),
                0,
            );
        }
    }

    /// Compares the stretches of one file or member with the full or the collapsed ones, whichever are as many.
    fn compare_one(
        &self,
        mut file: Vec<Stretch>,
        candidates: [&[Stretch]; 2],
        place: Place,
        (count, entry): (Rule, Rule),
        log: &mut Log,
    ) {
        // Those of one time may stand in any order.
        file.sort_by_key(Stretch::rank);
        let Some(trace) = candidates.into_iter().find(|trace| trace.len() == file.len()) else {
            let [full, collapsed] = candidates.map(<[Stretch]>::len);
            let n = file.len();
            let message =
                format!("`{n}` stretches, the trace has `{full}`, or `{collapsed}` with neighbours joined");
            return log.add(count, place, message, u64::MAX);
        };
        let mut from = 0;
        while let Some(Difference { index, file: Some(stretch), trace: Some(expected) }) =
            schedule::first_difference(&file[from..], &trace[from..], self.chunk_instrs)
        {
            let place =
                Place { offset: Some(((from + index) * size_of::<Stretch>()) as u64), ..place.clone() };
            let message = format!("{}; the trace has {}", describe(&stretch), describe(&expected));
            log.add(entry, place, message, stretch.thread.get());
            from += index + 1;
        }
    }
}

fn describe(stretch: &Stretch) -> String {
    let Stretch { thread, timestamp, cpu, start_instr } = stretch;
    format!("thread `{thread}` on processor `{cpu}` at `{timestamp}` from instruction `{start_instr}`")
}

/// A file that can be read and is not empty. What cannot be read was told when the trace was opened.
fn read(source: &Source) -> Option<Read> {
    let members = schedule::read(source).ok()?;
    let is_empty = members.iter().all(|(_, stretches)| stretches.is_empty());
    (!is_empty).then(|| Read { name: source.name().to_owned(), members })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::log::Wanted;

    #[test]
    fn a_schedule_of_too_many_points_is_not_compared() {
        let read = Read { name: "serial".into(), members: vec![("".into(), vec![Stretch::new(1, 2, 3, 4)])] };
        let files = Files { serial: Some(read), ..Files::default() };
        let mut log = Log::new(Wanted::default());
        files.compare(Vec::new(), true, &mut log);
        let rules: Vec<&str> = log.kept.iter().map(|violation| violation.finding.rule).collect();
        assert_eq!(rules, ["drmemtrace/schedule-too-long"]);
    }
}
