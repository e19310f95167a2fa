//! The parsed request: keys, aggregations, a condition, and the rows that have all the columns they name.

use super::calls;
use quipu_expr::tree::ExprKind;
use quipu_expr::{Bound, Expr, Named, Source, Ty, Value, Where, parse_list};
use quipu_model::buckets::{Linear, Logarithmic};
use quipu_model::options::nearest;
use quipu_model::schema::{Role, Schema};
use quipu_model::{
    Chosen, Columns, Error, Field, Options, Order, Predicate, Reads, Result, RowSource, Trace,
};
use std::sync::Arc;

/// An aggregating function, with its parameters.
#[derive(Clone, Debug)]
pub(super) enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Stddev,
    Quantize,
    Lquantize(Steps),
    /// The lower bounds of all cells but the first.
    Llquantize(Arc<[i64]>),
}

/// The cells of `lquantize`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps(pub(super) Linear);

impl Steps {
    /// The cell of a number. Unlike the kernel, it takes all bits of the number into account.
    pub(super) fn cell(self, number: i128) -> u32 {
        let Steps(linear) = self;
        if number < i128::from(linear.base) {
            return 0;
        }
        let level = number.saturating_sub(linear.base.into()) / i128::from(linear.step.max(1));
        1 + u32::try_from(level).unwrap_or(u32::MAX).min(u32::from(linear.levels))
    }
}

/// The names of the functions.
pub(super) const NAMES: [&str; 9] =
    ["count", "sum", "avg", "min", "max", "stddev", "quantize", "lquantize", "llquantize"];

/// One aggregation.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) word: &'static str,
    pub(super) function: Function,
    /// The aggregated expression; `None` to count rows.
    pub(super) of: Option<Bound>,
    pub(super) is_float: bool,
}

/// One key.
#[derive(Clone, Debug)]
pub(super) struct KeySpec {
    pub(super) name: String,
    pub(super) of: Bound,
}

/// The source of the rows.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// Records, without any of their columns.
    Records,
    /// A table or lens.
    Rows(RowSource),
    /// System calls, which are paired with clock readings here.
    Calls,
}

/// The complete request.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) from: From,
    pub(super) schema: Arc<Schema>,
    pub(super) chosen: Chosen,
    pub(super) condition: Option<String>,
    pub(super) keys: Vec<KeySpec>,
    pub(super) specs: Vec<Spec>,
    /// True if positions of records are used.
    pub(super) has_positions: bool,
    pub(super) reads: Reads,
    pub(super) top: usize,
    pub(super) keys_limit: usize,
}

impl Plan {
    pub(super) fn new(options: &Options, trace: &dyn Trace) -> Result<Plan> {
        let read = |spec| options.text(spec).map(Source::new);
        let (by, agg) = (read(&super::BY), read(&super::AGG).unwrap_or_else(|| Source::new("count()")));
        let keys = by.as_ref().map(parse_list).transpose()?.unwrap_or_default();
        let aggs = parse_list(&agg)?;
        let condition = options.text(&super::WHERE).map(Where::new).transpose()?;

        let mut wanted: Vec<(String, bool)> = Vec::new();
        let mut want = |name: &str, is_quoted: bool| {
            if !wanted.iter().any(|(known, _)| known == name) {
                wanted.push((name.to_owned(), is_quoted));
            }
        };
        let of_keys = keys.iter().flat_map(|named| named.expr.columns());
        of_keys
            .chain(aggs.iter().flat_map(|named| named.expr.columns()))
            .for_each(|(name, is)| want(name, is));
        condition.iter().flat_map(Where::columns).for_each(|(name, is)| want(name, is));
        let (from, schema) = find(options.text(&super::OF), &wanted, trace)?;

        let keys = match by {
            Some(by) => keys.iter().map(|named| key(&by, named, &schema)).collect::<Result<Vec<_>>>()?,
            None => Vec::new(),
        };
        let specs = aggs.iter().map(|named| spec(&agg, named, &schema)).collect::<Result<Vec<_>>>()?;
        let predicate = Predicate { filter: condition.clone().map(Where::filter), ..Predicate::default() };
        let predicate = predicate.narrowed(&schema);
        let chosen = Chosen::new(&predicate, &schema)?;
        let of_keys = keys.iter().flat_map(|key| key.of.columns());
        let of_specs = specs.iter().filter_map(|spec| spec.of.as_ref()).flat_map(Bound::columns);
        let mut looked_at: Vec<usize> = of_keys.chain(of_specs).copied().chain(chosen.columns()).collect();
        looked_at.sort_unstable();
        looked_at.dedup();
        let is_position = |at: &usize| matches!(schema.fields[*at].role, Some(Role::RECORD | Role::INSTR));
        let has_positions = looked_at.iter().any(is_position);
        let columns = match &from {
            From::Records => Columns::NONE,
            From::Rows(rows) => rows.columns(&looked_at, &predicate, trace)?,
            From::Calls => calls::NEEDED | calls::USED.and(trace.columns()),
        };
        let tables = match &from {
            From::Rows(rows) => rows.table.into_iter().collect(),
            From::Records | From::Calls => Vec::new(),
        };
        // A piece does not know the records before it, nor the call that a thread is in.
        let is_whole = has_positions || matches!(from, From::Calls);
        let order = if is_whole { Order::Shards } else { Order::Pieces };
        let top = options.length(&super::TOP);
        Ok(Plan {
            from,
            schema,
            chosen,
            condition: options.text(&super::WHERE).map(str::to_owned),
            keys,
            specs,
            has_positions,
            reads: Reads { columns, tables, order },
            top: if top == 0 { usize::MAX } else { top },
            keys_limit: options.length(&super::KEYS_LIMIT).max(1),
        })
    }

