//! Opens folders and files as a trace with its metadata.

use crate::cursor::Numbering;
use crate::files::{LazyFile, all_lost, no_manifest, open as open_file, plain_files};
use crate::lens::{self, Filling};
use crate::manifest::{self, MANIFEST, Manifest};
use crate::print::TablePrinter;
use crate::reader::BatchReader;
use crate::roles::with_roles;
use crate::{INFO, ROLES, rules};
use quipu_arrow::about::{About, parse};
use quipu_arrow::read::RowFile;
use quipu_arrow::schema::TRACE;
use quipu_model::schema::{Fidelity, Role};
use quipu_model::trace::{Clock, Fact, PrintOptions, Surveyed};
use quipu_model::values::{FunctionType, Type};
use quipu_model::{
    Columns, Error, Meta, OpenOptions, Place, Printer, Reader, Result, Scan, Schema, Shard, ShardId,
    ShardKind, ThreadId, Trace,
};
use quipu_source::Source;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// Number of records in a piece of a shard.
pub(crate) const PIECE_RECORDS: u64 = 1 << 20;

/// A table or lens of the trace, with a file for each shard that has rows.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) schema: Arc<Schema>,
    pub(crate) numbering: Numbering,
    pub(crate) thread: Option<usize>,
    pub(crate) process: Option<usize>,
    pub(crate) time: Option<usize>,
    /// Indexed by shard.
    pub(crate) files: Vec<Option<LazyFile>>,
}

impl Rows {
    fn new(schema: Arc<Schema>, is_counted: bool, files: Vec<Option<LazyFile>>) -> Rows {
        let record = schema.position_of(Role::RECORD);
        Rows {
            numbering: match record {
                Some(at) => Numbering::Column(at),
                None if is_counted => Numbering::Rows,
                None => Numbering::None,
            },
            thread: schema.position_of(Role::THREAD),
            process: schema.position_of(Role::PROCESS),
            time: schema.position_of(Role::TIME),
            schema,
            files,
        }
    }

    pub(crate) fn file(&self, shard: usize) -> Option<&LazyFile> {
        self.files.get(shard)?.as_ref()
    }
}

/// Data that all readers of a trace share.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) shards: Vec<Shard>,
    /// Number of records of each shard, if known.
    pub(crate) records: Vec<Option<u64>>,
    pub(crate) tables: Vec<Rows>,
    /// Lenses: how each is filled, and from which rows.
    pub(crate) lenses: Vec<(Filling, LensRows)>,
    pub(crate) columns: Columns,
    /// Functions that records of the source trace define.
    pub(crate) functions: Vec<Arc<Type>>,
}

/// Source of the rows of a lens.
#[derive(Debug)]
pub(crate) enum LensRows {
    Own(Rows),
    /// The table at this position.
    Table(usize),
}

impl Opened {
    /// How a lens is filled and its rows, if the trace has that lens.
    pub(crate) fn lens(&self, lens: Columns) -> Option<(&Filling, &Rows)> {
        let (filling, rows) = self.lenses.iter().find(|(filling, _)| filling.lens == lens)?;
        let rows = match rows {
            LensRows::Own(rows) => rows,
            LensRows::Table(at) => self.tables.get(*at)?,
        };
        Some((filling, rows))
    }
}

/// An opened folder or file.
#[derive(Debug)]
pub struct ColumnarTrace {
    pub(crate) opened: Arc<Opened>,
    meta: Meta,
    marks: Vec<(u32, String)>,
}

/// Opens a folder or file.
///
/// # Errors
/// Those of reading the manifest or the only file, with `Damaged` if damage leaves nothing readable; `Usage` for roles that do
/// not fit.
pub fn open(source: &Source, options: &OpenOptions) -> Result<ColumnarTrace> {
    let given = INFO.opening(options)?;
    let roles: Vec<&str> = given.texts(&ROLES).collect();
    if !source.is_folder() {
        return open_files(source, vec![source.clone()], &roles, options);
    }
    match source.child(MANIFEST) {
        Some(file) => open_folder(source, manifest::read(&file).map_err(all_lost)?, &roles, options),
        None => match plain_files(source)? {
            files if files.is_empty() => Err(no_manifest(source)),
            files => open_files(source, files, &roles, options),
        },
    }
}

/// The name for a table that states none: that of its file.
fn table_name(source: &Source) -> String {
    let name = source.name().rsplit('/').next().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    if stem.is_empty() || source.path().is_none() { "rows".to_owned() } else { stem.to_owned() }
}

