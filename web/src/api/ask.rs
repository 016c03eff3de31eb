//! A question with its parameters, of which each has been looked up in the table; and lists, which are answered in parts.

use super::{
    Endpoint,
    form::{Form, Shown},
    problem::Problem,
};
use crate::{
    database::{DatabaseError, Place, Read},
    site::Site,
};
use alloy_primitives::{Address, B256};
use serde::Serialize;
use sqlx::any::AnyRow;
use std::{collections::BTreeMap, sync::Arc};

/// Items of a page when nothing is said, and at most.
const USUAL: i64 = 25;
const MOST: i64 = 100;

/// A question.
#[derive(Debug)]
pub struct Ask {
    /// What may be asked.
    pub site: Arc<Site>,
    path: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
}

/// A part of a list.
#[derive(Clone, Debug, Serialize)]
pub struct Listing<T> {
    /// In the list's order.
    pub items: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<String>,
}

impl<T: Shown> Shown for Listing<T> {
    fn form() -> Form {
        Form::Page(Box::new(T::form()))
    }
}

impl Ask {
    /// Checks that the endpoint takes these parameters, each once.
    pub fn new(
        site: Arc<Site>,
        endpoint: &Endpoint,
        path: BTreeMap<String, String>,
        query: Vec<(String, String)>,
    ) -> Result<Self, Problem> {
        let known: Vec<_> = endpoint.questions().map(|parameter| parameter.name).collect();
        let mut ask = Self { site, path, query: BTreeMap::new() };
        for (name, value) in query {
            if !known.contains(&name.as_str()) {
                let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::bad(format!("{name:.40}: no such parameter; {} takes {takes}", endpoint.path)));
            }
            if ask.query.insert(name.clone(), value).is_some() {
                return Err(Problem::bad(format!("{name}: given twice")));
            }
        }
        Ok(ask)
    }

    /// A parameter of the query, if it is there and not empty.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A parameter of the query that is a whole number, if it is given.
    pub fn whole(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(number) = self.query(name) else { return Ok(None) };
        number.parse().map(Some).map_err(|_| Problem::bad(format!("{name}: a whole number")))
    }

    /// A parameter of the path.
    pub fn path(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// `{address}`
    pub fn address(&self) -> Result<Address, Problem> {
        address(self.path("address"))
    }

    /// `{hash}`
    pub fn hash(&self) -> Result<B256, Problem> {
        hash(self.path("hash")).ok_or_else(|| Problem::bad("hash: a hash is 0x and 64 digits"))
    }

    /// How many items are wanted.
    pub fn limit(&self) -> Result<i64, Problem> {
        let Some(limit) = self.query("limit") else { return Ok(USUAL) };
        let limit = limit.parse().ok().filter(|limit| (1..=MOST).contains(limit));
        limit.ok_or_else(|| Problem::bad(format!("limit: a number from 1 to {MOST}")))
    }

    /// The bytes of a cursor, if one is given, that has one of these lengths.
    pub fn cursor(&self, lengths: &[usize]) -> Result<Option<Vec<u8>>, Problem> {
        let Some(cursor) = self.query("cursor") else { return Ok(None) };
        let bytes = hex::decode(cursor).ok().filter(|bytes| lengths.contains(&bytes.len()));
        bytes.map(Some).ok_or_else(|| Problem::bad("cursor: not one of this list; give what `next` said, or none to begin"))
    }

    /// A cursor that is one number, or `otherwise`.
    pub fn number(&self, otherwise: i64) -> Result<i64, Problem> {
        let bytes = self.cursor(&[8])?;
        let number = |bytes: Vec<u8>| bytes.try_into().ok().map(i64::from_be_bytes);
        Ok(bytes.and_then(number).unwrap_or(otherwise))
    }

    /// Lists that go down from a place: below this one.
    pub fn below(&self) -> Result<Place, Problem> {
        self.number(Place::END.0).map(Place)
    }
}

/// An address as people write it: any capitals, with or without `0x`.
pub fn address(text: &str) -> Result<Address, Problem> {
    text.trim().parse().map_err(|_| Problem::bad("address: an address is 0x and 40 digits"))
}

/// A hash of 32 bytes, with or without `0x`.
pub fn hash(text: &str) -> Option<B256> {
    text.trim().parse().ok()
}

/// A cursor of one number.
pub fn at(number: i64) -> String {
    hex::encode(number.to_be_bytes())
}

/// Of `limit` + 1 rows, those that are wanted; and, if there is one more, the place of the last.
pub fn cut(rows: &mut Vec<AnyRow>, limit: i64, column: &'static str) -> Result<Option<String>, DatabaseError> {
    if rows.len() <= limit as usize {
        return Ok(None);
    }
    rows.truncate(limit as usize);
    rows.last().map(|row| row.int(column).map(at)).transpose()
}

impl<T> Listing<T> {
    /// Items of `limit` + 1 rows that a number in `column` orders.
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