    /// Name of the rows.
    pub(super) fn source_name(&self) -> String {
        match &self.from {
            From::Records => "records".to_owned(),
            From::Rows(rows) => rows.full_name(),
            From::Calls => calls::NAME.to_owned(),
        }
    }
}

fn key(source: &Source, named: &Named, schema: &Schema) -> Result<KeySpec> {
    let of = Bound::new(source, &named.expr, schema)?;
    let name = named.name.clone().unwrap_or_else(|| of.text().to_owned());
    Ok(KeySpec { name, of })
}

fn spec(source: &Source, named: &Named, schema: &Schema) -> Result<Spec> {
    let whole = |expr: &Expr| Bound::new(source, expr, schema);
    let span = named.expr.span.start as usize..named.expr.span.end as usize;
    let text = &source.text()[span];
    let ExprKind::Call { name, args, is_star } = &named.expr.kind else {
        let error = Error::usage(format!("`{text}` is no aggregation"));
        return Err(error.hint(format!("aggregations: {}", NAMES.join(", "))));
    };
    let Some(word) = NAMES.iter().copied().find(|known| known == name) else {
        let error = Error::usage(format!("there is no aggregation `{name}`"));
        return Err(match nearest(name, NAMES) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("aggregations: {}", NAMES.join(", "))),
        });
    };
    let n_params = match word {
        "lquantize" => 3,
        "llquantize" => 4,
        _ => 0,
    };
    let is_good = match (word, args.len()) {
        ("count", 0 | 1) => true,
        (_, n) => n == 1 + n_params && !is_star,
    };
    if !is_good {
        let wanted = match word {
            "count" => "nothing, a star or one expression",
            "lquantize" => "an expression, the lowest bound, the highest bound and a step",
            "llquantize" => {
                "an expression, a factor, the lowest and the highest magnitude and the steps of each"
            }
            _ => "one expression",
        };
        return Err(Error::usage(format!("`{word}` takes {wanted}, found `{text}`")));
    }
    let of = args.first().map(whole).transpose()?;
    if let Some(of) = of.as_ref().filter(|_| word != "count")
        && of.ty() == Ty::Text
    {
        return Err(of.refuse("expected a number, found a text"));
    }
    let is_float = of.as_ref().is_some_and(|of| of.ty() == Ty::Float);
    if is_float && word.ends_with("quantize") {
        let of = of.as_ref().map(|of| of.refuse("expected a whole number, found a number with a fraction"));
        return Err(of.unwrap_or_else(|| Error::usage("no number")).hint("`CAST(x AS BIGINT)` makes it one"));
    }
    let mut params = Vec::new();
    for arg in args.iter().skip(1) {
        let bound = whole(arg)?;
        match bound.constant() {
            Some(Value::Int(number)) => params.push(*number),
            _ => return Err(bound.refuse("expected a whole number that is the same for all rows")),
        }
    }
    let function = match word {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Avg,
        "min" => Function::Min,
        "max" => Function::Max,
        "stddev" => Function::Stddev,
        "quantize" => Function::Quantize,
        "lquantize" => Function::Lquantize(steps(&params, text)?),
        _ => Function::Llquantize(bounds(&params, text)?),
    };
    let name = named.name.clone().unwrap_or_else(|| text.to_owned());
    Ok(Spec { name, word, function, of, is_float })
}

/// Checks the parameters against DTrace's limits: a bound of 32 bits, a step and levels of 16.
fn steps(params: &[i128], text: &str) -> Result<Steps> {
    let wrong = |why: &str| Error::usage(format!("no histogram has these parameters: `{text}`: {why}"));
    let [low, high, step] = *params else { return Err(wrong("three are wanted")) };
    let base = i32::try_from(low).map_err(|_| wrong("the lowest bound has more than 32 bits"))?;
    let step = u16::try_from(step).ok().filter(|step| *step > 0);
    let step = step.ok_or_else(|| wrong("a step is from 1 to 65535"))?;
    if high <= low {
        return Err(wrong("the highest bound must be above the lowest"));
    }
    let levels = u16::try_from((high - low) / i128::from(step)).ok().filter(|levels| *levels > 0);
    let levels = levels.ok_or_else(|| wrong("there are from 1 to 65535 steps between both bounds"))?;
    Ok(Steps(Linear { base, step, levels }))
}

