//! Parquet and Arrow files as rows of a table.
//!
//! A [`RowFile`] is opened from its footer (Parquet) or from the headers of its messages (Arrow), and returns rows group by
//! group: a *group* is a row group of Parquet or a record batch of Arrow. Only the requested columns are decompressed, and in
//! a Parquet group only the pages with rows that are [chosen](RowFile::choose).
//! *group* is a row group of Parquet, a record batch of Arrow. Only the columns that are asked for are unpacked, and of a group
//! of Parquet only the pages that have rows that are [chosen](RowFile::choose).
//!
//! Input is untrusted: sizes that a file states are checked before the libraries allocate by them ([`limits`]), and their
//! panics become errors in one place (`guard`).

mod footer;
mod guard;
mod index;
mod input;
mod ipc;
pub mod limits;
mod parquet;
mod thrift;

pub use guard::guarded;
pub(crate) use thrift::page_at;

use crate::decode::{Decoder, column_of};
use crate::schema::{about_of_schema, left_out, table_schema};
use crate::write::Form;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use input::Input;
use ipc::Messages;
use parquet::{Footer, Test};
use quipu_model::column::Column;
use quipu_model::schema::{Storage, Type};
use quipu_model::{ColumnTable, Error, Field, Place, Result, Schema};
use quipu_source::Container;
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Magic bytes at the beginning and end of Parquet files.
pub const PARQUET_MAGIC: &[u8] = b"PAR1";
/// Magic bytes at the beginning and end of Arrow files.
pub const ARROW_MAGIC: &[u8] = b"ARROW1";
/// Bytes before each message of an Arrow stream.
pub const CONTINUATION: [u8; 4] = [0xff; 4];

/// Form of a file that begins with these bytes; `None` for other files.
pub fn form_of_head(head: &[u8]) -> Option<Form> {
    if head.starts_with(PARQUET_MAGIC) {
        return Some(Form::Parquet);
    }
    if head.starts_with(ARROW_MAGIC) {
        return Some(Form::File);
    }
    // A stream begins with the length of its schema message, which begins with an offset into itself.
    let length = head.get(4..8).and_then(|it| Some(u32::from_le_bytes(it.try_into().ok()?)))?;
    let root = head.get(8..12).and_then(|it| Some(u32::from_le_bytes(it.try_into().ok()?)))?;
    let is_stream = head.starts_with(&CONTINUATION) && (16..1 << 26).contains(&length) && root < length;
    is_stream.then_some(Form::Stream)
}

/// Form of a file that ends with these bytes, whatever its beginning; `None` for other files.
pub fn form_of_tail(tail: &[u8]) -> Option<Form> {
    match () {
        () if tail.ends_with(PARQUET_MAGIC) => Some(Form::Parquet),
        () if tail.ends_with(ARROW_MAGIC) => Some(Form::File),
        () => None,
    }
}

/// A fault in a file's structure, outside of the contents of its groups.
#[derive(Debug)]
pub struct Flaw {
    /// The fault and its place.
    pub error: Error,
    /// Rows that are lost because of it.
    pub loses: Loses,
    /// Number of groups before the fault.
    pub n_groups_before: usize,
}

/// Rows that are lost because of a [`Flaw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loses {
    /// None: the damaged part is redundant.
    Nothing,
    /// The rows of a group that is missing from the list of groups; later groups can be read.
    Group,
    /// All rows after the fault.
    Rest,
}

impl Flaw {
    #[cold]
    fn new(error: Error, loses: Loses, n_groups_before: usize) -> Flaw {
        Flaw { error, loses, n_groups_before }
    }
}

/// The place with this offset.
fn place(offset: u64) -> Place {
    Place { offset: Some(offset), ..Place::default() }
}

/// A row group of Parquet or a record batch of Arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of rows in the groups before this one.
    pub first_row: u64,
    /// Number of rows, according to the file.
    pub n_rows: u64,
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes in the file.
    pub n_bytes: u64,
}

