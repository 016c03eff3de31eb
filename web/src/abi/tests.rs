use super::*;
use crate::{database::Rows, testing};
use alloy_primitives::U256;

const CONTRACT: Address = Address::repeat_byte(1);

fn known(abi: &str) -> KnownAbis {
    KnownAbis::one(CONTRACT, serde_json::from_str(abi).unwrap())
}

#[tokio::test]
async fn ambiguous_selector_has_no_name() {
    let filled = testing::test_app().await;
    let (transfer, own, shared) = ([0xa9_u8, 0x05, 0x9c, 0xbb], [1_u8, 2, 3, 4], [5_u8, 6, 7, 8]);
    let mut rows = Rows::new("selectors", &["selector", "signature", "name_key"]);
    for (selector, signature) in [
        (transfer, "many_msg_babbage(bytes1)"),
        (transfer, "transfer(address,uint256)"),
        (own, "swap(uint256)"),
        (shared, "a_name()"),
        (shared, "settle(uint256)"),
    ] {
        rows.push([selector.to_vec().into(), signature.to_owned().into(), Vec::new().into()]);
    }
    filled.write(rows).await;
    let known = KnownAbis::methods(&filled.app.database, [transfer, own, shared].into_iter()).await.unwrap();
    assert_eq!(known.method(transfer).as_deref(), Some("transfer"));
    assert_eq!(known.method(own).as_deref(), Some("swap"));
    assert_eq!(known.method(shared), None, "one of two would be a guess");
}

/// Selectors as printed in the standards.
#[test]
fn standard_methods_have_standard_selectors() {
    let selectors = [
        "a9059cbb", "095ea7b3", "23b872dd", "42842e0e", "b88d4fde", "f242432a", "2eb2c2d6", "a22cb465", "40c10f19", "42966c68",
        "d505accf",
    ];
    for (selector, signature) in selectors.into_iter().zip(STANDARD) {
        let selector: [u8; 4] = hex::decode(selector).unwrap().try_into().unwrap();
        assert_eq!(STANDARD_BY_SELECTOR.get(&selector), Some(&signature));
    }
    assert_eq!(STANDARD_BY_SELECTOR.len(), STANDARD.len());
}

#[test]
fn call_is_decoded() {
    let known = known(
        r#"[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"}]"#,
    );
    let mut input = hex::decode("a9059cbb").unwrap();
    input.extend(Address::repeat_byte(7).into_word());
    input.extend(U256::from(5).to_be_bytes::<32>());
    let call = known.call(CONTRACT, &input).unwrap();
    assert_eq!(call.signature, "transfer(address,uint256)");
    let values = [("to".to_owned(), Value::Address(Address::repeat_byte(7))), ("#1".to_owned(), Value::Text("5".into()))];
    assert_eq!(call.values, values);
    assert_eq!(call.brief(), "transfer(0x0707…0707, 5)");
    assert_eq!(known.call(CONTRACT, &input[..20]), None, "half a call");
    assert_eq!(known.call(Address::ZERO, &input), None, "somebody without an interface");
}

#[test]
fn deeply_nested_types_are_not_decoded() {
    let deep = format!("uint256{}", "[]".repeat(200));
    let known = known(&format!(
        r#"[{{"type":"function","name":"f","inputs":[{{"name":"x","type":"{deep}"}}],"outputs":[],"stateMutability":"view"}}]"#
    ));
    let function = known.interfaces[&CONTRACT].functions.values().next().unwrap();
    assert_eq!(call(function, &[0; 64]), None);
    assert!(parse(&function.inputs[0], "[]").is_err());
}

#[test]
fn large_array_types_are_not_decoded() {
    for kind in
        ["uint256[4294967296][]", "()[4294967295]", "uint8[64][64][]", "uint256[99999999999999999999]", "(bool,bool)[200]"]
    {
        let abi = format!(
            r#"[{{"type":"function","name":"f","inputs":[],"outputs":[{{"name":"x","type":"{kind}"}}],"stateMutability":"view"}},
                {{"type":"event","name":"E","inputs":[{{"name":"x","type":"{kind}","indexed":false}}],"anonymous":false}}]"#
        );
        let Some(abi) = parse_abi(&abi) else { continue };
        let known = KnownAbis::one(CONTRACT, abi.clone());
        let function = abi.functions().next().unwrap();
        assert_eq!(answer(function, &[0; 64]), None, "{kind}");
        let topic = abi.events().next().unwrap().selector();
        assert_eq!(known.event(CONTRACT, &[topic], &[0; 64]), None, "{kind}");
    }
}

#[test]
fn input_is_parsed_by_type() {
    let parse = |kind: &str, typed: &str| super::parse(&Param { ty: kind.into(), ..Param::default() }, typed);
    assert_eq!(parse("string", " \"a, b "), Ok(DynSolValue::String(" \"a, b ".into())));
    assert_eq!(parse("uint256[]", "[1, 2]").unwrap().as_array().unwrap().len(), 2);
    assert_eq!(parse("uint8", "256"), Err("invalid uint8".into()));
    assert_eq!(parse("address", "Alice"), Err("invalid address".into()));
    assert!(parse("uint256", "1e9223372036854775807 ether").is_err());
    assert!(parse("uint256[4][4][4][4][4]", "[]").is_err());
}

#[test]
fn solidity_errors_are_decoded() {
    let mut error = hex::decode("08c379a0").unwrap();
    error.extend(DynSolValue::String("no\u{202e}!".into()).abi_encode());
    assert_eq!(refusal(&error).unwrap().brief(), "Error(no!)");
    let mut panic = hex::decode("4e487b71").unwrap();
    panic.extend(U256::from(17).to_be_bytes::<32>());
    assert_eq!(refusal(&panic).unwrap().brief(), "Panic(17)");
    assert_eq!(refusal(&error[..30]), None);
    assert_eq!(refusal(&[]), None);
}

#[test]
fn long_values_are_truncated() {
    let mut room = MAX_VALUES;
    let many = DynSolValue::Array(vec![DynSolValue::Bool(true); 100_000]);
    let Value::Text(line) = show(&many, &mut room) else { panic!("no text") };
    assert!(line.len() < 2 * MAX_TEXT && line.ends_with("…]"), "{}", line.len());
    assert_eq!(text(&"x".repeat(2_000)).chars().count(), MAX_TEXT + 1);
    assert_eq!(text("<b>\u{202e}a\nb"), "<b>ab");
}