/// Opens the files of one table; each becomes a shard.
fn open_files(
    source: &Source,
    files: Vec<Source>,
    roles: &[&str],
    options: &OpenOptions,
) -> Result<ColumnarTrace> {
    let name = table_name(source);
    let mut findings = Vec::new();
    let mut opened: Vec<Option<(Source, Arc<RowFile>)>> = Vec::new();
    let mut failure = None;
    for file in files {
        match open_file(&file, &name) {
            Ok(row_file) => opened.push(Some((file, Arc::new(row_file)))),
            Err(error) => {
                findings.push(rules::unreadable(file.name(), &error));
                failure.get_or_insert(error);
                opened.push(None);
            }
        }
    }
    let Some((first_source, first)) = opened.iter().flatten().next().cloned() else {
        let error = failure.map_or_else(|| Error::missing("there is no file"), all_lost);
        // The first finding is the error itself.
        let others = findings.into_iter().skip(1).collect();
        return Err(error.in_file(source.name()).after(others));
    };
    for left_out in first.left_out() {
        let place = Place { file: Some(first_source.name().to_owned()), ..Place::default() };
        findings.push(rules::COLUMN.broken(place, format!("column `{left_out}` is left out")));
    }
    let schema = with_roles(first.schema(), roles.iter().copied())?;
    let said = first.about(TRACE).and_then(|text| serde_json::from_str(text).ok());
    let about = said.map(|value| parse(&value)).unwrap_or_default();
    let is_own = first.about(TRACE).is_some();
    // An Arrow file has the rows of all shards, one after the other; only lenses have a column that distinguishes shards.
    let n_shards = opened.len();
    let lens = lens::named(&schema.name).and_then(|rows| Filling::of_lens(rows, &schema));
    let mut shards = Vec::new();
    let mut records = Vec::new();
    let mut of_shard: Vec<Option<LazyFile>> = Vec::new();
    let (mut n_files, mut bytes) = (0, 0);
    for (id, file) in (0..).zip(opened) {
        let known = about.shards.first().filter(|_| about.shards.len() == 1 && n_shards == 1);
        let is_wanted = options.shards.is_empty() || options.shards.contains(&id);
        let pieces = match &file {
            Some((_, file)) if schema.position_of(Role::THREAD).is_none() => pieces_of(Some(file.n_rows())),
            _ => 1,
        };
        let shard = Shard {
            id: ShardId(shards.len() as u32),
            name: file
                .as_ref()
                .map_or_else(|| source.name().to_owned(), |(source, _)| source.name().to_owned()),
            kind: if schema.position_of(Role::THREAD).is_some() {
                ShardKind::Mixed
            } else {
                ShardKind::Thread
            },
            pieces,
            packed_bytes: file.as_ref().map(|(_, file)| file.size_bytes()),
            ..known.cloned().unwrap_or_default()
        };
        if !is_wanted {
            continue;
        }
        n_files += 1;
        bytes += shard.packed_bytes.unwrap_or(0);
        let n_rows = file.as_ref().map(|(_, file)| file.n_rows());
        records.push(n_rows.filter(|_| schema.position_of(Role::RECORD).is_none()));
        shards.push(Shard { id: ShardId(shards.len() as u32), kind: shard.kind, ..shard });
        let lazy = file.map(|(source, file)| {
            let is_like = file.schema().fields.len() == schema.fields.len()
                && file
                    .schema()
                    .fields
                    .iter()
                    .zip(&schema.fields)
                    .all(|(a, b)| a.name == b.name && a.ty == b.ty);
            match is_like {
                true => Some(LazyFile::of(source, file)),
                false => {
                    let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
                    let error = Error::malformed("the file has other columns than the first").at(&place);
                    findings.push(rules::lost(&rules::COLUMNS, &error, Some(file.n_rows()), true));
                    None
                }
            }
        });
        of_shard.push(lazy.flatten());
    }
    let (mut tables, mut lenses) = (Vec::new(), Vec::new());
    match lens {
        Some(filling) => lenses.push((filling, LensRows::Own(Rows::new(schema, false, of_shard)))),
        None => {
            let filling = Filling::by_role(&schema);
            // In files from other programs, each row is a record.
            let schema = match is_own {
                true => schema,
                false => Arc::new(Schema { fidelity: Fidelity::Derived, ..(*schema).clone() }),
            };
            let is_counted = schema.is_derived();
            tables.push(Rows::new(schema, is_counted, of_shard));
            lenses.extend(filling.map(|filling| (filling, LensRows::Table(0))));
        }
    }
    let opened = Opened { shards, records, tables, lenses, columns: Columns::NONE, functions: Vec::new() };
    let meta = Meta { n_files, packed_bytes: Some(bytes), findings, ..Meta::default() };
    Ok(finish(opened, about, meta))
}

/// Number of pieces of a shard with this number of records.
fn pieces_of(records: Option<u64>) -> u32 {
    let n = records.unwrap_or(0).div_ceil(PIECE_RECORDS);
    u32::try_from(n).unwrap_or(u32::MAX).max(1)
}

