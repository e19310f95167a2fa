//! The JSON keys of results, from the descriptions of their types.

use super::doc_comments::without_links;
use quipu::model::result::{Kind, Member, Shape, What};
use quipu::model::schema::Type;

/// Keys of one type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Keys {
    pub(crate) name: String,
    /// Description of the type.
    pub(crate) doc: Option<String>,
    pub(crate) fields: Vec<Field>,
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// `None` if the keys of the inner type appear here in its place.
    pub(crate) key: Option<String>,
    /// Type of the JSON value, in words.
    pub(crate) kind: String,
    /// Names of the types inside it; empty if the value has a notation of its own.
    pub(crate) inner: Vec<String>,
    /// Meaning of the key.
    pub(crate) doc: String,
    /// Whether the key is left out when it has no value.
    pub(crate) is_optional: bool,
    /// Whether it is only a column of tables, not in JSON.
    pub(crate) is_only_in_tables: bool,
}

/// Keys of a result, followed by those of the structures in it, each type once.
pub(crate) fn keys(shape: &Shape) -> Vec<Keys> {
    let mut keys = Vec::new();
    collect(shape, &mut keys);
    keys
}

fn collect(shape: &Shape, keys: &mut Vec<Keys>) {
    if keys.iter().any(|known| known.name == shape.name) {
        return;
    }
    let about = without_links(&shape.about());
    let fields = shape.members.iter().flat_map(fields).collect();
    keys.push(Keys { name: shape.name.to_owned(), doc: (!about.is_empty()).then_some(about), fields });
    for inner in
        shape.members.iter().filter_map(|member| member.kind.shape()).filter(|inner| !is_thread(inner))
    {
        collect(&inner, keys);
    }
}

/// True for a thread: it is written as two keys, which need no heading of their own.
fn is_thread(shape: &Shape) -> bool {
    shape.name == "ThreadId"
}

fn fields(member: &Member) -> Vec<Field> {
    let thread = member.kind.shape().filter(|shape| member.marks.is_flat && is_thread(shape));
    let Some(thread) = thread else { return vec![field(member, member.doc)] };
    let mut fields: Vec<Field> = thread.members.iter().map(|inner| field(inner, inner.doc)).collect();
    if let Some(first) = fields.first_mut() {
        first.doc = without_links(member.doc);
    }
    fields.iter_mut().for_each(|field| field.is_optional |= member.kind.is_nullable);
    fields
}

fn field(member: &Member, doc: &str) -> Field {
    Field {
        key: (!member.marks.is_flat).then(|| member.marks.key.to_owned()),
        kind: words(&member.kind),
        inner: member.kind.shape().map(|shape| shape.name.to_owned()).into_iter().collect(),
        doc: without_links(doc),
        is_optional: member.marks.is_perhaps,
        is_only_in_tables: member.marks.is_only_in_tables,
    }
}

/// The type of the JSON value, in words.
fn words(kind: &Kind) -> String {
    let what = match &kind.what {
        What::Cell(ty) => of_type(ty),
        What::Fields(shape) => format!("`{}`", shape().name),
        What::Items(shape) => {
            let names =
                shape().members.iter().map(|item| format!("`{}`", item.marks.key)).collect::<Vec<_>>();
            format!("list: {}", names.join(", "))
        }
        What::Rows(shape) => format!("list: `{}`", shape().name),
    };
    if kind.is_nullable { format!("{what} or null") } else { what }
}

fn of_type(ty: &Type) -> String {
    match ty {
        Type::Bool => "true or false".to_owned(),
        Type::Text => "text".to_owned(),
        Type::Address => "text, hexadecimal".to_owned(),
        Type::List(item) => format!("list: {}", of_type(&item.ty)),
        _ => "number".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu::model::ThreadId;
    use quipu::model::result;
    use quipu::model::result::{Fields, Hex};

    result! {
        /// All of it.
        #[derive(Clone)]
        pub struct Answer {
            pub count: u64 => "How many.";
            pub sides: Vec<Side> => "Each [`Side`].";
            pub total: Option<Side>, flat => "";
            pub thread: Option<ThreadId>, flat => "Whose.";
            pub of: Option<u64>, named("type"), perhaps => "What of.";
        } beside {
            pub hidden: u8 => "Nobody sees it.";
        }
    }

    result! {
        /// A side,
        /// on two lines.
        #[derive(Clone)]
        pub struct Side {
            pub at: Vec<u64> as Hex => "Where.";
        }
    }

    #[test]
    fn keys_have_the_names_that_are_written() {
        let keys = keys(&Answer::shape());
        let field =
            |field: &Field| (field.key.clone().unwrap_or_default(), field.kind.clone(), field.is_optional);
        let answer: Vec<_> = keys[0].fields.iter().map(field).collect();
        let expected = [
            ("count", "number", false),
            ("sides", "list: `Side`", false),
            ("", "`Side` or null", false),
            ("thread", "number", true),
            ("workload", "number", true),
            ("type", "number or null", true),
        ];
        assert_eq!(answer, expected.map(|(key, kind, is_optional)| (key.into(), kind.into(), is_optional)));
        assert_eq!(
            (keys[0].fields[1].doc.as_str(), keys[0].fields[3].doc.as_str()),
            ("Each `Side`.", "Whose.")
        );
        assert_eq!((keys.len(), keys[1].doc.as_deref()), (2, Some("A side, on two lines.")));
        assert_eq!(keys[1].fields[0].kind, "list: text, hexadecimal");
    }
}
