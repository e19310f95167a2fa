//! Binds a parsed expression to the columns of a table: checks types and computes constants.

use crate::eval::Input;
use crate::fault::Source;
use crate::functions::{self, Function, Takes};
use crate::like::Pattern;
use crate::tree::{Binary, CastTo, Expr, ExprKind, Like, Unary};
use crate::vector::Vector;
use quipu_model::schema::{Missing, Names, Role, Schema, Storage, Type};
use quipu_model::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    /// Only `NULL`.
    Null,
    /// True or false.
    Bool,
    /// Signed 128-bit integers.
    Int,
    /// 64-bit floating-point numbers.
    Float,
    /// Texts.
    Text,
}

impl Ty {
    /// The type's name in errors.
    pub fn words(self) -> &'static str {
        match self {
            Ty::Null => "NULL",
            Ty::Bool => "true or false",
            Ty::Int => "a whole number",
            Ty::Float => "a number with a fraction",
            Ty::Text => "a text",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Ty::Int | Ty::Float | Ty::Null)
    }

    /// The common type of values of two types; `None` if there is none.
    fn with(self, other: Ty) -> Option<Ty> {
        match (self, other) {
            (Ty::Null, ty) | (ty, Ty::Null) => Some(ty),
            (one, other) if one == other => Some(one),
            (Ty::Int, Ty::Float) | (Ty::Float, Ty::Int) => Some(Ty::Float),
            _ => None,
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `NULL`.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(Vec<u8>),
}

/// An expression that is bound to the columns of a table.
#[derive(Clone, Debug)]
pub struct Bound {
    pub(crate) source: Source,
    pub(crate) root: Node,
    /// The column with record numbers, for errors.
    pub(crate) record: Option<usize>,
    columns: Vec<usize>,
    is_hex: bool,
}

/// A node of a bound expression.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) ty: Ty,
    pub(crate) span: Range<u32>,
}

/// The operation of a node.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Const(Value),
    Column(Cells),
    Not(Box<Node>),
    Neg(Box<Node>),
    BitNot(Box<Node>),
    /// Integer arithmetic if the type of the node is [`Ty::Int`], otherwise floating-point arithmetic.
    Arith(Binary, Box<Node>, Box<Node>),
    Compare(Binary, Box<Node>, Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    IsNull(Box<Node>, bool),
    Between(Box<[Node; 3]>, bool),
    /// Sorted integers; whether `NULL` is among them; whether it is negated.
    InInts(Box<Node>, Vec<i128>, bool, bool),
    In(Box<Node>, Vec<Node>, bool),
    Like(Box<Node>, Pattern, bool),
    /// The pattern differs from row to row.
    LikeOf(Box<Node>, Box<Node>, Like),
    Case(Option<Box<Node>>, Vec<(Node, Node)>, Option<Box<Node>>),
    Cast(Box<Node>, CastTo),
    Call(Function, Vec<Node>),
}

/// How to read the cells of a column.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    pub(crate) position: usize,
    pub(crate) missing: Missing,
    pub(crate) read: Read,
    pub(crate) shift: Shift,
}

#[derive(Clone, Debug)]
pub(crate) enum Read {
    Bool,
    Unsigned,
    Signed,
    Float,
    Names(Arc<Names>),
    Dict(u32),
    Function,
    Strings,
}

/// The offset to add to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    None,
    Records,
    Instrs,
}

impl Bound {
    /// Binds an expression to the columns of a table.
    ///
    /// # Errors
    /// `Usage`, with marks under the place: for unknown columns and functions, incompatible types, and constants that
    /// overflow.
    pub fn new(source: &Source, expr: &Expr, schema: &Schema) -> Result<Bound> {
        let mut binder = Binder { source, schema, columns: Vec::new() };
        let root = binder.bind(expr)?;
        let mut columns = binder.columns;
        columns.sort_unstable();
        columns.dedup();
        let is_hex = is_hex(&root, schema);
        let record = schema.position_of(Role::RECORD);
        Ok(Bound { source: source.clone(), root, record, columns, is_hex })
    }

