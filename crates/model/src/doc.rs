//! Documents: the content that an analysis shows to people, independent of its appearance.
//!
//! Analyses fill a [`Document`]; a viewer paints it on a terminal or a page. So an analysis knows neither widths nor colours,
//! and all results look alike.

use std::ops::RangeInclusive;

/// A result for people: a title, and blocks from top to bottom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Short headline.
    pub title: String,
    /// The content.
    pub blocks: Vec<Block>,
    /// Sentences on the words in it, for viewers that can explain a word where it stands.
    pub terms: Vec<Term>,
}

/// A sentence on a word in a document: the key of a result, which heads of columns and labels spell with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Name of the structure that has the key.
    pub of: &'static str,
    /// The key.
    pub key: &'static str,
    /// What it means.
    pub doc: &'static str,
}

impl Document {
    /// A document without content.
    pub fn new(title: impl Into<String>) -> Document {
        Document { title: title.into(), ..Document::default() }
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
    /// The few most informative numbers, drawn large where there is room.
    Figures(Vec<Figure>),
    /// Labelled values, one line each.
    Facts(Vec<(String, Vec<Cell>)>),
    /// A table with a head.
    Grid(Grid),
    /// Named shares of a whole, as bars.
    Bars(Bars),
    /// Several series over one axis, drawn small, one line each.
    Series(Series),
    /// Lanes of states over one axis, such as which thread runs when.
    Lanes(Lanes),
    /// Amount of activity by place and time.
    HeatMap(HeatMap),
    /// Cumulative shares of a whole over an axis of values.
    Curve(Curve),
    /// The layout of something in memory, byte by byte.
    ByteMap(ByteMap),
    /// Small pictures, where pictures can be shown; their names otherwise.
    Pictures(Pictures),
    /// A text of several lines that a program reads, such as the source of a shader.
    Listing(Listing),
    /// Parts that are opened on demand, where that is possible; their number otherwise.
    Folds(Folds),
}

/// One value with its unit; the viewer chooses how to write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// An empty cell.
    Empty,
    /// Plain words.
    Text(String),
    /// Text of a program, such as an instruction.
    Code(String),
    /// A count, written with separators.
    Count(u64),
    /// A count of bytes, written with a unit.
    Bytes(u64),
    /// An address.
    Addr(u64),
    /// A share, 0.0 to 1.0, written as a percentage.
    Share(f64),
    /// A number with this many digits after the decimal point.
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

/// One important number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Label that says what the number is.
    pub label: String,
    /// The number, with its unit.
    pub value: Cell,
    /// A few words about it, or empty.
    pub note: String,
}

/// A table with a head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Headline, or empty.
    pub title: String,
    /// Heads of the columns.
    pub head: Vec<String>,
    /// The rows, as long as `head`. A last row that begins with the text `total` sums up the others, and stays last
    /// however they are sorted.
    pub rows: Vec<Vec<Cell>>,
    /// Number of further rows that are not shown.
    pub more: u64,
}

/// Upper limit on the bars of one chart; viewers say how many more there are. A histogram of powers of two fits with all
/// cells.
pub const MAX_BARS: usize = 130;

/// Named shares of a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Headline, or empty.
    pub title: String,
    /// The whole that bars are shares of.
    pub total: u64,
    /// Name and length of each bar.
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
    /// Name of the picture, shown instead of it where pictures cannot be shown.
    pub name: String,
    /// A word below the picture, or empty.
    pub note: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The picture as a PNG file.
    pub png: Vec<u8>,
    /// Position in the trace that it belongs to, in the unit of [`Fold::covers`].
    pub at: Option<u64>,
}

/// The layout of something in memory: rows of bytes, each belonging to a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByteMap {
    /// Headline, or empty.
    pub title: String,
    /// Unit of heat, such as `misses`.
    pub unit: String,
    /// Bytes in a row.
    pub width: usize,
    /// The parts, by number.
    pub parts: Vec<BytePart>,
    /// The rows, top to bottom.
    pub rows: Vec<ByteRow>,
    /// Number of further rows that are not shown.
    pub more: u64,
}

