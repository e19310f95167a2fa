//! Files of Parquet and Arrow as rows of a table.
//!
//! A [`RowFile`] is opened by its footer (Parquet) or by the heads of its messages (Arrow), and gives rows group by group: a
//! *group* is a row group of Parquet, a record batch of Arrow. Only the columns that are asked for are unpacked, and of a group
//! of Parquet only the pages that have rows that are [chosen](RowFile::choose).
//!
//! Bytes are hostile: what a file says of its sizes is checked before the libraries allocate by it ([`limits`]), and
//! what they panic on becomes an error in one place (`guard`).

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

/// The bytes that files of Parquet begin and end with.
pub const PARQUET_MAGIC: &[u8] = b"PAR1";
/// The bytes that files of Arrow begin and end with.
pub const ARROW_MAGIC: &[u8] = b"ARROW1";
/// What stands before each message of a stream of Arrow.
pub const CONTINUATION: [u8; 4] = [0xff; 4];

/// What a file that begins with these bytes holds; `None` for any other file.
pub fn form_of_head(head: &[u8]) -> Option<Form> {
    if head.starts_with(PARQUET_MAGIC) {
        return Some(Form::Parquet);
    }
    if head.starts_with(ARROW_MAGIC) {
        return Some(Form::File);
    }
    // A stream begins with the length of its schema, and that with an offset within it.
    let length = head.get(4..8).and_then(|it| Some(u32::from_le_bytes(it.try_into().ok()?)))?;
    let root = head.get(8..12).and_then(|it| Some(u32::from_le_bytes(it.try_into().ok()?)))?;
    let is_stream = head.starts_with(&CONTINUATION) && (16..1 << 26).contains(&length) && root < length;
    is_stream.then_some(Form::Stream)
}

/// What a file that ends with these bytes holds, whatever it begins with; `None` for any other file.
pub fn form_of_tail(tail: &[u8]) -> Option<Form> {
    match () {
        () if tail.ends_with(PARQUET_MAGIC) => Some(Form::Parquet),
        () if tail.ends_with(ARROW_MAGIC) => Some(Form::File),
        () => None,
    }
}

/// What is wrong with a file, but for what is in its groups.
#[derive(Debug)]
pub struct Flaw {
    /// What, and where.
    pub error: Error,
    /// What of the rows is lost by it.
    pub loses: Loses,
    /// How many groups precede it.
    pub n_groups_before: usize,
}

/// Which rows a [`Flaw`] costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loses {
    /// None: what is damaged is known from elsewhere.
    Nothing,
    /// Those of a group that is not among the groups; others follow.
    Group,
    /// All that follow.
    Rest,
}

impl Flaw {
    #[cold]
    fn new(error: Error, loses: Loses, n_groups_before: usize) -> Flaw {
        Flaw { error, loses, n_groups_before }
    }
}

/// A place in a file.
fn place(offset: u64) -> Place {
    Place { offset: Some(offset), ..Place::default() }
}

/// Rows that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Rows of groups before it.
    pub first_row: u64,
    /// How many rows it has, as the file says.
    pub n_rows: u64,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub n_bytes: u64,
}

/// What rows have to have in a column of whole numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The column.
    pub column: usize,
    /// Its number.
    pub accepts: RangeInclusive<i128>,
    /// The largest number that there is, if they ascend: where they do not, rows between those that pass are wanted, too.
    pub ascends_to: Option<i128>,
}

/// Rows of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Which, in order, counted in the group; all of them if nothing is said.
    pub rows: Option<Vec<Range<u64>>>,
    /// Numbers that ascend are larger than all that pass at the end of the group: none that follows passes.
    pub is_last: bool,
}

/// Rows of a group, however many it has.
const ALL_ROWS: Range<u64> = 0..u64::MAX;

impl Choice {
    /// Leaves out all rows but these.
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

    /// How many there are, of a group with this many.
    pub fn n_rows(&self, n_rows: u64) -> u64 {
        match &self.rows {
            Some(rows) => rows.iter().map(|rows| rows.end - rows.start).sum(),
            None => n_rows,
        }
    }
}

