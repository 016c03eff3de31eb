//! Solidity ABI on the command line: signatures, arguments as text, values as JSON.

use alloy_dyn_abi::{DynSolType, DynSolValue, FunctionExt, JsonAbiExt, Specifier};
use alloy_json_abi::{Constructor, Function, JsonAbi, Param};
use anyhow::{Context, bail, ensure};
use corniche_harness::Revert;
use corniche_types::{Bytes, keccak256};
use serde_json::{Value, json};
use std::{fs, path::Path, sync::LazyLock};

/// Signature from which the constructor's selector is computed.
const CONSTRUCTOR: &str = "stylus_constructor()";

/// Arguments as typed by the user.
#[derive(Clone, Copy)]
pub struct Arguments<'a>(pub &'a [String]);

/// Known interface of a contract; empty if unknown.
#[derive(Clone, Debug)]
pub struct Interface(pub JsonAbi);

impl Interface {
    /// Empty interface, for calls with full signatures.
    pub fn nothing() -> &'static Self {
        static NOTHING: LazyLock<Interface> = LazyLock::new(|| Interface(JsonAbi::new()));
        &NOTHING
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads an ABI file: an array, or an object with the array under `abi`.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let parse = || -> Result<JsonAbi, serde_json::Error> {
            let mut value: Value = serde_json::from_str(&text)?;
            serde_json::from_value(value.get_mut("abi").map(Value::take).unwrap_or(value))
        };
        Ok(Self(parse().with_context(|| format!("{} is not an ABI", path.display()))?))
    }

    /// Finds a function by signature, or by name if the ABI has exactly one with that name.
    pub fn function(&self, text: &str) -> anyhow::Result<Function> {
        if text.contains('(') {
            return Function::parse(text).with_context(|| format!("'{text}' is not a function signature"));
        }
        match self.0.function(text).map(Vec::as_slice) {
            Some([function]) => Ok(function.clone()),
            Some(_) => bail!("the ABI has several functions {text}; write the signature"),
            None => bail!("the ABI has no function {text}; it has {}", names(self.0.functions.keys())),
        }
    }

    /// Bytes after the code in creation data that make the constructor run; `None` for a contract without
    /// one. A constructor without arguments is called by its selector, because without any bytes nothing
    /// runs.
    pub fn constructor_arguments(&self, signature: Option<&str>, arguments: Arguments<'_>) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(constructor) = self.constructor(signature)? else {
            ensure!(
                arguments.0.is_empty(),
                "constructor arguments need their types: --constructor 'constructor(...)' or --abi"
            );
            return Ok(None);
        };
        let values = parse_arguments(&constructor.inputs, arguments).with_context(|| {
            let inputs: Vec<_> = constructor.inputs.iter().map(|input| format!("{} {}", input.ty, input.name)).collect();
            format!("constructor({}); --no-constructor deploys without running it", inputs.join(", "))
        })?;
        if values.is_empty() {
            return Ok(Some(keccak256(CONSTRUCTOR)[..4].to_vec()));
        }
        Ok(Some(constructor.abi_encode_input_raw(&values)?))
    }

    /// True if there is a constructor with arguments.
    pub fn takes_arguments(&self, signature: Option<&str>) -> anyhow::Result<bool> {
        Ok(self.constructor(signature)?.is_some_and(|constructor| !constructor.inputs.is_empty()))
    }

    pub fn constructor(&self, signature: Option<&str>) -> anyhow::Result<Option<Constructor>> {
        let Some(text) = signature else { return Ok(self.0.constructor().cloned()) };
        Constructor::parse(text).map(Some).with_context(|| format!("'{text}' is not a constructor signature"))
    }

    /// Decodes revert data: `Error(string)`, `Panic(uint256)`, an error of the ABI, or the plain bytes.
    /// `None` if it is empty.
    pub fn revert_reason(&self, data: &Bytes) -> Option<String> {
        data.get(..4)?;
        Some(match Revert::decode(data, [&self.0]) {
            Some(Revert::Text(text)) => text,
            Some(Revert::Panic(code)) => format!("panic {}", plain(&to_json(&code))),
            // The deployer forwards the revert data of the new contract's constructor.
            Some(Revert::Custom(error, values)) if error.name == "ContractInitializationError" => {
                let reason = values.get(1).and_then(DynSolValue::as_bytes).map(Bytes::copy_from_slice).unwrap_or_default();
                format!("its constructor refused: {}", self.revert_reason(&reason).unwrap_or_else(|| "without a reason".into()))
            }
            Some(Revert::Custom(error, values)) => {
                let values: Vec<_> = values.iter().map(|value| plain(&to_json(value))).collect();
                format!("{}({})", error.name, values.join(", "))
            }
            None => data.to_string(),
        })
    }
}

