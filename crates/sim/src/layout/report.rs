//! The results, as data and as a document.

use super::arrange::Form;
use super::declare;
use super::run::Side;
use super::text;
use super::tool::Plan;
use crate::describe::describe;
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Grid, Listing};
use quipu_model::number::counted;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::Hex;

result! {
    /// Misses with alternative layouts of a type.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LayoutReport {
        pub name: String, named("type") => "Name of the type.";
        pub size: u64 => "Size of an element, in bytes.";
        pub align: u64 => "Alignment, in bytes.";
        pub arrays: u64, named("regions") => "Regions with several elements.";
        pub singles: u64, named("single_regions") => "Regions with one element.";
        pub machine: String => "The machine, in words.";
        pub levels: Vec<String> => "Cache levels that data goes through, from the cores to memory.";
        pub accesses: u64 => "Reads and writes of the type.";
        pub other_accesses: u64 => "All other reads and writes.";
        pub members: Vec<MemberRow> => "Members, by offset.";
        pub layouts: Vec<Row> => "Layouts; the first is the present one.";
        pub best: usize => "Position of the best layout in `layouts`.";
        pub is_proposal: bool => "Whether the layouts are proposals.";
        pub language: &'static str => "Language of the declaration.";
        pub declaration: String => "Declaration with the new layout.";
    }
}

result! {
    /// One member.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MemberRow {
        pub name: String => "Name of the member.";
        pub text: String, named("type") => "Type of the member, as declared.";
        pub offset: u64 => "Offset in the element, in bytes.";
        pub size: u64 => "Size in bytes.";
        pub reads: u64 => "Reads.";
        pub writes: u64 => "Writes.";
    }
}

result! {
    /// One layout.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Row {
        pub what: String, key => "Description of the change.";
        pub form: &'static str => "`struct`, `split`, `soa` or `aos`.";
        pub size: u64 => "Size of an element, all parts together, in bytes.";
        pub misses: Vec<u64> => "Misses of all accesses, by level.";
        pub type_misses: Vec<u64> => "Misses of accesses to the type, by level.";
        pub members: Vec<MissesBy> => "Misses of each member; the last row is padding.";
        pub moved: u64 => "Regions moved to other addresses.";
        pub kept: u64 => "Regions left as they are.";
        pub divided: u64 => "Accesses divided into several.";
        pub fresh_from: Option<u64> as Hex => "First address used for regions that did not fit.";
    }
}

result! {
    /// Position and misses of a member.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MissesBy {
        pub name: String => "Name of the member, or `(padding)`.";
        pub spot: Spot, flat => "Position in the layout.";
        pub misses: Vec<u64> => "Misses of the member, by level.";
    }
}

result! {
    /// A part of the layout and an offset in it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Spot {
        pub part: Option<u64> => "Number of the part.";
        pub offset: Option<u64> => "Offset in the part, in bytes.";
    }
}

/// Name for bytes that belong to no member.
const PADDING: &str = "(padding)";
/// Smaller differences, as a share of the previous misses, count as equal.
const EVEN: f64 = 0.01;

impl Row {
    pub(super) fn of(side: &Side, plan: &Plan) -> Row {
        let n_levels = plan.levels.len();
        let by = |at: usize| side.misses.get(at * n_levels..(at + 1) * n_levels).unwrap_or(&[]).to_vec();
        let place = |unit: usize| match &side.moved {
            Some(moved) => moved.arrangement.places.get(unit).map(|place| (place.part as u64, place.offset)),
            None => plan.members.units.get(unit).map(|unit| (0, unit.start)),
        };
        let units = plan.members.units.iter().enumerate().map(|(at, unit)| MissesBy {
            name: unit.name.clone(),
            spot: Spot { part: place(at).map(|of| of.0), offset: place(at).map(|of| of.1) },
            misses: by(at),
        });
        let behind = plan.members.units.len();
        let padding = MissesBy {
            name: PADDING.to_owned(),
            spot: Spot { part: None, offset: None },
            misses: by(behind),
        };
        let members: Vec<MissesBy> = units.chain([padding]).collect();
        let sum = |level: usize| members.iter().filter_map(|of| of.misses.get(level)).sum();
        let moved = side.moved.as_ref();
        let form = moved.map_or(Form::Struct, |moved| moved.arrangement.form);
        Row {
            what: moved.map_or_else(|| "as it is".to_owned(), |moved| moved.arrangement.what.clone()),
            form: match form {
                Form::Struct => "struct",
                Form::Split => "split",
                Form::Arrays => "soa",
                Form::Inside => "aos",
            },
            size: moved.map_or(plan.members.size, |moved| moved.arrangement.size()),
            misses: plan.levels.misses(&side.machine),
            type_misses: (0..n_levels).map(sum).collect(),
            members,
            moved: moved.map_or(0, |moved| moved.n_moved),
            kept: moved.map_or(0, |moved| moved.n_kept),
            divided: moved.map_or(0, |moved| moved.n_divided),
            fresh_from: moved.filter(|moved| moved.n_moved > 0).map(|_| plan.fresh),
        }
    }

