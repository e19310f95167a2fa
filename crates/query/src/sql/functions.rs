//! Scalar functions for traces: `line(addr)`, `page(addr)`, `hex(x)`, `disasm(code, pc)`, `symbol(pc)`, `source(pc)`.

use super::symbols::{Named, Names};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringBuilder, UInt64Array};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use quipu_isa::{Arch, Decoder, Syntax};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Work = dyn Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync;

/// A scalar function.
struct Field {
    name: &'static str,
    signature: Signature,
    /// Types of the arguments, for each number of arguments that it takes.
    types: Vec<Vec<DataType>>,
    returns: DataType,
    work: Arc<Work>,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Field").field(&self.name).finish()
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Field) -> bool {
        self.name == other.name
    }
}

impl Eq for Field {}

impl Hash for Field {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Field {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Accepts integers of any width and sign as addresses and sizes, because constants are signed.
    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let Some(types) = self.types.iter().find(|types| types.len() == args.len()) else {
            return plan_err!("{} does not take {} arguments", self.name, args.len());
        };
        for (arg, ty) in args.iter().zip(types) {
            let is_number = *ty == DataType::UInt64 && arg.is_integer();
            if !(is_number || arg == ty || arg.is_null()) {
                return plan_err!("{} takes values of type {ty}, not {arg}", self.name);
            }
        }
        Ok(types.clone())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        // Constant arguments are evaluated once; the one row applies to all.
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let made = (self.work)(&arrays)?;
        if is_constant && made.len() == 1 {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&made, 0)?));
        }
        Ok(ColumnarValue::Array(made))
    }
}

fn function(
    name: &'static str,
    types: &[&[DataType]],
    returns: DataType,
    work: impl Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync + 'static,
) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    let types = types.iter().map(|types| types.to_vec()).collect();
    ScalarUDF::from(Field { name, signature, types, returns, work: Arc::new(work) })
}

/// A function that returns the first byte of the block that contains an address; blocks have `usual` bytes unless a second
/// argument states their size.
fn block(name: &'static str, usual: u64) -> ScalarUDF {
    let number = DataType::UInt64;
    let types: [&[DataType]; 2] = [std::slice::from_ref(&number), &[number.clone(), number.clone()]];
    function(name, &types, DataType::UInt64, move |args| {
        let addresses = args[0].as_primitive::<UInt64Type>();
        let Some(sizes) = args.get(1).map(|sizes| sizes.as_primitive::<UInt64Type>()) else {
            let mask = !(usual - 1);
            return Ok(Arc::new(addresses.unary::<_, UInt64Type>(|addr| addr & mask)));
        };
        let mut blocks = Vec::with_capacity(addresses.len());
        for row in 0..addresses.len() {
            let both = addresses.is_valid(row) && sizes.is_valid(row);
            let size = if both { sizes.value(row) } else { 1 };
            if !size.is_power_of_two() {
                return exec_err!("{name}: a size is a power of two, not {size}");
            }
            blocks.push(both.then(|| addresses.value(row) & !(size - 1)));
        }
        Ok(Arc::new(UInt64Array::from(blocks)))
    })
}

/// A function that looks up addresses of code in the first trace, or in the one whose alias is given.
fn named(
    name: &'static str,
    names: &[(String, Arc<Names>)],
    text: impl Fn(&Named) -> Option<&str> + Send + Sync + 'static,
) -> ScalarUDF {
    let both = [DataType::UInt64, DataType::Utf8];
    let names = names.to_vec();
    function(name, &[&both[..1], &both], DataType::Utf8, move |args| {
        let pcs = args[0].as_primitive::<UInt64Type>();
        let aliases = args.get(1).map(|aliases| aliases.as_string::<i32>());
        // Index of the trace of each row.
        let mut traces: Vec<usize> = vec![0; pcs.len()];
        for (row, trace) in traces.iter_mut().enumerate() {
            let Some(aliases) = aliases.filter(|aliases| aliases.is_valid(row)) else { continue };
            let alias = aliases.value(row);
            match names.iter().position(|(known, _)| known == alias) {
                Some(found) => *trace = found,
                None => return exec_err!("{name}: no trace is called `{alias}`"),
            }
        }
        let rows_of = |trace: usize| {
            let rows = pcs.iter().zip(&traces).filter(move |(_, of)| **of == trace);
            rows.filter_map(|(pc, _)| pc)
        };
        let more: Vec<_> =
            names.iter().enumerate().map(|(at, (_, names))| names.learn(rows_of(at))).collect();
        let known: Vec<_> = names.iter().map(|(_, names)| names.known()).collect();
        let mut texts = StringBuilder::new();
        for (pc, trace) in pcs.iter().zip(&traces) {
            let found = pc.and_then(|pc| known.get(*trace)?.get(&pc).or_else(|| more.get(*trace)?.get(&pc)));
            texts.append_option(found.and_then(&text));
        }
        Ok(Arc::new(texts.finish()))
    })
}

/// All functions, for a machine with cache lines and pages of these sizes.
pub(super) fn all(
    line_bytes: Option<u64>,
    page_bytes: Option<u64>,
    arch: Option<Arch>,
    names: &[(String, Arc<Names>)],
) -> Vec<ScalarUDF> {
    let power =
        |bytes: Option<u64>, usual: u64| bytes.filter(|bytes| bytes.is_power_of_two()).unwrap_or(usual);
    let number = DataType::UInt64;
    let hex = function("hex", &[std::slice::from_ref(&number)], DataType::Utf8, |args| {
        let numbers = args[0].as_primitive::<UInt64Type>();
        let texts = numbers.iter().map(|number| number.map(|number| format!("{number:#x}")));
        Ok(Arc::new(texts.collect::<datafusion::arrow::array::StringArray>()))
    });
    let code = [DataType::Binary, number.clone()];
    let disasm = function("disasm", &[&code[..1], &code], DataType::Utf8, move |args| {
        let Some(arch) = arch else { return exec_err!("disasm: the trace does not name its architecture") };
        let codes: &BinaryArray = args[0].as_binary();
        let pcs = args.get(1).map(|pcs| pcs.as_primitive::<UInt64Type>());
        let Ok(mut decoder) = Decoder::new(arch, Syntax::Att) else {
            return exec_err!("disasm: instructions of {} have no text", arch.name());
        };
        let (mut texts, mut text) = (StringBuilder::new(), String::new());
        for row in 0..codes.len() {
            if codes.is_null(row) {
                texts.append_null();
                continue;
            }
            text.clear();
            let pc = pcs.filter(|pcs| pcs.is_valid(row)).map_or(0, |pcs| pcs.value(row));
            decoder.text(pc, codes.value(row), &mut text);
            texts.append_value(&text);
        }
        Ok(Arc::new(texts.finish()))
    });
    let symbol = named("symbol", names, |named| named.symbol.as_deref());
    let source = named("source", names, |named| named.source.as_deref());
    let (line, page) = (block("line", power(line_bytes, 64)), block("page", power(page_bytes, 4096)));
    vec![line, page, hex, disasm, symbol, source]
}

/// Signature and description of each function.
pub const FUNCTIONS: [(&str, &str); 6] = [
    ("line(addr [, bytes])", "first byte of the cache line"),
    ("page(addr [, bytes])", "first byte of the page"),
    ("hex(x)", "a number as 0x…"),
    ("disasm(code [, pc])", "the text of an instruction"),
    ("symbol(pc [, trace])", "the function that has the code at an address"),
    ("source(pc [, trace])", "its file and line"),
];
