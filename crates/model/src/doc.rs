//! Documents: what an analysis wants people to see, without saying how it looks.
//!
//! Analyses fill a [`Document`]; a viewer paints it on a terminal or a page. So an analysis knows neither widths nor
//! colours, and every result looks alike.

/// A result for people: a title and blocks from top to bottom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Short headline.
    pub title: String,
    /// The content.
    pub blocks: Vec<Block>,
}

impl Document {
    /// A document without content.
    pub fn new(title: impl Into<String>) -> Document {
        Document { title: title.into(), blocks: Vec::new() }
    }

    /// Adds a block and returns the document, for building in one expression.
    pub fn with(mut self, block: Block) -> Document {
        self.blocks.push(block);
        self
    }
}

/// One piece of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A sentence.
    Note(String),
    /// The few numbers that say most, drawn large where there is room.
    Figures(Vec<Figure>),
    /// Labels with values, a line each.
    Facts(Vec<(String, Vec<Cell>)>),
    /// Rows and columns.
    Grid(Grid),
    /// Named shares of a whole, as bars.
    Bars(Bars),
    /// Several series over one axis, drawn small, a line each.
    Series(Series),
    /// Lanes of states over one axis: who runs when.
    Lanes(Lanes),
    /// How much happened where and when.
    HeatMap(HeatMap),
    /// Shares of a whole that lie at or below a value.
    Curve(Curve),
    /// How something lies in memory, byte by byte.
    ByteMap(ByteMap),
    /// Small pictures, where pictures can be shown; their names otherwise.
    Pictures(Pictures),
    /// A text of several lines that a program reads, such as the source of a shader.
    Listing(Listing),
}

/// One value, with its unit, so that a viewer can choose how to write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Empty,
    /// Words.
    Text(String),
    /// Machine text, such as an instruction.
    Code(String),
    /// A count, written with separators.
    Count(u64),
    /// A count of bytes, written with a unit.
    Bytes(u64),
    /// An address.
    Addr(u64),
    /// A share, 0.0 to 1.0, written in per cent.
    Share(f64),
    /// A number with a fixed count of digits after the point.
    Real(f64, u8),
    /// A time in microseconds, written with a unit.
    Micros(u64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

/// A number that says much.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub label: String,
    /// The number.
    pub value: Cell,
    /// A few words on it, or empty.
    pub note: String,
}

/// Rows and columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Headline, or empty.
    pub title: String,
    /// Heads of the columns.
    pub head: Vec<String>,
    /// The rows, as long as `head`. A last row that begins with the text `total` sums up the others, and stays last
    /// however they are sorted.
    pub rows: Vec<Vec<Cell>>,
    /// How many further rows are not shown.
    pub more: u64,
}

/// Pages draw no more bars of one chart and say how many there are: all cells of a histogram of powers of two have room.
pub const MAX_BARS: usize = 130;

/// Named shares of a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Headline, or empty.
    pub title: String,
    /// The whole.
    pub total: u64,
    /// Name and part.
    pub bars: Vec<(String, u64)>,
}

/// Small pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pictures {
    /// Headline, or empty.
    pub title: String,
    /// The pictures.
    pub pictures: Vec<Picture>,
}

/// One small picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Name.
    pub name: String,
    /// A word below it, or empty.
    pub note: String,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The picture as a file in the format PNG.
    pub png: Vec<u8>,
}

/// How something lies in memory: rows of bytes, each of which belongs to a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByteMap {
    /// Headline, or empty.
    pub title: String,
    /// What heat counts: `misses`.
    pub unit: String,
    /// Bytes in a row.
    pub width: usize,
    /// The parts, by number.
    pub parts: Vec<BytePart>,
    /// The rows, top to bottom.
    pub rows: Vec<ByteRow>,
    /// How many further rows are not shown.
    pub more: u64,
}

/// A part of something that lies in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BytePart {
    /// Name.
    pub name: String,
    /// A word on it, or empty.
    pub note: String,
    /// How much happened there.
    pub heat: u64,
}

/// A row of bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByteRow {
    /// Name, such as the offset of the first byte.
    pub name: String,
    /// The bytes.
    pub cells: Vec<ByteCell>,
    /// A word after the row, or empty.
    pub note: String,
}

/// What a byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteCell {
    /// Of a part, by its number.
    Part(u32),
    /// Of no part, within the thing.
    Hole,
    /// Not of the thing.
    Outside,
}

/// A text of several lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Headline, or empty.
    pub title: String,
    /// The lines, apart by line ends.
    pub text: String,
}

/// Several series over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Headline, or empty.
    pub title: String,
    /// What the axis shows: `instructions`, `time`.
    pub axis: String,
    /// The axis's first and last value, as a person reads them.
    pub ends: (String, String),
    /// Name, unit and values of each series.
    pub lines: Vec<SeriesLine>,
}

/// One series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesLine {
    /// Name.
    pub name: String,
    /// Values at equal steps along the axis.
    pub values: Vec<f64>,
    /// A word on the largest value: `max 1,234 lines`.
    pub note: String,
}

/// Lanes of states over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lanes {
    /// Headline, or empty.
    pub title: String,
    /// The axis's first and last value, as a person reads them.
    pub ends: (String, String),
    /// The lanes, top to bottom.
    pub lanes: Vec<Lane>,
    /// How many further lanes are not shown.
    pub more: u64,
}

/// One lane: at each step along the axis, how busy it is (0.0 idle to 1.0 busy) and what it shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// Name.
    pub name: String,
    /// Share of the step in which the lane was busy.
    pub busy: Vec<f32>,
    /// A word after the lane.
    pub note: String,
}

/// How much happened where (rows, in bands) and when (columns).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// Headline, or empty.
    pub title: String,
    /// What cells count: `accesses`.
    pub unit: String,
    /// What the axis shows: `instructions`, `time`.
    pub axis: String,
    /// The axis's first and last value, as a person reads them.
    pub ends: (String, String),
    /// Names of the sorts of rows; each has a colour of its own.
    pub hues: Vec<String>,
    /// Bands of neighbouring rows, top to bottom.
    pub bands: Vec<HeatBand>,
}

/// Neighbouring rows of a heat map; the bands before and after it are far away.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatBand {
    /// Name.
    pub name: String,
    /// A word on the band, or empty.
    pub note: String,
    /// The rows, top to bottom.
    pub rows: Vec<HeatRow>,
}

/// One row of a heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatRow {
    /// Name.
    pub name: String,
    /// Its sort, as an index into [`HeatMap::hues`].
    pub hue: usize,
    /// How much happened at each step along the axis.
    pub cells: Vec<u64>,
}

/// Shares of a whole that lie at or below a value, over a logarithmic axis of values; or what is left at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Headline, or empty.
    pub title: String,
    /// What the axis shows: `distance in lines`.
    pub axis: String,
    /// The curves.
    pub lines: Vec<CurveLine>,
    /// Whether shares are what is left at a value, such as misses at a size, instead of what lies at or below it. They are then
    /// drawn up to the largest.
    pub falls: bool,
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurveLine {
    /// Name.
    pub name: String,
    /// Values in ascending order, each with the share (0.0 to 1.0) that lies at or below it, or is left there.
    pub points: Vec<(u64, f64)>,
}