/// A condition on the values of an integer column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Index of the column in the schema.
    pub column: usize,
    /// Numbers that pass.
    pub accepts: RangeInclusive<i128>,
    /// The largest number of the column if its numbers ascend. With `None`, rows between those that pass are wanted too.
    pub ascends_to: Option<i128>,
}

/// Rows of a group that may pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Ascending ranges of positions in the group; `None` for all rows.
    pub rows: Option<Vec<Range<u64>>>,
    /// Whether ascending numbers exceed all accepted ones by the end of this group, so that no later row passes.
    pub is_last: bool,
}

/// All rows of a group of any length.
const ALL_ROWS: Range<u64> = 0..u64::MAX;

impl Choice {
    /// Restricts the choice to these rows.
    pub fn keep(&mut self, rows: &[Range<u64>]) {
        let mut both: Vec<Range<u64>> = Vec::new();
        let all = std::slice::from_ref(&ALL_ROWS);
        let mut others = self.rows.as_deref().unwrap_or(all).iter().peekable();
        for rows in rows {
            while let Some(other) = others.peek() {
                let start = rows.start.max(other.start);
                let end = rows.end.min(other.end);
                match both.last_mut() {
                    Some(last) if start < end && last.end == start => last.end = end,
                    _ if start < end => both.push(start..end),
                    _ => {}
                }
                if other.end > rows.end {
                    break;
                }
                others.next();
            }
        }
        self.rows = Some(both);
    }

    /// Number of chosen rows in a group of `n_rows` rows.
    pub fn n_rows(&self, n_rows: u64) -> u64 {
        match &self.rows {
            Some(rows) => rows.iter().map(|rows| rows.end - rows.start).sum(),
            None => n_rows,
        }
    }
}

/// A Parquet or Arrow file that is read as rows of a table.
#[derive(Debug)]
pub struct RowFile {
    input: Arc<Input>,
    inner: Inner,
    form: Form,
    schema: Arc<Schema>,
    /// The schema as stored in the file.
    arrow: SchemaRef,
    /// Index in the file of each column of the table.
    roots: Vec<usize>,
    left_out: Vec<String>,
    groups: Vec<Group>,
    n_groups_read: AtomicU64,
    flaws: Vec<Flaw>,
}

#[derive(Debug)]
enum Inner {
    Parquet(Box<Footer>),
    Ipc(Messages),
}

impl RowFile {
    /// Opens a file. `name` is the name of its table if the file has none. The container must not be compressed.
    ///
    /// # Errors
    /// `Damaged`, `Truncated` or `Limit`, with the place, if nothing can be read; errors of the system.
    pub fn open(container: &Container, form: Form, name: &str) -> Result<RowFile> {
        let input = Input::new(container)?;
        let in_file = |error: Error| error.in_file(container.name());
        let (inner, arrow, groups, flaws) = match form {
            Form::Parquet => {
                let (footer, flaws) = Footer::of(&input).map_err(in_file)?;
                let groups = footer.groups();
                (Inner::Parquet(Box::new(footer.clone())), footer.schema().clone(), groups, flaws)
            }
            Form::File | Form::Stream => {
                let (messages, flaws) = Messages::of(&input, form).map_err(in_file)?;
                let groups = messages.groups();
                (Inner::Ipc(messages.clone()), messages.schema().clone(), groups, flaws)
            }
        };
        let flaws = flaws.into_iter().map(|flaw| Flaw { error: in_file(flaw.error), ..flaw }).collect();
        let (roots, left_out) = left_out(&arrow);
        let kept = arrow.project(&roots).map_err(crate::of_arrow).map_err(in_file)?;
        let schema = table_schema(&kept, name).map_err(in_file)?;
        let n_groups_read = AtomicU64::new(0);
        Ok(RowFile {
            input,
            inner,
            form,
            schema: Arc::new(schema),
            arrow,
            roots,
            left_out,
            groups,
            n_groups_read,
            flaws,
        })
    }

    /// Schema of the rows.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether this is Parquet, an Arrow file or an Arrow stream.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Value of a key in the metadata of the schema.
    pub fn about(&self, key: &str) -> Option<&str> {
        about_of_schema(&self.arrow, key)
    }