/// Parses the items of an ABI: an array, or an object with the array under `abi`; validates it, because it may come from anyone.
pub fn parse_items(json: &[u8], of: &str) -> anyhow::Result<Vec<Value>> {
    let mut value: Value = serde_json::from_slice(json).with_context(|| format!("the ABI of {of} is not JSON"))?;
    let value = value.get_mut("abi").map(Value::take).unwrap_or(value);
    serde_json::from_value::<JsonAbi>(value.clone()).with_context(|| format!("what {of} says is no ABI"))?;
    serde_json::from_value(value).with_context(|| format!("the ABI of {of} is no array"))
}

/// Selector and encoded arguments.
pub fn encode_call(function: &Function, arguments: Arguments<'_>) -> anyhow::Result<Bytes> {
    Ok(function.abi_encode_input(&parse_arguments(&function.inputs, arguments)?)?.into())
}

/// Values returned by a call, one JSON value each; the plain bytes if the signature has no return types.
pub fn decode_output(function: &Function, output: &Bytes) -> anyhow::Result<Vec<Value>> {
    if function.outputs.is_empty() {
        return Ok(vec![json!(output)]);
    }
    let values = function.abi_decode_output(output);
    let values = values
        .with_context(|| format!("the contract returned {output}, which is not what {} says", function.full_signature()))?;
    Ok(values.iter().map(to_json).collect())
}

fn parse_arguments(inputs: &[Param], Arguments(texts): Arguments<'_>) -> anyhow::Result<Vec<DynSolValue>> {
    ensure!(inputs.len() == texts.len(), "{} arguments given, {} expected", texts.len(), inputs.len());
    let parse = |(input, text): (&Param, &String)| {
        let kind: DynSolType = input.resolve().with_context(|| format!("type {}", input.ty))?;
        kind.coerce_str(text).with_context(|| format!("argument '{text}' is not a value of type {}", input.ty))
    };
    inputs.iter().zip(texts).map(parse).collect()
}

/// Numbers become decimal strings, because JSON readers lose precision beyond a double.
pub fn to_json(value: &DynSolValue) -> Value {
    match value {
        DynSolValue::Bool(value) => json!(value),
        DynSolValue::Int(value, _) => json!(value.to_string()),
        DynSolValue::Uint(value, _) => json!(value.to_string()),
        DynSolValue::FixedBytes(word, size) => json!(Bytes::copy_from_slice(&word[..*size])),
        DynSolValue::Address(address) => json!(address.to_checksum(None)),
        DynSolValue::Function(function) => json!(Bytes::copy_from_slice(function.as_slice())),
        DynSolValue::Bytes(bytes) => json!(Bytes::copy_from_slice(bytes)),
        DynSolValue::String(text) => json!(text),
        DynSolValue::Array(values) | DynSolValue::FixedArray(values) | DynSolValue::Tuple(values) => {
            values.iter().map(to_json).collect()
        }
    }
}

/// Value as text: strings without quotes, everything else as JSON. Control characters are escaped, because a
/// contract may return sequences that move the terminal's cursor.
pub fn plain(value: &Value) -> String {
    let harmless =
        |letter: char| if letter.is_control() && letter != '\n' { letter.escape_default().to_string() } else { letter.into() };
    value.as_str().map_or_else(|| value.to_string(), |text| text.chars().map(harmless).collect())
}

