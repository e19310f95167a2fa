//! What a file may say of its own sizes. Honest files are far below; each number bounds an allocation.

/// Bytes of the footer of a Parquet file.
pub const FOOTER_BYTES: u64 = 64 << 20;
/// Bytes of what says where the pages of a column stand, or what is in them.
pub const PAGE_INDEX_BYTES: u64 = 16 << 20;
/// Bytes of the head of a page.
pub const PAGE_HEAD_BYTES: usize = 1 << 20;
/// Bytes of a page when it is unpacked.
pub const PAGE_BYTES: u64 = 256 << 20;
/// Bytes of pages that are unpacked at once, one of each column.
pub const PAGES_BYTES: u64 = 1 << 30;
/// Values of a column of lists in one group.
pub const LIST_VALUES: u64 = 1 << 26;
/// Bytes of the head of a message of Arrow.
pub const MESSAGE_HEAD_BYTES: u64 = 64 << 20;
/// Bytes of a message of Arrow when it is unpacked.
pub const MESSAGE_BYTES: u64 = 1 << 30;
/// Messages of a file.
pub const MESSAGES: usize = 1 << 22;
/// Columns of a file, those within structures as well.
pub const COLUMNS: usize = 1 << 14;
/// Levels of lists and structures.
pub const DEPTH: u32 = 32;
/// Rows that are unpacked at once.
pub const BATCH_ROWS: usize = 8192;
/// Bytes that texts of one column may come to in a batch, if each is as long as the longest can be.
pub const TEXT_BYTES: u64 = 256 << 20;