    /// Columns whose types no table can have, each as text with its type.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Groups in the order of the file.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Number of rows, according to the file.
    pub fn n_rows(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.first_row.saturating_add(group.n_rows))
    }

    /// Flaws of the file in the order of its groups; the listed groups can be read nevertheless.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws
    }

    /// Number of groups that reads of this file have decoded so far.
    pub fn n_groups_read(&self) -> u64 {
        self.n_groups_read.load(Ordering::Relaxed)
    }

    /// Size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.input.size()
    }

    /// Number of Parquet pages that reads of this file have decompressed so far.
    pub fn n_pages_read(&self) -> u64 {
        self.input.n_pages()
    }

    /// Chooses the rows of a group that may pass all conditions, according to the file's statistics; for Arrow, all rows.
    ///
    /// # Errors
    /// `Io`. With an index that contradicts itself, all rows are chosen, and reading them reports it.
    pub fn choose(&self, group: usize, wanted: &[Wanted]) -> Result<Choice> {
        let Inner::Parquet(footer) = &self.inner else { return Ok(Choice::default()) };
        let test = |wanted: &Wanted| {
            let root = *self.roots.get(wanted.column)?;
            let is_signed = sign(self.schema.fields.get(wanted.column)?, self.arrow.field(root).data_type())?;
            Some(Test { root, is_signed, accepts: wanted.accepts.clone(), ascends_to: wanted.ascends_to })
        };
        let tests: Vec<Test> = wanted.iter().filter_map(test).collect();
        footer.choose(&self.input, group, &tests)
    }

    /// True if [`choose`](RowFile::choose) can select part of a group.
    pub fn has_choice(&self) -> bool {
        matches!(self.inner, Inner::Parquet(_))
    }

    /// Starts to read columns of a group, either all rows or the chosen ones.
    ///
    /// # Errors
    /// `Damaged`, `Truncated` or `Limit`, with the place.
    pub fn read(&self, group: usize, columns: &[usize], chosen: &Choice) -> Result<GroupRows> {
        let Some(about) = self.groups.get(group).copied() else {
            return Err(Error::usage("the file has no such group"));
        };
        self.n_groups_read.fetch_add(1, Ordering::Relaxed);
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let roots: Vec<usize> = columns.iter().filter_map(|at| self.roots.get(*at).copied()).collect();
        let place = Place {
            file: Some(self.input.name().to_owned()),
            offset: Some(about.offset),
            ..Place::default()
        };
        let chosen_rows = chosen.rows.as_deref().filter(|_| self.has_choice());
        let read = match &self.inner {
            Inner::Parquet(footer) => footer.read(&self.input, group, &roots, chosen_rows),
            Inner::Ipc(messages) => messages.read(&self.input, group, &roots).map(|read| (read, Vec::new())),
        };
        let (batches, flaws) = read.map_err(|error| error.at(&place))?;
        let in_file = |flaw: Flaw| Flaw { error: flaw.error.in_file(self.input.name()), ..flaw };
        let (rows, left) = match chosen_rows {
            Some(rows) => (rows.iter().cloned().collect(), chosen.n_rows(about.n_rows)),
            // The row count that the file states matters only if there are fewer rows.
            None => (VecDeque::from([ALL_ROWS]), about.n_rows),
        };
        Ok(GroupRows {
            batches,
            columns,
            schema: self.schema.clone(),
            place,
            left,
            rows,
            flaws: flaws.into_iter().map(in_file).collect(),
        })
    }
}

