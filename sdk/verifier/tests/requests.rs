//! Every input gets a response. Whether responses are correct is tested against real nodes, in
//! `sdk/js/tests/verifier.test.js`.

#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

use corniche_verifier::Verifier;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::Write;

fn answer(question: &Value) -> Value {
    serde_json::from_str(&Verifier::default().handle(question.to_string().as_bytes())).unwrap()
}

fn error(question: &Value) -> String {
    let answer = answer(question);
    assert_eq!(answer.as_object().unwrap().len(), 1);
    answer["error"].as_str().unwrap_or_else(|| panic!("{question} is answered with {answer}")).to_owned()
}

#[test]
fn invalid_request_is_error() {
    for question in
        [json!(null), json!([]), json!({}), json!({"close": {}}), json!({"open": {}}), json!({"open": {"genesis": 7}})]
    {
        assert!(error(&question).starts_with("question: "), "{question}");
    }
    for bytes in [&b""[..], b"{", b"\xff\xfe", &[b'['; 100_000]] {
        assert!(Verifier::default().handle(bytes).starts_with(r#"{"error":"question: "#));
    }
}

#[test]
fn finality_needs_genesis() {
    let hash = corniche_types::B256::ZERO;
    let certificate = json!({
        "epoch": "0x0", "committeeHash": hash, "blockNumber": "0x1", "blockHash": hash,
        "faultModel": "byzantine", "signers": "0x01", "signature": "0x",
    });
    let header = serde_json::to_value(corniche_types::Header::default()).unwrap();
    let asked = |headers: Vec<&Value>| json!({"final": {"certificate": certificate, "headers": headers, "nowMs": 0}});
    assert_eq!(error(&asked(vec![&header])), "no genesis has been opened");
    let without_clock = json!({"final": {"certificate": certificate, "headers": []}});
    assert!(error(&without_clock).contains("missing field `nowMs`"));
}

#[test]
fn failed_genesis_clears_committee() {
    assert!(error(&json!({"open": {"genesis": "{}"}})).starts_with("genesis: "));
}

#[test]
fn unpacked_size_is_limited() {
    let mut packed = vec![0xef, 0xf0, 0, 0];
    brotli::CompressorWriter::new(&mut packed, 4096, 5, 22).write_all(&vec![0; 64 << 20]).unwrap();
    assert!(packed.len() < 1_000);
    let code = format!("0x{}", packed.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    assert!(error(&json!({"interface": {"code": code}})).contains("more than"));
}

proptest! {
    #[test]
    fn any_bytes_get_response(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let answer: Value = serde_json::from_str(&Verifier::default().handle(&bytes)).unwrap();
        prop_assert!(answer["error"].is_string());
    }

    #[test]
    fn any_code_gets_response(code in proptest::collection::vec(any::<u8>(), 0..300), packed: bool) {
        let head = if packed { "eff00000" } else { "" };
        let digits: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        let answered = answer(&json!({"interface": {"code": format!("0x{head}{digits}")}}));
        prop_assert!(answered["error"].is_string() || answered["ok"].is_null());
    }
}
