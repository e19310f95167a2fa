//! Separates threads: an analysis runs once for the whole trace, or once for each thread.

use crate::filtered::Filtered;
use crate::keyed::Keyed;
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Document};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::Fields;
use quipu_model::{Batch, OptionSpec, Options, Pass, Report, Result, Shard, ThreadId, Trace};

/// The option for results by thread.
pub(crate) const PER_THREAD: OptionSpec = OptionSpec::flag(
    "per-thread",
    "also give the result for each thread, in the order in which threads first appear",
);

/// The same option for an analysis that always lists threads.
pub(crate) const ALWAYS_PER_THREAD: OptionSpec = PER_THREAD
    .default("true")
    .doc("no effect: threads are always listed; accepted for consistency with other tools");

/// An analysis that can run on any part of a trace. A clone of an empty one is an empty one.
pub(crate) trait Part: Clone + Send + 'static {
    type Answer: Answer;

    fn consume(&mut self, batch: &Batch);
    fn merge(&mut self, later: Self);
    fn answer(self) -> Self::Answer;
}

/// The result of one analysis for a whole trace or for one thread.
pub trait Answer: Fields + Send + 'static {
    /// The result as text and tables, for a trace that a filter may have reduced to a part.
    fn document(&self, detail: Detail, filtered: Filtered) -> Document;
}

result! {
    /// A result for the whole trace and, if asked for with `per-thread`, for each thread.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PerThread<T: Answer> {
        pub total: T, flat => "The whole trace.";
        pub threads: Vec<OfThread<T>>, perhaps =>
            "Threads in order of first appearance; empty without `per-thread`.";
    } beside {
        pub filtered: Filtered => "Parts of the trace that a filter thinned out.";
    }
}

result! {
    /// The result for one thread.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OfThread<T: Fields> {
        pub thread: ThreadId, flat, key => "The thread.";
        pub result: T, flat => "Result for the thread.";
    }
}

impl<T: Answer> ReportBody for PerThread<T> {
    fn document(&self, detail: Detail) -> Document {
        let mut document = noted(self.total.document(detail, self.filtered), detail, self.filtered);
        for of in &self.threads {
            let part = of.result.document(detail, self.filtered);
            document.blocks.push(Block::Note(format!("thread {}:", of.thread)));
            document.blocks.extend(part.blocks);
        }
        document
    }
}

/// Adds a note about the filtered parts of the trace to a full document; a brief one is shown below a list of missing parts.
pub(crate) fn noted(mut document: Document, detail: Detail, filtered: Filtered) -> Document {
    if let Some(sentence) = filtered.sentence().filter(|_| detail == Detail::Full) {
        document.blocks.insert(0, Block::Note(sentence));
    }
    document
}

/// The pass of a [`Part`].
pub(crate) struct Split<P> {
    empty: P,
    whole: P,
    /// Each thread's part; `None` unless requested. If it is `Some`, `whole` stays empty.
    threads: Option<Keyed<ThreadId, P>>,
    filtered: Filtered,
}

impl<P: Part> Split<P> {
    /// A pass for `empty`, with threads separated if `options` ask for it.
    pub(crate) fn new(empty: P, options: &Options, trace: &dyn Trace) -> Split<P> {
        let threads = options.flag(&PER_THREAD).then(Keyed::default);
        Split { whole: empty.clone(), empty, threads, filtered: Filtered::of(trace.meta()) }
    }
}

impl<P: Part> Pass for Split<P> {
    fn fork(&self, _shard: &Shard) -> Split<P> {
        let threads = self.threads.as_ref().map(|_| Keyed::default());
        Split { empty: self.empty.clone(), whole: self.empty.clone(), threads, filtered: self.filtered }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        match &mut self.threads {
            None => self.whole.consume(batch),
            Some(threads) => threads.entry(batch.span.thread, || self.empty.clone()).consume(batch),
        }
        Ok(())
    }

    fn merge(&mut self, later: Split<P>) -> Result<()> {
        self.whole.merge(later.whole);
        if let (Some(threads), Some(later)) = (&mut self.threads, later.threads) {
            threads.merge(later, P::merge);
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let mut whole = self.whole;
        let mut threads = Vec::new();
        for (thread, part) in self.threads.map_or(Vec::new(), Keyed::into_items) {
            whole.merge(part.clone());
            threads.push(OfThread { thread, result: part.answer() });
        }
        Ok(Box::new(PerThread { total: whole.answer(), threads, filtered: self.filtered }))
    }
}
