//! Columns that need nothing beside them: what indexes point at, in place of the indexes.

use quipu_model::column::{Cells, Column};
use quipu_model::print::RowForm;
use quipu_model::schema::{Field, FieldFlags, Missing, Type};
use quipu_model::{Batch, ColumnRef};
use std::sync::Arc;

/// The field of the column that stands for a column of this field.
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

/// True if a column of this type stands for itself.
pub(super) fn is_plain(ty: &Type) -> bool {
    match ty {
        Type::Code | Type::Dict(_) | Type::Function | Type::Value => false,
        Type::List(item) => is_plain(&item.ty),
        Type::Struct(members) => members.iter().all(|member| is_plain(&member.ty)),
        _ => true,
    }
}

/// What indexes point into.
pub(super) struct Context<'a> {
    pub(super) batch: &'a Batch,
    /// How the trace's format writes values of any shape.
    pub(super) form: Option<&'a mut (dyn RowForm + 'static)>,
    /// The rows of the table that the column has, in its order.
    pub(super) rows: &'a [u32],
}

/// The column that stands for `column`, which has values of this field.
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

/// What the indexes of a column point at.
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
        // Where there is nothing of the number, the row has no value; a column of texts takes any bytes.
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
