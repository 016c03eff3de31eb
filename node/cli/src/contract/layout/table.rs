//! A layout for people.

use super::solc::{Layout, Variable};
use std::collections::BTreeSet;

const HEAD: [&str; 5] = ["slot", "offset", "bytes", "type", "name"];

/// A table of the contract's fields, those of structs in it by their own names; then one for each struct that a mapping or an array holds.
pub fn table(layout: &Layout) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    let mut apart = Vec::new();
    rows.extend(layout.storage.iter().flat_map(|one| layout.rows(one, "", 0, &mut apart)));
    let mut tables = vec![aligned(&rows)];
    let mut told = BTreeSet::new();
    while let Some(id) = apart.pop() {
        let Some(kind) = layout.types.get(&id).filter(|_| told.insert(id.clone())) else { continue };
        let Some(members) = &kind.members else {
            apart.extend([&kind.base, &kind.value].into_iter().flatten().cloned());
            continue;
        };
        let mut rows = vec![HEAD.map(str::to_owned)];
        rows.extend(members.iter().flat_map(|one| layout.rows(one, "", 0, &mut apart)));
        tables.push(format!("{}, {} bytes\n{}", kind.label, kind.number_of_bytes, aligned(&rows)));
    }
    tables.join("\n\n")
}

impl Layout {
    /// A field's, or its members'. Types whose values lie elsewhere or side by side are told `apart`.
    fn rows(&self, one: &Variable, path: &str, from: u64, apart: &mut Vec<String>) -> Vec<[String; 5]> {
        let Some(kind) = self.types.get(&one.kind) else { return Vec::new() };
        let slot = one.slot.parse::<u64>().unwrap_or_default().saturating_add(from);
        let name = format!("{path}{}", one.label);
        if let Some(members) = kind.members.as_ref().filter(|members| !members.is_empty()) {
            return members.iter().flat_map(|member| self.rows(member, &format!("{name}."), slot, apart)).collect();
        }
        apart.extend([&kind.base, &kind.value].into_iter().flatten().cloned());
        vec![[slot.to_string(), one.offset.to_string(), kind.number_of_bytes.clone(), kind.label.clone(), name]]
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
