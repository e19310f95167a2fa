//! Writes records of other formats as files of events.

use crate::batch::Batch;
use crate::codec::Encoding;
use crate::detail::Detail;
use crate::event::{Compute, Config, Control, Event, Kind as EventKind, Memory, Place};
use crate::file::{EVENTS as EVENTS_NAME, EventFile, Target};
use crate::front::{COLUMNS, Front, detail_of};
use quipu_model::convert::{Ledger, Outcome, RecordJob, RecordSink, RecordWriter, RecordWriterInfo};
use quipu_model::options::Kind;
use quipu_model::trace::Fact;
use quipu_model::{Columns, OptionSpec, Result};

/// The format as a target.
#[derive(Debug)]
pub struct FromOthers;

/// The encoding that is written.
const EVENTS: OptionSpec = OptionSpec::new(
    "events",
    Kind::Choice(&["variable", "fixed"]),
    "variable",
    "Encoding of events: 1 to 258 bytes each, or 18.",
)
.value("variable|fixed");

static INFO: RecordWriterInfo =
    RecordWriterInfo { required: Columns::NONE, taken: COLUMNS, made_up: &[], options: &[EVENTS] };

/// Largest access size in bytes that the variable encoding can represent.
const MAX_BYTES: u16 = 128;
/// Highest address that it can represent.
const MAX_ADDRESS: u64 = (1 << 56) - 1;

impl RecordWriter for FromOthers {
    fn info(&self) -> &'static RecordWriterInfo {
        &INFO
    }

    fn begin(&self, job: &RecordJob<'_>) -> Result<Box<dyn RecordSink>> {
        let encoding =
            if job.options.word(&EVENTS) == "fixed" { Encoding::Fixed } else { Encoding::Variable };
        let target = Target {
            path: job.output,
            replace: job.replace,
            container: job.container,
            level: job.level,
            is_plain: false,
            name: EVENTS_NAME,
        };
        let detail = detail_of(job.columns, job.trace.meta().arch);
        let written = Written::create(target, encoding, detail)?;
        Ok(Box::new(Importing { front: Front::new(job.trace, job.columns), written }))
    }
}

/// An import in progress.
struct Importing {
    front: Front,
    written: Written,
}

impl RecordSink for Importing {
    fn take(&mut self, batch: &quipu_model::Batch, ledger: &mut Ledger) -> Result<()> {
        self.written.put(self.front.take(batch, ledger), ledger)
    }

    fn n_written(&self) -> u64 {
        self.written.file.n_events()
    }

    fn end(&mut self, _: &mut Ledger) -> Result<()> {
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<Vec<Fact>> {
        self.written.finish()
    }
}

/// A file of events made of rows that is being written.
pub(crate) struct Written {
    encoding: Encoding,
    file: EventFile,
    /// The fields that events have.
    detail: Detail,
    /// Whether computations currently have a width: a configuration event removes it before one that cannot be represented.
    has_width: bool,
}

impl Written {
    /// Begins a file whose events have these fields.
    ///
    /// # Errors
    /// Those of [`EventFile::create`].
    pub(crate) fn create(target: Target<'_>, encoding: Encoding, detail: Detail) -> Result<Written> {
        let file = EventFile::create(target, encoding, detail, false)?;
        Ok(Written { encoding, file, detail, has_width: true })
    }

