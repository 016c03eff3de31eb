//! Documentation of the API.

use super::{Html, layout, parts};
use crate::{
    app_state::AppState,
    texts::reference as texts,
    views::reference::{Action, Endpoint, Field, Object, Parameter, Reference, Schema},
};
use maud::{Markup, html};

const EXAMPLE: &str = "Example response";

/// `/api`
pub fn page(app: &AppState, reference: &Reference) -> Html {
    let body = html! {
        h1 { (texts::TITLE) }
        @for paragraph in texts::INTRODUCTION { p { (paragraph) } }
        h2 { (texts::ENDPOINTS) }
        @for endpoint in &reference.endpoints { (describe(endpoint)) }
        section { h2 { (texts::FILES) } p { (texts::FILES_NOTE) } }
        section #etherscan { h2 { (texts::ETHERSCAN) } p { (texts::ETHERSCAN_NOTE) } (actions(&reference.actions)) }
        h2 { (texts::OBJECTS) }
        @for object in &reference.objects { (show(object)) }
    };
    layout::page(app, texts::TITLE, body)
}

fn describe(endpoint: &Endpoint) -> Markup {
    let row = |parameter: &Parameter| {
        let note = html! { @if !parameter.required { " " span .note { (texts::OPTIONAL) } } };
        vec![html! { span { code { (parameter.name) } (note) } }, prose(parameter.about)]
    };
    html! {
        section {
            h3 { code { (endpoint.path) } }
            p { (prose(endpoint.about)) }
            @if !endpoint.parameters.is_empty() {
                (parts::table(texts::PARAMETER, &[texts::PARAMETER, texts::MEANING], endpoint.parameters.iter().map(row).collect()))
            }
            @if let Schema::Lines(columns) = &endpoint.schema {
                p { (texts::COLUMNS) ": " @for column in *columns { code { (column) } " " } }
            } @else {
                p { (texts::ANSWER) ": " (kind(&endpoint.schema)) }
            }
            @if let Some(example) = endpoint.example() {
                details { summary { (EXAMPLE) } pre .bytes tabindex="0" { code { (example) } } }
            }
        }
    }
}

/// Short description of a schema, with a link to its object.
fn kind(schema: &Schema) -> Markup {
    match schema.objects().first() {
        Some(object) => html! { a href={ "#" (object.name) } { (schema.kind()) } },
        None => html! { (schema.kind()) },
    }
}

fn show(object: &Object) -> Markup {
    let row = |field: &Field| vec![html! { code { (field.name) } }, kind(&field.schema), prose(&field.meaning)];
    html! {
        section id=(object.name) {
            h3 { (object.name) }
            p { (prose(&object.about)) }
            (parts::table(object.name, &[texts::FIELD, texts::HOLDS, texts::MEANING], object.fields.iter().map(row).collect()))
        }
    }
}

fn actions(actions: &[Action]) -> Markup {
    let row = |action: &Action| {
        vec![
            html! { span { code { (action.module) } " " code { (action.name) } } },
            html! { span { @for takes in action.takes { code { (takes) } " " } } },
            prose(action.about),
        ]
    };
    parts::table(texts::ETHERSCAN, &[texts::ACTION, texts::TAKES, texts::ANSWER], actions.iter().map(row).collect())
}

/// Renders text with code between backticks.
fn prose(text: &str) -> Markup {
    let parts = html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    };
    // On a phone a cell is a row of its children. The `span` makes this text one child.
    if text.contains('`') {
        html! { span { (parts) } }
    } else {
        parts
    }
}
