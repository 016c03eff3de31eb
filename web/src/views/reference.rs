//! Reference of the API: a description of all endpoints and objects. `docs/explorer-api.md` and the page `/api` show it.

use serde_json::{Value, json};

/// Reference of the API.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Endpoints of the JSON API and of the CSV files.
    pub endpoints: Vec<Endpoint>,
    /// Objects in responses, each once, in order of first use.
    pub objects: Vec<Object>,
    /// Actions of the Etherscan-compatible API.
    pub actions: Vec<Action>,
}

/// An endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Description of the response.
    pub about: &'static str,
    /// Parameters; those of the path first.
    pub parameters: &'static [Parameter],
    /// Schema of the response.
    pub schema: Schema,
}

/// A parameter of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: &'static str,
    /// Meaning of the parameter.
    pub about: &'static str,
    /// `true` if the parameter is required.
    pub required: bool,
}

/// An action of the Etherscan-compatible API.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// `account`
    pub module: &'static str,
    /// `txlist`
    pub name: &'static str,
    /// Names of its parameters.
    pub takes: &'static [&'static str],
    /// Description of the response.
    pub about: &'static str,
}

impl Endpoint {
    /// Returns an example response as formatted JSON; `None` for files.
    pub fn example(&self) -> Option<String> {
        let is_file = matches!(self.schema, Schema::Lines(_));
        (!is_file).then(|| serde_json::to_string_pretty(&self.schema.example()).unwrap_or_default())
    }
}

/// Schema of a value.
#[derive(Clone, Debug)]
pub enum Schema {
    /// A plain value.
    Plain {
        /// Type name in the documentation.
        kind: &'static str,
        /// Example value.
        example: Value,
    },
    /// A nullable value.
    Maybe(Box<Schema>),
    /// An array.
    List(Box<Schema>),
    /// A page of a list, with the cursor of the next one.
    Page(Box<Schema>),
    /// An object with fields.
    Object(Object),
    /// CSV with these columns.
    Lines(&'static [&'static str]),
}

/// An object with its own name in the documentation.
#[derive(Clone, Debug)]
pub struct Object {
    /// `Block`
    pub name: &'static str,
    /// Description.
    pub about: String,
    /// Fields in the order in which they are served. All fields are always present.
    pub fields: Vec<Field>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name in JSON.
    pub name: String,
    /// Meaning.
    pub meaning: String,
    /// Schema.
    pub schema: Schema,
    /// Example, if that of the schema does not fit.
    pub example: Option<Value>,
}

impl Schema {
    /// Returns a short name of the type.
    pub fn kind(&self) -> String {
        match self {
            Self::Plain { kind, .. } => (*kind).to_owned(),
            Self::Maybe(schema) => format!("{} or null", schema.kind()),
            Self::List(schema) => format!("list of {}", schema.kind()),
            Self::Page(schema) => format!("page of {}", schema.kind()),
            Self::Object(object) => object.name.to_owned(),
            Self::Lines(_) => "CSV".to_owned(),
        }
    }

    /// Returns an example.
    pub fn example(&self) -> Value {
        match self {
            Self::Plain { example, .. } => example.clone(),
            Self::Maybe(schema) => schema.example(),
            Self::List(schema) => json!([schema.example()]),
            Self::Page(schema) => json!({"items": [schema.example()], "next": "0000000000a00003"}),
            Self::Object(object) => {
                let example = |field: &Field| field.example.clone().unwrap_or_else(|| field.schema.example());
                object.fields.iter().map(|field| (field.name.clone(), example(field))).collect()
            }
            Self::Lines(columns) => json!(columns.join(",")),
        }
    }

    /// Returns the objects in it. An object comes before the objects of its fields.
    pub fn objects(&self) -> Vec<&Object> {
        match self {
            Self::Plain { .. } | Self::Lines(_) => Vec::new(),
            Self::Maybe(schema) | Self::List(schema) | Self::Page(schema) => schema.objects(),
            Self::Object(object) => {
                std::iter::once(object).chain(object.fields.iter().flat_map(|field| field.schema.objects())).collect()
            }
        }
    }
}
