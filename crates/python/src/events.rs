//! Passes workload events to hooks written in Python.

use crate::fault::raised;
use crate::trace::Opened;
use crate::watch::watched;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quipu::engine::{Watch, convert, plan_conversion};
use quipu::model::convert::RecordJob;
use quipu::model::{Damaged, Options};
use quipu_console::rewrite::Watched;
use quipu_hooks::event::{Event, Place};
use quipu_hooks::{Batch, Detail, Error, Result, Sink};
use quipu_prism::feed::{self, ToSink};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The methods that a hooks object may have.
const METHODS: [&str; 6] =
    ["on_memory", "on_compute", "on_sync", "on_context", "on_control_flow", "on_config"];

/// A Python object that receives events.
struct Hooks {
    object: Py<PyAny>,
    /// Its methods, by position in [`METHODS`]; `None` for those that it lacks.
    methods: [Option<Py<PyAny>>; METHODS.len()],
    on_batch: Option<Py<PyAny>>,
    /// The exception that ended the run, if any.
    raised: Option<PyErr>,
    n_events: u64,
}

impl Hooks {
    fn new(py: Python<'_>, object: Py<PyAny>) -> PyResult<Hooks> {
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let found = object.bind(py).getattr_opt(name)?;
            Ok(found.filter(|method| !method.is_none()).map(Bound::unbind))
        };
        let mut methods = [const { None }; METHODS.len()];
        for (slot, name) in methods.iter_mut().zip(METHODS) {
            *slot = method(name)?;
        }
        Ok(Hooks { on_batch: method("on_batch")?, methods, object, raised: None, n_events: 0 })
    }

    /// Calls into Python. An exception is kept, and ends the run.
    fn call(&mut self, call: impl FnOnce(Python<'_>, &Hooks) -> PyResult<()>) -> Result<()> {
        let called = Python::attach(|py| call(py, self));
        called.map_err(|error| {
            let message = error.to_string();
            self.raised.get_or_insert(error);
            Error::stop(message)
        })
    }

    fn call_if_there(&mut self, name: &str) -> Result<()> {
        self.call(|py, hooks| match hooks.object.bind(py).getattr_opt(name)? {
            Some(method) if !method.is_none() => method.call0().map(drop),
            _ => Ok(()),
        })
    }
}

impl Sink for Hooks {
    fn detail(&self) -> Detail {
        Detail::ALL
    }

    fn start(&mut self) -> Result<()> {
        self.call_if_there("on_start")
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        self.n_events += batch.events.len() as u64;
        self.call(|py, hooks| hooks.events(py, batch))
    }

    fn finish(&mut self) -> Result<()> {
        self.call_if_there("on_finish")
    }
}

impl Hooks {
    fn events(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let [memory, compute, sync, context, control, config] = &self.methods;
        let clock = |index: usize| batch.clocks.get(index).copied();
        for (index, event) in batch.events.iter().enumerate() {
            let at = (batch.thread, batch.first + index as u64, clock(index));
            match event {
                Event::Memory(event) => {
                    let Some(method) = memory else { continue };
                    let what = match (event.is_load(), event.is_store()) {
                        (true, _) => Some("load"),
                        (_, true) => Some("store"),
                        _ => None,
                    };
                    method.call1(py, (at, what, event.address, event.size))?;
                }
                Event::Compute(event) => {
                    let Some(method) = compute else { continue };
                    method.call1(py, (at, event.format, event.operation, event.width, event.arguments))?;
                }
                Event::Sync(event) => {
                    let Some(method) = sync else { continue };
                    method.call1(py, (at, event.kind, event.data, event.second))?;
                }
                Event::Context(event) => {
                    let Some(method) = context else { continue };
                    match event.place {
                        Place::Address(address) => method.call1(py, (at, event.kind, address))?,
                        Place::Name(name) => {
                            let name = String::from_utf8_lossy(batch.name(name));
                            method.call1(py, (at, event.kind, name))?
                        }
                    };
                }
                Event::Control(event) => {
                    let Some(method) = control else { continue };
                    method.call1(py, (at, event.kind, event.taken, event.target, event.indirect))?;
                }
                Event::Config(event) => {
                    let Some(method) = config else { continue };
                    method.call1(py, (at, event.kind as u8, event.fields))?;
                }
                Event::Unknown(_) => {}
            }
        }
        match &self.on_batch {
            Some(method) => self.columns(py, batch, method),
            None => Ok(()),
        }
    }

    /// Passes all accesses of a batch as columns: whether each is a store, addresses, sizes.
    fn columns(&self, py: Python<'_>, batch: &Batch, method: &Py<PyAny>) -> PyResult<()> {
        let (mut stores, mut addresses, mut sizes) = (Vec::new(), Vec::<u8>::new(), Vec::<u8>::new());
        for event in &batch.events {
            if let Event::Memory(event) = event {
                stores.push(u8::from(event.is_store()));
                addresses.extend_from_slice(&event.address.unwrap_or(0).to_le_bytes());
                sizes.extend_from_slice(&event.size.unwrap_or(0).to_le_bytes());
            }
        }
        let [stores, addresses, sizes] = [&stores, &addresses, &sizes].map(|bytes| PyBytes::new(py, bytes));
        method.call1(py, ((batch.thread, batch.first), stores, addresses, sizes)).map(drop)
    }
}

/// Passes all events of a trace to the object, and returns their number.
pub(crate) fn feed(
    py: Python<'_>,
    opened: &Opened,
    object: Py<PyAny>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    let hooks = Arc::new(Mutex::new(Hooks::new(py, object)?));
    let watch = Arc::new(Watch::new());
    let done = watched(py, &watch, progress, || run(opened, &hooks, &watch))?;
    let mut hooks = hooks.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = hooks.raised.take() {
        return Err(error);
    }
    done.map(|()| hooks.n_events).map_err(|error| raised(py, &error))
}

fn run(opened: &Opened, hooks: &Arc<Mutex<Hooks>>, watch: &Watch) -> quipu::model::Result<()> {
    let lock = || hooks.lock().unwrap_or_else(PoisonError::into_inner);
    let said = |error: Error| quipu::model::Error::usage(error.to_string());
    lock().start().map_err(said)?;
    let trace = &*opened.trace;
    if trace.meta().format == quipu_prism::INFO.name {
        let (source, opening) = (&opened.source, &opened.opening);
        feed::events(source, opening, false, &Watched(watch), &mut *lock())?;
        return lock().finish().map_err(said);
    }
    let writer = ToSink::new(hooks.clone());
    let beyond: &[&str] = &[];
    let plan = plan_conversion(trace, quipu_prism::INFO.name, &writer, beyond)?;
    let options = Options::default();
    let job = RecordJob {
        trace,
        columns: plan.carried,
        options: &options,
        output: Path::new(""),
        replace: false,
        container: None,
        level: None,
        damaged: Damaged::Keep,
        strict: false,
    };
    convert(&plan, &writer, &job, beyond, watch).map(drop)
}
