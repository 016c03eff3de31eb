use super::*;
use alloy_json_abi::Function;

fn submitted(query: &[(&str, &str)]) -> FormInput {
    let query: Vec<_> = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    FormInput::read(&query).unwrap()
}

#[test]
fn query_is_parsed() {
    let read = submitted(&[
        ("f", "0xa9059cbb"),
        ("a0", "x"),
        ("a31", "y"),
        ("a32", "z"),
        ("b", "?"),
        ("value", " 1 "),
        ("first", "50"),
    ]);
    let values = BTreeMap::from([(0, "x".to_owned()), (31, "y".to_owned())]);
    let expected = FormInput { function: Some([0xa9, 0x05, 0x9c, 0xbb]), values, coins: "1".into(), from: None, first: 50 };
    assert_eq!(read, expected);
    assert_eq!(submitted(&[("first", "99999999999999999999")]).first, 0);
    assert_eq!(submitted(&[("first", &usize::MAX.to_string())]).first, MAX_OFFSET);
    for wrong in [("f", "transfer"), ("f", "0xa9059c"), ("from", "me")] {
        assert!(FormInput::read(&[(wrong.0.into(), wrong.1.into())]).is_err(), "{wrong:?}");
    }
}

#[test]
fn input_is_encoded() {
    for (signature, typed, words) in [
        ("f(uint256)", &["5"][..], &["5"][..]),
        ("f(uint256,bool)", &["0x10", "true"], &["10", "1"]),
        ("f(int8)", &["-1"], &[&"f".repeat(64)]),
        ("f(uint256)", &["1 gwei"], &["3b9aca00"]),
        ("f(bytes4)", &["0x01020304"], &["0102030400000000000000000000000000000000000000000000000000000000"]),
        ("f(uint8[2])", &["[1, 2]"], &["1", "2"]),
        ("f((uint8,bool))", &["(7, false)"], &["7", "0"]),
        ("f(string)", &[""], &["20", "0"]),
        ("f(uint8[])", &["[]"], &["20", "0"]),
        ("f()", &[], &[]),
    ] {
        let function = Function::parse(signature).unwrap();
        let values = typed.iter().map(|typed| (*typed).to_owned()).enumerate().collect();
        let call = encode(&function, &FormInput { values, ..FormInput::default() }).unwrap();
        let expected: String = words.iter().map(|word| format!("{word:0>64}")).collect();
        assert_eq!(hex::encode(&call[4..]), expected, "{signature}");
        assert_eq!(call[..4], function.selector().0);
    }
}

#[test]
fn encode_error_names_its_field() {
    for (signature, typed, field) in [
        ("f(uint256)", &[""][..], 0),
        ("f(uint256)", &["1.5"], 0),
        ("f(address,uint8)", &["0x0707070707070707070707070707070707070707", "256"], 1),
        ("f(address)", &["0x07"], 0),
        ("f(uint8[2])", &["[1]"], 0),
        ("f(uint8[2])", &["[1, 2"], 0),
        ("f(bytes)", &["0x1"], 0),
        ("f(bool)", &["yes"], 0),
    ] {
        let function = Function::parse(signature).unwrap();
        let values = typed.iter().map(|typed| (*typed).to_owned()).enumerate().collect();
        let wrong = encode(&function, &FormInput { values, ..FormInput::default() }).unwrap_err();
        assert_eq!(wrong.field, Some(field), "{signature} {typed:?} {wrong:?}");
        assert!(wrong.problem.starts_with("invalid "), "{}", wrong.problem);
    }
    let function = Function::parse("f(string)").unwrap();
    let values = BTreeMap::from([(0, "x".repeat(MAX_INPUT_BYTES + 1))]);
    assert_eq!(encode(&function, &FormInput { values, ..FormInput::default() }).unwrap_err().problem, texts::TOO_LONG);
}

#[test]
fn fields_have_distinct_labels() {
    let function = Function::parse("function f(address to, bool, string memory words) payable").unwrap();
    let submitted = FormInput::default();
    let form =
        Form { function: &function, page: "/p", button: texts::SEND, currency: "CRN", submitted: &submitted, wrong: None };
    let shown = form.markup(html! {}).into_string();
    let ids: Vec<_> = shown.split("<label for=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(ids.len(), 4);
    for id in ids {
        assert_eq!(shown.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    assert_eq!(shown.matches(" required").count(), 1, "text may be empty, and a choice is made already: {shown}");
}
