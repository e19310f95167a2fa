//! An exact `sum`: adds up 64-bit numbers with 128 bits.
//!
//! The engine's own `sum` wraps around modulo 2^64, so its sums of addresses are meaningless.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

/// Number of decimal digits of the largest 64-bit number.
const DIGITS: u8 = 20;

/// The aggregate function `sum`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ExactSum {
    inner: Sum,
    signature: Signature,
}

impl Default for ExactSum {
    fn default() -> ExactSum {
        ExactSum { inner: Sum::new(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    // The engine coerces types more than once, so the resulting types must not change when they are coerced again.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [ty] = types else {
            return datafusion::common::plan_err!("sum takes one argument, found {}", types.len());
        };
        Ok(vec![match ty {
            DataType::Boolean => DataType::Int64,
            DataType::Float16 | DataType::Float32 | DataType::Null => DataType::Float64,
            ty if ty.is_numeric() || matches!(ty, DataType::Duration(_)) => ty.clone(),
            other => return datafusion::common::plan_err!("sum adds up numbers, not values of type {other}"),
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let types: Vec<DataType> = types.iter().map(widened).collect();
        self.inner.return_type(&types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let to = addend(&args);
        Ok(Box::new(Widening { inner: self.inner.accumulator(args)?, to }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let to = addend(&args);
        Ok(Box::new(Widening { inner: self.inner.create_groups_accumulator(args)?, to }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let to = addend(&args);
        Ok(Box::new(Widening { inner: self.inner.create_sliding_accumulator(args)?, to }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The type in which numbers of a type are added up.
fn widened(ty: &DataType) -> DataType {
    match ty {
        DataType::UInt64 | DataType::Int64 => DataType::Decimal128(DIGITS, 0),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::UInt64,
        DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int64,
        other => other.clone(),
    }
}

/// The type in which the values of the first argument are added up.
fn addend(args: &AccumulatorArgs<'_>) -> DataType {
    args.expr_fields.first().map_or(DataType::Null, |field| widened(field.data_type()))
}

/// Converts numbers to another type before they are added up.
#[derive(Debug)]
struct Widening<A: ?Sized> {
    to: DataType,
    inner: Box<A>,
}

impl<A: ?Sized> Widening<A> {
    fn widen(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let widen = |values: &ArrayRef| match values.data_type() == &self.to {
            true => Ok(values.clone()),
            false => Ok(cast(values, &self.to)?),
        };
        values.iter().map(widen).collect()
    }
}

impl Accumulator for Widening<dyn Accumulator> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.widen(values)?;
        self.inner.update_batch(&values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.widen(values)?;
        self.inner.retract_batch(&values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Widening<dyn GroupsAccumulator> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        n_groups: usize,
    ) -> Result<()> {
        let values = self.widen(values)?;
        self.inner.update_batch(&values, groups, filter, n_groups)
    }

    fn evaluate(&mut self, which: EmitTo) -> Result<ArrayRef> {
        self.inner.evaluate(which)
    }

    fn state(&mut self, which: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(which)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], n_groups: usize) -> Result<()> {
        self.inner.merge_batch(states, groups, n_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&self.widen(values)?, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
