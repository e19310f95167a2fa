//! SigilClassic: communication between the functions of threads, byte by byte.
//!
//! Prism's back end of this name prints nothing, so docs/formats/prism.md defines the counts. An *entity* is a function of a
//! thread; a thread outside all functions is an entity, too.
//!
//! SPEC: prism.md#sigilclassic

use crate::batch::At;
use crate::detail::Detail;
use crate::event::{Compute, Context, Kind, Memory, Sync, access, context, format, sync};
use crate::fault::Result;
use crate::hooks::Hooks;
use crate::shadow::{self, Shadow};
use quipu_model::harmless;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;

/// No entity.
const NONE: u32 = u32::MAX;

/// Limit on the members of all sets of readers together; a set that would exceed it forgets its earlier readers.
const MAX_MEMBERS: usize = 1 << 24;
/// Maximum number of functions that are entities; further ones count for their thread.
const MAX_ENTITIES: usize = 1 << 20;

/// Counts of bytes: `unique` counts each byte once until it is written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bytes {
    /// Bytes counted the first time.
    pub unique: u64,
    /// Bytes counted again.
    pub again: u64,
}

impl Bytes {
    fn count(&mut self, is_again: bool) {
        if is_again { self.again += 1 } else { self.unique += 1 }
    }
}

/// Counts of a function of a thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entity {
    /// The thread, if a swap gave it.
    pub thread: Option<u64>,
    /// The function; empty outside all functions.
    pub function: Vec<u8>,
    /// Number of calls.
    pub calls: u64,
    /// Number of integer operations.
    pub iops: u64,
    /// Number of floating-point operations.
    pub flops: u64,
    /// Bytes read that the entity itself wrote.
    pub local: Bytes,
    /// Bytes read that another entity wrote, or none.
    pub input: Bytes,
    /// Bytes written; a byte counts as `again` if the entity wrote it last and no entity has read it since.
    pub written: Bytes,
}

/// The cell of a byte.
#[derive(Clone, Copy, Debug)]
struct Cell {
    writer: u32,
    /// The set of entities that have read the byte since it was written.
    readers: u32,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell { writer: NONE, readers: 0 }
    }
}

/// Interned sets of entities: a set is a number, and the empty set is 0.
#[derive(Clone, Debug)]
struct Sets {
    members: Vec<Vec<u32>>,
    with: FxHashMap<(u32, u32), u32>,
    by_members: FxHashMap<Vec<u32>, u32>,
    /// Number of members for which there is room.
    room: usize,
    /// Number of times that readers were forgotten.
    n_forgotten: u64,
}

impl Default for Sets {
    fn default() -> Sets {
        Sets {
            members: vec![Vec::new()],
            with: FxHashMap::default(),
            by_members: FxHashMap::from_iter([(Vec::new(), 0)]),
            room: MAX_MEMBERS,
            n_forgotten: 0,
        }
    }
}

impl Sets {
    /// The set with one more member; the same set if it has the member already.
    #[inline]
    fn with(&mut self, set: u32, member: u32) -> u32 {
        if let Some(known) = self.with.get(&(set, member)) {
            return *known;
        }
        let mut members = self.members[set as usize].clone();
        let next = match members.binary_search(&member) {
            Ok(_) => set,
            Err(at) => {
                members.insert(at, member);
                if members.len() > self.room && !self.by_members.contains_key(&members) {
                    // There is always room for sets of one member: there are at most as many as entities.
                    members = vec![member];
                    self.n_forgotten += 1;
                }
                self.room = self.room.saturating_sub(members.len());
                let fresh = self.members.len() as u32; // Far fewer sets than cells.
                let next = *self.by_members.entry(members.clone()).or_insert(fresh);
                if next == fresh {
                    self.members.push(members);
                }
                next
            }
        };
        if self.with.len() < MAX_MEMBERS {
            self.with.insert((set, member), next);
        }
        next
    }
}

