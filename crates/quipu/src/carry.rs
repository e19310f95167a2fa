//! Traces of other formats into streams and back: which transform a verb means where a stream is read or written.

use crate::Recognised;
use quipu_model::{Format, Result, Transform};
use quipu_source::Source;
use quipu_streamed::back::OutOfStream;
use quipu_streamed::carried::{encoding_of, lies_bare};
use quipu_streamed::carry::{AsStream, IntoStream};
use quipu_streamed::copy::Copy;
use std::path::Path;

/// The verb that writes the same trace again.
const CONVERT: &str = "convert";

/// True if a file of this name is to be a stream.
pub fn is_stream_name(path: &Path) -> bool {
    let endings = quipu_streamed::INFO.extensions;
    path.extension().is_some_and(|ending| endings.iter().any(|own| ending == *own))
}

/// True if a format writes streams itself, instead of files whose bytes go into one.
pub fn writes_streams(format: &dyn Format) -> bool {
    encoding_of(format.info().name).is_none()
}

/// The transform that a verb means, and what it reads.
pub struct Way {
    transform: Means,
    /// What it reads.
    pub source: Source,
}

enum Means {
    /// That of the format.
    Own(&'static dyn Transform),
    /// One that reads or writes a stream.
    Stream(Box<dyn Transform>),
}

impl Way {
    /// The transform.
    pub fn transform(&self) -> &dyn Transform {
        match &self.transform {
            Means::Own(transform) => *transform,
            Means::Stream(transform) => &**transform,
        }
    }
}

/// What the verb called `name` does where it writes to `output`, if the format's own transform is `own`: the name says
/// whether it is a stream. `is_plain` if nothing is asked for but the same trace.
///
/// # Errors
/// The error for a format without such a transform.
pub fn way(
    name: &str,
    recognised: &Recognised,
    own: Result<&'static dyn Transform>,
    output: &Path,
    is_plain: bool,
) -> Result<Way> {
    let Recognised { source, format, carrier } = recognised;
    let reads = |transform: Means| Ok(Way { transform, source: source.clone() });
    let into = || IntoStream::new(*format, carrier.as_ref().map(|carrier| carrier.source.clone()));
    let is_convert = name == CONVERT;
    if is_stream_name(output) && !format.carries() {
        return match (own, carrier) {
            (_, Some(carrier)) if is_convert && is_plain => {
                // All that it says of itself is kept.
                Ok(Way { transform: Means::Stream(Box::new(Copy)), source: carrier.source.clone() })
            }
            // Streams have no bodies for its files as they are: it writes them itself.
            (Ok(transform), _) if writes_streams(*format) => reads(Means::Own(transform)),
            (own, _) if is_convert && (own.is_err() || is_plain) => reads(Means::Stream(Box::new(into()))),
            (own, _) => reads(Means::Stream(Box::new(AsStream { transform: own?, into: into() }))),
        };
    }
    match own {
        own if is_convert
            && carrier.is_some()
            && (own.is_err() || is_plain && lies_bare(format.info().name)) =>
        {
            reads(Means::Stream(Box::new(OutOfStream { format: *format })))
        }
        own => reads(Means::Own(own?)),
    }
}

/// What puts a trace of this format into a stream.
pub fn into_stream(format: &'static dyn Format) -> Box<dyn Transform> {
    Box::new(IntoStream::new(format, None))
}
