//! Schemas and aggregations with resolved types, for decoding rows.

use quipu_wire::layout::{Layout, MAX_NODES};
use quipu_wire::record::{self, Field, field_flag};
use std::sync::Arc;

/// A field with its resolved type.
#[derive(Clone, Debug)]
pub struct SchemaField {
    /// The field's metadata record.
    pub field: Field,
    /// The resolved type.
    pub layout: Arc<Layout>,
}

impl SchemaField {
    /// Whether packed rows store the field as a difference to the previous row.
    #[must_use]
    pub fn is_delta(&self) -> bool {
        self.field.flags.unwrap_or_default() & field_flag::DELTA != 0
    }
}

/// A schema: one kind of data record.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The metadata record of the schema.
    pub record: record::Schema,
    /// The fields in order.
    pub fields: Vec<SchemaField>,
    /// Minimum length of the body of a plain row in bytes; `None` if its rows cannot be written plain.
    pub fixed_bytes: Option<u32>,
}

impl Schema {
    /// The id of the schema.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.record.id
    }

    /// The name, or the id as text if it has none.
    #[must_use]
    pub fn name(&self) -> String {
        self.record.name.clone().unwrap_or_else(|| self.record.id.to_string())
    }
}

/// An aggregation: values aggregated by key.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// The metadata record of the aggregation.
    pub record: record::Aggregation,
    /// Schema of its rows: the keys are the fields, and the fixed body ends after the value.
    pub rows: Arc<Schema>,
    /// The aggregating function.
    pub function: Function,
    /// Number of cells of 8 bytes in a value.
    pub n_cells: u32,
}

/// An aggregating function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Number of events.
    Count,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum.
    Sum,
    /// The average; cells: count and sum.
    Avg,
    /// The standard deviation; cells: count, sum, and the sum of squares in two cells.
    Stddev,
    /// A histogram of powers of two.
    Quantize,
    /// A linear histogram with steps of equal width.
    Lquantize {
        /// The lower bound of the first step.
        base: i64,
        /// Width of a step.
        step: i64,
        /// Number of steps.
        levels: u32,
    },
    /// A histogram with linear steps within each power (log-linear).
    Llquantize {
        /// The base of the powers.
        factor: u64,
        /// The exponent of the lowest power.
        low: u32,
        /// The exponent of the highest power.
        high: u32,
        /// Number of steps in each power.
        steps: u64,
    },
}

/// Maximum number of cells in a value.
const MAX_CELLS: u64 = 1 << 16;

impl Function {
    /// The function of a record; `None` if its number or its parameters are invalid.
    fn of(record: &record::Aggregation) -> Option<Function> {
        let parameters = record.parameters.as_deref().unwrap_or_default();
        Some(match (record.function, parameters) {
            (1, _) => Function::Count,
            (2, _) => Function::Min,
            (3, _) => Function::Max,
            (4, _) => Function::Sum,
            (5, _) => Function::Avg,
            (6, _) => Function::Stddev,
            (7, _) => Function::Quantize,
            (8, [base, limit, step]) if *step >= 1 && limit > base => {
                let levels = limit.checked_sub(*base)? / step;
                Function::Lquantize {
                    base: *base,
                    step: *step,
                    levels: u32::try_from(levels).ok().filter(|n| u64::from(*n) <= MAX_CELLS)?,
                }
            }
            (9, [factor, low, high, steps]) => {
                let (factor, steps) = (u64::try_from(*factor).ok()?, u64::try_from(*steps).ok()?);
                let (low, high) = (u32::try_from(*low).ok()?, u32::try_from(*high).ok()?);
                if factor < 2 || low >= high || steps < factor || steps % factor != 0 {
                    return None;
                }
                factor.checked_pow(high.checked_add(1)?)?;
                let mut power = factor;
                while power < steps {
                    power = power.checked_mul(factor)?;
                }
                (power % steps == 0).then_some(())?;
                Function::Llquantize { factor, low, high, steps }
            }
            _ => return None,
        })
    }