/// Opens a folder with a manifest.
fn open_folder(
    source: &Source,
    manifest: Manifest,
    roles: &[&str],
    options: &OpenOptions,
) -> Result<ColumnarTrace> {
    let Manifest { mut about, tables: named, records: said } = manifest;
    if about.shards.is_empty() {
        about.shards.push(Shard { kind: ShardKind::Mixed, pieces: 1, ..Shard::default() });
    }
    let mut findings = Vec::new();
    // Selected threads and shards.
    let is_wanted = |shard: &Shard| {
        let of_thread = shard.kind != ShardKind::Thread
            || options.threads.is_empty()
            || shard.thread.is_none_or(|thread| options.threads.contains(&thread));
        of_thread && (options.shards.is_empty() || options.shards.contains(&shard.id.0))
    };
    let kept: Vec<usize> = (0..about.shards.len()).filter(|at| is_wanted(&about.shards[*at])).collect();
    if kept.is_empty() {
        return Err(Error::usage("the trace has no such part").in_file(source.name()));
    }
    let (mut tables, mut lenses) = (Vec::new(), Vec::new());
    let (mut n_files, mut bytes) = (0, vec![0_u64; kept.len()]);
    for table in &named {
        let folder = source.child(&table.folder);
        let child = |name: &str| folder.as_ref().and_then(|folder| folder.child(name));
        let lens = table.name.strip_prefix("lens.").and_then(lens::named);
        let short = table.name.strip_prefix("lens.").filter(|_| lens.is_some()).unwrap_or(&table.name);
        let mut of_shard: Vec<Option<LazyFile>> = kept.iter().map(|_| None).collect();
        let mut schema: Option<Arc<Schema>> = None;
        for (shard, name) in &table.files {
            let Some(at) = kept.iter().position(|kept| *kept == *shard as usize) else { continue };
            match child(name) {
                Some(file) => {
                    let file = LazyFile::new(file, short);
                    n_files += 1;
                    bytes[at] += file.size_bytes().unwrap_or(0);
                    of_shard[at] = Some(file);
                }
                None => {
                    let place = Place {
                        file: Some(format!("{}/{}/{name}", source.name(), table.folder)),
                        ..Place::default()
                    };
                    let error = Error::missing("the file is not there").at(&place);
                    findings.push(rules::lost(&rules::MISSING, &error, None, true));
                }
            }
        }
        // The columns are those of the first file that can be opened.
        for file in of_shard.iter().flatten() {
            match file.open() {
                Ok(file) => {
                    schema = Some(file.schema().clone());
                    break;
                }
                Err(error) => drop(error), // Reported when the file is read.
            }
        }
        let others = table.files.iter().map(|(_, name)| name).chain(&table.empty);
        let schema = schema.or_else(|| {
            let files = others.filter_map(|name| child(name));
            files.take(4).find_map(|file| Some(open_file(&file, short).ok()?.schema().clone()))
        });
        let Some(schema) = schema else {
            for file in of_shard.iter().flatten() {
                if let Err(error) = file.open() {
                    findings.push(rules::unreadable(file.name(), &error));
                }
            }
            continue;
        };
        match lens.and_then(|lens| Filling::of_lens(lens, &schema)) {
            Some(filling) => lenses.push((filling, LensRows::Own(Rows::new(schema, false, of_shard)))),
            None => {
                let schema = Arc::new(Schema { name: table.name.clone().into(), ..(*schema).clone() });
                let schema =
                    if roles.is_empty() { schema } else { with_roles(&schema, roles.iter().copied())? };
                tables.push(Rows::new(schema, false, of_shard));
            }
        }
    }
    let has_accesses = lenses.iter().any(|(filling, _)| filling.lens == Columns::ACCESSES);
    if !has_accesses && about.columns.has(Columns::ACCESSES) {
        let by_role = (0..).zip(&tables).find_map(|(at, table): (usize, &Rows)| {
            let is_counted = table.numbering != Numbering::None && table.schema.is_derived();
            Filling::by_role(&table.schema).filter(|_| is_counted).map(|filling| (filling, at))
        });
        lenses.extend(by_role.map(|(filling, at)| (filling, LensRows::Table(at))));
    }
    let records: Vec<Option<u64>> = kept.iter().map(|at| said.get(*at).copied()).collect();
    let of_kept = (0..).zip(&kept).zip(&bytes).zip(&records);
    let shards: Vec<Shard> = of_kept
        .map(|(((id, at), bytes), records)| {
            let shard = about.shards[*at].clone();
            let pieces = if shard.kind == ShardKind::Thread { pieces_of(*records) } else { 1 };
            Shard { id: ShardId(id), pieces, packed_bytes: Some(*bytes), ..shard }
        })
        .collect();
    let opened = Opened { shards, records, tables, lenses, columns: Columns::NONE, functions: Vec::new() };
    let meta = Meta { n_files, packed_bytes: Some(bytes.iter().sum()), findings, ..Meta::default() };
    Ok(finish(opened, about, meta))
}