/// List of the available names.
pub fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(String::as_str).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    fn interface() -> Interface {
        let abi = [
            "constructor(string name, uint256 supply)",
            "function transfer(address to, uint256 value) returns (bool)",
            "function get(uint256) returns (uint256)",
            "function get(address) returns (uint256)",
            "error InsufficientBalance(address owner, uint256 have, uint256 want)",
        ];
        Interface(JsonAbi::parse(abi).unwrap())
    }

    fn arguments(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn call_encoding_matches_wallets() {
        let function = interface().function("transfer(address,uint256)").unwrap();
        let data =
            encode_call(&function, Arguments(&arguments(&["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "1000"]))).unwrap();
        let expected = hex!(
            "a9059cbb000000000000000000000000f39fd6e51aad88f6f4ce6ab8827279cfffb92266
             00000000000000000000000000000000000000000000000000000000000003e8"
        );
        assert_eq!(data.as_ref(), expected);
    }

    #[test]
    fn outputs_are_decoded_by_signature() {
        let function = interface().function("pair()(uint256,string)").unwrap();
        let values = [DynSolValue::Uint("7".parse().unwrap(), 256), DynSolValue::String("seven".into())];
        let output = function.abi_encode_output(&values).unwrap().into();
        assert_eq!(decode_output(&function, &output).unwrap(), [json!("7"), json!("seven")]);
        assert!(decode_output(&function, &Bytes::from_static(&[1])).is_err());
    }

    #[test]
    fn ambiguous_function_name_is_refused() {
        assert_eq!(interface().function("transfer").unwrap().signature(), "transfer(address,uint256)");
        for name in ["get", "absent"] {
            assert!(interface().function(name).is_err(), "{name}");
        }
    }

    #[test]
    fn constructor_arguments_have_no_selector() {
        let encoded = interface().constructor_arguments(None, Arguments(&arguments(&["Gold", "5"]))).unwrap().unwrap();
        assert_eq!(encoded.len(), 4 * 32);
        assert_eq!(encoded[63], 5);
        let none = Interface(JsonAbi::new());
        assert_eq!(none.constructor_arguments(None, Arguments(&[])).unwrap(), None);
        assert!(none.constructor_arguments(None, Arguments(&arguments(&["5"]))).is_err());
        let own = none.constructor_arguments(Some("constructor(uint8)"), Arguments(&arguments(&["5"])));
        assert_eq!(own.unwrap().unwrap().len(), 32);
    }

    #[test]
    fn constructor_without_arguments_needs_selector() {
        let none = Interface(JsonAbi::new());
        let encoded = none.constructor_arguments(Some("constructor()"), Arguments(&[])).unwrap();
        assert_eq!(encoded.unwrap(), hex!("5585258d"));
        assert!(interface().takes_arguments(None).unwrap());
        assert!(!none.takes_arguments(Some("constructor()")).unwrap());
    }

    #[test]
    fn revert_data_is_explained() {
        let text = hex!(
            "08c379a0000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000000000000000000000000000000000000036e6f210000000000000000000000000000000000000000000000000000000000"
        );
        assert_eq!(interface().revert_reason(&text.to_vec().into()).unwrap(), "no!");
        let error = interface().0.errors().next().unwrap().clone();
        let have = DynSolValue::Uint("1".parse().unwrap(), 256);
        let body = error.abi_encode_input(&[DynSolValue::Address(Default::default()), have.clone(), have]).unwrap();
        assert_eq!(
            interface().revert_reason(&body.into()).unwrap(),
            "InsufficientBalance(0x0000000000000000000000000000000000000000, 1, 1)"
        );
        assert_eq!(interface().revert_reason(&Bytes::from_static(&[1, 2, 3, 4])).unwrap(), "0x01020304");
        assert_eq!(interface().revert_reason(&Bytes::new()), None);
    }

    #[test]
    fn error_names_argument_and_type() {
        let function = interface().function("transfer").unwrap();
        let error = encode_call(&function, Arguments(&arguments(&["0x12", "1"]))).unwrap_err().to_string();
        assert!(error.contains("0x12") && error.contains("address"), "{error}");
        let error = encode_call(&function, Arguments(&[])).unwrap_err().to_string();
        assert!(error.contains("0 arguments given, 2 expected"), "{error}");
    }
}
