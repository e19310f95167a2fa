//! Names of tables in queries: tables and lenses of the first trace by their own names, those of each trace also under its
//! alias, and predefined views.

use super::reading::Readings;
use super::table::TraceTable;
use super::tool::{Answer, ToolTable};
use super::{Tools, fault};
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use quipu_engine::row_names;
use quipu_model::{Given, Schema, Tool, Trace};
use std::fmt;
use std::sync::Arc;

/// The only catalog.
pub(super) const CATALOG: &str = "quipu";
/// The schema of the first trace.
pub(super) const FIRST: &str = "public";
/// The schema of lenses of the first trace.
const LENS: &str = "lens";

/// A predefined view: its name, the analysis that computes it, the table function of that analysis, and the options given to
/// it.
struct View(&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Option for lists without a limit on their length.
const ALL: &[(&str, &str)] = &[("top", "18446744073709551615")];

const VIEWS: [View; 7] = [
    View("functions", "functions", "functions_functions", &[]),
    View("syscalls", "syscalls", "syscalls_syscalls", &[]),
    View("types", "types", "types_types", &[]),
    View("frames", "frames", "frames_frames", &[]),
    View("lines", "hot", "hot_lines", ALL),
    View("pages", "hot", "hot_pages", ALL),
    View("misses", "misses", "misses", &[]),
];

/// A trace with its alias.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) alias: String,
    pub(super) trace: Arc<dyn Trace>,
    pub(super) readings: Arc<Readings>,
    pub(super) tools: Tools,
}

/// A table that queries can use.
pub(super) struct Known {
    /// Its name in queries.
    pub(super) name: String,
    pub(super) schema: Arc<Schema>,
}

impl Named {
    /// Finds the table with this name: a native table, a lens, a predefined view or a learned table, in this order.
    fn find(&self, name: &str) -> quipu_model::Result<Option<Arc<dyn TableProvider>>> {
        let names = row_names(&*self.trace)?;
        let exact = names.iter().find(|known| known.as_str() == name);
        let lens = names.iter().find(|known| known.strip_prefix("lens.") == Some(name));
        // The parser turns names into lower case unless they are quoted.
        let loose = || names.iter().find(|known| known.eq_ignore_ascii_case(name));
        if let Some(found) = exact.or(lens).or_else(loose) {
            return Ok(Some(Arc::new(TraceTable::new(self.trace.clone(), found, self.readings.clone())?)));
        }
        if let Some(view) = self.view(name) {
            return Ok(Some(view));
        }
        if !name.contains('.') {
            return Ok(None);
        }
        self.trace.learn()?;
        let learned = self.trace.tables()?;
        let found = learned.iter().find(|schema| schema.name.eq_ignore_ascii_case(name));
        match found {
            Some(found) => {
                let table = TraceTable::new(self.trace.clone(), &found.name, self.readings.clone())?;
                Ok(Some(Arc::new(table)))
            }
            None => Ok(None),
        }
    }

    /// Number of native tables known so far.
    pub(super) fn n_tables(&self) -> usize {
        self.trace.tables().map_or(0, |tables| tables.len())
    }

    /// The analysis of a view, and the part of its answer that is the table; `None` if the trace's format lacks it.
    fn answer(&self, view: &View) -> Option<(&'static dyn Tool, Answer)> {
        let View(_, tool, function, _) = view;
        let tools = (self.tools)(&self.trace.meta().format);
        let tool = tools.into_iter().find(|known| known.info().name == *tool)?;
        let (_, answer) = Answer::of(tool).into_iter().find(|(known, _)| known == function)?;
        Some((tool, answer))
    }

    fn view(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let view = VIEWS.iter().find(|view| view.0 == name)?;
        let (tool, answer) = self.answer(view)?;
        let mut given = Given::default();
        view.3.iter().for_each(|(option, value)| given.add(*option, *value));
        let made = ToolTable::new(self.trace.clone(), tool, answer, given, self.readings.clone()).ok()?;
        Some(Arc::new(made))
    }

    /// All tables that are known without reading the trace.
    pub(super) fn known(&self) -> quipu_model::Result<Vec<Known>> {
        let mut all = Vec::new();
        let names = row_names(&*self.trace)?;
        for name in &names {
            let table = TraceTable::new(self.trace.clone(), name, self.readings.clone())?;
            let plain = name.strip_prefix("lens.").filter(|plain| !names.iter().any(|other| other == plain));
            all.push(Known { name: plain.unwrap_or(name).to_owned(), schema: table.about().clone() });
        }
        for view in &VIEWS {
            let is_there = self.view(view.0).is_some() && !all.iter().any(|known| known.name == view.0);
            if let Some((_, answer)) = self.answer(view).filter(|_| is_there) {
                all.push(Known { name: view.0.to_owned(), schema: answer.schema() });
            }
        }
        Ok(all)
    }
}

/// The catalog of a session.
pub(super) struct Catalog(pub(super) Vec<Named>);

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Catalog").finish_non_exhaustive()
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        let first = [FIRST.to_owned(), LENS.to_owned()];
        first.into_iter().chain(self.0.iter().map(|named| named.alias.clone())).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let of = |named: &Named, prefix: &str| -> Arc<dyn SchemaProvider> {
            Arc::new(Space { named: named.clone(), prefix: prefix.to_owned() })
        };
        let first = self.0.first()?;
        if name == FIRST {
            return Some(of(first, ""));
        }
        if let Some(named) = self.0.iter().find(|named| named.alias == name) {
            return Some(of(named, ""));
        }
        // `lens.calls`, `call."glDraw"`, `b_lens.calls`.
        match self
            .0
            .iter()
            .find_map(|named| Some((named, name.strip_prefix(&named.alias)?.strip_prefix('_')?)))
        {
            Some((named, prefix)) => Some(of(named, &format!("{prefix}."))),
            None => Some(of(first, &format!("{name}."))),
        }
    }
}

/// Tables of one trace whose names begin with a prefix.
struct Space {
    named: Named,
    prefix: String,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl SchemaProvider for Space {
    fn table_names(&self) -> Vec<String> {
        let known = self.named.known().unwrap_or_default();
        match self.prefix.as_str() {
            "" => known.into_iter().map(|known| known.name).collect(),
            prefix => {
                let names = row_names(&*self.named.trace).unwrap_or_default();
                names.iter().filter_map(|name| name.strip_prefix(prefix).map(str::to_owned)).collect()
            }
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        self.named.find(&format!("{}{name}", self.prefix)).map_err(fault::external)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.named.find(&format!("{}{name}", self.prefix)).is_ok_and(|found| found.is_some())
    }
}
