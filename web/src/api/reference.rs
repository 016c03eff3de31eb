//! Generates the documentation `docs/explorer-api.md`. The page at `/api` has the same content.

use super::{
    ENDPOINTS, Endpoint,
    etherscan::ACTIONS,
    form::{Form, Object},
    problem::Problem,
};
use crate::{api::form::Shown, api::texts};
use std::{collections::BTreeSet, fmt::Write};

const HEAD: &str = "\
<!-- Made from web/src/api: `WRITE_DOCS=1 cargo test -p corniche-web --test api reference`. -->
# The explorer's API
";

/// Returns every object of the API once, in order of first use.
pub fn objects() -> Vec<Object> {
    let forms = ENDPOINTS.iter().map(|endpoint| (endpoint.form)()).chain([Problem::form()]);
    let mut known = BTreeSet::new();
    let objects: Vec<Object> = forms.flat_map(|form| form.objects().into_iter().cloned().collect::<Vec<_>>()).collect();
    objects.into_iter().filter(|object| known.insert(object.name)).collect()
}

/// Returns an example response as formatted JSON; `None` for files.
pub fn example(endpoint: &Endpoint) -> Option<String> {
    let form = (endpoint.form)();
    (!matches!(form, Form::Lines(_))).then(|| serde_json::to_string_pretty(&form.example()).unwrap_or_default())
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
            let _ = writeln!(page, "| `{}` | {} | {} |", field.name, field.form.kind(), field.meaning);
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
    let form = (endpoint.form)();
    let _ = write!(page, "\n### `{}`\n\n{}\n", endpoint.path, endpoint.about);
    if !endpoint.parameters.is_empty() {
        let _ = write!(page, "\n| {} | {} |\n|---|---|\n", texts::PARAMETER, texts::MEANING);
        for parameter in endpoint.parameters {
            let note = if parameter.required { String::new() } else { format!(" ({})", texts::OPTIONAL) };
            let _ = writeln!(page, "| `{}`{note} | {} |", parameter.name, parameter.about);
        }
    }
    match &form {
        Form::Lines(columns) => _ = write!(page, "\n{}: {}.\n", texts::COLUMNS, code(columns)),
        form => _ = write!(page, "\n{}: {}.\n", texts::ANSWER, form.kind()),
    }
    if let Some(example) = example(endpoint) {
        let _ = write!(page, "\n```json\n{example}\n```\n");
    }
}

fn code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