fn finish(mut opened: Opened, about: About, meta: Meta) -> ColumnarTrace {
    let About { meta: said, origin, columns: could, marks, defined, .. } = about;
    let function = |(id, name): (u64, String)| {
        Arc::new(Type::Function(FunctionType { id, name: name.into_bytes(), args: Vec::new(), flags: 0 }))
    };
    opened.functions = defined.into_iter().map(function).collect();
    let fills = opened.lenses.iter().map(|(filling, _)| filling.fills()).fold(Columns::NONE, Columns::or);
    let is_own = !origin.is_empty();
    let mut columns = if is_own { fills.and(could) } else { fills };
    // A lens without a file has no rows.
    let has_instrs = opened.lens(Columns::INSTRS).is_some();
    if could.has(Columns::ACCESS_FETCH) && has_instrs && columns.has(Columns::ACCESSES) {
        columns |= Columns::ACCESS_FETCH;
    }
    if !is_own && opened.lens(Columns::THREADS).is_none() {
        columns = columns.minus(Columns::THREADS | Columns::THREAD_CLOCK | Columns::THREAD_CPU);
    }
    opened.columns = columns;
    let title = match is_own && !said.title.is_empty() {
        true => said.title.clone(),
        false => INFO.title.to_owned(),
    };
    let clock: Option<Clock> = said.clock;
    let mut facts = Vec::new();
    if is_own {
        let version = said.version.as_ref().map(|version| format!(" version {version}"));
        let had = format!("{origin}{}", version.unwrap_or_default());
        facts.push(Fact::new("origin", "format that the rows had", had));
    }
    for table in &opened.tables {
        let n_rows: u64 =
            table.files.iter().flatten().filter_map(|file| Some(file.open().ok()?.n_rows())).take(64).sum();
        if table.files.iter().flatten().count() <= 64 {
            let name = &table.schema.name;
            facts.push(Fact::new(format!("rows-{name}"), format!("rows of {name}"), n_rows).headline());
        }
        if facts.len() > 16 {
            break;
        }
    }
    let Meta { n_files, packed_bytes, findings, .. } = meta;
    let meta = Meta {
        format: INFO.name.into(),
        title,
        clock,
        n_files,
        packed_bytes,
        facts,
        findings,
        version: None,
        ..said
    };
    ColumnarTrace { opened: Arc::new(opened), meta, marks }
}

impl ColumnarTrace {
    /// All files.
    fn files(&self) -> impl Iterator<Item = &LazyFile> {
        let own = self.opened.lenses.iter().filter_map(|(_, rows)| match rows {
            LensRows::Own(rows) => Some(rows),
            LensRows::Table(_) => None,
        });
        let rows = self.opened.tables.iter().chain(own);
        rows.flat_map(|rows| rows.files.iter().flatten())
    }

    /// Number of groups that were decompressed so far, in all files.
    pub fn n_groups_read(&self) -> u64 {
        self.files().filter_map(|file| file.open().ok()).map(|file| file.n_groups_read()).sum()
    }

    /// Number of Parquet pages that were decompressed so far, in all files.
    pub fn n_pages_read(&self) -> u64 {
        self.files().filter_map(|file| file.open().ok()).map(|file| file.n_pages_read()).sum()
    }
}

impl Trace for ColumnarTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.opened.shards
    }

    fn columns(&self) -> Columns {
        self.opened.columns
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(self.opened.tables.iter().map(|table| table.schema.clone()).collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        Ok(Box::new(BatchReader::new(&self.opened, scan)?))
    }

    /// Reads footers and headers only; damage in rows is found when the rows are read.
    fn survey(&self, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        let files = self.files().take_while(|_| !is_cancelled());
        Surveyed { findings: files.flat_map(LazyFile::flaws).collect(), ..Surveyed::default() }
    }

    fn printer(&self, _: &PrintOptions) -> Result<Box<dyn Printer>> {
        match self.opened.tables.iter().find(|table| table.schema.is_derived()) {
            Some(table) => Ok(Box::new(TablePrinter::new(&table.schema))),
            None => Err(Error::missing("the files have no table whose rows are records")
                .hint("rows of lenses: quipu convert --table lens.accesses TRACE -o NAME.arrow")),
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        match self.marks.iter().find(|(known, _)| *known == kind) {
            Some((_, name)) => Cow::Owned(name.clone()),
            None => Cow::Owned(format!("mark {kind}")),
        }
    }
}

/// The thread of a shard; the default one if the shard has none.
pub(crate) fn thread_of(shard: &Shard) -> ThreadId {
    shard.thread.unwrap_or_default()
}

/// The error for a scan of a table that does not exist.
pub(crate) fn no_table() -> Error {
    Error::usage("the trace has no such table")
}