/// A part of a memory layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BytePart {
    /// Name of the part.
    pub name: String,
    /// A word about it, or empty.
    pub note: String,
    /// Amount of activity in this part.
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

/// The part of a memory layout that one byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteCell {
    /// A part, given by its number.
    Part(u32),
    /// Padding: inside the layout, but in no part.
    Hole,
    /// Outside the layout.
    Outside,
}

/// A text of several lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Headline, or empty.
    pub title: String,
    /// The lines, separated by line ends.
    pub text: String,
}

/// Parts that are opened on demand, such as frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folds {
    /// Headline, or empty.
    pub title: String,
    /// Noun for one part: `frame`.
    pub noun: String,
    /// Number of all parts, which the first series of the document has as its axis.
    pub whole: u64,
    /// The parts that are shown, in their order.
    pub folds: Vec<Fold>,
}

/// One part that is opened on demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    /// Its number among all parts, from 0.
    pub at: u64,
    /// Its name.
    pub name: String,
    /// A few words about it, or empty.
    pub note: String,
    /// Positions in the trace that it covers; the document's viewers put pictures from there into it.
    pub covers: RangeInclusive<u64>,
    /// The content.
    pub blocks: Vec<Block>,
}

/// Several series over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Headline, or empty.
    pub title: String,
    /// Quantity on the axis: `instructions`, `time`.
    pub axis: String,
    /// First and last value of the axis, formatted for people.
    pub ends: (String, String),
    /// The series.
    pub lines: Vec<SeriesLine>,
}

/// One series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesLine {
    /// Name of the series.
    pub name: String,
    /// Values at equal steps along the axis.
    pub values: Vec<f64>,
    /// A word about the largest value: `max 1,234 lines`.
    pub note: String,
    /// Unit of the values: `lines`.
    pub unit: String,
}

/// Lanes of states over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lanes {
    /// Headline, or empty.
    pub title: String,
    /// First and last value of the axis, formatted for people.
    pub ends: (String, String),
    /// The lanes, top to bottom.
    pub lanes: Vec<Lane>,
    /// Number of further lanes that are not shown.
    pub more: u64,
}

/// One lane: how busy it was at each step along the axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// Name of the lane.
    pub name: String,
    /// Share of each step in which the lane was busy, from 0.0 (idle) to 1.0.
    pub busy: Vec<f32>,
    /// A word after the lane.
    pub note: String,
}

/// Amount of activity by place (rows, in bands) and time (columns).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// Headline, or empty.
    pub title: String,
    /// Unit of the cells: `accesses`.
    pub unit: String,
    /// Quantity on the axis: `instructions`, `time`.
    pub axis: String,
    /// First and last value of the axis, formatted for people.
    pub ends: (String, String),
    /// Names of the categories of rows; each has a colour of its own.
    pub hues: Vec<String>,
    /// Bands of neighbouring rows, top to bottom.
    pub bands: Vec<HeatBand>,
}

/// Neighbouring rows of a heat map; the bands before and after it are far away.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatBand {
    /// Name of the band.
    pub name: String,
    /// A word about the band, or empty.
    pub note: String,
    /// The rows, top to bottom.
    pub rows: Vec<HeatRow>,
}

/// One row of a heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatRow {
    /// Name of the row.
    pub name: String,
    /// Its category, as an index into [`HeatMap::hues`].
    pub hue: usize,
    /// Amount of activity at each step along the axis.
    pub cells: Vec<u64>,
}

/// Shares of a whole that lie at or below a value, over a logarithmic axis of values; or the shares that remain at that
/// value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Headline, or empty.
    pub title: String,
    /// Quantity on the axis: `distance in lines`.
    pub axis: String,
    /// The curves.
    pub lines: Vec<CurveLine>,
    /// Whether shares are what remains at a value, such as misses at a cache size, instead of what lies at or below it. Such
    /// curves are drawn up to the largest share.
    pub falls: bool,
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurveLine {
    /// Name of the curve.
    pub name: String,
    /// Values in ascending order, each with the share (0.0 to 1.0) that lies at or below it, or that remains there.
    pub points: Vec<(u64, f64)>,
}
