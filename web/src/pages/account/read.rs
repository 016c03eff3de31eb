//! Page that calls read-only functions. Each function has a form, with the result below it.

use super::{
    super::{Failure, Page, Query, parts},
    forms::{self, FieldError, Form, FormInput},
    subject::{self, Contract, Subject},
};
use crate::{abi, app_state::AppState, links, node::Call, pages::account::texts::contract as texts};
use alloy_json_abi::{Function, JsonAbi};
use alloy_primitives::{Address, Bytes, U64};
use axum::extract::{Path, State};
use corniche_client::ClientError;
use maud::{Markup, html};
use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of functions that are called without a request, and the gas limit of each. They bound the load of a page on
/// the node.
const MAX_AUTOMATIC_CALLS: usize = 24;
const AUTOMATIC_CALL_GAS: u64 = 2_000_000;

/// Result of a call.
#[derive(Debug)]
enum CallResult {
    Returned(Bytes),
    Reverted { message: String, data: Bytes },
    Failed(String),
    InvalidInput(FieldError),
}

/// Results by selector.
type CallResults = BTreeMap<[u8; 4], CallResult>;

/// `/address/{address}/read`
pub async fn show(
    State(app): State<Arc<AppState>>,
    Path(address): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let contract = subject.contract()?;
    let submitted = FormInput::read(&query)?;
    let body = match &contract.interface {
        None => forms::no_interface(subject.address),
        Some(interface) => {
            let answers = answers(&app, subject.address, interface, &submitted).await?;
            markup(subject.address, contract, interface, &submitted, &answers)
        }
    };
    Ok(subject.page(&app, texts::READ, body))
}

/// Calls the requested function, and the functions without parameters.
async fn answers(app: &AppState, address: Address, interface: &JsonAbi, submitted: &FormInput) -> Result<CallResults, Failure> {
    let (mut answers, mut selectors, mut calls) = (CallResults::new(), Vec::new(), Vec::new());
    if let Some(selector) = submitted.function {
        match forms::encode(readable(interface, selector)?, submitted) {
            Ok(input) => {
                selectors.push(selector);
                calls.push(Call { to: address, input, from: submitted.from, ..Call::default() });
            }
            Err(wrong) => _ = answers.insert(selector, CallResult::InvalidInput(wrong)),
        }
    }
    let (functions, _) = forms::of_page(interface, true, submitted.first);
    let unasked = functions
        .into_iter()
        .filter(|function| function.inputs.is_empty() && !submitted.of(function))
        .take(MAX_AUTOMATIC_CALLS);
    for function in unasked {
        let selector = function.selector();
        selectors.push(selector.0);
        let gas = Some(U64::from(AUTOMATIC_CALL_GAS));
        calls.push(Call { to: address, input: Bytes::copy_from_slice(selector.as_slice()), gas, ..Call::default() });
    }
    let replies = match app.node.eth_calls(&calls).await {
        Ok(replies) => replies,
        Err(error) => calls.iter().map(|_| Err(ClientError::Unsignable(error.to_string()))).collect(),
    };
    for (selector, reply) in selectors.into_iter().zip(replies) {
        match reply {
            Ok(output) => _ = answers.insert(selector, CallResult::Returned(output)),
            // Errors are shown for the requested function only.
            Err(_) if submitted.function != Some(selector) => {}
            Err(ClientError::Reverted { message, data }) => {
                _ = answers.insert(selector, CallResult::Reverted { message, data })
            }
            Err(ClientError::Refused { refusal, .. }) => _ = answers.insert(selector, CallResult::Failed(refusal.message)),
            // Other errors contain the node's address, which readers must not see.
            Err(_) => _ = answers.insert(selector, CallResult::Failed(texts::NO_ANSWER.into())),
        }
    }
    Ok(answers)
}

fn readable(interface: &JsonAbi, selector: [u8; 4]) -> Result<&Function, Failure> {
    let function = forms::find(interface, selector)?;
    match forms::reads(function) {
        true => Ok(function),
        false => Err(Failure::BadRequest(texts::changes(&abi::text(&function.name)))),
    }
}