    /// Adds events. Changes that the encoding requires go into the ledger.
    ///
    /// # Errors
    /// `Unsupported` if the encoding cannot represent one; `Io` if it cannot be written.
    pub(crate) fn put(&mut self, events: &Batch, ledger: &mut Ledger) -> Result<()> {
        let Written { encoding, file, detail, has_width } = self;
        for (index, event) in events.events.iter().enumerate() {
            match (&encoding, only(*event, *detail)) {
                (Encoding::Variable, Event::Memory(memory)) => split(file, &memory, ledger)?,
                (Encoding::Variable, Event::Compute(work)) => {
                    compute(file, &work, detail.compute, has_width, ledger)?;
                }
                (Encoding::Variable, event) if is_high(&event) => {
                    ledger.add("events of addresses of more than 56 bits", Outcome::Dropped, 1);
                }
                // Contexts may have names, which are in the batch.
                (_, kept) if kept == *event => file.put(events, index)?,
                (_, kept) => single(file, kept)?,
            }
        }
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// `Io` if that fails; the file does not exist then.
    pub(crate) fn finish(self) -> Result<Vec<Fact>> {
        self.file.finish()
    }
}

/// The event without the fields that the level of detail does not have, which the encodings refuse.
fn only(event: Event, detail: Detail) -> Event {
    fn kept<T>(value: Option<T>, fields: u8, field: u8) -> Option<T> {
        value.filter(|_| fields & field != 0)
    }
    match event {
        Event::Memory(Memory { access, size, address, id }) => {
            let fields = detail.memory;
            Event::Memory(Memory {
                access: kept(access, fields, Detail::TYPE),
                size: kept(size, fields, Detail::SIZE),
                address: kept(address, fields, Detail::ADDRESS),
                id: kept(id, fields, Detail::ID),
            })
        }
        Event::Compute(Compute { format, width, operation, arguments, ids }) => {
            let fields = detail.compute;
            Event::Compute(Compute {
                format: kept(format, fields, Detail::TYPE),
                width: kept(width, fields, Detail::SIZE),
                operation: kept(operation, fields, Detail::OPERATION),
                arguments: kept(arguments, fields, Detail::ARITY),
                ids: kept(ids, fields, Detail::IDS),
            })
        }
        Event::Control(Control { kind, taken, indirect, target }) => {
            let fields = detail.control;
            Event::Control(Control {
                kind: kept(kind, fields, Detail::TYPE),
                taken: kept(taken, fields, Detail::TAKEN),
                indirect: kept(indirect, fields, Detail::INDIRECT),
                target: kept(target, fields, Detail::TARGET),
            })
        }
        other => other,
    }
}

/// Whether the variable encoding cannot represent the address of an event.
fn is_high(event: &Event) -> bool {
    let address = match event {
        Event::Context(context) => match context.place {
            Place::Address(address) => address,
            Place::Name(_) => 0,
        },
        // The last address stands for an unknown target.
        Event::Control(control) => control.target.map_or(0, |target| target.saturating_add(1)),
        _ => 0,
    };
    address > MAX_ADDRESS
}

/// Writes a computation in the variable encoding, whose widths are powers of two. For another width, a configuration event
/// before it removes widths, and one before the next computation restores them.
fn compute(
    file: &mut EventFile,
    work: &Compute,
    fields: u8,
    has_width: &mut bool,
    ledger: &mut Ledger,
) -> Result<()> {
    let is_said = fields & Detail::SIZE != 0;
    let width = work.width.filter(|width| width.is_power_of_two() && *width <= MAX_BYTES);
    if is_said && work.width.is_some() && width.is_none() {
        let what = "computations whose width is no power of two up to 128, written without it";
        ledger.add(what, Outcome::Changed, 1);
    }
    if is_said && *has_width != width.is_some() {
        *has_width = width.is_some();
        let fields = if *has_width { fields } else { fields & !Detail::SIZE };
        single(file, Event::Config(Config { kind: EventKind::Compute, fields }))?;
    }
    single(file, Event::Compute(Compute { width, ..*work }))
}

/// Writes an event without a name.
fn single(file: &mut EventFile, event: Event) -> Result<()> {
    let batch = Batch { events: vec![event], first: file.n_events(), ..Batch::default() };
    file.put(&batch, 0)
}

/// Writes an access in the variable encoding, whose sizes are powers of two. An access of another size is written as several.
fn split(file: &mut EventFile, memory: &Memory, ledger: &mut Ledger) -> Result<()> {
    if memory.size.is_none() {
        return single(file, Event::Memory(*memory));
    }
    let (address, size) = (memory.address.unwrap_or(0), memory.size.unwrap_or(1).max(1));
    if address > MAX_ADDRESS - u64::from(size) {
        ledger.add("accesses to addresses of more than 56 bits", Outcome::Dropped, 1);
        return Ok(());
    }
    let is_whole = size.is_power_of_two() && size <= MAX_BYTES;
    if !is_whole {
        let what = "accesses whose size is no power of two up to 128, written as several";
        ledger.add(what, Outcome::Changed, 1);
    }
    let (mut at, mut left) = (address, size);
    while left > 0 {
        let bytes = (1 << left.ilog2()).min(MAX_BYTES);
        let part = Memory { address: memory.address.map(|_| at), size: Some(bytes), ..*memory };
        single(file, Event::Memory(part))?;
        at += u64::from(bytes);
        left -= bytes;
    }
    Ok(())
}
