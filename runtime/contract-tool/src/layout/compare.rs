//! Checks that a new version can read the stored data of an old one.
//!
//! **Every byte that the old version uses keeps its meaning**: its field has the same position and type. New
//! fields are where the old version had none: after everything else, in unused bytes of a slot, or in a
//! `__gap`. Array elements are adjacent and keep their size. Values of mappings have separate slots, so a
//! struct there may grow.

use super::solc::{Layout, Type, Variable};
use alloy_primitives::{U256, U512};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Results of the comparison.
#[derive(Debug, Default, Serialize)]
pub struct Comparison {
    pub clashes: Vec<Change>,
    /// Same position and type, but a different name.
    pub renamed: Vec<Change>,
    pub added: Vec<Change>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub kind: Kind,
    /// For instance `proposals[…].votes`.
    pub field: String,
    pub old: Option<Spot>,
    pub new: Option<Spot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Added,
    Renamed,
    Inserted,
    Moved,
    Removed,
    Replaced,
    Retyped,
    Shrunk,
    Resized,
}

/// Position of a field, in the contract or in its struct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spot {
    pub name: String,
    pub slot: String,
    pub offset: u64,
    #[serde(rename = "type")]
    pub kind: String,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.slot)?;
        if self.offset > 0 {
            write!(f, " offset {}", self.offset)?;
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, field, old, new } = self;
        let place = |spot: &Option<Spot>| spot.as_ref().map(ToString::to_string).unwrap_or_default();
        let typed = |spot: &Option<Spot>| spot.as_ref().map(|spot| spot.kind.clone()).unwrap_or_default();
        let name = |spot: &Option<Spot>| spot.as_ref().map(|spot| spot.name.clone()).unwrap_or_default();
        let (before, now) = (place(old), place(new));
        match kind {
            Kind::Added => write!(f, "{field}: {} at {now}", typed(new)),
            Kind::Renamed => write!(f, "{field} at {before} is called {} now", name(new)),
            Kind::Inserted => write!(
                f,
                "{field}: {} at {now} is new and lies where {} of the old version lies: put it behind all other fields, or into a gap",
                typed(new),
                name(old)
            ),
            Kind::Moved => write!(
                f,
                "{field} was at {before} and is at {now}: keep the order and the types of what lies before it, and append what is new"
            ),
            Kind::Removed => write!(
                f,
                "{field}: {} at {before} is gone: keep the field, whatever it is called, so that nothing else is read from what it left",
                typed(old)
            ),
            Kind::Replaced => write!(
                f,
                "{field}: {} at {before} is gone and {}: {} lies there: keep the old field and append the new one",
                typed(old),
                name(new),
                typed(new)
            ),
            Kind::Retyped => write!(
                f,
                "{field} at {before} was {} and is {}: keep the type, and append a field of the new one",
                typed(old),
                typed(new)
            ),
            Kind::Shrunk => write!(
                f,
                "{field} at {before} was {} and is {}: what lay at its end would be lost, or another field's",
                typed(old),
                typed(new)
            ),
            Kind::Resized => write!(
                f,
                "{field} at {before} is {} with elements of another size: they lie side by side, so every one but the first would move. Keep what \
                 is new in a mapping beside the array, and gaps as large as they were with what went into them",
                typed(new)
            ),
        }
    }
}

/// Compares the storage of two versions.
pub fn compare(old: &Layout, new: &Layout) -> Comparison {
    let mut comparing = Comparing { old, new, found: Comparison::default(), known: BTreeMap::new(), depth: 0 };
    comparing.members(&old.storage, &new.storage, "");
    comparing.found
}

struct Comparing<'a> {
    old: &'a Layout,
    new: &'a Layout,
    found: Comparison,
    /// Compared pairs of types, with the results that the field must report. A struct may contain itself in a
    /// mapping, and many fields may share one struct: differences within a struct are reported once, at the
    /// first field.
    known: BTreeMap<(&'a str, &'a str), Result<(), Kind>>,
    depth: usize,
}

