//! Compares the schedule files beside a trace with the trace itself.

use super::{Difference, Recording, Schedule, Stretch, first_difference, read};
use crate::record::VERSION_BRANCH_INFO;
use crate::trace::DrmemTrace;
use quipu_model::{Finding, Place, Severity, ShardKind, Trace};
use quipu_source::Source;

/// One schedule file: its name and its members.
#[derive(Debug)]
struct Read {
    name: String,
    members: Vec<(String, Vec<Stretch>)>,
}

impl Read {
    fn is_empty(&self) -> bool {
        self.members.iter().all(|(_, stretches)| stretches.is_empty())
    }
}

/// The schedule files beside a trace; if all are empty, they count as missing.
#[derive(Debug, Default)]
pub(crate) struct Files {
    serial: Option<Read>,
    cpus: Option<Read>,
    /// Names of the files that cannot be read.
    unreadable: Vec<String>,
    /// Instructions in a chunk, if the files count instructions modulo it.
    chunk_instrs: u64,
}

/// Selects one of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Serial,
    Cpus,
}

/// The forms in which DynamoRIO's writers leave a file; readers accept both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Every stretch.
    Full,
    /// Only the first of consecutive stretches of one thread.
    Collapsed,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Full => "full",
            Form::Collapsed => "collapsed",
        }
    }
}

/// An item of the comparison, in the order of the files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Met<'m> {
    /// A file's member, or the single one of the serial file: its number of stretches, the number in the trace, full and
    /// collapsed, and the form that has the same number, if any.
    Member { in_file: usize, full: usize, collapsed: usize, form: Option<Form> },
    /// A stretch of the preceding member, at this position, that the trace does not have.
    Stretch { index: usize, in_file: &'m Stretch, in_trace: &'m Stretch },
    /// A processor of the trace that has no member in the file.
    MissingCpu(u64),
}

impl Met<'_> {
    /// The finding for this item, if there is a difference.
    pub(crate) fn finding(&self, which: Which, place: &Place) -> Option<Finding> {
        let (count, entry) = match which {
            Which::Serial => ("drmemtrace/serial-schedule-count", "drmemtrace/serial-schedule-entry"),
            Which::Cpus => ("drmemtrace/cpu-schedule-count", "drmemtrace/cpu-schedule-entry"),
        };
        let (rule, offset, message) = match self {
            Met::Member { form: Some(_), .. } => return None,
            Met::Member { in_file: n, full, collapsed, form: None } => {
                let message = format!(
                    "`{n}` stretches, the trace has `{full}`, or `{collapsed}` with neighbours joined"
                );
                (count, None, message)
            }
            Met::Stretch { index, in_file, in_trace } => {
                let offset = (index * size_of::<Stretch>()) as u64;
                let message = format!("{}; the trace has {}", describe(in_file), describe(in_trace));
                (entry, Some(offset), message)
            }
            Met::MissingCpu(cpu) => (count, None, format!("processor `{cpu}` of the trace has no member")),
        };
        let place = Place { offset, ..place.clone() };
        Some(Finding::new(rule, Severity::Error, place, message))
    }
}

impl Files {
    /// Reads the files beside a trace whose shards are threads.
    pub(crate) fn beside(trace: &DrmemTrace) -> Files {
        let headers = || trace.files().iter().map(|file| &file.header);
        // Files of cores name processors that a scheduler made up.
        if trace.shards().iter().any(|shard| shard.kind != ShardKind::Thread) {
            return Files::default();
        }
        let is_old = headers().any(|header| header.version < VERSION_BRANCH_INFO);
        let chunk_instrs = headers().map(|header| header.chunk_instrs).max().unwrap_or(0);
        let mut unreadable = Vec::new();
        let mut read_all = |source: Option<&Source>| match source.map(|source| (source, read(source))) {
            Some((source, Ok(members))) => Some(Read { name: source.name().to_owned(), members }),
            // The reason was reported when the trace was opened.
            Some((source, Err(_))) => {
                unreadable.push(source.name().to_owned());
                None
            }
            None => None,
        };
        let (mut serial, mut cpus) = (read_all(trace.serial_schedule()), read_all(trace.cpu_schedule()));
        // DynamoRIO leaves both empty if it has no data; if only one is filled, the other lost something.
        if [&serial, &cpus].into_iter().flatten().all(Read::is_empty) {
            (serial, cpus) = (None, None);
        }
        Files { serial, cpus, unreadable, chunk_instrs: if is_old { chunk_instrs } else { 0 } }
    }

