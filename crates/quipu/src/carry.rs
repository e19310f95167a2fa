//! Traces of other formats into streams and back: which transform a verb means where a stream is read or written.

use crate::recognise::carrier_of;
use crate::within::{others, with_all, with_trace};
use crate::{Carrier, Recognised};
use quipu_model::damaged::{Intake, SoFar, earlier};
use quipu_model::transform::{Progress, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, ErrorKind, Finding, Format, OpenOptions, Options, Result, Transform};
use quipu_source::Source;
use quipu_streamed::back::OutOfStream;
use quipu_streamed::carried::{FORMATS as BODIES, OWN_WRITERS, encoding_of, lies_bare};
use quipu_streamed::carry::{AsStream, IntoStream};
use quipu_streamed::copy::Copy;
use std::path::Path;
use std::sync::Arc;

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

/// The names of the formats whose traces stand in streams as they are.
pub fn names_in_streams() -> Vec<&'static str> {
    let mut names: Vec<&str> = BODIES.iter().chain(OWN_WRITERS).map(|(_, name)| *name).collect();
    names.dedup();
    names
}

impl Carrier {
    /// Whether its writer has ended it; else more may come.
    pub fn has_ended(&self) -> bool {
        quipu_streamed::carried::has_ended(&self.findings)
    }
}

/// Whether what carries the trace at `source` has ended, whatever can be read of that trace; `None` if nothing carries one.
///
/// # Errors
/// What reading a carrier says.
pub fn carrier_has_ended(source: &Source) -> Result<Option<bool>> {
    let Some(carrier) = carrier_of(source) else { return Ok(None) };
    let carried = carrier.carried(source)?;
    Ok(carried.first().map(|inner| quipu_streamed::carried::has_ended(&inner.findings)))
}

/// The transform that a verb means, and what it reads.
pub struct Way {
    transform: Means,
    /// What it reads.
    pub source: Source,
    /// The format of that, and what is wrong with what carries it.
    format: &'static dyn Format,
    findings: Arc<[Finding]>,
    /// Reading says where all stood that is lost.
    is_counted: bool,
    /// The trace in what is read, if that is the carrier.
    inner: Option<Source>,
    /// True if a carrier says what the trace is.
    is_carried: bool,
}