/// Deeper than types in hand-written layouts.
const DEPTH: usize = 200;

/// From the first byte to the one after the last.
type Bytes = std::ops::Range<U512>;

fn overlap(one: &Bytes, other: &Bytes) -> bool {
    one.start < other.end && other.start < one.end
}

impl<'a> Comparing<'a> {
    /// Compares the fields of the contract or of a struct.
    fn members(&mut self, old: &'a [Variable], new: &'a [Variable], path: &str) {
        let fields: Vec<&Variable> = old.iter().filter(|one| !self.old.is_gap(one)).collect();
        let new: Vec<&Variable> = new.iter().filter(|one| !self.new.is_gap(one)).collect();
        let mut matched = BTreeSet::new();
        for field in &fields {
            let mut same_names = new.iter().filter(|one| one.label == field.label);
            // Solidity contracts may inherit several fields with the same name.
            let same_name = same_names.clone().find(|one| begin(one) == begin(field)).or_else(|| same_names.next());
            let same_place = new.iter().find(|one| begin(one) == begin(field));
            // A field with this position that exists in the old version under its own name is not a renamed
            // one.
            let same_place = same_place.filter(|one| fields.iter().all(|field| field.label != one.label));
            let name = format!("{path}{}", field.label);
            match (same_name, same_place) {
                (Some(one), _) if begin(one) == begin(field) => self.kinds(field, one, &name),
                (Some(one), _) => self.clash(Kind::Moved, &name, Some(field), Some(one)),
                (None, Some(one)) => {
                    matched.insert(&one.label);
                    let known = std::mem::take(&mut self.known);
                    let mut tried = Comparing { found: Comparison::default(), known, ..*self };
                    tried.kinds(field, one, &name);
                    self.known = std::mem::take(&mut tried.known);
                    if tried.found.clashes.is_empty() {
                        self.found.renamed.push(self.change(Kind::Renamed, &name, Some(field), Some(one)));
                        self.found.renamed.extend(tried.found.renamed);
                        self.found.added.extend(tried.found.added);
                    } else {
                        self.clash(Kind::Replaced, &name, Some(field), Some(one));
                    }
                }
                (None, None) => self.clash(Kind::Removed, &name, Some(field), None),
            }
        }
        let added =
            new.into_iter().filter(|one| fields.iter().all(|field| field.label != one.label) && !matched.contains(&one.label));
        for one in added {
            let bytes = self.new.bytes(one);
            let name = format!("{path}{}", one.label);
            let covers = fields.iter().find(|field| overlap(&self.old.bytes(field), &bytes));
            match covers {
                Some(field) => {
                    let change = self.change(Kind::Inserted, &name, Some(field), Some(one));
                    // Before the fields that it moved.
                    let first =
                        self.found.clashes.iter().position(|clash| clash.field.starts_with(path) && clash.kind == Kind::Moved);
                    self.found.clashes.insert(first.unwrap_or(self.found.clashes.len()), change);
                }
                None => self.found.added.push(self.change(Kind::Added, &name, None, Some(one))),
            }
        }
    }

    /// Compares the types of a field with an unchanged position.
    fn kinds(&mut self, old: &'a Variable, new: &'a Variable, name: &str) {
        if let Err(kind) = self.kind(&old.kind, &new.kind, name) {
            self.clash(kind, name, Some(old), Some(new));
        }
    }

    /// Returns a different type as an error for the field; reports differences within a struct directly.
    fn kind(&mut self, old: &'a str, new: &'a str, name: &str) -> Result<(), Kind> {
        let (Some(before), Some(now)) = (self.old.types.get(old), self.new.types.get(new)) else { return Err(Kind::Retyped) };
        if before.encoding != now.encoding || self.depth > DEPTH {
            return Err(Kind::Retyped);
        }
        if let Some(known) = self.known.get(&(old, new)) {
            return *known;
        }
        self.known.insert((old, new), Ok(()));
        self.depth += 1;
        let result = self.kind_within(before, now, name);
        self.depth -= 1;
        self.known.insert((old, new), result);
        result
    }

