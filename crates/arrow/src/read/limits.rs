//! Upper limits for sizes that a file states; each bounds an allocation, and real files stay far below.

/// Bytes of the footer of a Parquet file.
pub const FOOTER_BYTES: u64 = 64 << 20;
/// Bytes of the offset index or column index of a column.
pub const PAGE_INDEX_BYTES: u64 = 16 << 20;
/// Bytes of a page header.
pub const PAGE_HEAD_BYTES: usize = 1 << 20;
/// Decompressed bytes of a page.
pub const PAGE_BYTES: u64 = 256 << 20;
/// Decompressed bytes of pages in memory at once, one for each column.
pub const PAGES_BYTES: u64 = 1 << 30;
/// Values of a list column in one row group.
pub const LIST_VALUES: u64 = 1 << 26;
/// Bytes of the header of an Arrow message.
pub const MESSAGE_HEAD_BYTES: u64 = 64 << 20;
/// Decompressed bytes of an Arrow message.
pub const MESSAGE_BYTES: u64 = 1 << 30;
/// Messages of a file.
pub const MESSAGES: usize = 1 << 22;
/// Columns of a file, including those within structures.
pub const COLUMNS: usize = 1 << 14;
/// Nesting levels of lists and structures.
pub const DEPTH: u32 = 32;
/// Rows that are decoded at once.
pub const BATCH_ROWS: usize = 8192;
/// Bytes that the texts of one column of a batch would have if all were as long as the longest possible one.
pub const TEXT_BYTES: u64 = 256 << 20;
