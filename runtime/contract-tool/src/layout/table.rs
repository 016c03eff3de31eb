//! Layout as a table for people.

use super::solc::{Layout, Variable};
use std::collections::BTreeSet;

const HEAD: [&str; 5] = ["slot", "offset", "bytes", "type", "name"];

/// Nested structs make a table long; beyond this, each struct gets one row and a separate table.
const LONG: usize = 1_000;

/// Table of the contract's fields, including those of nested structs; then one table per struct in mappings
/// or arrays.
pub fn table(layout: &Layout) -> String {
    let mut apart = Vec::new();
    let mut tables = vec![aligned(&layout.rows(&layout.storage, &mut apart))];
    let mut told = BTreeSet::new();
    while let Some(id) = apart.pop() {
        let Some(kind) = layout.types.get(&id).filter(|_| told.insert(id.clone())) else { continue };
        let Some(members) = &kind.members else {
            apart.extend([&kind.base, &kind.value].into_iter().flatten().cloned());
            continue;
        };
        let rows = layout.rows(members, &mut apart);
        tables.push(format!("{}, {} bytes\n{}", kind.label, kind.number_of_bytes, aligned(&rows)));
    }
    tables.join("\n\n")
}

impl Layout {
    fn rows(&self, fields: &[Variable], apart: &mut Vec<String>) -> Vec<[String; 5]> {
        let mut rows = vec![HEAD.map(str::to_owned)];
        for field in fields {
            self.row(field, "", 0, &mut rows, apart);
        }
        rows
    }

    /// Row of a field, or rows of its members. Types with values elsewhere are added to `apart`.
    fn row(&self, one: &Variable, path: &str, from: u64, rows: &mut Vec<[String; 5]>, apart: &mut Vec<String>) {
        let Some(kind) = self.types.get(&one.kind) else { return };
        let slot = one.slot.parse::<u64>().unwrap_or_default().saturating_add(from);
        let name = format!("{path}{}", one.label);
        match &kind.members {
            Some(members) if !members.is_empty() && rows.len() < LONG => {
                for member in members {
                    self.row(member, &format!("{name}."), slot, rows, apart);
                }
            }
            members => {
                apart.extend([&kind.base, &kind.value].into_iter().flatten().cloned());
                apart.extend(members.iter().filter(|members| !members.is_empty()).map(|_| one.kind.clone()));
                rows.push([slot.to_string(), one.offset.to_string(), kind.number_of_bytes.clone(), kind.label.clone(), name]);
            }
        }
    }
}

fn aligned(rows: &[[String; 5]]) -> String {
    let widths: Vec<usize> =
        (0..5).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default()).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
