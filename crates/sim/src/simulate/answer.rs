//! The result of a simulation: statistics or, if requested instead, loads with steady distances or types.

use super::Simulation;
use crate::describe::describe;
use crate::extent::Warmup;
use crate::fields::Around;
use crate::misses::Misses;
use crate::physical::{Translation, Translator};
use crate::report::{self, Simulated};
use quipu_model::{Report, Result};

impl Simulation {
    /// The requested result.
    pub(super) fn answer(mut self) -> Result<Box<dyn Report>> {
        if let Some(sink) = &mut self.sink {
            sink.end()?;
        }
        self.settle();
        let machine = describe(self.settings.name.as_deref(), &self.settings.machine, self.settings.is_tlb);
        if let Some(limits) = self.settings.strides {
            let line_bytes = self.settings.machine.line_bytes;
            return Ok(Box::new(Misses { machine, ..self.strides.report(limits, line_bytes) }));
        }
        if let Some(top) = self.settings.tells_types
            && let Some(fields) = self.fields
        {
            let around = Around {
                line_size: self.settings.machine.line_bytes,
                machine,
                levels: report::data_level_names(&self.settings.machine.caches),
                threads: &self.threads,
                top,
            };
            return Ok(Box::new(fields.report(&around)));
        }
        Ok(Box::new(self.report()))
    }

    /// Reasons why the result is incomplete.
    fn incomplete(&self) -> Vec<String> {
        let mut all: Vec<String> = self.shortfall().into_iter().collect();
        all.extend(self.resets.missed(self.extent.is_over()));
        let translation = self.physical.as_ref().map(Translator::translation);
        all.extend(translation.and_then(Translation::shortfall));
        all
    }

    /// Why there are no statistics although some were requested.
    fn shortfall(&self) -> Option<String> {
        let wanted = self.settings.extent;
        let is_empty = self.accesses == 0 && self.warmup.is_some();
        wanted.shortfall(self.extent, self.met, is_empty, || self.machine.filled())
    }

    /// Ends a warm-up that lasted to the end of the trace, so that the statistics are empty.
    fn settle(&mut self) {
        if !self.extent.is_warm() && self.warmup.is_none() && !self.settings.counts_cold {
            self.end_warmup();
        }
    }

    /// The statistics so far.
    pub fn report(mut self) -> Simulated {
        self.settle();
        let last = (!self.settings.resets.is_empty()).then(|| self.stage());
        let is_whole = self.settings.extent.is_all() && self.settings.resets.is_empty();
        let executed = self.executed.total().filter(|_| is_whole);
        let translation = self.physical.as_ref().map(Translator::translation);
        let (incomplete, rollovers) = (self.incomplete(), self.n_rollovers);
        let Simulation {
            settings,
            machine,
            placement,
            warmup,
            instrs,
            accesses,
            sources,
            threads,
            kernel,
            ..
        } = self;
        let has_kernel = kernel.iter().any(|of| *of != (0, 0));
        let is_cold = settings.extent.warmup != Warmup::None && warmup.is_none();
        let warmup = if is_cold { Some(vec![(0, 0); settings.machine.caches.len()]) } else { warmup };
        let stages = self.stages.into_iter().chain(last).collect();
        let fields = self.fields.map(|fields| fields.missing(settings.top));
        let over_time = self.over_time.map(|over_time| *over_time);
        let told = report::Told {
            warmup,
            instrs,
            executed,
            accesses,
            translation,
            incomplete,
            rollovers,
            sources,
            threads,
            stages,
            fields,
            over_time,
            kernel: has_kernel.then_some(kernel),
        };
        report::make(&settings, &machine, &placement, told)
    }
}
