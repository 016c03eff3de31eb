//! Validates the sections of a module, except the bodies of its functions.

use super::error::malformed;
use super::limits::*;
use super::names::{printable, signature_text, value_text};
use super::{ModuleValidator, ValidationError, value_type, wasm_type};
use corniche_abi::{CONSOLE_MODULE, ENTRYPOINT_EXPORT, MEMORY_EXPORT};
use wasmparser::{
    CompositeInnerType, DataKind, ElementItems, ElementKind, ExternalKind, FuncType, Operator, Payload, TableInit, TypeRef,
    ValType,
};

impl<'a> ModuleValidator<'a> {
    pub(super) fn check_limits(&mut self, payload: &Payload<'a>) -> Result<(), ValidationError> {
        match payload {
            Payload::Version { .. } | Payload::CustomSection(_) | Payload::End(_) => {}
            Payload::TypeSection(section) => {
                limit("types", section.count(), MAX_TYPES)?;
                for group in section.clone() {
                    for ty in group.map_err(malformed)?.types() {
                        let CompositeInnerType::Func(function) = &ty.composite_type.inner else {
                            return Err(ValidationError::Feature("garbage-collected types"));
                        };
                        self.types.push(function.clone());
                    }
                }
                self.signatures()?;
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    self.import(import.map_err(malformed)?)?;
                }
            }
            Payload::FunctionSection(section) => {
                limit("functions", section.count(), MAX_FUNCTIONS)?;
                self.defined_functions = section.count();
                for ty in section.clone() {
                    self.function_types.push(ty.map_err(malformed)?);
                }
            }
            Payload::TableSection(section) => self.tables(section)?,
            Payload::MemorySection(section) => self.memories(section)?,
            Payload::TagSection(_) => return Err(ValidationError::Feature("exceptions (a tag section)")),
            Payload::GlobalSection(section) => {
                limit("globals", section.count(), MAX_GLOBALS)?;
                self.globals = section.count();
                for global in section.clone() {
                    let global = global.map_err(malformed)?;
                    value_type(global.ty.content_type).map_err(ValidationError::Feature)?;
                    if global.ty.shared {
                        return Err(ValidationError::Feature("shared globals (threads)"));
                    }
                    constant(&global.init_expr)?;
                }
            }
            Payload::ExportSection(section) => {
                limit("exports", section.count(), MAX_EXPORTS)?;
                for export in section.clone() {
                    self.export(&export.map_err(malformed)?)?;
                }
            }
            Payload::StartSection { .. } => return Err(ValidationError::Feature("start functions")),
            Payload::ElementSection(section) => self.elements(section)?,
            Payload::DataCountSection { count, .. } => limit("data segments", *count, MAX_DATA_SEGMENTS)?,
            Payload::CodeSectionStart { count, .. } => limit("functions", *count, MAX_FUNCTIONS)?,
            Payload::CodeSectionEntry(_) => {}
            Payload::DataSection(section) => self.data(section)?,
            Payload::UnknownSection { .. } => return Err(ValidationError::Malformed("unknown section".into())),
            _ => return Err(ValidationError::Feature("components")),
        }
        Ok(())
    }

    fn import(&mut self, import: wasmparser::Import<'_>) -> Result<(), ValidationError> {
        let unknown = || ValidationError::UnknownImport { module: printable(import.module), name: printable(import.name) };
        let call = match import.module {
            CONSOLE_MODULE if self.rules.console => corniche_abi::console(import.name),
            CONSOLE_MODULE => return Err(ValidationError::Console(printable(import.name))),
            module => corniche_abi::import(module, import.name),
        };
        let call = call.ok_or_else(unknown)?;
        let wrong = |have: String| ValidationError::WrongImport {
            module: printable(import.module),
            name: printable(import.name),
            want: signature_text(call.parameters.iter().map(|t| value_text(*t)), call.result.map(value_text)),
            have,
        };
        let TypeRef::Func(index) = import.ty else { return Err(wrong("something else than a function".into())) };
        let have = self.types.get(index as usize).ok_or_else(|| ValidationError::Malformed("unknown type".into()))?;
        let want: Vec<ValType> = call.parameters.iter().copied().map(wasm_type).collect();
        let result: Vec<ValType> = call.result.into_iter().map(wasm_type).collect();
        if have.params() != want || have.results() != result {
            return Err(wrong(signature_text(
                have.params().iter().map(ToString::to_string),
                (!have.results().is_empty())
                    .then(|| have.results().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")),
            )));
        }
        self.function_types.push(index);
        self.imported_functions += 1;
        limit("imports", self.imported_functions, MAX_IMPORTS)
    }

    /// Reports a refused type: names a function that uses it, or the type itself if none does.
    fn signatures(&self) -> Result<(), ValidationError> {
        for (index, ty) in (0..).zip(&self.types) {
            let Some(reason) = refused_signature(ty) else { continue };
            return Err(match self.first_uses.get(&index) {
                Some(function) => ValidationError::Function { place: self.place(*function), reason },
                None => ValidationError::Type { index, reason },
            });
        }
        Ok(())
    }

    fn tables(&mut self, section: &wasmparser::TableSectionReader<'a>) -> Result<(), ValidationError> {
        limit("tables", section.count(), 1)?;
        for table in section.clone() {
            let table = table.map_err(malformed)?;
            if !table.ty.element_type.is_func_ref() || !matches!(table.init, TableInit::RefNull) {
                return Err(ValidationError::Feature("tables of references"));
            }
            if table.ty.table64 || table.ty.shared {
                return Err(ValidationError::Feature("64-bit or shared tables"));
            }
            if table.ty.initial > MAX_TABLE_ENTRIES {
                return Err(ValidationError::Limit { what: "table entries", have: table.ty.initial, limit: MAX_TABLE_ENTRIES });
            }
            self.table = Some(table.ty.initial);
        }
        Ok(())
    }

    fn memories(&mut self, section: &wasmparser::MemorySectionReader<'a>) -> Result<(), ValidationError> {
        if section.count() > 1 {
            return Err(ValidationError::Feature("several memories (multi-memory)"));
        }
        for memory in section.clone() {
            let memory = memory.map_err(malformed)?;
            if memory.memory64 {
                return Err(ValidationError::Feature("64-bit memories (memory64)"));
            }
            if memory.shared {
                return Err(ValidationError::Feature("shared memories (threads)"));
            }
            if memory.page_size_log2.is_some() {
                return Err(ValidationError::Feature("custom page sizes"));
            }
            let limit = u64::from(MAX_MEMORY_PAGES);
            if memory.initial > limit {
                return Err(ValidationError::Limit { what: "memory pages", have: memory.initial, limit });
            }
            let maximum = memory.maximum.unwrap_or(limit).min(limit);
            self.memory = Some((memory.initial as u32, maximum as u32));
        }
        Ok(())
    }

    fn export(&mut self, export: &wasmparser::Export<'_>) -> Result<(), ValidationError> {
        if export.name.len() > MAX_NAME_BYTES {
            return Err(ValidationError::Limit {
                what: "bytes in a name",
                have: export.name.len() as u64,
                limit: MAX_NAME_BYTES as u64,
            });
        }
        match (export.name, export.kind) {
            (MEMORY_EXPORT, ExternalKind::Memory) => self.exports_memory = true,
            (MEMORY_EXPORT, _) => return Err(ValidationError::Export(MEMORY_EXPORT, "it must be the memory")),
            (ENTRYPOINT_EXPORT, ExternalKind::Func) => self.entrypoint = Some(export.index),
            (ENTRYPOINT_EXPORT, _) => return Err(ValidationError::Export(ENTRYPOINT_EXPORT, "it must be a function")),
            // Instrumentation drops all other exports.
            _ => {}
        }
        Ok(())
    }

    fn elements(&mut self, section: &wasmparser::ElementSectionReader<'a>) -> Result<(), ValidationError> {
        limit("element segments", section.count(), MAX_ELEMENT_SEGMENTS)?;
        for element in section.clone() {
            let element = element.map_err(malformed)?;
            let ElementKind::Active { table_index, offset_expr } = element.kind else {
                return Err(ValidationError::Feature("passive or declared element segments (bulk memory, reference types)"));
            };
            let ElementItems::Functions(functions) = element.items else {
                return Err(ValidationError::Feature("element segments of expressions (reference types)"));
            };
            let size = self.table.filter(|_| table_index.unwrap_or(0) == 0);
            let size = size.ok_or_else(|| ValidationError::Malformed("an element segment without its table".into()))?;
            within("element", constant(&offset_expr)?, u64::from(functions.count()), size)?;
        }
        Ok(())
    }

    fn data(&mut self, section: &wasmparser::DataSectionReader<'a>) -> Result<(), ValidationError> {
        limit("data segments", section.count(), MAX_DATA_SEGMENTS)?;
        for data in section.clone() {
            let data = data.map_err(malformed)?;
            let DataKind::Active { memory_index: 0, offset_expr } = data.kind else {
                return Err(ValidationError::Feature("passive data segments (bulk memory)"));
            };
            let (pages, _) = self.memory.ok_or_else(|| ValidationError::Malformed("a data segment without memory".into()))?;
            within("data", constant(&offset_expr)?, data.data.len() as u64, u64::from(pages) * 65_536)?;
        }
        Ok(())
    }
}

