//! Writes whole tables as comma-separated values.

use crate::lines::{LineForm, RowLines};
use quipu_isa::Syntax;
use quipu_model::print::Ordinals;
use quipu_model::{Batch, ColumnTable, Paint, Printer, Result, Table};

/// Writes a line of names, then a line for each row; with `columns` only these, in this order.
///
/// # Errors
/// `Usage` if the table has no such column.
pub fn table_csv(table: ColumnTable, columns: &[String]) -> Result<Vec<u8>> {
    let (schema, form, syntax) = (table.schema(), LineForm::Csv, Syntax::default());
    let mut lines = match columns {
        [] => RowLines::new(schema, form, None, syntax),
        names => RowLines::of_columns(schema, names, form, None, syntax)?,
    };
    // Rows of a batch have 32-bit numbers; results have far fewer rows.
    let rows: Vec<u32> = (0..u32::try_from(table.n_rows()).unwrap_or(u32::MAX)).collect();
    let batch = Batch { tables: vec![Box::new(table)], ..Batch::default() };
    let mut out = Vec::new();
    lines.begin(&mut out);
    lines.print(&batch, &rows, Ordinals::default(), &Paint::default(), &mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::result;
    use quipu_model::result::{Hex, tables};

    result! {
        /// All.
        struct All {
            n: u64 => "How many.";
            lines: Vec<Line> => "Lines.";
        }
    }

    result! {
        /// A line.
        struct Line {
            addr: u64 as Hex, key => "Its first byte.";
            share: Option<f64> => "Its share.";
            words: Vec<String> => "What is said of it.";
            uses: Vec<Use> => "Its uses.";
        }
    }

    result! {
        /// A use.
        struct Use {
            n: u64 => "How many.";
        }
    }

    #[test]
    fn each_table_has_a_head_and_its_rows() {
        let line = |addr, share, word: &str| Line {
            addr,
            share,
            words: vec![word.to_owned()],
            uses: vec![Use { n: addr }, Use { n: 7 }],
        };
        let lines = vec![line(64, Some(0.25), "a, \"b\""), line(128, None, "c")];
        let text = |table| String::from_utf8(table_csv(table, &[]).unwrap()).unwrap();
        let all = tables("all", &All { n: 2, lines });
        let names = ["share", "addr"].map(str::to_owned);
        let chosen = table_csv(all[1].clone(), &names).unwrap();
        assert_eq!(String::from_utf8(chosen).unwrap(), "share,addr\n0.25,0x40\n,0x80\n");
        assert!(table_csv(all[0].clone(), &names).is_err());
        let printed: Vec<String> = all.into_iter().map(text).collect();
        assert_eq!(
            printed,
            [
                "n\n2\n",
                "addr,share,words\n0x40,0.25,\"[\"\"a, \\\"\"b\\\"\"\"\"]\"\n0x80,,\"[\"\"c\"\"]\"\n",
                "addr,n\n0x40,64\n0x40,7\n0x80,128\n0x80,7\n",
            ]
        );
    }
}