fn markup(address: Address, contract: &Contract, interface: &JsonAbi, submitted: &FormInput, answers: &CallResults) -> Markup {
    let page = links::account_part(address, subject::READ);
    let (functions, all) = forms::of_page(interface, true, submitted.first);
    let known = contract.known(address);
    // A requested function of another page is shown first.
    let elsewhere =
        submitted.function.and_then(|selector| interface.functions().find(|function| function.selector() == selector));
    let elsewhere = elsewhere.filter(|function| !functions.iter().any(|shown| shown.selector() == function.selector()));
    html! {
        section {
            h2 { (texts::READ) }
            p .note { (texts::READ_NOTE) " " (super::interface::abi_source(contract)) }
            @if all == 0 { p { (texts::NOTHING_TO_READ) } }
        }
        @for function in elsewhere.into_iter().chain(functions) {
            @let answer = answers.get(&function.selector().0);
            @let wrong = match answer { Some(CallResult::InvalidInput(wrong)) => Some(wrong), _ => None };
            @let form = Form { function, page: &page, button: texts::ASK, currency: "", submitted, wrong };
            (form.markup(html! { @if let Some(answer) = answer { (show_answer(function, address, &known, answer)) } }))
        }
        (forms::pages(&page, submitted.first, all))
    }
}

