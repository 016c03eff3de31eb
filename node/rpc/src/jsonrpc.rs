//! JSON-RPC 2.0 framing: parses requests, writes responses. Independent of the methods.
//!
//! Text that is not JSON gets error -32700, JSON that is not a request -32600. Ids are returned exactly as
//! received. A request without an id is a notification and gets no response; an id of `null` gets one.

use crate::budget::Reservation;
use corniche_api::{ErrorCode, Reason, RpcError};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Serialised result, and the memory reserved for it if it is large.
#[derive(Debug)]
pub(crate) struct Json {
    pub text: Box<RawValue>,
    pub reserved: Reservation,
}

/// Serialises a result.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<Json, RpcError> {
    let text = serde_json::value::to_raw_value(value);
    let text = text.map_err(|error| RpcError::internal(format!("cannot encode the response: {error}")))?;
    Ok(Json { text, reserved: Reservation::default() })
}

/// Parsed body.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    Single(Message<'a>),
    /// At least one element; the elements are not parsed yet.
    Batch(Vec<&'a RawValue>),
    /// The body as a whole is invalid.
    Refused(RpcError),
}

/// Element of a body.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Call(Call<'a>),
    /// Valid, but gets no response.
    Notification,
    Invalid,
}

#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub id: &'a RawValue,
    pub method: Cow<'a, str>,
    pub params: Params<'a>,
}

#[derive(Deserialize)]
struct RawCall<'a> {
    #[serde(borrow, default)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Distinguishes `"id": null` from a missing id.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Body<'a> {
    pub fn parse(bytes: &'a [u8], max_batch: usize) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::Refused(parse_error("invalid UTF-8"));
        };
        if text.trim_ascii_start().starts_with('[') {
            return match serde_json::from_str::<Vec<&RawValue>>(text) {
                Err(error) => Self::Refused(parse_error(error)),
                Ok(elements) if elements.is_empty() => Self::Refused(Reason::EmptyBatch.error()),
                Ok(elements) if elements.len() > max_batch => Self::Refused(Reason::BatchTooLarge.with(max_batch)),
                Ok(elements) => Self::Batch(elements),
            };
        }
        match Message::parse(text) {
            // Only a refused text is parsed a second time, to distinguish bad JSON from a bad request.
            Message::Invalid => match serde_json::from_str::<&RawValue>(text) {
                Ok(_) => Self::Single(Message::Invalid),
                Err(error) => Self::Refused(parse_error(error)),
            },
            message => Self::Single(message),
        }
    }
}

fn parse_error(error: impl std::fmt::Display) -> RpcError {
    RpcError::new(ErrorCode::Parse, format!("parse error: {error}"))
}

impl<'a> Message<'a> {
    pub fn parse(text: &'a str) -> Self {
        // serde would also accept an array for a struct.
        if !text.trim_ascii_start().starts_with('{') {
            return Self::Invalid;
        }
        let Ok(raw) = serde_json::from_str::<RawCall<'a>>(text) else {
            return Self::Invalid;
        };
        if raw.jsonrpc != "2.0" {
            return Self::Invalid;
        }
        match raw.id {
            None => Self::Notification,
            // Valid ids are strings, numbers and null; the first character decides.
            Some(id) if matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9' | b'n')) => {
                Self::Call(Call { id, method: raw.method, params: Params::new(raw.params) })
            }
            Some(_) => Self::Invalid,
        }
    }

    /// Error for an element that is not a request.
    pub fn invalid() -> RpcError {
        RpcError::new(ErrorCode::InvalidRequest, "invalid request")
    }
}

/// Positional parameters, each still JSON. Errors give the position, counted from 0 as in geth.
#[derive(Debug)]
pub(crate) struct Params<'a>(Result<Vec<&'a RawValue>, ()>);

impl<'a> Params<'a> {
    fn new(raw: Option<&'a RawValue>) -> Self {
        let Some(raw) = raw else { return Self(Ok(Vec::new())) };
        Self(serde_json::from_str(raw.get()).map_err(|_| ()))
    }

    fn list(&self) -> Result<&[&'a RawValue], RpcError> {
        self.0.as_deref().map_err(|()| RpcError::invalid_params("non-array args"))
    }

    /// # Errors
    ///
    /// More than `count` parameters.
    pub fn at_most(&self, count: usize) -> Result<&Self, RpcError> {
        if self.list()?.len() > count {
            return Err(RpcError::invalid_params(format!("too many arguments, want at most {count}")));
        }
        Ok(self)
    }

    pub fn required<T: DeserializeOwned>(&self, position: usize) -> Result<T, RpcError> {
        self.optional(position)?
            .ok_or_else(|| RpcError::invalid_params(format!("missing value for required argument {position}")))
    }