/// The back end.
#[derive(Clone, Debug)]
pub struct SigilClassic {
    /// Maximum number of pages of shadow memory.
    max_pages: usize,
    shadow: Shadow<Cell>,
    sets: Sets,
    entities: Vec<Entity>,
    index: FxHashMap<Option<u64>, FxHashMap<Vec<u8>, u32>>,
    /// The stack of entities of each thread, innermost last.
    stacks: FxHashMap<Option<u64>, Vec<u32>>,
    edges: BTreeMap<(u32, u32), Bytes>,
    current: Option<(Option<u64>, u32)>,
    unplaced: u64,
}

impl Default for SigilClassic {
    fn default() -> SigilClassic {
        SigilClassic::new(shadow::USUAL_PAGES)
    }
}

impl SigilClassic {
    /// A back end that ends the run when more than `max_pages` pages of 4096 bytes are touched.
    #[must_use]
    pub fn new(max_pages: usize) -> SigilClassic {
        SigilClassic {
            max_pages,
            shadow: Shadow::default(),
            sets: Sets::default(),
            entities: Vec::new(),
            index: FxHashMap::default(),
            stacks: FxHashMap::default(),
            edges: BTreeMap::new(),
            current: None,
            unplaced: 0,
        }
    }

    /// Number of accesses that are not counted because they have no address, no size or no known type.
    #[must_use]
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Number of times that earlier readers of a byte were forgotten for lack of room: later reads of it may count as unique
    /// again.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.sets.n_forgotten
    }

    /// All entities, in order of first appearance.
    #[must_use]
    pub fn entities(&self) -> &[Entity] {
        &self.entities
    }

    /// All edges: the writing entity (`None` for bytes not seen written), the reading entity, the bytes.
    pub fn edges(&self) -> impl Iterator<Item = (Option<&Entity>, &Entity, Bytes)> {
        let entities = &self.entities;
        self.edges.iter().map(move |((writer, reader), bytes)| {
            (entities.get(*writer as usize), &entities[*reader as usize], *bytes)
        })
    }

    /// The entity of a function of a thread, if it has been entered.
    fn known(&self, thread: Option<u64>, function: &[u8]) -> Option<u32> {
        self.index.get(&thread)?.get(function).copied()
    }

    /// The entity of a function of a thread, added if new.
    fn entity(&mut self, thread: Option<u64>, function: &[u8]) -> u32 {
        if let Some(entity) = self.known(thread, function) {
            return entity;
        }
        if self.entities.len() >= MAX_ENTITIES && !function.is_empty() {
            return self.entity(thread, b"");
        }
        let fresh = self.entities.len() as u32; // Bounded, but for one of each thread.
        self.index.entry(thread).or_default().insert(function.to_vec(), fresh);
        self.entities.push(Entity { thread, function: function.to_vec(), ..Entity::default() });
        fresh
    }

    /// The current entity of a thread.
    #[inline]
    fn inside(&mut self, thread: Option<u64>) -> u32 {
        match self.current {
            Some((current, entity)) if current == thread => entity,
            _ => {
                let innermost = self.stacks.get(&thread).and_then(|stack| stack.last().copied());
                let entity = innermost.unwrap_or_else(|| self.entity(thread, b""));
                self.current = Some((thread, entity));
                entity
            }
        }
    }

    fn read(&mut self, entity: u32, address: u64, bytes: u64) {
        let (sets, entities, edges) = (&mut self.sets, &mut self.entities, &mut self.edges);
        let reader = &mut entities[entity as usize];
        self.shadow.visit(address, bytes, |_, cells| {
            for cell in cells {
                let readers = sets.with(cell.readers, entity);
                let is_again = readers == cell.readers;
                cell.readers = readers;
                if cell.writer == entity {
                    reader.local.count(is_again);
                } else {
                    reader.input.count(is_again);
                    edges.entry((cell.writer, entity)).or_default().count(is_again);
                }
            }
        });
    }

    fn write(&mut self, entity: u32, address: u64, bytes: u64) {
        let writer = &mut self.entities[entity as usize];
        self.shadow.visit(address, bytes, |_, cells| {
            for cell in cells {
                writer.written.count(cell.writer == entity && cell.readers == 0);
                *cell = Cell { writer: entity, readers: 0 };
            }
        });
    }
}

impl Hooks for SigilClassic {
    fn needs(&self) -> Detail {
        Detail::COMMUNICATION.without(Kind::Control)
    }

