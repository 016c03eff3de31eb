//! Generates the documentation `docs/explorer-api.md`. The page at `/api` has the same content.

use super::{ENDPOINTS, etherscan::ACTIONS, problem::Problem, schema::HasSchema};
use crate::{
    texts::reference as texts,
    views::reference::{Action, Endpoint, Object, Reference, Schema},
};
use std::{collections::BTreeSet, fmt::Write};

const HEAD: &str = "\
<!-- Made from web/src/api: `WRITE_DOCS=1 cargo test -p corniche-web --test api reference`. -->
# The explorer's API
";

/// Returns the reference of all endpoints.
pub fn reference() -> Reference {
    let endpoints: Vec<Endpoint> = ENDPOINTS
        .iter()
        .map(|endpoint| Endpoint {
            path: endpoint.path,
            about: endpoint.about,
            parameters: endpoint.parameters,
            schema: (endpoint.schema)(),
        })
        .collect();
    let action = |action: &super::etherscan::Action| action.reference;
    Reference { objects: objects(&endpoints), endpoints, actions: ACTIONS.iter().map(action).collect() }
}

/// Returns every object of the API once, in order of first use.
fn objects(endpoints: &[Endpoint]) -> Vec<Object> {
    let problem = Problem::schema();
    let schemas = endpoints.iter().map(|endpoint| &endpoint.schema).chain([&problem]);
    let mut known = BTreeSet::new();
    schemas.flat_map(Schema::objects).filter(|object| known.insert(object.name)).cloned().collect()
}

/// Returns the whole document.
pub fn markdown() -> String {
    let reference = reference();
    let mut page = HEAD.to_owned();
    for paragraph in texts::INTRODUCTION {
        page += &format!("\n{paragraph}\n");
    }
    page += &format!("\n## {}\n", texts::ENDPOINTS);
    for endpoint in &reference.endpoints {
        describe(&mut page, endpoint);
    }
    page += &format!("\n## {}\n\n{}\n", texts::FILES, texts::FILES_NOTE);
    page += &format!("\n## {}\n", texts::OBJECTS);
    for object in &reference.objects {
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
    for action in &reference.actions {
        let Action { module, name, takes, about } = action;
        let _ = writeln!(page, "| `{module}` `{name}` | {} | {about} |", code(takes));
    }
    page
}

fn describe(page: &mut String, endpoint: &Endpoint) {
    let _ = write!(page, "\n### `{}`\n\n{}\n", endpoint.path, endpoint.about);
    if !endpoint.parameters.is_empty() {
        let _ = write!(page, "\n| {} | {} |\n|---|---|\n", texts::PARAMETER, texts::MEANING);
        for parameter in endpoint.parameters {
            let note = if parameter.required { String::new() } else { format!(" ({})", texts::OPTIONAL) };
            let _ = writeln!(page, "| `{}`{note} | {} |", parameter.name, parameter.about);
        }
    }
    match &endpoint.schema {
        Schema::Lines(columns) => _ = write!(page, "\n{}: {}.\n", texts::COLUMNS, code(columns)),
        schema => _ = write!(page, "\n{}: {}.\n", texts::ANSWER, schema.kind()),
    }
    if let Some(example) = endpoint.example() {
        let _ = write!(page, "\n```json\n{example}\n```\n");
    }
}

fn code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