    /// The type of its values.
    pub fn ty(&self) -> Ty {
        self.root.ty
    }

    /// True if its numbers are addresses, which are shown in hexadecimal.
    pub fn is_hex(&self) -> bool {
        self.is_hex
    }

    /// The positions of the columns that it reads, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Its value, if it is constant.
    pub fn constant(&self) -> Option<&Value> {
        match &self.root.op {
            Op::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The source text.
    pub fn text(&self) -> &str {
        let Range { start, end } = self.root.span;
        &self.source.text()[start as usize..end as usize]
    }

    /// An error with marks under the expression.
    #[cold]
    pub fn refuse(&self, message: &str) -> Error {
        self.source.error(message, &self.root.span)
    }

    /// Computes the values of all rows of a batch.
    ///
    /// # Errors
    /// `Usage` for a row with an overflow or a division by 0, with marks under the place, and the record number if the rows
    /// have one.
    pub fn eval<'a>(&self, input: &Input<'a>) -> Result<Vector<'a>> {
        crate::eval::all(self, input)
    }

    /// Computes the values of the rows with these indices.
    ///
    /// # Errors
    /// As for [`eval`](Bound::eval).
    pub fn eval_some<'a>(&self, input: &Input<'a>, rows: &[u32]) -> Result<Vector<'a>> {
        crate::eval::some(self, input, rows)
    }

    /// An error for the value of a row, with the record number if the rows have one.
    #[cold]
    pub fn refuse_row(&self, message: &str, input: &Input<'_>, row: usize) -> Error {
        self.source.error_at(message, &self.root.span, input.record(self.record, row))
    }
}

fn is_hex(node: &Node, schema: &Schema) -> bool {
    match &node.op {
        Op::Column(cells) => schema.fields[cells.position].is_hex(),
        Op::Call(Function::Line | Function::Page, args) => is_hex(&args[0], schema),
        Op::Call(Function::Coalesce | Function::Greatest | Function::Least | Function::Nullif, args) => {
            is_hex(&args[0], schema)
        }
        _ => false,
    }
}

struct Binder<'b> {
    source: &'b Source,
    schema: &'b Schema,
    columns: Vec<usize>,
}

