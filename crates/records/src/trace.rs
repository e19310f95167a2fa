//! Traces that consist of files of records; each file is a shard.

use crate::check::Rules;
use crate::codec::RecordCodec;
use crate::pull::Records;
use quipu_model::schema::Schema;
use quipu_model::trace::{PrintOptions, Surveyed};
use quipu_model::{
    Columns, Error, FormatInfo, Meta, Printer, Reader, Result, RuleInfo, Scan, Shard, ShardId, ShardKind,
    ThreadId, Trace,
};
use quipu_source::{Container, Source};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// The description of a family, in addition to its [codec](RecordCodec).
pub trait Family: RecordCodec {
    /// The checks of its records.
    type Rules: Rules<Self>;

    /// The format.
    fn info(&self) -> &'static FormatInfo;

    /// The rules of the format.
    fn rules(&self) -> &'static [RuleInfo];

    /// The columns that it fills.
    fn columns(&self) -> Columns;

    /// A printer for rows of the first table.
    fn printer(&self) -> Box<dyn Printer>;

    /// Facts that require reading the whole trace; see [`Trace::survey`].
    fn survey(&self, trace: &FlatTrace<Self>, is_cancelled: &dyn Fn() -> bool) -> Surveyed;

    /// The name of a kind of mark.
    fn mark_name(&self, _kind: u32) -> Option<&'static str> {
        None
    }
}

/// A file of a trace, with the facts known before it is read.
#[derive(Clone, Debug)]
pub struct File {
    /// Its bytes.
    pub source: Source,
    /// The only thread of its records, if known.
    pub thread: Option<ThreadId>,
    /// The process of its records, if known.
    pub process: Option<u64>,
}

/// An opened trace.
#[derive(Debug)]
pub struct FlatTrace<C> {
    /// The containers of the shards; at least one.
    containers: Vec<Container>,
    codec: C,
    meta: Meta,
    shards: Vec<Shard>,
}

impl<C: Family> FlatTrace<C> {
    /// Opens a file whose codec was determined from its beginning; `process` is its process, if known. Adds to `meta` the
    /// facts that are the same for all families.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn open(source: &Source, codec: C, process: Option<u64>, meta: Meta) -> Result<FlatTrace<C>> {
        FlatTrace::of_files(&[File { source: source.clone(), thread: None, process }], codec, meta)
    }

    /// Opens files with the same codec: each is a shard.
    ///
    /// # Errors
    /// `Missing` if there are no files; errors of the sources.
    pub fn of_files(files: &[File], codec: C, meta: Meta) -> Result<FlatTrace<C>> {
        let containers: Vec<Container> =
            files.iter().map(|file| file.source.container()).collect::<std::result::Result<_, _>>()?;
        if containers.is_empty() {
            return Err(Error::missing("there is no file to read"));
        }
        containers.iter().for_each(Container::deliver_sound_only);
        let sum = |of: fn(&Container) -> Option<u64>| containers.iter().map(of).sum::<Option<u64>>();
        let (packed_bytes, disk_bytes) = (sum(Container::size_bytes), sum(Container::disk_bytes));
        let shard = |(number, (file, container)): (u32, (&File, &Container))| Shard {
            id: ShardId(number),
            name: file.source.name().to_owned(),
            kind: if file.thread.is_some() { ShardKind::Thread } else { ShardKind::Mixed },
            thread: file.thread,
            process: file.process,
            pieces: 1,
            packed_bytes: container.size_bytes(),
            ..Shard::default()
        };
        let shards = (0..).zip(files.iter().zip(&containers)).map(shard).collect();
        let info = codec.info();
        let (format, title) = (info.name.into(), info.title.to_owned());
        let n_files = containers.len() as u64;
        let meta = Meta { format, title, n_files, packed_bytes, disk_bytes, ..meta };
        Ok(FlatTrace { containers, codec, meta, shards })
    }

    /// The container of the first file, which is the only one in most traces.
    pub fn container(&self) -> &Container {
        &self.containers[0]
    }

    /// The codec of its records.
    pub fn codec(&self) -> &C {
        &self.codec
    }

    /// Begins a read, with its concrete type.
    ///
    /// # Errors
    /// Those of [`Trace::scan`].
    pub fn read(&self, scan: &Scan) -> Result<Records<C>> {
        self.shard(scan.shard)?;
        Records::new(self.codec.clone(), &self.containers[scan.shard.0 as usize], scan)
    }
}

impl<C: Family> Trace for FlatTrace<C> {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        self.codec.columns()
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        let tables = self.codec.tables(&self.codec.begin());
        Ok(tables.iter().map(|table| table.schema().clone()).collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        Ok(Box::new(self.read(scan)?))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        self.codec.info().printing(options)?;
        Ok(self.codec.printer())
    }

    fn survey(&self, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        self.codec.survey(self, is_cancelled)
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.containers.iter().map(Container::n_delivered_damaged).sum()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.codec.mark_name(kind).map_or_else(|| Cow::Owned(format!("mark {kind}")), Cow::Borrowed)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
