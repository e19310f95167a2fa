//! A trace of one file of records.

use crate::check::Rules;
use crate::codec::RecordCodec;
use crate::pull::Records;
use quipu_model::schema::Schema;
use quipu_model::trace::{PrintOptions, Surveyed};
use quipu_model::{
    Columns, FormatInfo, Meta, Printer, Reader, Result, RuleInfo, Scan, Shard, ShardId, ShardKind, Trace,
};
use quipu_source::{Container, Source};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// What a family says of itself besides [how its records read](RecordCodec).
pub trait Family: RecordCodec {
    /// What its records say that can be wrong.
    type Rules: Rules<Self>;

    /// The format.
    fn info(&self) -> &'static FormatInfo;

    /// The rules of the format.
    fn rules(&self) -> &'static [RuleInfo];

    /// The columns that it fills.
    fn columns(&self) -> Columns;

    /// Prints rows of the first table.
    fn printer(&self) -> Box<dyn Printer>;

    /// What only reading the whole trace shows, as [`Trace::survey`].
    fn survey(&self, trace: &FlatTrace<Self>, is_cancelled: &dyn Fn() -> bool) -> Surveyed;

    /// The name of a kind of mark.
    fn mark_name(&self, _kind: u32) -> Option<&'static str> {
        None
    }
}

/// An opened trace of one file.
#[derive(Debug)]
pub struct FlatTrace<C> {
    container: Container,
    codec: C,
    meta: Meta,
    shards: Vec<Shard>,
}

impl<C: Family> FlatTrace<C> {
    /// Opens a file whose beginning has shown how its records read, of a process if that is known. `meta` gets what is the same
    /// for all families.
    ///
    /// # Errors
    /// What the source says.
    pub fn open(source: &Source, codec: C, process: Option<u64>, meta: Meta) -> Result<FlatTrace<C>> {
        let container = source.container()?;
        container.deliver_sound_only();
        let (packed_bytes, disk_bytes) = (container.size_bytes(), container.disk_bytes());
        let shards = vec![Shard {
            id: ShardId(0),
            name: source.name().to_owned(),
            kind: ShardKind::Mixed,
            process,
            pieces: 1,
            packed_bytes,
            ..Shard::default()
        }];
        let info = codec.info();
        let (format, title) = (info.name.into(), info.title.to_owned());
        let meta = Meta { format, title, n_files: 1, packed_bytes, disk_bytes, ..meta };
        Ok(FlatTrace { container, codec, meta, shards })
    }

    /// The opened file.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// How its records read.
    pub fn codec(&self) -> &C {
        &self.codec
    }

    /// Begins a read whose kind is known.
    ///
    /// # Errors
    /// As [`Trace::scan`].
    pub fn read(&self, scan: &Scan) -> Result<Records<C>> {
        self.shard(scan.shard)?;
        Records::new(self.codec.clone(), &self.container, scan)
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
        self.container.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.codec.mark_name(kind).map_or_else(|| Cow::Owned(format!("mark {kind}")), Cow::Borrowed)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
