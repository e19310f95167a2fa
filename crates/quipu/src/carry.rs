//! Puts traces of other formats into streams and back: chooses the transform for a verb that reads or writes a stream.

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

/// Name of the verb that rewrites a trace.
const CONVERT: &str = "convert";

/// True if a file name has the extension of streams.
pub fn is_stream_name(path: &Path) -> bool {
    let endings = quipu_streamed::INFO.extensions;
    path.extension().is_some_and(|ending| endings.iter().any(|own| ending == *own))
}

/// True if a format writes streams itself; the files of other formats are put into streams byte for byte.
pub fn writes_streams(format: &dyn Format) -> bool {
    encoding_of(format.info().name).is_none()
}

/// Names of the formats whose traces can be carried by streams.
pub fn names_in_streams() -> Vec<&'static str> {
    let mut names: Vec<&str> = BODIES.iter().chain(OWN_WRITERS).map(|(_, name)| *name).collect();
    names.dedup();
    names
}

impl Carrier {
    /// Whether the writer of the carrier has ended it. Otherwise more data may follow.
    pub fn has_ended(&self) -> bool {
        quipu_streamed::carried::has_ended(&self.findings)
    }
}

/// Whether the carrier of the trace at `source` has ended, even if nothing of the trace can be read; `None` if there is no
/// carrier.
///
/// # Errors
/// Errors of reading the carrier.
pub fn carrier_has_ended(source: &Source) -> Result<Option<bool>> {
    let Some(carrier) = carrier_of(source) else { return Ok(None) };
    let carried = carrier.carried(source)?;
    Ok(carried.first().map(|inner| quipu_streamed::carried::has_ended(&inner.findings)))
}

/// The transform for a verb, and its input.
pub struct Way {
    transform: Means,
    /// The input of the transform.
    pub source: Source,
    /// The format of the trace, and findings about its carrier.
    format: &'static dyn Format,
    findings: Arc<[Finding]>,
    /// True if the reader of the trace locates all losses itself.
    is_counted: bool,
    /// The trace inside `source`, if that is the carrier.
    inner: Option<Source>,
    /// True if a carrier states the format of the trace.
    is_carried: bool,
}

enum Means {
    /// A transform of the format.
    Own(&'static dyn Transform),
    /// A transform that reads or writes a stream.
    Stream(Box<dyn Transform>),
}

impl Way {
    /// Returns the transform, which also reports damage to the carrier.
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

/// Chooses what the verb called `name` does when it writes to `output`, whose extension decides whether that is a stream.
/// `own` is the format's own transform for the verb. `is_plain` is true if the options request nothing but the same trace.
///
/// # Errors
/// The error in `own`, if the format's transform is needed.
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
                // Copies the carrier, which keeps all of its metadata. The trace is read for damage.
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
            // The format writes streams itself: its files cannot be put into one byte for byte.
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

/// A transform that puts a trace of this format into a stream.
pub fn into_stream(format: &'static dyn Format) -> Box<dyn Transform> {
    Box::new(IntoStream::new(format, None))
}

/// A transform of a trace that may have a carrier: damage to the carrier counts as damage to the input.
struct OfCarried<'t> {
    transform: &'t dyn Transform,
    /// The format of the trace.
    format: &'static dyn Format,
    /// Findings about the carrier.
    findings: Arc<[Finding]>,
    /// True if the reader of the trace locates all losses itself.
    is_counted: bool,
    /// The trace inside the carrier, if the transform reads the carrier itself.
    inner: Option<&'t Source>,
    /// True if a carrier states the format of the trace.
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
        // Without records, the format might not be recognised from the bytes.
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
            // It is unknown which records the carrier has lost.
            made.reading.doubtful_from = earlier(made.reading.doubtful_from, Some(0));
        }
        made.reading.findings.splice(0..0, more);
        Ok(made)
    }
}

impl OfCarried<'_> {
    /// The error for an output that is refused, with all losses: the trace is read to find them.
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

    /// The error for an output that ends where the carrier lost something. Readers that continue after that report the
    /// losses.
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