    /// Whether this layout is better than another.
    fn is_better(&self, other: &Row) -> bool {
        let levels = |row: &Row| [row.misses.last().copied(), row.misses.first().copied()];
        for (ours, theirs) in levels(self).into_iter().zip(levels(other)) {
            let (ours, theirs) = (ours.unwrap_or(0), theirs.unwrap_or(0));
            if ours.abs_diff(theirs) as f64 > theirs as f64 * EVEN {
                return ours < theirs;
            }
        }
        false
    }
}

impl LayoutReport {
    pub(super) fn new(
        plan: &Plan,
        levels: Vec<String>,
        layouts: Vec<Row>,
        accesses: &[[u64; 2]],
        other_accesses: u64,
    ) -> LayoutReport {
        let members = plan.members.units.iter().zip(accesses).map(|(unit, [reads, writes])| MemberRow {
            name: unit.name.clone(),
            text: text::type_text(unit),
            offset: unit.start,
            size: unit.bytes,
            reads: *reads,
            writes: *writes,
        });
        let mut best = 0;
        for at in 1..layouts.len() {
            if layouts[at].is_better(&layouts[best]) {
                best = at;
            }
        }
        // A requested layout is declared even if it is not better.
        let shown = if plan.is_proposal { best } else { layouts.len() - 1 };
        let declaration = match shown.checked_sub(1).and_then(|at| plan.layouts.get(at)) {
            Some(arrangement) => {
                declare::declaration(&plan.members, arrangement, plan.language, plan.survey.singles > 0)
            }
            None => String::new(),
        };
        LayoutReport {
            name: plan.members.name.clone(),
            size: plan.members.size,
            align: plan.members.align,
            arrays: plan.survey.arrays,
            singles: plan.survey.singles,
            machine: describe(plan.machine_name.as_deref(), &plan.machine, false),
            levels,
            accesses: accesses.iter().flatten().sum(),
            other_accesses,
            members: members.collect(),
            layouts,
            best,
            is_proposal: plan.is_proposal,
            language: plan.language.name(),
            declaration,
        }
    }

    /// The layout compared with the current one: the best proposal, or the requested layout.
    fn shown(&self) -> &Row {
        let at = if self.is_proposal { self.best } else { self.layouts.len() - 1 };
        &self.layouts[at]
    }

    fn layout_grid(&self) -> Grid {
        let mut head = vec!["layout".to_owned(), "bytes".to_owned()];
        for level in &self.levels {
            head.extend([format!("{level} misses"), "change".to_owned()]);
        }
        head.extend(["of the type".to_owned(), "moved".to_owned()]);
        let before = &self.layouts[0];
        let row = |(at, row): (usize, &Row)| {
            let mark = if at == self.best && at > 0 { " (best)" } else { "" };
            let mut cells = vec![Cell::Text(format!("{}{mark}", row.what)), Cell::Bytes(row.size)];
            for (misses, old) in row.misses.iter().zip(&before.misses) {
                cells.extend([
                    Cell::Count(*misses),
                    if at == 0 { Cell::Empty } else { change(*misses, *old) },
                ]);
            }
            cells.push(Cell::Count(row.type_misses.first().copied().unwrap_or(0)));
            cells.push(Cell::Count(row.moved));
            cells
        };
        let rows = self.layouts.iter().enumerate().map(row).collect();
        Grid { title: "Layouts".to_owned(), head, rows, more: 0 }
    }