    /// `null` counts as absent.
    pub fn optional<T: DeserializeOwned>(&self, position: usize) -> Result<Option<T>, RpcError> {
        let Some(raw) = self.list()?.get(position) else { return Ok(None) };
        serde_json::from_str(raw.get()).map_err(|error| {
            RpcError::invalid_params(format!("invalid argument {position}: {}", truncate_middle(&error.to_string())))
        })
    }
}

/// Shortens serde's message, which may repeat a large value from the body. The expected type and the position
/// come after the value, so both ends are kept.
fn truncate_middle(text: &str) -> String {
    const KEPT_CHARS_PER_SIDE: usize = 150;
    let count = text.chars().count();
    if count <= 2 * KEPT_CHARS_PER_SIDE {
        return text.into();
    }
    let (head, tail) = (text.chars().take(KEPT_CHARS_PER_SIDE), text.chars().skip(count - KEPT_CHARS_PER_SIDE));
    head.chain(['…']).chain(tail).collect()
}

/// Appends one response.
pub(crate) fn write_response(out: &mut String, id: &str, result: &Result<Json, RpcError>) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    out.push_str(id);
    match result {
        Ok(result) => {
            out.push_str(",\"result\":");
            out.push_str(result.text.get());
        }
        Err(error) => {
            out.push_str(",\"error\":");
            out.push_str(&serde_json::to_string(error).expect("an error is a number and strings"));
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(text: &str) -> Option<String> {
        match Body::parse(text.as_bytes(), 10) {
            Body::Single(Message::Call(call)) => Some(call.id.get().into()),
            _ => None,
        }
    }

    #[test]
    fn request_ids_are_preserved() {
        for id in ["1", "\"a\\u0041\"", "null", "-3", "18446744073709551616", "1.50"] {
            assert_eq!(id_of(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)).as_deref(), Some(id));
        }
        for id in ["true", "{}", "[1]"] {
            assert_eq!(id_of(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)), None);
        }
    }

    #[test]
    fn invalid_json_and_invalid_request_codes() {
        let code = |text: &[u8]| match Body::parse(text, 2) {
            Body::Refused(error) => error.code,
            Body::Single(Message::Invalid) => Message::invalid().code,
            Body::Single(_) | Body::Batch(_) => 0,
        };
        let table: &[(&[u8], i32)] = &[
            (b"", -32700),
            (b"{", -32700),
            (b"[1,", -32700),
            (b"nonsense", -32700),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700),
            (b"{}", -32600),
            (b"1", -32600),
            (b"\"text\"", -32600),
            (b"{\"id\":1,\"method\":\"m\"}", -32600),
            (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x", -32700),
            (b" [ ] ", -32600),
            (b"[1,2,3]", -32600),
            (b"[1,2]", 0),
            (b" \n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n", 0),
        ];
        for (text, expected) in table {
            assert_eq!(code(text), *expected, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn deep_nesting_is_rejected() {
        let deep = "[".repeat(500_000);
        assert!(matches!(Body::parse(deep.as_bytes(), 10), Body::Refused(error) if error.code == -32700));
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        // Valid JSON at any depth; its one element is not a request.
        if let Body::Batch(elements) = Body::parse(deep.as_bytes(), 10) {
            assert!(matches!(Message::parse(elements[0].get()), Message::Invalid));
        }
    }

    #[test]
    fn notification_gets_no_response() {
        let body = Body::parse(br#"{"jsonrpc":"2.0","method":"eth_chainId","params":[]}"#, 1);
        assert!(matches!(body, Body::Single(Message::Notification)));
    }

    #[test]
    fn parameter_errors_name_position() {
        let text = RawValue::from_string("[\"0x1\", null, true]".into()).unwrap();
        let params = Params::new(Some(&text));
        assert_eq!(params.required::<String>(0).unwrap(), "0x1");
        assert_eq!(params.optional::<String>(1).unwrap(), None);
        assert!(params.required::<String>(1).unwrap_err().message.contains("required argument 1"));
        assert!(params.required::<String>(2).unwrap_err().message.starts_with("invalid argument 2: "));
        assert!(params.at_most(2).unwrap_err().message.contains("too many arguments, want at most 2"));
        let long = RawValue::from_string(format!("[\"{}\"]", "ä".repeat(1_000_000))).unwrap();
        let message = Params::new(Some(&long)).required::<u64>(0).unwrap_err().message;
        assert!(message.starts_with("invalid argument 0: invalid type: string \"ää") && message.len() < 700, "{message}");
        assert!(message.ends_with("expected u64 at line 1 column 2000002"), "{message}");
        let named = RawValue::from_string("{\"a\":1}".into()).unwrap();
        assert_eq!(Params::new(Some(&named)).at_most(5).unwrap_err().message, "non-array args");
    }

    proptest::proptest! {
        #[test]
        fn no_body_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = Body::parse(&bytes, 3);
        }
    }
}
