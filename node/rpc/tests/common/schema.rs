//! Validates values against JSON schemas, as far as OpenRPC documents use them here.

use serde_json::{Value, json};

/// Compares a value with a JSON schema. Unknown keywords are failures.
pub fn conforms(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Some(schema) = schema.as_object() else { return Ok(()) };
    if let Some(reference) = schema.get("$ref") {
        let path = reference.as_str().unwrap().trim_start_matches('#');
        conforms(document, document.pointer(path).expect("a reference leads somewhere"), value)?;
    }
    let each = |list: &Value| list.as_array().unwrap().iter().map(|one| conforms(document, one, value)).collect::<Vec<_>>();
    for (keyword, wanted) in schema {
        match keyword.as_str() {
            "title" | "description" | "$ref" | "required" | "properties" | "examples" | "default" | "format" => {}
            "type" => {
                let fits = match wanted.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "number" => value.is_number(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "null" => value.is_null(),
                    other => panic!("type {other}"),
                };
                if !fits {
                    return Err(format!("{value} is not of type {wanted}"));
                }
            }
            "pattern" => {
                let text = value.as_str().ok_or("not a string")?;
                if !matches_pattern(wanted.as_str().unwrap(), text) {
                    return Err(format!("{text} does not match {wanted}"));
                }
            }
            "const" if wanted != value => return Err(format!("{value} is not {wanted}")),
            "const" => {}
            "enum" => {
                if !wanted.as_array().unwrap().contains(value) {
                    return Err(format!("{value} is not among {wanted}"));
                }
            }
            "minimum" if value.as_f64() < wanted.as_f64() => return Err(format!("{value} is below {wanted}")),
            "maximum" if value.as_f64() > wanted.as_f64() => return Err(format!("{value} is above {wanted}")),
            "minimum" | "maximum" => {}
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    conforms(document, wanted, item)?;
                }
            }
            "allOf" => each(wanted).into_iter().collect::<Result<(), _>>()?,
            // Alternatives of this document overlap (an empty array matches every array type), so one match
            // suffices.
            "oneOf" | "anyOf" => {
                let tried = each(wanted);
                if tried.iter().all(Result::is_err) {
                    return Err(format!("no alternative fits: {tried:?}"));
                }
            }
            "not" => {
                if conforms(document, wanted, value).is_ok() {
                    return Err(format!("{value} must not fit {wanted}"));
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let others = value.as_object().into_iter().flatten();
                for (name, other) in others.filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name))) {
                    // Older than Ethereum's document; older clients require it.
                    if *wanted == json!(false) && name != "totalDifficulty" {
                        return Err(format!("unexpected {name}"));
                    }
                    conforms(document, wanted, other).map_err(|problem| format!("{name}: {problem}"))?;
                }
            }
            other => panic!("schema keyword {other}"),
        }
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = object.get(name) {
            conforms(document, property, value).map_err(|problem| format!("{name}: {problem}"))?;
        }
    }
    Ok(())
}

/// Supports the few regular expressions that the document uses.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let hex = |digit: char| digit.is_ascii_digit() || ('a'..='f').contains(&digit);
    let quantity = |text: &str| text == "0" || (!text.starts_with('0') && !text.is_empty() && text.chars().all(hex));
    if pattern == "^(0|[1-9][0-9]*)$" {
        return quantity(text) && text.chars().all(|digit| digit.is_ascii_digit());
    }
    if let Some(start) = pattern.strip_prefix('^').and_then(|pattern| pattern.strip_suffix(".*")) {
        return text.starts_with(start);
    }
    let Some(digits) = text.strip_prefix("0x") else { return false };
    let body = pattern.strip_prefix("^0x").and_then(|body| body.strip_suffix('$')).unwrap_or_else(|| panic!("{pattern}"));
    if body.chars().all(hex) {
        return digits == body;
    }
    if let Some(rest) = body.strip_prefix("(0|[1-9a-f][0-9a-f]") {
        let most = match rest.trim_end_matches(')') {
            "*" => usize::MAX,
            range => range.trim_matches(['{', '}']).split_once(',').unwrap().1.parse::<usize>().unwrap() + 1,
        };
        return quantity(digits) && digits.len() <= most;
    }
    let (any_case, count) = match body.strip_prefix("[0-9a-fA-F]") {
        Some(count) => (true, count),
        None => (false, body.strip_prefix("[0-9a-f]").unwrap_or_else(|| panic!("{pattern}"))),
    };
    let (least, most) = match count.trim_matches(['{', '}']) {
        "*" => (0, usize::MAX),
        range => match range.split_once(',') {
            Some((least, most)) => (least.parse().unwrap(), most.parse().unwrap()),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        },
    };
    (least..=most).contains(&digits.len()) && digits.chars().all(|digit| hex(digit) || any_case && digit.is_ascii_hexdigit())
}