/// Whether the numbers of a column are signed; `None` unless the file stores them as plain integers.
fn sign(field: &Field, stored: &DataType) -> Option<bool> {
    if !stored.is_integer() || matches!(field.ty, Type::Enum(_) | Type::Bool) {
        return None;
    }
    match field.ty.storage() {
        Storage::U8 | Storage::U16 | Storage::U32 | Storage::U64 => Some(false),
        Storage::I8 | Storage::I16 | Storage::I32 | Storage::I64 => Some(true),
        _ => None,
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Reader of the rows of a group.
pub struct GroupRows {
    batches: Batches,
    columns: Vec<usize>,
    schema: Arc<Schema>,
    place: Place,
    left: u64,
    /// Positions in the group of the rows that were not yet returned.
    rows: VecDeque<Range<u64>>,
    flaws: Vec<Flaw>,
}

impl std::fmt::Debug for GroupRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupRows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// A batch of rows; columns that were not requested have no values.
#[derive(Debug)]
pub struct Rows {
    /// Number of rows.
    pub n_rows: usize,
    /// Positions in the group.
    pub rows: Vec<Range<u64>>,
    /// All columns of the schema, in its order.
    pub columns: Vec<Column>,
}

impl GroupRows {
    /// Flaws in the indexes of the pages that are read. They cost no rows.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws
    }

    /// Reads the next rows, a few thousand; `None` at the end of the group.
    ///
    /// # Errors
    /// `Damaged` or `Limit`, with the place of the group: the rest of it cannot be read.
    pub fn next_rows(&mut self) -> Result<Option<Rows>> {
        let next = guarded(|| self.batches.next().transpose());
        let Some(batch) = next.map_err(|error| error.at(&self.place))? else {
            if self.left > 0 {
                let what = format!("`{}` rows fewer than are promised", self.left);
                self.left = 0;
                return Err(Error::truncated(what).at(&self.place));
            }
            return Ok(None);
        };
        self.left = self.left.saturating_sub(batch.num_rows() as u64);
        let columns = guarded(|| {
            let mut columns: Vec<Column> = self.schema.fields.iter().map(Column::new).collect();
            for (at, array) in self.columns.iter().zip(batch.columns()) {
                columns[*at] = column_of(&self.schema.fields[*at], array)?;
            }
            Ok(columns)
        });
        let columns = columns.map_err(|error| error.at(&self.place))?;
        let rows = self.take(batch.num_rows() as u64);
        Ok(Some(Rows { n_rows: batch.num_rows(), rows, columns }))
    }

    /// Takes the positions of the next `n` rows.
    fn take(&mut self, mut n: u64) -> Vec<Range<u64>> {
        let mut taken = Vec::new();
        while n > 0
            && let Some(rows) = self.rows.front_mut()
        {
            let end = rows.start.saturating_add(n).min(rows.end);
            n -= end - rows.start;
            taken.push(rows.start..end);
            rows.start = end;
            if rows.is_empty() {
                self.rows.pop_front();
            }
        }
        taken
    }
}

/// Rows of an Arrow stream in memory, such as the body of a message of another format.
#[derive(Debug)]
pub struct StreamRows {
    messages: Messages,
    input: Arc<Input>,
    decoder: Decoder,
}

impl StreamRows {
    /// Opens a stream. The returned error is the reason why its last batches were not found.
    ///
    /// # Errors
    /// `Damaged`, `Truncated` or `Limit` if it has no readable schema; `Unsupported` for columns that no table has.
    pub fn of(bytes: &[u8]) -> Result<(StreamRows, Option<Error>)> {
        let input = Input::of_memory(bytes)?;
        let (messages, mut flaws) = Messages::of(&input, Form::Stream)?;
        let decoder = Decoder::new(messages.schema(), "rows")?;
        Ok((StreamRows { messages, input, decoder }, flaws.pop().map(|flaw| flaw.error)))
    }

    /// Value of a key in the metadata of the stream's schema.
    pub fn about(&self, key: &str) -> Option<&str> {
        about_of_schema(self.messages.schema(), key)
    }

    /// Schema of the rows.
    pub fn schema(&self) -> &Arc<Schema> {
        self.decoder.schema()
    }

    /// The rows of its batches, up to the first that cannot be read.
    pub fn batches(&self) -> impl Iterator<Item = Result<ColumnTable>> + '_ {
        let all: Vec<usize> = (0..self.schema().fields.len()).collect();
        (0..self.messages.groups().len()).map(move |group| {
            guarded(|| self.decoder.decode(&self.messages.read_batch(&self.input, group, &all)?))
        })
    }
}