    #[inline]
    fn on_compute(&mut self, at: At, event: &Compute) -> Result<()> {
        let entity = self.inside(at.thread);
        let entity = &mut self.entities[entity as usize];
        entity.iops += u64::from(event.format == Some(format::INTEGER));
        entity.flops += u64::from(event.format == Some(format::FLOAT));
        Ok(())
    }

    #[inline]
    fn on_memory(&mut self, at: At, event: &Memory) -> Result<()> {
        let (Some(address), Some(size)) = (event.address, event.size) else {
            self.unplaced += 1;
            return Ok(());
        };
        let entity = self.inside(at.thread);
        match event.access {
            Some(access::LOAD) => self.read(entity, address, u64::from(size)),
            Some(access::STORE) => self.write(entity, address, u64::from(size)),
            _ => self.unplaced += 1,
        }
        if self.shadow.pages() > self.max_pages {
            return Err(shadow::too_many_pages::<Cell>("SigilClassic", self.max_pages, ""));
        }
        Ok(())
    }

    fn on_sync(&mut self, _: At, event: &Sync) -> Result<()> {
        if event.kind == sync::SWAP {
            self.current = None;
        }
        Ok(())
    }

    fn on_context(&mut self, at: At, event: &Context, name: &[u8]) -> Result<()> {
        match event.kind {
            context::ENTER => {
                let entity = self.entity(at.thread, name);
                self.entities[entity as usize].calls += 1;
                self.stacks.entry(at.thread).or_default().push(entity);
            }
            context::EXIT => {
                // Front ends miss some enters and exits, so an exit ends the innermost call of its function, and all calls
                // inside it.
                let entity = self.known(at.thread, name);
                if let Some(stack) = self.stacks.get_mut(&at.thread)
                    && let Some(depth) = stack.iter().rposition(|inside| Some(*inside) == entity)
                {
                    stack.truncate(depth);
                }
            }
            _ => return Ok(()),
        }
        self.current = None;
        Ok(())
    }
}

impl fmt::Display for SigilClassic {
    /// Two tables with tab-separated fields: entities, and edges. Names are escaped, so each row is one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread =
            |entity: &Entity| entity.thread.map_or_else(|| "?".to_owned(), |thread| thread.to_string());
        let function = |entity: &Entity| match entity.function.as_slice() {
            b"" => "-".to_owned(),
            name => {
                let mut field = Vec::new();
                harmless::tsv_field(name, &mut field);
                String::from_utf8_lossy(&field).into_owned()
            }
        };
        f.write_str("thread\tfunction\tcalls\tiops\tflops\tlocal_unique\tlocal_again\t")?;
        f.write_str("input_unique\tinput_again\twritten_unique\twritten_again\n")?;
        for entity in &self.entities {
            write!(f, "{}\t{}\t{}", thread(entity), function(entity), entity.calls)?;
            write!(f, "\t{}\t{}", entity.iops, entity.flops)?;
            for bytes in [entity.local, entity.input, entity.written] {
                write!(f, "\t{}\t{}", bytes.unique, bytes.again)?;
            }
            f.write_str("\n")?;
        }
        f.write_str("\nwriter_thread\twriter\treader_thread\treader\tunique\tagain\n")?;
        for (writer, reader, bytes) in self.edges() {
            let (from, name) =
                writer.map_or_else(|| ("-".to_owned(), "-".to_owned()), |w| (thread(w), function(w)));
            let (to, reads) = (thread(reader), function(reader));
            writeln!(f, "{from}\t{name}\t{to}\t{reads}\t{}\t{}", bytes.unique, bytes.again)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_have_no_room_forget_earlier_readers() {
        let mut sets = Sets { room: 6, ..Sets::default() };
        let one = sets.with(0, 1);
        let two = sets.with(one, 2);
        let three = sets.with(two, 3);
        assert_eq!([one, two, three].map(|set| sets.members[set as usize].len()), [1, 2, 3]);
        let four = sets.with(three, 4);
        assert_eq!((sets.members[four as usize].as_slice(), sets.n_forgotten), (&[4][..], 1));
        assert_eq!(sets.with(0, 1), one);
    }
}
