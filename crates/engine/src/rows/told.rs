//! Self-contained columns: texts and bytes in place of indexes that only mean something together with a batch.

use quipu_model::column::{Cells, Column};
use quipu_model::print::RowForm;
use quipu_model::schema::{Field, FieldFlags, Missing, Type};
use quipu_model::{Batch, ColumnRef};
use std::sync::Arc;

/// The field of the self-contained column for a column of this field.
pub(super) fn told(field: &Field) -> Field {
    let text = |ty| Field { ty, missing: Missing::Bitmap, flags: FieldFlags::NONE, ..field.clone() };
    match &field.ty {
        Type::Code => text(Type::Bytes),
        Type::Dict(_) | Type::Function | Type::Value => text(Type::Text),
        Type::List(item) => Field { ty: Type::List(Arc::new(told(item))), ..field.clone() },
        Type::Struct(members) => {
            Field { ty: Type::Struct(members.iter().map(told).collect()), ..field.clone() }
        }
        _ => field.clone(),
    }
}

/// True if values of this type are self-contained already.
pub(super) fn is_plain(ty: &Type) -> bool {
    match ty {
        Type::Code | Type::Dict(_) | Type::Function | Type::Value => false,
        Type::List(item) => is_plain(&item.ty),
        Type::Struct(members) => members.iter().all(|member| is_plain(&member.ty)),
        _ => true,
    }
}

/// The data that indexes refer to.
pub(super) struct Context<'a> {
    pub(super) batch: &'a Batch,
    /// The format's way of writing values of arbitrary shape.
    pub(super) form: Option<&'a mut (dyn RowForm + 'static)>,
    /// The table's row for each value of the column.
    pub(super) rows: &'a [u32],
}

/// Converts `column`, which has values of this field, into a self-contained column.
pub(super) fn tell(column: Column, field: &Field, context: &mut Context<'_>) -> Column {
    if is_plain(&field.ty) {
        return column;
    }
    match (&field.ty, column.cells) {
        (Type::List(item), Cells::Nested { offsets, items }) => {
            let items = Box::new(tell(*items, item, context));
            Column { cells: Cells::Nested { offsets, items }, valid: column.valid }
        }
        (Type::Struct(members), Cells::Members(columns)) => {
            let columns = members.iter().zip(columns).map(|(member, column)| tell(column, member, context));
            Column { cells: Cells::Members(columns.collect()), valid: column.valid }
        }
        (_, cells) => texts(&Column { cells, valid: column.valid }, field, context),
    }
}

/// Looks up the texts that a column's indexes refer to.
fn texts(column: &Column, field: &Field, context: &mut Context<'_>) -> Column {
    let mut texts = Column::new(&told(field));
    let mut json = Vec::new();
    for row in 0..column.len() {
        let index = index(column.as_ref(), field, row);
        let text = index.and_then(|index| match &field.ty {
            Type::Code => {
                context.batch.codes.get(index).map(|code| code.bytes()).filter(|code| !code.is_empty())
            }
            Type::Dict(dict) => context.batch.dicts.get(*dict, index),
            Type::Function => context.batch.types.function(index).map(|function| function.name.as_ref()),
            Type::Value => {
                json.clear();
                let (form, at) = (context.form.as_mut()?, context.rows.get(row)?);
                form.json(context.batch, *at, index, &mut json);
                Some(&json[..])
            }
            _ => None,
        });
        // If the batch has no entry for an index, the row has no value; a column of texts accepts any bytes.
        match text.map(|text| texts.push_bytes(text)) {
            Some(Ok(())) => {}
            _ => texts.push_missing(Missing::Bitmap),
        }
    }
    texts
}

fn index(column: ColumnRef<'_>, field: &Field, row: usize) -> Option<u32> {
    let number = (!column.is_missing(field.missing, row)).then(|| column.number(row))?;
    u32::try_from(number).ok()
}