impl Binder<'_> {
    fn bind(&mut self, expr: &Expr) -> Result<Node> {
        let (op, ty) = self.op(expr)?;
        let node = Node { op, ty, span: expr.span.clone() };
        match node.is_foldable() {
            true => self.folded(node),
            false => Ok(node),
        }
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Box<Node>> {
        self.bind(expr).map(Box::new)
    }

    fn all(&mut self, list: &[Expr]) -> Result<Vec<Node>> {
        list.iter().map(|expr| self.bind(expr)).collect()
    }

    /// Computes a node whose operands are constants.
    fn folded(&self, node: Node) -> Result<Node> {
        let bound = Bound {
            source: self.source.clone(),
            root: node,
            record: None,
            columns: Vec::new(),
            is_hex: false,
        };
        let value = {
            let values = bound.eval(&Input::row())?;
            match bound.root.ty {
                Ty::Null => Value::Null,
                Ty::Bool => values.truth(0).map_or(Value::Null, Value::Bool),
                Ty::Int => values.int(0).map_or(Value::Null, Value::Int),
                Ty::Float => values.float(0).map_or(Value::Null, Value::Float),
                Ty::Text => values.text(0).map_or(Value::Null, |text| Value::Text(text.to_vec())),
            }
        };
        Ok(Node { op: Op::Const(value), ..bound.root })
    }

    /// The error for a value of the wrong type.
    #[cold]
    fn mismatch(&self, wanted: &str, found: &Node) -> Error {
        let error = self.source.error(&format!("expected {wanted}, found {}", found.ty.words()), &found.span);
        match &found.op {
            Op::Column(Cells { read: Read::Names(_), .. }) => {
                error.hint("the column has names; compare it with a text")
            }
            _ => error,
        }
    }

    fn expect(&self, node: &Node, ty: Ty) -> Result<()> {
        match node.ty == ty || node.ty == Ty::Null || (ty == Ty::Float && node.ty == Ty::Int) {
            true => Ok(()),
            false => Err(self.mismatch(ty.words(), node)),
        }
    }

    fn number(&self, node: &Node) -> Result<()> {
        if node.ty.is_number() { Ok(()) } else { Err(self.mismatch("a number", node)) }
    }

    /// The common type of all nodes.
    fn common<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>) -> Result<Ty> {
        let mut common = Ty::Null;
        for node in nodes {
            common = common.with(node.ty).ok_or_else(|| self.mismatch(common.words(), node))?;
        }
        Ok(common)
    }

    fn op(&mut self, expr: &Expr) -> Result<(Op, Ty)> {
        Ok(match &expr.kind {
            ExprKind::Null => (Op::Const(Value::Null), Ty::Null),
            ExprKind::Bool(value) => (Op::Const(Value::Bool(*value)), Ty::Bool),
            ExprKind::Int(number) => (Op::Const(Value::Int(*number)), Ty::Int),
            ExprKind::Float(number) => (Op::Const(Value::Float(*number)), Ty::Float),
            ExprKind::Text(text) => (Op::Const(Value::Text(text.clone().into_bytes())), Ty::Text),
            ExprKind::Column { name, is_quoted } => self.column(name, *is_quoted, &expr.span)?,
            ExprKind::Unary(unary, of) => {
                let of = self.boxed(of)?;
                match unary {
                    Unary::Not => {
                        self.expect(&of, Ty::Bool)?;
                        (Op::Not(of), Ty::Bool)
                    }
                    Unary::Neg => {
                        self.number(&of)?;
                        let ty = of.ty;
                        (Op::Neg(of), ty)
                    }
                    Unary::BitNot => {
                        self.expect(&of, Ty::Int)?;
                        (Op::BitNot(of), Ty::Int)
                    }
                }
            }
            ExprKind::Binary(binary, left, right) => {
                let (left, right) = (self.boxed(left)?, self.boxed(right)?);
                self.binary(*binary, left, right)?
            }
            ExprKind::And(list) | ExprKind::Or(list) => {
                let list = self.all(list)?;
                list.iter().try_for_each(|node| self.expect(node, Ty::Bool))?;
                let op = if matches!(expr.kind, ExprKind::And(_)) { Op::And(list) } else { Op::Or(list) };
                (op, Ty::Bool)
            }
            ExprKind::IsNull(of, is_negated) => (Op::IsNull(self.boxed(of)?, *is_negated), Ty::Bool),
            ExprKind::Between(three, is_negated) => {
                let [of, low, high] = &**three;
                let three = [self.bind(of)?, self.bind(low)?, self.bind(high)?];
                self.common(&three)?;
                (Op::Between(Box::new(three), *is_negated), Ty::Bool)
            }
            ExprKind::In(of, list, is_negated) => {
                let (of, list) = (self.boxed(of)?, self.all(list)?);
                self.common(std::iter::once(&*of).chain(&list))?;
                (in_list(of, list, *is_negated), Ty::Bool)
            }
            ExprKind::Like(of, pattern, how) => {
                let (of, pattern) = (self.boxed(of)?, self.boxed(pattern)?);
                self.expect(&of, Ty::Text)?;
                self.expect(&pattern, Ty::Text)?;
                let op = match &pattern.op {
                    Op::Const(Value::Text(text)) => Op::Like(of, Pattern::new(text, *how), how.is_negated),
                    _ => Op::LikeOf(of, pattern, *how),
                };
                (op, Ty::Bool)
            }
            ExprKind::Case { of, whens, otherwise } => {
                let of = of.as_ref().map(|of| self.boxed(of)).transpose()?;
                let mut bound = Vec::new();
                for (when, then) in whens {
                    let when = self.bind(when)?;
                    match &of {
                        Some(of) => self.common([&**of, &when]).map(drop)?,
                        None => self.expect(&when, Ty::Bool)?,
                    }
                    bound.push((when, self.bind(then)?));
                }
                let otherwise = otherwise.as_ref().map(|otherwise| self.boxed(otherwise)).transpose()?;
                let values = bound.iter().map(|(_, then)| then).chain(otherwise.as_deref());
                let ty = self.common(values)?;
                (Op::Case(of, bound, otherwise), ty)
            }
            ExprKind::Cast(of, to) => {
                let of = self.boxed(of)?;
                let ty = match to {
                    CastTo::Int(..) => Ty::Int,
                    CastTo::Float => Ty::Float,
                    CastTo::Text => Ty::Text,
                    CastTo::Bool => Ty::Bool,
                };
                (Op::Cast(of, *to), ty)
            }
            ExprKind::Call { name, args, is_star } => self.call(name, args, *is_star, &expr.span)?,
        })
    }

    fn column(&mut self, name: &str, is_quoted: bool, span: &Range<u32>) -> Result<(Op, Ty)> {
        let position = position(self.schema, name, is_quoted).ok_or_else(|| {
            let known = self.schema.fields.iter().map(|field| field.name.as_ref());
            let message = format!("`{}` has no column `{name}`", self.schema.name);
            self.source.unknown(&message, span, name, known)
        })?;
        let field = &self.schema.fields[position];
        let (read, ty) = match &field.ty {
            Type::Bool => (Read::Bool, Ty::Bool),
            Type::F32 | Type::F64 => (Read::Float, Ty::Float),
            Type::Enum(names) => (Read::Names(names.clone()), Ty::Text),
            Type::Dict(dict) => (Read::Dict(*dict), Ty::Text),
            Type::Function => (Read::Function, Ty::Text),
            Type::Text | Type::Bytes => (Read::Strings, Ty::Text),
            Type::Code | Type::Value | Type::List(_) | Type::Struct(_) | Type::Fixed(_) => {
                let message = format!("column `{name}` has no numbers, texts or truth values");
                return Err(self.source.error(&message, span));
            }
            ty => match ty.storage() {
                Storage::I8 | Storage::I16 | Storage::I32 | Storage::I64 => (Read::Signed, Ty::Int),
                _ => (Read::Unsigned, Ty::Int),
            },
        };
        let shift = match field.role {
            Some(Role::RECORD) => Shift::Records,
            Some(Role::INSTR) => Shift::Instrs,
            _ => Shift::None,
        };
        self.columns.push(position);
        Ok((Op::Column(Cells { position, missing: field.missing, read, shift }), ty))
    }

    fn binary(&self, binary: Binary, left: Box<Node>, right: Box<Node>) -> Result<(Op, Ty)> {
        if binary.is_comparison() {
            self.common([&*left, &*right])?;
            return Ok((Op::Compare(binary, left, right), Ty::Bool));
        }
        match binary {
            Binary::Concat => {
                let cast = |node: Box<Node>| match node.ty {
                    Ty::Text | Ty::Null => node,
                    _ => {
                        let span = node.span.clone();
                        Box::new(Node { op: Op::Cast(node, CastTo::Text), ty: Ty::Text, span })
                    }
                };
                Ok((Op::Arith(binary, cast(left), cast(right)), Ty::Text))
            }
            Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => {
                self.expect(&left, Ty::Int)?;
                self.expect(&right, Ty::Int)?;
                Ok((Op::Arith(binary, left, right), Ty::Int))
            }
            _ => {
                self.number(&left)?;
                self.number(&right)?;
                let ty = self.common([&*left, &*right])?;
                let ty = if ty == Ty::Null { Ty::Int } else { ty };
                Ok((Op::Arith(binary, left, right), ty))
            }
        }
    }

    fn call(&mut self, name: &str, args: &[Expr], is_star: bool, span: &Range<u32>) -> Result<(Op, Ty)> {
        let Some(info) = functions::find(name) else {
            let message = format!("there is no function `{name}`");
            if let Some((_, hint)) = functions::ELSEWHERE.iter().find(|(word, _)| *word == name) {
                return Err(self.source.error(&message, span).hint(*hint));
            }
            return Err(self.source.unknown(&message, span, name, functions::names()));
        };
        if is_star || !(info.least..=info.most).contains(&args.len()) {
            let wanted = match (info.least, info.most) {
                (1, 1) => "one argument".to_owned(),
                (least, most) if least == most => format!("{least} arguments"),
                (least, most) => format!("{least} to {most} arguments"),
            };
            let message = format!("`{name}` takes {wanted}, found {}", args.len());
            return Err(self.source.error(&message, span));
        }
        let mut args = self.all(args)?;
        for (position, arg) in args.iter().enumerate() {
            if let Some(wanted) = info.takes.wanted(position) {
                self.expect(arg, wanted)?;
            }
        }
        let ty = match info.takes {
            Takes::Numbers | Takes::Float => {
                args.iter().try_for_each(|arg| self.number(arg))?;
                if info.takes == Takes::Float { Ty::Float } else { args[0].ty }
            }
            Takes::Ints | Takes::TextToInt => Ty::Int,
            Takes::IntToText | Takes::Texts | Takes::TextAndInts => Ty::Text,
            Takes::Alike => self.common(&args)?,
            Takes::TextsToBool => Ty::Bool,
            Takes::Any => {
                for arg in &mut args {
                    if !matches!(arg.ty, Ty::Text | Ty::Null) {
                        let span = arg.span.clone();
                        let none = Node { op: Op::Const(Value::Null), ty: Ty::Null, span: span.clone() };
                        let of = Box::new(std::mem::replace(arg, none));
                        *arg = Node { op: Op::Cast(of, CastTo::Text), ty: Ty::Text, span };
                    }
                }
                Ty::Text
            }
        };
        Ok((Op::Call(info.function, args), ty))
    }
}