    /// The name of the function.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Min => "min",
            Function::Max => "max",
            Function::Sum => "sum",
            Function::Avg => "avg",
            Function::Stddev => "stddev",
            Function::Quantize => "quantize",
            Function::Lquantize { .. } => "lquantize",
            Function::Llquantize { .. } => "llquantize",
        }
    }

    /// Number of cells in a value; `None` if there are too many.
    fn n_cells(self) -> Option<u32> {
        Some(match self {
            Function::Count | Function::Min | Function::Max | Function::Sum => 1,
            Function::Avg => 2,
            Function::Stddev => 4,
            Function::Quantize => 127,
            Function::Lquantize { levels, .. } => levels + 2,
            Function::Llquantize { .. } => {
                let n = self.llquantize_bounds()?.len() + 2;
                u32::try_from(n).ok()?
            }
        })
    }

    /// The lower bounds of the cells of llquantize, except the first and the last cell, which are open-ended.
    pub(crate) fn llquantize_bounds(self) -> Option<Vec<u64>> {
        let Function::Llquantize { factor, low, high, steps } = self else { return None };
        let mut bounds = Vec::new();
        let mut last = factor.checked_pow(low)?;
        for _ in low..=high {
            let this = last.checked_mul(factor)?;
            let n = this.min(steps);
            let width = (this / n).max(1);
            // The cells of this power begin at the end of the power before it.
            let n_cells = n - n / factor;
            if bounds.len() as u64 + n_cells > MAX_CELLS {
                return None;
            }
            bounds.extend((0..n_cells).map(|at| last + at * width));
            last = this;
        }
        Some(bounds)
    }
}

/// Fields with their types; `Err` if the fields are invalid, `Ok(None)` if a type is not known yet.
fn fields(
    described: &[Field],
    find: impl Fn(u32) -> Option<Arc<Layout>>,
) -> Result<Option<Vec<SchemaField>>, &'static str> {
    let mut nodes = 0_u64;
    let mut all = Vec::with_capacity(described.len());
    for field in described {
        let Some(layout) = find(field.ty) else { return Ok(None) };
        nodes = nodes.saturating_add(layout.nodes);
        let field = SchemaField { field: field.clone(), layout };
        if field.is_delta() && !field.layout.may_be_delta() {
            return Err("differences of something that has none");
        }
        all.push(field);
    }
    if nodes > MAX_NODES {
        return Err("a schema of too many parts");
    }
    Ok(Some(all))
}

/// The end of the last field; `None` if a field has no offset.
fn end_of(fields: &[SchemaField]) -> Option<u64> {
    fields.iter().try_fold(0, |end, field| {
        let offset = u64::from(field.field.offset?);
        Some(end.max(offset + u64::from(field.layout.size)))
    })
}

/// Resolves a schema: `Err` if it is invalid, `Ok(None)` if a type is not known yet.
pub(crate) fn resolve(
    record: &record::Schema,
    find: impl Fn(u32) -> Option<Arc<Layout>>,
) -> Result<Option<Arc<Schema>>, &'static str> {
    let Some(fields) = fields(&record.fields, find)? else { return Ok(None) };
    let end = end_of(&fields);
    let fixed_bytes = match (end, record.fixed_bytes) {
        (Some(end), Some(fixed)) if end > u64::from(fixed) => return Err("a field outside of the body"),
        (Some(_), Some(fixed)) => Some(fixed),
        (Some(end), None) => u32::try_from(end).ok(),
        (None, _) => None,
    };
    if let Some(fixed) = fixed_bytes {
        let values = fields.iter().fold(0_u64, |n, field| n.saturating_add(field.layout.values));
        if values > u64::from(fixed).saturating_mul(64) {
            return Err("a schema whose fields overlap too often");
        }
    }
    Ok(Some(Arc::new(Schema { record: record.clone(), fields, fixed_bytes })))
}

/// Resolves an aggregation; returns like [`resolve`].
pub(crate) fn resolve_aggregation(
    record: &record::Aggregation,
    find: impl Fn(u32) -> Option<Arc<Layout>>,
) -> Result<Option<Arc<Aggregation>>, &'static str> {
    let function = Function::of(record).ok_or("a function, or parameters of it, that cannot be")?;
    let n_cells = function.n_cells().ok_or("a function of too many cells")?;
    let Some(keys) = fields(&record.keys, find)? else { return Ok(None) };
    let Some(keys_end) = end_of(&keys) else { return Err("a key without a place") };
    if keys_end > u64::from(record.value_offset) {
        return Err("a key within the value");
    }
    let fixed = u64::from(record.value_offset) + 8 * u64::from(n_cells);
    let fixed_bytes = u32::try_from(fixed).map_err(|_| "a value beyond any body")?;
    let schema = record::Schema {
        id: record.id,
        name: record.name.clone(),
        fields: record.keys.clone(),
        fixed_bytes: Some(fixed_bytes),
        ..record::Schema::default()
    };
    let rows = Arc::new(Schema { record: schema, fields: keys, fixed_bytes: Some(fixed_bytes) });
    Ok(Some(Arc::new(Aggregation { record: record.clone(), rows, function, n_cells })))
}