fn bounds(params: &[i128], text: &str) -> Result<Arc<[i64]>> {
    let small: Option<Vec<u16>> = params.iter().map(|param| u16::try_from(*param).ok()).collect();
    let found = match small.as_deref() {
        Some([factor, low, high, steps]) => {
            Some(Logarithmic { factor: *factor, low: *low, high: *high, steps: *steps })
        }
        _ => None,
    };
    match found.filter(|found| found.is_sound()) {
        Some(found) => Ok(found.bounds().into()),
        None => Err(Error::usage(format!("no histogram has these parameters: `{text}`")).hint(
            "the factor is 2 at least, the lowest magnitude below the highest, the steps a multiple of the factor that divides \
             each magnitude",
        )),
    }
}

/// Finds the rows that have all these columns.
fn find(of: Option<&str>, wanted: &[(String, bool)], trace: &dyn Trace) -> Result<(From, Arc<Schema>)> {
    let has_calls = trace.columns().has(calls::NEEDED);
    if let Some(name) = of {
        let is_calls = name == calls::NAME && has_calls;
        if is_calls && !trace.tables()?.iter().any(|schema| schema.name == name) {
            return Ok((From::Calls, calls::schema().clone()));
        }
        let rows = RowSource::find(trace, name)?;
        let schema = rows.schema.clone();
        return Ok((From::Rows(rows), schema));
    }
    if wanted.is_empty() {
        return Ok((
            From::Records,
            Arc::new(Schema::new("records", quipu_model::schema::Fidelity::Derived, "", Vec::new())),
        ));
    }
    let mut all: Vec<(From, Arc<Schema>)> = Vec::new();
    for rows in RowSource::all(trace)? {
        let schema = rows.schema.clone();
        all.push((From::Rows(rows), schema));
    }
    if has_calls && !all.iter().any(|(_, schema)| schema.name == calls::NAME) {
        all.push((From::Calls, calls::schema().clone()));
    }
    let has = |(from, schema): &(From, Arc<Schema>), (name, is_quoted): &(String, bool)| {
        column(schema, name, *is_quoted).is_some_and(|at| match from {
            From::Rows(rows) => rows.is_filled(at, trace),
            From::Records | From::Calls => true,
        })
    };
    let name = |(from, schema): &(From, Arc<Schema>)| match from {
        From::Rows(rows)
            if rows.lens.is_some()
                && all.iter().any(|(other, known)| {
                    known.name == schema.name && matches!(other, From::Rows(other) if other.table.is_some())
                }) =>
        {
            rows.full_name()
        }
        _ => schema.name.to_string(),
    };
    let fitting: Vec<usize> =
        (0..all.len()).filter(|at| wanted.iter().all(|column| has(&all[*at], column))).collect();
    let listed = |names: &[String]| match names {
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
        [] => String::new(),
    };
    let columns: Vec<String> = wanted.iter().map(|(name, _)| format!("`{name}`")).collect();
    match fitting[..] {
        [one] => Ok(all.swap_remove(one)),
        [] => {
            let lacking: Vec<&(String, bool)> =
                wanted.iter().filter(|column| !all.iter().any(|rows| has(rows, column))).collect();
            let mut hints: Vec<String> = Vec::new();
            for (column, _) in &lacking {
                let known =
                    all.iter().flat_map(|(_, schema)| &schema.fields).map(|field: &Field| &*field.name);
                if let Some(near) = nearest(column, known).filter(|near| near != column) {
                    hints.push(format!("did you mean `{near}`?"));
                }
            }
            let message = match &lacking[..] {
                [] => format!("no table or lens of this trace has all of {}", listed(&columns)),
                _ => {
                    let lacking: Vec<String> = lacking.iter().map(|(name, _)| format!("`{name}`")).collect();
                    format!("no table or lens of this trace has {}", listed(&lacking))
                }
            };
            for rows in &all {
                let own: Vec<String> = wanted
                    .iter()
                    .filter(|column| has(rows, column))
                    .map(|(name, _)| format!("`{name}`"))
                    .collect();
                if !own.is_empty() {
                    hints.push(format!("{} has {}", name(rows), listed(&own)));
                }
            }
            let names: Vec<String> = all.iter().map(name).collect();
            hints.push(format!("tables and lenses: {}", names.join(", ")));
            Err(Error::missing(message).hint(hints.join("; ")))
        }
        _ => {
            let names: Vec<String> = fitting.iter().map(|at| name(&all[*at])).collect();
            let message = format!("{} have {}", listed(&names), listed(&columns));
            Err(Error::usage(message).hint(format!("choose one: --of {}", names.join(", --of "))))
        }
    }
}

/// The position of the column that a name refers to.
fn column(schema: &Schema, name: &str, is_quoted: bool) -> Option<usize> {
    let caseless = || schema.fields.iter().position(|field| field.name.eq_ignore_ascii_case(name));
    schema.position(name).or_else(|| if is_quoted { None } else { caseless() })
}