/// The position of the column with this name. Unquoted names ignore case.
pub(crate) fn position(schema: &Schema, name: &str, is_quoted: bool) -> Option<usize> {
    let exact = schema.position(name);
    let caseless = || schema.fields.iter().position(|field| field.name.eq_ignore_ascii_case(name));
    exact.or_else(|| if is_quoted { None } else { caseless() })
}

/// Makes `IN` a search if the list consists of integer constants; otherwise the values are compared one by one.
fn in_list(of: Box<Node>, list: Vec<Node>, is_negated: bool) -> Op {
    let (mut ints, mut has_null) = (Vec::new(), false);
    for node in &list {
        match &node.op {
            Op::Const(Value::Int(number)) => ints.push(*number),
            Op::Const(Value::Null) => has_null = true,
            _ => return Op::In(of, list, is_negated),
        }
    }
    if of.ty != Ty::Int {
        return Op::In(of, list, is_negated);
    }
    ints.sort_unstable();
    ints.dedup();
    Op::InInts(of, ints, has_null, is_negated)
}

impl Node {
    /// True if it is not a constant, but all of its operands are.
    fn is_foldable(&self) -> bool {
        let is_const = |node: &Node| matches!(node.op, Op::Const(_));
        match &self.op {
            Op::Const(_) | Op::Column(_) => false,
            Op::Not(of) | Op::Neg(of) | Op::BitNot(of) | Op::IsNull(of, _) | Op::Cast(of, _) => is_const(of),
            Op::InInts(of, ..) | Op::Like(of, ..) => is_const(of),
            Op::Arith(_, left, right) | Op::Compare(_, left, right) | Op::LikeOf(left, right, _) => {
                is_const(left) && is_const(right)
            }
            Op::And(list) | Op::Or(list) | Op::Call(_, list) => list.iter().all(is_const),
            Op::Between(three, _) => three.iter().all(is_const),
            Op::In(of, list, _) => is_const(of) && list.iter().all(is_const),
            Op::Case(of, whens, otherwise) => {
                of.iter().chain(otherwise).all(|node| is_const(node))
                    && whens.iter().all(|(when, then)| is_const(when) && is_const(then))
            }
        }
    }
}