/// A file of rows.
#[derive(Debug)]
pub struct RowFile {
    input: Arc<Input>,
    inner: Inner,
    form: Form,
    schema: Arc<Schema>,
    /// The schema as the file has it.
    arrow: SchemaRef,
    /// Where each column stands among all of the file.
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
    /// Looks at a file; `name` is that of its table if it does not say one. The container is not packed.
    ///
    /// # Errors
    /// `Damaged`, `Truncated` or `Limit` if nothing of it can be read, with the place; what the system says.
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

    /// What its columns mean.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// What it is.
    pub fn form(&self) -> Form {
        self.form
    }

    /// What the metadata of the schema say under a key.
    pub fn about(&self, key: &str) -> Option<&str> {
        about_of_schema(&self.arrow, key)
    }

    /// Columns that no table can have, each with its type.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Its groups, in order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// How many rows it has, as it says.
    pub fn n_rows(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.first_row.saturating_add(group.n_rows))
    }

    /// What is wrong with it, in the order of its groups; those that were found can be read.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws
    }

    /// How many groups were unpacked so far, by all reads.
    pub fn n_groups_read(&self) -> u64 {
        self.n_groups_read.load(Ordering::Relaxed)
    }

    /// Its bytes.
    pub fn size_bytes(&self) -> u64 {
        self.input.size()
    }

    /// How many pages of Parquet were unpacked so far, by all reads.
    pub fn n_pages_read(&self) -> u64 {
        self.input.n_pages()
    }

    /// The rows of a group that may have what is wanted, as far as the file says it: of a group of Arrow, all.
    ///
    /// # Errors
    /// `Io`. An index that contradicts itself chooses all, and those who read them say it.
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

    /// True if rows can be chosen among those of a group.
    pub fn has_choice(&self) -> bool {
        matches!(self.inner, Inner::Parquet(_))
    }

    /// Begins to read a group: these columns of it, of all rows or of those that were chosen.
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
            // What a file says of how many there are is only looked at where there are fewer.
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

/// Whether numbers of a column have a sign; nothing for other columns than those of whole numbers as they stand in the file.
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

/// Rows of a group that are still to come.
pub struct GroupRows {
    batches: Batches,
    columns: Vec<usize>,
    schema: Arc<Schema>,
    place: Place,
    left: u64,
    /// Where those that are still to come stand in the group.
    rows: VecDeque<Range<u64>>,
    flaws: Vec<Flaw>,
}

impl std::fmt::Debug for GroupRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupRows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// Some rows; columns that were not asked for have no values.
#[derive(Debug)]
pub struct Rows {
    /// How many there are.
    pub n_rows: usize,
    /// Where they stand in their group.
    pub rows: Vec<Range<u64>>,
    /// All columns of the schema.
    pub columns: Vec<Column>,
}

impl GroupRows {
    /// What is wrong with what the file says of the pages that are read. It costs no row.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws
    }

    /// The next rows, some thousands; `None` at the end of the group.
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

    /// Where the next rows stand.
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

/// Rows of a stream of Arrow that stands in memory, for bodies that others carry.
#[derive(Debug)]
pub struct StreamRows {
    messages: Messages,
    input: Arc<Input>,
    decoder: Decoder,
}

impl StreamRows {
    /// Looks at a stream. The error is what keeps its last batches from being found.
    ///
    /// # Errors
    /// `Damaged`, `Truncated` or `Limit` if it has no schema that can be read; `Unsupported` for columns that no table has.
    pub fn of(bytes: &[u8]) -> Result<(StreamRows, Option<Error>)> {
        let input = Input::of_memory(bytes)?;
        let (messages, mut flaws) = Messages::of(&input, Form::Stream)?;
        let decoder = Decoder::new(messages.schema(), "rows")?;
        Ok((StreamRows { messages, input, decoder }, flaws.pop().map(|flaw| flaw.error)))
    }

    /// What the metadata of its schema say under a key.
    pub fn about(&self, key: &str) -> Option<&str> {
        about_of_schema(self.messages.schema(), key)
    }

    /// What its columns mean.
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