fn refused_signature(ty: &FuncType) -> Option<String> {
    for value in ty.params().iter().chain(ty.results()) {
        if let Err(feature) = value_type(*value) {
            return Some(format!("{value} in its signature; {feature} are not allowed"));
        }
    }
    if ty.results().len() > 1 {
        return Some("several results (multi-value) are not allowed".into());
    }
    (ty.params().len() > MAX_PARAMETERS as usize)
        .then(|| format!("{} parameters; at most {MAX_PARAMETERS} are allowed", ty.params().len()))
}

/// Returns the value of an initialiser, which must be a single constant.
fn constant(expression: &wasmparser::ConstExpr<'_>) -> Result<u64, ValidationError> {
    let mut reader = expression.get_operators_reader();
    let value = match reader.read().map_err(malformed)? {
        Operator::I32Const { value } => u64::from(value as u32),
        Operator::I64Const { value } => value as u64,
        Operator::F32Const { .. } | Operator::F64Const { .. } => return Err(ValidationError::Feature("floating-point values")),
        _ => return Err(ValidationError::Feature("initialisers other than a constant")),
    };
    if !matches!(reader.read(), Ok(Operator::End)) {
        return Err(ValidationError::Feature("initialisers other than a constant (extended constants)"));
    }
    Ok(value)
}