    fn kind_within(&mut self, before: &'a Type, now: &'a Type, name: &str) -> Result<(), Kind> {
        match (&before.members, &now.members) {
            (Some(before), Some(now)) => {
                self.members(before, now, &format!("{name}."));
                return Ok(());
            }
            (None, None) => {}
            _ => return Err(Kind::Retyped),
        }
        if let (Some(key), Some(new_key), Some(value), Some(new_value)) = (&before.key, &now.key, &before.value, &now.value) {
            self.kind(key, new_key, name)?;
            // A value's slot is derived from key and slot, so there is room behind it.
            return self.kind(value, new_value, &format!("{name}[…]"));
        }
        match (&before.base, &now.base) {
            (Some(base), Some(new_base)) => {
                if let (Some(length), Some(new_length)) = (length(before), length(now))
                    && new_length < length
                {
                    return Err(Kind::Shrunk);
                }
                let (Some(one), Some(other)) = (self.old.types.get(base), self.new.types.get(new_base)) else {
                    return Err(Kind::Retyped);
                };
                match (one.number_of_bytes == other.number_of_bytes, one.label == other.label) {
                    (true, _) => self.kind(base, new_base, &format!("{name}[…]")),
                    (false, true) => Err(Kind::Resized),
                    (false, false) => Err(Kind::Retyped),
                }
            }
            (None, None) if plain(before) == plain(now) && before.number_of_bytes == now.number_of_bytes => Ok(()),
            _ => Err(Kind::Retyped),
        }
    }

    fn clash(&mut self, kind: Kind, field: &str, old: Option<&Variable>, new: Option<&Variable>) {
        let change = self.change(kind, field, old, new);
        self.found.clashes.push(change);
    }

    fn change(&self, kind: Kind, field: &str, old: Option<&Variable>, new: Option<&Variable>) -> Change {
        let spot = |layout: &Layout, one: &Variable| Spot {
            name: one.label.clone(),
            slot: one.slot.clone(),
            offset: one.offset,
            kind: layout.types.get(&one.kind).map_or_else(|| one.kind.clone(), |kind| kind.label.clone()),
        };
        let (old, new) = (old.map(|one| spot(self.old, one)), new.map(|one| spot(self.new, one)));
        Change { kind, field: field.to_owned(), old, new }
    }
}

impl Layout {
    /// True for reserved space: an array called `__gap` or `__gap_…`.
    fn is_gap(&self, variable: &Variable) -> bool {
        let array = self.types.get(&variable.kind).is_some_and(|kind| kind.encoding == "inplace" && kind.base.is_some());
        (variable.label == "__gap" || variable.label.starts_with("__gap_")) && array
    }

    fn bytes(&self, variable: &Variable) -> Bytes {
        let length =
            self.types.get(&variable.kind).and_then(|kind| kind.number_of_bytes.parse::<u64>().ok()).unwrap_or_default();
        let begin = begin(variable);
        begin..begin + U512::from(length)
    }
}

fn begin(variable: &Variable) -> U512 {
    let slot = variable.slot.parse::<U256>().unwrap_or_default();
    U512::from(slot) * U512::from(32) + U512::from(variable.offset)
}

/// Length of a fixed-size array.
fn length(kind: &Type) -> Option<u64> {
    kind.label.rsplit_once('[')?.1.strip_suffix(']')?.parse().ok()
}

/// Stored type, independent of Solidity's name for it.
fn plain(kind: &Type) -> &str {
    match kind.label.as_str() {
        "address payable" => "address",
        label if label.starts_with("contract ") => "address",
        label if label.starts_with("enum ") => "uint8",
        label => label,
    }
}
