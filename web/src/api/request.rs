//! A request with parameters that are checked against the table; and paginated lists.

use super::{Endpoint, problem::Problem, schema::HasSchema};
use crate::{
    app_state::AppState,
    database::{DatabaseError, Place, Read},
    views::reference::Schema,
};
use alloy_primitives::{Address, B256};
use serde::Serialize;
use sqlx::any::AnyRow;
use std::{collections::BTreeMap, sync::Arc};

/// Default and maximum number of items of a page.
const DEFAULT_LIMIT: i64 = 25;
const MAX_LIMIT: i64 = 100;

/// A request.
#[derive(Debug)]
pub struct ApiRequest {
    /// Application state.
    pub app: Arc<AppState>,
    path: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
}

/// A page of a list.
#[derive(Clone, Debug, Serialize)]
pub struct Listing<T> {
    /// Items in the order of the list.
    pub items: Vec<T>,
    /// Cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

impl<T: HasSchema> HasSchema for Listing<T> {
    fn schema() -> Schema {
        Schema::Page(Box::new(T::schema()))
    }
}

impl ApiRequest {
    /// Creates a request. Checks that the endpoint has these parameters, and that each occurs at most once.
    pub fn new(
        app: Arc<AppState>,
        endpoint: &Endpoint,
        path: BTreeMap<String, String>,
        query: Vec<(String, String)>,
    ) -> Result<Self, Problem> {
        let known: Vec<_> = endpoint.query_parameters().map(|parameter| parameter.name).collect();
        let mut request = Self { app, path, query: BTreeMap::new() };
        for (name, value) in query {
            if !known.contains(&name.as_str()) {
                let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::bad(format!("{name:.40}: unknown parameter; {} takes {takes}", endpoint.path)));
            }
            if request.query.insert(name.clone(), value).is_some() {
                return Err(Problem::bad(format!("{name}: duplicate parameter")));
            }
        }
        Ok(request)
    }

    /// Returns a query parameter, or `None` if it is missing or empty.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns an integer query parameter, if it is present.
    pub fn whole(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(number) = self.query(name) else { return Ok(None) };
        number.parse().map(Some).map_err(|_| Problem::bad(format!("{name}: expected a whole number")))
    }

    /// Returns a path parameter.
    pub fn path(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// `{address}`
    pub fn address(&self) -> Result<Address, Problem> {
        address(self.path("address"))
    }

    /// `{hash}`
    pub fn hash(&self) -> Result<B256, Problem> {
        hash(self.path("hash")).ok_or_else(|| Problem::bad("hash: expected 0x and 64 hexadecimal digits"))
    }

    /// Returns the number of items of a page.
    pub fn limit(&self) -> Result<i64, Problem> {
        let Some(limit) = self.query("limit") else { return Ok(DEFAULT_LIMIT) };
        let limit = limit.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit.ok_or_else(|| Problem::bad(format!("limit: expected a number from 1 to {MAX_LIMIT}")))
    }

    /// Returns the bytes of the cursor, if there is one. Its length must be one of `lengths`.
    pub fn cursor(&self, lengths: &[usize]) -> Result<Option<Vec<u8>>, Problem> {
        let Some(cursor) = self.query("cursor") else { return Ok(None) };
        let bytes = hex::decode(cursor).ok().filter(|bytes| lengths.contains(&bytes.len()));
        bytes.map(Some).ok_or_else(|| Problem::bad("cursor: expected `next` of the previous page; omit it for the first page"))
    }

    /// Returns a cursor that is one number; `otherwise` without a cursor.
    pub fn number(&self, otherwise: i64) -> Result<i64, Problem> {
        let bytes = self.cursor(&[8])?;
        let number = |bytes: Vec<u8>| bytes.try_into().ok().map(i64::from_be_bytes);
        Ok(bytes.and_then(number).unwrap_or(otherwise))
    }

    /// Returns the place below which a descending list continues.
    pub fn below(&self) -> Result<Place, Problem> {
        self.number(Place::END.0).map(Place)
    }
}

/// Parses an address: any case, with or without `0x`.
pub fn address(text: &str) -> Result<Address, Problem> {
    text.trim().parse().map_err(|_| Problem::bad("address: expected 0x and 40 hexadecimal digits"))
}

/// Parses a hash of 32 bytes, with or without `0x`.
pub fn hash(text: &str) -> Option<B256> {
    text.trim().parse().ok()
}

/// Encodes a number as a cursor.
pub fn at(number: i64) -> String {
    hex::encode(number.to_be_bytes())
}

/// Truncates `limit` + 1 rows to `limit`. Returns the cursor of the next page if there is one more row.
pub fn cut(rows: &mut Vec<AnyRow>, limit: i64, column: &'static str) -> Result<Option<String>, DatabaseError> {
    if rows.len() <= limit as usize {
        return Ok(None);
    }
    rows.truncate(limit as usize);
    rows.last().map(|row| row.int(column).map(at)).transpose()
}

impl<T> Listing<T> {
    /// Makes a page from `limit` + 1 rows that are sorted by a number in `column`.
    pub fn of(
        mut rows: Vec<AnyRow>,
        limit: i64,
        column: &'static str,
        item: impl FnMut(&AnyRow) -> Result<T, DatabaseError>,
    ) -> Result<Self, Problem> {
        let next = cut(&mut rows, limit, column)?;
        Ok(Self { items: rows.iter().map(item).collect::<Result<_, _>>()?, next })
    }
}