    fn member_grid(&self) -> Grid {
        let mut head: Vec<String> =
            ["member", "type", "offset", "now", "bytes", "reads", "writes"].map(str::to_owned).into();
        for level in &self.levels {
            head.extend([format!("{level} before"), "after".to_owned()]);
        }
        let (before, after) = (&self.layouts[0], self.shown());
        let empty = MemberRow {
            name: PADDING.to_owned(),
            text: String::new(),
            offset: 0,
            size: 0,
            reads: 0,
            writes: 0,
        };
        let members = self.members.iter().chain([&empty]).zip(&before.members).zip(&after.members);
        let row = |((member, before), after): ((&MemberRow, &MissesBy), &MissesBy)| {
            let is_member = before.spot.offset.is_some();
            let number = |n: u64| if is_member { Cell::Count(n) } else { Cell::Empty };
            let now = match (after.spot.part, after.spot.offset) {
                (Some(0), Some(offset)) => Cell::Text(offset.to_string()),
                (Some(part), Some(offset)) => Cell::Text(format!("{part}: {offset}")),
                _ => Cell::Empty,
            };
            let mut cells = vec![
                Cell::Text(member.name.clone()),
                Cell::Text(member.text.clone()),
                number(member.offset),
                now,
                number(member.size),
                number(member.reads),
                number(member.writes),
            ];
            for (before, after) in before.misses.iter().zip(&after.misses) {
                cells.extend([Cell::Count(*before), Cell::Count(*after)]);
            }
            cells
        };
        let is_seen = |((_, before), after): &((&MemberRow, &MissesBy), &MissesBy)| {
            let misses = before.misses.iter().chain(&after.misses).sum::<u64>();
            before.spot.offset.is_some() || misses > 0
        };
        let rows = members.filter(is_seen).map(row).collect();
        Grid { title: format!("Members, as it is and now: {}", after.what), head, rows, more: 0 }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let row = self.shown();
        if row.what == self.layouts[0].what {
            notes.push("No layout that was tried is better than the one there is.".to_owned());
        }
        if let Some(from) = row.fresh_from {
            notes.push(format!(
                "Put at {from:#x} and above, where the trace has nothing, for want of room where they are: {}.",
                counted(row.moved, "region")
            ));
        }
        if row.kept > 0 {
            notes.push(format!(
                "Left as they are, without a whole element or with a single one: {}.",
                counted(row.kept, "region")
            ));
        }
        if row.divided > 0 {
            notes.push(format!(
                "Divided into several, because their members lie apart now: {}.",
                counted(row.divided, "access")
            ));
        }
        if row.form == "split" && self.singles > 0 {
            notes.push(
                "Single elements got a pointer to their cold part; that it must be read first is not simulated."
                    .to_owned(),
            );
        }
        notes
    }
}

/// Relative change; empty if the previous count is 0.
fn change(now: u64, before: u64) -> Cell {
    match before {
        0 => Cell::Empty,
        _ => Cell::Text(format!("{:+.1} %", (now as f64 / before as f64 - 1.0) * 100.0)),
    }
}

impl ReportBody for LayoutReport {
    fn document(&self, _: Detail) -> Document {
        let facts = vec![
            ("type".to_owned(), vec![Cell::Code(self.name.clone())]),
            ("element".to_owned(), vec![Cell::Bytes(self.size)]),
            (
                "regions".to_owned(),
                vec![
                    Cell::Count(self.arrays),
                    "of several elements,".into(),
                    Cell::Count(self.singles),
                    "of one".into(),
                ],
            ),
            (
                "accesses".to_owned(),
                vec![
                    Cell::Count(self.accesses),
                    "of".into(),
                    Cell::Count(self.accesses + self.other_accesses),
                ],
            ),
        ];
        let machine = Block::Note(format!("machine: {}", self.machine));
        let mut document = Document::new("Layout").with(machine).with(Block::Facts(facts));
        document.blocks.push(Block::Grid(self.layout_grid()));
        document.blocks.extend(self.notes().into_iter().map(Block::Note));
        document.blocks.push(Block::Grid(self.member_grid()));
        if !self.declaration.is_empty() {
            let title = format!("Declaration ({})", self.shown().what);
            document.blocks.push(Block::Listing(Listing { title, text: self.declaration.clone() }));
        }
        document
    }
}
