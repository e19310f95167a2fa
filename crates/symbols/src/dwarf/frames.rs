//! The functions that contain an address, with all their declarations: what is in scope at a line of the source.

use super::index::{children, path_of};
use super::objects::Objects;
use super::read::{Reading, file_name, place};
use super::types::Place;
use super::units::View;
use super::{DebugInfo, TypeId};

/// Maximum number of variables of a function, and of files of a unit.
const MAX_LISTED: usize = 1 << 14;

/// A function that contains the code at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeFrame {
    /// Its qualified name.
    pub name: String,
    /// The line of the code in that function.
    pub place: Option<Place>,
    /// The place of its declaration.
    pub declared: Option<Place>,
    /// The return type; `None` if it returns nothing.
    pub returns: Option<TypeId>,
    /// Its parameters and variables, wherever they are stored, including those of inner blocks; parameters first.
    pub variables: Vec<Declared>,
    /// The type arguments of its template.
    pub arguments: Vec<TypeId>,
}

/// The declaration of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Option<TypeId>,
    /// The line, if known.
    pub line: Option<u64>,
    /// True for a parameter.
    pub is_parameter: bool,
}

impl DebugInfo {
    /// The functions that contain an address, the innermost first: inlined ones, then the one that contains them.
    pub fn frames_at(&self, address: u64) -> Vec<CodeFrame> {
        let Some(function) = self.objects().function_at(address) else { return Vec::new() };
        let view = self.view();
        let mut place = self.line_of(address);
        let mut frames = Vec::new();
        for found in self.origins_at(&view, address) {
            let line = std::mem::replace(&mut place, found.call);
            frames.push(self.frame(&view, found.origin, line));
        }
        frames.push(self.frame(&view, function.id, place));
        frames
    }

    fn frame(&self, view: &View<'_>, id: TypeId, line: Option<Place>) -> CodeFrame {
        let mut frame = CodeFrame {
            name: path_of(self, view, id).unwrap_or_default(),
            place: line,
            ..CodeFrame::default()
        };
        let reading = Reading::new(self, view);
        let Ok((open, die)) = view.entry(id) else { return frame };
        frame.declared = reading.said(id, &die, |open, die, _| place(open, die));
        frame.returns = reading.type_of(id, &die);
        let mut inner: Option<isize> = None;
        // Damage only loses the entries after it.
        let _ = children(view, &open, id, |die| {
            if inner.is_some_and(|depth| die.depth() > depth) || frame.variables.len() >= MAX_LISTED {
                return;
            }
            let tag = die.tag();
            let is_function = matches!(tag, gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine);
            inner = is_function.then(|| die.depth());
            let Ok(at) = u32::try_from(die.offset().0) else { return };
            let id = TypeId { unit: id.unit, offset: at };
            match tag {
                gimli::DW_TAG_template_type_parameter if die.depth() == 1 => {
                    frame.arguments.extend(reading.type_of(id, die));
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    frame.variables.push(Declared {
                        name: reading.said(id, die, |open, die, _| open.name(die)).unwrap_or_default(),
                        ty: reading.type_of(id, die),
                        line: reading.said(id, die, |open, die, _| place(open, die)).map(|place| place.line),
                        is_parameter: tag == gimli::DW_TAG_formal_parameter,
                    });
                }
                _ => {}
            }
        });
        frame
    }

    /// The source files of the code at an address, as far as debug information names them: first the compiled file, then the
    /// files that it includes.
    pub fn sources_at(&self, address: u64) -> Vec<String> {
        let view = self.view();
        let objects: &Objects = self.objects();
        let mut files: Vec<String> = Vec::new();
        for unit in objects.units_at(address) {
            let Ok(open) = view.open(unit) else { continue };
            let Some(program) = open.unit.line_program.as_ref() else { continue };
            let n_files = program.header().file_names().len().min(MAX_LISTED) as u64;
            for file in (0..=n_files).filter_map(|number| file_name(&open, number)) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        files
    }
}
