//! `sum` that is exact: numbers of 64 bits are added up with 128.
//!
//! The engine's own adds them up modulo 2^64, so that a sum of addresses is any number.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

/// Digits of the largest number of 64 bits.
const DIGITS: u8 = 20;

/// The function.
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

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [ty] = types else {
            return datafusion::common::plan_err!("sum takes one argument, found {}", types.len());
        };
        Ok(vec![match ty {
            DataType::UInt64 | DataType::Int64 => DataType::Decimal128(DIGITS, 0),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::UInt64,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Boolean => DataType::Int64,
            DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => DataType::Float64,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => ty.clone(),
            DataType::Duration(_) => ty.clone(),
            other => return datafusion::common::plan_err!("sum adds up numbers, not values of type {other}"),
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}
