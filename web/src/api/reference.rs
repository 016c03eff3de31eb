//! Generates the documentation `docs/explorer-api.md`. The page at `/api` has the same content.

use super::{
    ENDPOINTS, Endpoint,
    etherscan::ACTIONS,
    problem::Problem,
    schema::{Object, Schema},
};
use crate::{api::schema::HasSchema, api::texts};
use std::{collections::BTreeSet, fmt::Write};

const HEAD: &str = "\
<!-- Made from web/src/api: `WRITE_DOCS=1 cargo test -p corniche-web --test api reference`. -->
# The explorer's API
";

/// Returns every object of the API once, in order of first use.
pub fn objects() -> Vec<Object> {
    let schemas = ENDPOINTS.iter().map(|endpoint| (endpoint.schema)()).chain([Problem::schema()]);
    let mut known = BTreeSet::new();
    let objects: Vec<Object> = schemas.flat_map(|schema| schema.objects().into_iter().cloned().collect::<Vec<_>>()).collect();
    objects.into_iter().filter(|object| known.insert(object.name)).collect()
}

/// Returns an example response as formatted JSON; `None` for files.
pub fn example(endpoint: &Endpoint) -> Option<String> {
    let schema = (endpoint.schema)();
    (!matches!(schema, Schema::Lines(_))).then(|| serde_json::to_string_pretty(&schema.example()).unwrap_or_default())
}

/// Returns the whole page.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for paragraph in texts::INTRODUCTION {
        page += &format!("\n{paragraph}\n");
    }
    page += &format!("\n## {}\n", texts::ENDPOINTS);
    for endpoint in ENDPOINTS {
        describe(&mut page, endpoint);
    }
    page += &format!("\n## {}\n\n{}\n", texts::FILES, texts::FILES_NOTE);
    page += &format!("\n## {}\n", texts::OBJECTS);
    for object in objects() {
        let _ = write!(
            page,
            "\n### {}\n\n{}\n\n| {} | {} | {} |\n|---|---|---|\n",
            object.name,
            object.about,
            texts::FIELD,
            texts::HOLDS,
            texts::MEANING
        );
        for field in &object.fields {
            let _ = writeln!(page, "| `{}` | {} | {} |", field.name, field.schema.kind(), field.meaning);
        }
    }
    let _ = write!(
        page,
        "\n## {}\n\n{}\n\n| {} | {} | {} |\n|---|---|---|\n",
        texts::ETHERSCAN,
        texts::ETHERSCAN_NOTE,
        texts::ACTION,
        texts::TAKES,
        texts::ANSWER
    );
    for action in ACTIONS {
        let _ = writeln!(page, "| `{}` `{}` | {} | {} |", action.module, action.name, code(action.takes), action.about);
    }
    page
}

fn describe(page: &mut String, endpoint: &Endpoint) {
    let schema = (endpoint.schema)();
    let _ = write!(page, "\n### `{}`\n\n{}\n", endpoint.path, endpoint.about);
    if !endpoint.parameters.is_empty() {
        let _ = write!(page, "\n| {} | {} |\n|---|---|\n", texts::PARAMETER, texts::MEANING);
        for parameter in endpoint.parameters {
            let note = if parameter.required { String::new() } else { format!(" ({})", texts::OPTIONAL) };
            let _ = writeln!(page, "| `{}`{note} | {} |", parameter.name, parameter.about);
        }
    }
    match &schema {
        Schema::Lines(columns) => _ = write!(page, "\n{}: {}.\n", texts::COLUMNS, code(columns)),
        schema => _ = write!(page, "\n{}: {}.\n", texts::ANSWER, schema.kind()),
    }
    if let Some(example) = example(endpoint) {
        let _ = write!(page, "\n```json\n{example}\n```\n");
    }
}

fn code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