enum Means {
    /// That of the format.
    Own(&'static dyn Transform),
    /// One that reads or writes a stream.
    Stream(Box<dyn Transform>),
}

impl Way {
    /// The transform.
    pub fn transform(&self) -> impl Transform {
        let transform = match &self.transform {
            Means::Own(transform) => *transform,
            Means::Stream(transform) => &**transform,
        };
        let (format, findings, is_counted) = (self.format, Arc::clone(&self.findings), self.is_counted);
        let (inner, is_carried) = (self.inner.as_ref(), self.is_carried);
        OfCarried { transform, format, findings, is_counted, inner, is_carried }
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
    let findings = || carrier.as_ref().map_or_else(|| [].into(), |carrier| Arc::clone(&carrier.findings));
    let is_counted = carrier.as_ref().is_some_and(|carrier| carrier.is_counted);
    let reads = |transform: Means| {
        let (source, format, findings) = (source.clone(), *format, findings());
        let is_carried = carrier.is_some();
        Ok(Way { transform, source, format, findings, is_counted, inner: None, is_carried })
    };
    let into = || IntoStream::new(*format, carrier.as_ref().map(|carrier| carrier.source.clone()));
    let is_convert = name == CONVERT;
    if is_stream_name(output) && !format.carries() {
        return match (own, carrier) {
            (_, Some(carrier)) if is_convert && is_plain => {
                // All that it says of itself is kept, and it is read for what is wrong with it.
                Ok(Way {
                    transform: Means::Stream(Box::new(Copy)),
                    source: carrier.source.clone(),
                    format: *format,
                    findings: [].into(),
                    is_counted: false,
                    inner: Some(source.clone()),
                    is_carried: false,
                })
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

/// What is done to a trace that another may carry: what is wrong with the carrier is damage of what is read.
struct OfCarried<'t> {
    transform: &'t dyn Transform,
    /// The format of the trace.
    format: &'static dyn Format,
    /// What is wrong with the carrier.
    findings: Arc<[Finding]>,
    /// Reading says where all stood that is lost.
    is_counted: bool,
    /// The trace in the carrier, if the transform reads the carrier itself.
    inner: Option<&'t Source>,
    /// True if a carrier says what the trace is.
    is_carried: bool,
}

impl Transform for OfCarried<'_> {
    fn info(&self) -> &'static TransformInfo {
        self.transform.info()
    }

    fn reads_again(&self, options: &Options) -> bool {
        self.transform.reads_again(options)
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        self.transform.lacks(option)
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        // Bytes without a record may look like nothing.
        let name = Some(self.format.info().name.to_owned()).filter(|_| self.is_carried);
        let opening = OpenOptions { format: name.or(job.opening.format.clone()), ..job.opening.clone() };
        let job = &TransformJob { opening: &opening, ..*job };
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        if let Err(refusal) = intake.take(&mut self.findings.to_vec(), SoFar::default()) {
            return Err(self.refused(refusal, job));
        }
        let mut made = match self.transform.run(job, progress) {
            Ok(made) => made,
            Err(error) if self.inner.is_some() => return Err(self.refused(error, job)),
            Err(error) => return Err(self.ended(error, job)),
        };
        if self.inner.is_some() {
            made.reading.findings = self.with_trace(made.reading.findings, job);
        }
        let more = others(&self.findings, &made.reading.findings, made.reading.error.as_deref());
        if more.iter().any(Finding::is_damage) && !self.is_counted {
            // Which records what is lost of the carrier is about is not known.
            made.reading.doubtful_from = earlier(made.reading.doubtful_from, Some(0));
        }
        made.reading.findings.splice(0..0, more);
        Ok(made)
    }
}

impl OfCarried<'_> {
    /// The error of an output that is refused, with all that is lost: the trace is read for that.
    #[cold]
    fn refused(&self, refusal: Error, job: &TransformJob<'_>) -> Error {
        if job.strict || refusal.kind() != ErrorKind::Damaged {
            return refusal;
        }
        let found = self.with_trace(refusal.findings().to_vec(), job);
        let place = refusal.place();
        let is_met = |finding: &&Finding| {
            finding.place.offset.is_some()
                && (&finding.place.file, finding.place.offset) == (&place.file, place.offset)
        };
        let at = found.iter().find(is_met).map_or_else(|| place.clone(), |finding| finding.place.clone());
        let again = Error::new(ErrorKind::Damaged, refusal.message()).at(&at);
        match refusal.advice() {
            Some(advice) => again.hint(advice),
            None => again,
        }
        .after(found)
    }

    /// The error of an output that ends where the carrier has lost something: readers that continue after that say what is lost.
    #[cold]
    fn ended(&self, error: Error, job: &TransformJob<'_>) -> Error {
        let is_of_carrier = error.of_source().is_some_and(|cause| cause.carrier().is_some());
        if is_of_carrier && !job.strict {
            let found = with_all(&self.findings, self.format, job.source, job.opening);
            if found.iter().any(|finding| finding.loss.is_some() && error.is_same_fault(finding)) {
                let refused = Error::new(ErrorKind::Damaged, error.message()).at(error.place());
                return match error.advice() {
                    Some(advice) => refused.hint(advice),
                    None => refused,
                }
                .after(found);
            }
        }
        let more = others(&self.findings, &[], Some(&error));
        error.after(more)
    }

    fn with_trace(&self, of_carrier: Vec<Finding>, job: &TransformJob<'_>) -> Vec<Finding> {
        with_trace(of_carrier, self.format, self.inner.unwrap_or(job.source), job.opening)
    }
}