    /// Names of the files that exist but cannot be read.
    pub(crate) fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.serial.is_none() && self.cpus.is_none()
    }

    /// Compares the files with the recordings of the trace's own files.
    pub(crate) fn compare(&self, recordings: Vec<Recording>, mut visit: impl FnMut(Which, &Place, Met<'_>)) {
        let full = Schedule::full(recordings);
        let collapsed = full.collapsed();
        if let Some(Read { name, members }) = &self.serial {
            let file: Vec<Stretch> = members.iter().flat_map(|(_, stretches)| stretches).copied().collect();
            let place = Place { file: Some(name.clone()), ..Place::default() };
            self.compare_one(file, [&full.serial, &collapsed.serial], |met| {
                visit(Which::Serial, &place, met)
            });
        }
        let Some(Read { name, members }) = &self.cpus else { return };
        for (member, file) in members {
            let place = Place { file: Some(name.clone()), member: Some(member.clone()), ..Place::default() };
            let of = |schedule: &Schedule| {
                let cpu = member.parse().ok().or_else(|| file.first().map(|stretch| stretch.cpu.get()));
                cpu.and_then(|cpu| schedule.cpus.get(&cpu).cloned()).unwrap_or_default()
            };
            self.compare_one(file.clone(), [&of(&full), &of(&collapsed)], |met| {
                visit(Which::Cpus, &place, met)
            });
        }
        let is_known = |cpu: u64| members.iter().any(|(member, _)| member.parse() == Ok(cpu));
        let place = Place { file: Some(name.clone()), ..Place::default() };
        for cpu in full.cpus.keys().copied().filter(|cpu| !is_known(*cpu)) {
            visit(Which::Cpus, &place, Met::MissingCpu(cpu));
        }
    }

    /// Compares the stretches of one file or member with the full or the collapsed ones, whichever have the same number.
    fn compare_one(
        &self,
        mut file: Vec<Stretch>,
        [full, collapsed]: [&[Stretch]; 2],
        mut visit: impl FnMut(Met<'_>),
    ) {
        // Stretches with the same time may be in any order.
        file.sort_by_key(Stretch::rank);
        let forms = [(Form::Full, full), (Form::Collapsed, collapsed)];
        let matching = forms.into_iter().find(|(_, trace)| trace.len() == file.len());
        let form = matching.map(|(form, _)| form);
        visit(Met::Member { in_file: file.len(), full: full.len(), collapsed: collapsed.len(), form });
        let trace = matching.map_or(&[] as &[Stretch], |(_, trace)| trace);
        let mut from = 0;
        while let (Some(rest), Some(known)) = (file.get(from..), trace.get(from..))
            && let Some(Difference { index, file: Some(in_file), trace: Some(in_trace) }) =
                first_difference(rest, known, self.chunk_instrs)
        {
            visit(Met::Stretch { index: from + index, in_file: &in_file, in_trace: &in_trace });
            from += index + 1;
        }
    }
}

/// Describes a stretch for a message.
fn describe(stretch: &Stretch) -> String {
    let Stretch { thread, timestamp, cpu, start_instr } = stretch;
    format!("thread `{thread}` on processor `{cpu}` at `{timestamp}` from instruction `{start_instr}`")
}

#[cfg(test)]
impl Files {
    /// A serial file of these stretches.
    pub(crate) fn of_serial(stretches: Vec<Stretch>) -> Files {
        let read = Read { name: "serial".into(), members: vec![(String::new(), stretches)] };
        Files { serial: Some(read), ..Files::default() }
    }
}