fn show_answer(function: &Function, address: Address, known: &abi::KnownAbis, answer: &CallResult) -> Markup {
    match answer {
        CallResult::InvalidInput(_) => html! {},
        CallResult::Failed(reason) => html! { p .wrong { (abi::text(reason)) } },
        CallResult::Reverted { message, data } => forms::reverted(known, address, message, data),
        CallResult::Returned(output) if output.is_empty() && function.outputs.is_empty() => {
            html! { p .note { (texts::RETURNED_NOTHING) } }
        }
        CallResult::Returned(output) => match abi::answer(function, output) {
            Some(values) => forms::values(&values),
            None => html! { p .note { (texts::RETURNED_OTHER) } (parts::bytes(output)) },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::parse_abi;
    use alloy_dyn_abi::DynSolValue;

    const CONTRACT: Address = Address::repeat_byte(9);

    fn page(abi: &str, submitted: &FormInput, answers: &CallResults) -> String {
        let interface = parse_abi(abi).unwrap();
        let contract = Contract { interface: Some(interface.clone()), ..Contract::default() };
        markup(CONTRACT, &contract, &interface, submitted, answers).into_string()
    }

    const STRING: &str =
        r#"[{"type":"function","name":"symbol","inputs":[],"outputs":[{"name":"","type":"string"}],"stateMutability":"view"}]"#;
    const SYMBOL: [u8; 4] = [0x95, 0xd8, 0x9b, 0x41];

    fn said(output: Vec<u8>) -> String {
        page(STRING, &FormInput::default(), &CallResults::from([(SYMBOL, CallResult::Returned(output.into()))]))
    }

    fn string(text: &str) -> Vec<u8> {
        DynSolValue::String(text.into()).abi_encode()
    }

    #[test]
    fn return_data_is_escaped() {
        let shown = said(string("<script>alert('GLD')</script>\u{202e}"));
        assert!(
            shown.contains("&lt;script&gt;alert('GLD')&lt;/script&gt;")
                && !shown.contains("<script")
                && !shown.contains('\u{202e}')
        );
    }

    #[test]
    fn long_return_value_is_truncated() {
        let shown = said(string(&"G".repeat(1 << 20)));
        assert!(shown.len() < 50_000 && shown.contains(texts::RETURNED_OTHER), "{}", shown.len());
        let shown = said(string(&"G".repeat(100 << 10)));
        assert!(shown.len() < 8_000 && shown.contains("GGG…"), "{}", shown.len());
    }

    #[test]
    fn undecodable_return_data_is_shown_as_bytes() {
        let mut output = string("abcd");
        output[64] = 0xff;
        let shown = said(output);
        assert!(shown.contains('\u{fffd}') || shown.contains(texts::RETURNED_OTHER), "{shown}");
        for output in [vec![], vec![0xff; 31], vec![0xff; 64]] {
            assert!(said(output.clone()).contains(texts::RETURNED_OTHER), "{output:?}");
        }
    }

    #[test]
    fn revert_errors_are_decoded() {
        let abi = r#"[{"type":"function","name":"symbol","inputs":[],"outputs":[],"stateMutability":"view"},
                      {"type":"error","name":"NotYet","inputs":[{"name":"height","type":"uint256"}]}]"#;
        let error = &parse_abi(abi).unwrap().errors["NotYet"][0];
        let data =
            alloy_dyn_abi::JsonAbiExt::abi_encode_input(error, &[DynSolValue::Uint("77".parse().unwrap(), 256)]).unwrap();
        let undone = |message: &str, data: Vec<u8>| {
            page(
                abi,
                &FormInput::default(),
                &CallResults::from([(SYMBOL, CallResult::Reverted { message: message.into(), data: data.into() })]),
            )
        };
        let shown = undone("execution reverted", data);
        assert!(shown.contains("NotYet(uint256)") && shown.contains(">77<"), "{shown}");
        let shown = undone("execution reverted: <b>", vec![0xff; 100_000]);
        assert!(shown.contains("execution reverted: &lt;b&gt;") && shown.len() < 40_000);
    }

    #[test]
    fn functions_are_paginated() {
        let one = |at: usize| {
            format!(
                r#"{{"type":"function","name":"f{at:05}","inputs":[{{"name":"x","type":"uint256[][][]"}}],"outputs":[],"stateMutability":"view"}}"#
            )
        };
        let abi = format!("[{}]", (0..10_000).map(one).collect::<Vec<_>>().join(","));
        for first in [0, 5_000, 9_990, 10_000, usize::MAX - 10_000] {
            let submitted = FormInput { first, ..FormInput::default() };
            let shown = page(&abi, &submitted, &CallResults::new());
            assert!(shown.len() < 60_000, "{}", shown.len());
            assert_eq!(shown.matches("<form").count(), 10_000usize.saturating_sub(first).min(forms::ON_A_PAGE));
        }
    }

    #[test]
    fn function_with_many_parameters_has_no_form() {
        let inputs = vec![r#"{"name":"x","type":"uint256"}"#; 3_000].join(",");
        let abi = format!(r#"[{{"type":"function","name":"f","inputs":[{inputs}],"outputs":[],"stateMutability":"view"}}]"#);
        let shown = page(&abi, &FormInput::default(), &CallResults::new());
        assert!(shown.contains(texts::TOO_MANY_FIELDS) && !shown.contains("<input") && shown.len() < 3_000);
    }

    #[test]
    fn deep_types_are_rejected_at_their_field() {
        let mut kind = r#"{"name":"x","type":"uint256"}"#.to_owned();
        for _ in 0..20 {
            kind = format!(
                r#"{{"name":"x","type":"tuple[]","components":[{kind},{kind_short}]}}"#,
                kind_short = r#"{"name":"y","type":"bool"}"#
            );
        }
        let abi =
            format!(r#"[{{"type":"function","name":"f","inputs":[{kind}],"outputs":[{kind}],"stateMutability":"view"}}]"#);
        let interface = parse_abi(&abi).unwrap();
        let function = interface.functions().next().unwrap();
        let submitted = FormInput { function: Some(function.selector().0), ..FormInput::default() };
        let wrong = forms::encode(function, &submitted).unwrap_err();
        assert_eq!(wrong.field, Some(0));
        let answers = CallResults::from([(function.selector().0, CallResult::InvalidInput(wrong))]);
        let shown = page(&abi, &submitted, &answers);
        assert!(shown.contains("too deep") && shown.len() < 4_000, "{}", shown.len());
        let answers = CallResults::from([(function.selector().0, CallResult::Returned(vec![0; 4_096].into()))]);
        assert!(page(&abi, &submitted, &answers).contains(texts::RETURNED_OTHER));
    }
}
