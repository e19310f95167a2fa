//! Conversion of errors from Arrow and Parquet to the library's.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use quipu_model::{Error, ErrorKind};

/// Converts an error from Arrow: `Io` where a file could not be read or written, else `Damaged`.
pub fn of_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(message, cause) => Error::new(ErrorKind::Io, message).because(cause),
        ArrowError::NotYetImplemented(what) => Error::new(ErrorKind::Unsupported, format!("Arrow: {what}")),
        ArrowError::InvalidArgumentError(what) if what.contains("requires the lz4") => {
            Error::new(ErrorKind::Unsupported, format!("Arrow: {what}"))
        }
        // Arrow passes on Parquet's errors about a batch.
        ArrowError::ParquetError(what) => Error::new(ErrorKind::Damaged, format!("Parquet: {what}")),
        ArrowError::ExternalError(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => Error::new(ErrorKind::Io, "the file could not be read or written").because(*cause),
            Err(cause) => Error::new(ErrorKind::Damaged, format!("Arrow: {cause}")),
        },
        other => Error::new(ErrorKind::Damaged, format!("Arrow: {other}")),
    }
}

/// Converts an error from Parquet.
pub fn of_parquet(error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => Error::new(ErrorKind::Io, "the file could not be read or written").because(*cause),
            Err(cause) => Error::new(ErrorKind::Damaged, format!("Parquet: {cause}")),
        },
        // A compression codec that this build lacks is not damage.
        ParquetError::NYI(what) => Error::new(ErrorKind::Unsupported, format!("Parquet: {what}")),
        ParquetError::General(what) if what.contains("Disabled feature") => {
            Error::new(ErrorKind::Unsupported, format!("Parquet: {what}"))
        }
        other => Error::new(ErrorKind::Damaged, format!("Parquet: {other}")),
    }
}

/// The first line of an error about a message's header or a footer; the other lines list the tables that lead to it.
pub(crate) fn of_flatbuffer(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_end_matches(['.', ':']).to_owned()
}
