//! Errors of Arrow and Parquet as our own.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use quipu_model::{Error, ErrorKind};

/// What Arrow says, as an error of the library: `Io` where a file could not be read or written, `Damaged` else.
pub fn of_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(message, cause) => Error::new(ErrorKind::Io, message).because(cause),
        ArrowError::NotYetImplemented(what) => Error::new(ErrorKind::Unsupported, format!("Arrow: {what}")),
        ArrowError::InvalidArgumentError(what) if what.contains("requires the lz4") => {
            Error::new(ErrorKind::Unsupported, format!("Arrow: {what}"))
        }
        // What Parquet says of a batch comes through Arrow.
        ArrowError::ParquetError(what) => Error::new(ErrorKind::Damaged, format!("Parquet: {what}")),
        ArrowError::ExternalError(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => Error::new(ErrorKind::Io, "the file could not be read or written").because(*cause),
            Err(cause) => Error::new(ErrorKind::Damaged, format!("Arrow: {cause}")),
        },
        other => Error::new(ErrorKind::Damaged, format!("Arrow: {other}")),
    }
}

/// What Parquet says, as an error of the library.
pub fn of_parquet(error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => Error::new(ErrorKind::Io, "the file could not be read or written").because(*cause),
            Err(cause) => Error::new(ErrorKind::Damaged, format!("Parquet: {cause}")),
        },
        // A packing that this build does not have is no damage.
        ParquetError::NYI(what) => Error::new(ErrorKind::Unsupported, format!("Parquet: {what}")),
        ParquetError::General(what) if what.contains("Disabled feature") => {
            Error::new(ErrorKind::Unsupported, format!("Parquet: {what}"))
        }
        other => Error::new(ErrorKind::Damaged, format!("Parquet: {other}")),
    }
}

/// What is wrong with the head of a message or a footer, in one line: the rest says through which tables it was reached.
pub(crate) fn of_flatbuffer(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_end_matches(['.', ':']).to_owned()
}
