//! Page that calls functions that change state. The server encodes the call, a wallet signs and sends it; keys stay in the
//! wallet. Without scripts the page shows the encoded call for other tools.

use super::{
    super::{Failure, Page, Query, parts},
    forms::{self, FieldError, Form, FormInput},
    subject::{self, Contract, Subject},
};
use crate::{
    abi::{self, KnownAbis},
    app_state::AppState,
    database::{Read, sql},
    indexer::certificates,
    indexer_status::Snapshot,
    links,
    node::Call,
    pages::account::texts::contract as texts,
    pages::transactions::texts as transaction_texts,
    views,
};
use alloy_json_abi::{Function, JsonAbi};
use alloy_primitives::{Address, B256, Bytes, U256};
use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use corniche_api::TransactionStatus;
use corniche_client::ClientError;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// Functions that revoke approvals in ERC-20, ERC-721 and ERC-1155. A token has them even if its interface does not list them.
static STANDARD: LazyLock<[Function; 2]> = LazyLock::new(|| {
    let signatures = ["approve(address spender,uint256 amountOrId)", "setApprovalForAll(address operator,bool approved)"];
    signatures.map(|signature| Function::parse(signature).expect("a signature"))
});

/// An encoded call, ready to be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Encoded {
    input: Bytes,
    value: U256,
}

/// `/address/{address}/write`
pub async fn show(
    State(app): State<Arc<AppState>>,
    Path(address): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let contract = subject.contract()?;
    let submitted = FormInput::read(&query)?;
    let function = submitted.function.map(|selector| writable(contract, selector)).transpose();
    let body = match (&contract.interface, function) {
        (None, Ok(None) | Err(_)) => forms::no_interface(subject.address),
        (_, function) => {
            let function = function?;
            let call = function.map(|function| encoded(function, &submitted));
            let wallet = wallet(&app.status(), app.node.url());
            let view = View { address: subject.address, contract, function, currency: &app.status().currency };
            markup(&view, &submitted, call.as_ref(), wallet)
        }
    };
    Ok(subject.page(&app, texts::WRITE, body))
}

/// `/address/{address}/encode`: the call for the wallet, with a warning if it would revert now.
pub async fn encode(
    State(app): State<Arc<AppState>>,
    Path(address): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let subject = Subject::load(&app, &address).await?;
    let contract = subject.contract()?;
    let submitted = FormInput::read(&query)?;
    let selector = submitted.function.ok_or_else(|| Failure::BadRequest(texts::NO_SELECTOR.into()))?;
    let call = match encoded(writable(contract, selector)?, &submitted) {
        Ok(call) => call,
        Err(wrong) => return Ok((StatusCode::UNPROCESSABLE_ENTITY, Json(refusal(&wrong))).into_response()),
    };
    let warning = match submitted.from {
        Some(from) => warning(&app, subject.address, from, &call, &contract.known(subject.address)).await,
        None => None,
    };
    Ok(Json(to_send(subject.address, &call, warning)).into_response())
}

/// `/tx/{hash}/status`: status of a transaction, for a page that waits for it.
pub async fn status(State(app): State<Arc<AppState>>, Path(hash): Path<String>) -> Result<Response, Failure> {
    let hash: B256 = hash.parse().map_err(|_| Failure::BadRequest(transaction_texts::BAD_HASH.into()))?;
    if let Some(report) = executed(&app, hash).await? {
        return Ok(Json(report).into_response());
    }
    let answer = app.node.status(hash).await;
    let has_answered = answer.is_ok();
    let Some(report) = answer.ok().flatten() else {
        return Ok(Json(unexecuted(&app, hash, has_answered).await?).into_response());
    };
    let status = match report.status {
        TransactionStatus::Dropped { reason } => TransactionStatus::Dropped { reason: abi::text(&reason) },
        status => status,
    };
    let mut report = json!(status);
    if let TransactionStatus::Executed { .. } | TransactionStatus::Certified { .. } = status {
        // Without a receipt the result is not known yet.
        let receipt: Value = app.node.ask("eth_getTransactionReceipt", json!([hash])).await.unwrap_or_default();
        if let Some(status) = receipt.get("status").and_then(Value::as_str) {
            report["succeeded"] = json!(status == "0x1");
        }
    }
    Ok(Json(report).into_response())
}

/// Status of an executed transaction from the database.
async fn executed(app: &AppState, hash: B256) -> Result<Option<Value>, Failure> {
    let text = "SELECT t.place, t.succeeded, b.hash AS block_hash FROM transactions t JOIN blocks b ON b.number = t.place >> 20 WHERE t.hash = $1";
    let readers = app.database.readers();
    let Some(row) = sql(text).bind(hash.to_vec()).fetch_optional(readers).await? else { return Ok(None) };
    let (block_hash, block_number) = (row.hash("block_hash")?, row.place("place")?.block());
    let mut report = json!(match certificates::covering(readers, block_number).await? {
        Some(_) => TransactionStatus::Certified { block_hash, block_number },
        None => TransactionStatus::Executed { block_hash, block_number },
    });
    report["succeeded"] = json!(row.int("succeeded")? == 1);
    Ok(Some(report))
}

/// Status of a transaction that is in no stored block and about which the node returned nothing.
async fn unexecuted(app: &AppState, hash: B256, has_answered: bool) -> Result<Value, Failure> {
    match views::transactions::skip(app, hash).await? {
        Some(row) => Ok(json!(TransactionStatus::Dropped { reason: abi::text(&row.text("reason")?) })),
        None if has_answered => Ok(json!({ "status": "unknown" })),
        None => Err(views::transactions::unknown(app, hash, has_answered)),
    }
}

/// Finds the requested function in the contract's interface, or else in the token standards.
fn writable(contract: &Contract, selector: [u8; 4]) -> Result<&Function, Failure> {
    let found = contract.interface.as_ref().map(|interface| forms::find(interface, selector));
    match (found, STANDARD.iter().find(|function| function.selector().0 == selector)) {
        (Some(Ok(function)), _) if !forms::reads(function) => Ok(function),
        (_, Some(standard)) => Ok(standard),
        (Some(Ok(function)), None) => Err(Failure::BadRequest(texts::only_reads(&abi::text(&function.name)))),
        (Some(Err(missing)), None) => Err(missing),
        (None, None) => Err(Failure::NotFound(texts::NO_INTERFACE.into())),
    }
}

fn encoded(function: &Function, submitted: &FormInput) -> Result<Encoded, FieldError> {
    let input = forms::encode(function, submitted)?;
    let value = if forms::takes_coins(function) { forms::coins(&submitted.coins)? } else { U256::ZERO };
    Ok(Encoded { input, value })
}

fn refusal(wrong: &FieldError) -> Value {
    let field = wrong.field.map(|at| if at == forms::COINS { "value".to_owned() } else { format!("a{at}") });
    json!({ "field": field, "problem": wrong.problem })
}

fn to_send(to: Address, call: &Encoded, warning: Option<String>) -> Value {
    json!({ "to": to, "data": call.input, "value": call.value, "warning": warning })
}

/// Returns the reason if the call would revert now.
async fn warning(app: &AppState, to: Address, from: Address, call: &Encoded, known: &KnownAbis) -> Option<String> {
    let call = Call { from: Some(from), to, value: call.value, input: call.input.clone(), gas: None };
    match app.node.eth_calls(&[call]).await.ok()?.pop()? {
        Err(ClientError::Reverted { message, data }) => {
            let error = known.error(to, &data).or_else(|| abi::refusal(&data));
            Some(error.map_or_else(|| abi::text(&message), |error| error.brief()))
        }
        Err(ClientError::Refused { refusal, .. }) => Some(abi::text(&refusal.message)),
        _ => None,
    }
}

/// Section for the wallet, with the chain's data for the script.
fn wallet(indexer_status: &Snapshot, node: &str) -> Markup {
    // The node's URL may be private to the explorer. So wallets get it only if its host is the local machine. A URL with an @
    // is never passed on, because the text before the @ is a user name and a password.
    let host = node.split("://").nth(1).filter(|rest| !rest.contains('@')).and_then(|rest| rest.split([':', '/']).next());
    let rpc = host.filter(|host| ["127.0.0.1", "localhost"].contains(host)).map(|_| node);
    let currency = &indexer_status.currency;
    html! {
        section #wallet data-chain-id=[indexer_status.chain_id] data-rpc=[rpc] data-currency=(currency) data-name=(crate::texts::NAME)
            data-texts=(parts::texts(&super::texts::wallet::SCRIPT)) {
            h2 { (texts::WALLET) }
            p #wallet-says role="status" { (texts::WALLET_NEEDS_SCRIPT) }
            button #connect type="button" hidden { (texts::CONNECT) }
        }
        script src=(links::WALLET) defer {}
    }
}

/// Data of the page.
struct View<'a> {
    address: Address,
    contract: &'a Contract,
    /// The requested function.
    function: Option<&'a Function>,
    currency: &'a str,
}

fn markup(view: &View<'_>, submitted: &FormInput, call: Option<&Result<Encoded, FieldError>>, wallet: Markup) -> Markup {
    let View { address, contract, function, currency } = *view;
    let page = links::account_part(address, subject::WRITE);
    let nothing = JsonAbi::new();
    let interface = contract.interface.as_ref().unwrap_or(&nothing);
    let (functions, all) = forms::of_page(interface, false, submitted.first);
    let elsewhere = function.filter(|function| !functions.iter().any(|view| view.selector() == function.selector()));
    let by_standard =
        function.is_some_and(|function| STANDARD.contains(function) && !interface.functions().any(|report| report == function));
    html! {
        section {
            h2 { (texts::WRITE) }
            p .note { (texts::WRITE_NOTE) " " (super::interface::abi_source(contract)) }
            @if by_standard { p { (texts::BY_STANDARD) } }
            @if all == 0 && !by_standard { p { (texts::NOTHING_TO_WRITE) } }
        }
        (wallet)
        @for function in elsewhere.into_iter().chain(functions) {
            @let call = call.filter(|_| submitted.of(function));
            @let wrong = call.and_then(|call| call.as_ref().err());
            @let form = Form { function, page: &page, button: texts::SEND, currency, submitted, wrong };
            (form.markup(html! { @if let Some(Ok(call)) = call { (calldata(address, function, submitted, call)) } }))
        }
        (forms::pages(&page, submitted.first, all))
    }
}

/// The encoded call and a command, for other tools.
fn calldata(address: Address, function: &Function, submitted: &FormInput, call: &Encoded) -> Markup {
    let typed = |at: usize| submitted.values.get(&at).map_or("", String::as_str);
    let arguments: String = (0..function.inputs.len()).map(|at| format!(" {}", quoted(typed(at)))).collect();
    let mut command = texts::send(address, &quoted(&function.signature()), &arguments);
    if !call.value.is_zero() {
        command = texts::with_value(&command, call.value);
    }
    html! {
        div .by-hand {
            p .note { (texts::BY_HAND) }
            (parts::bytes(&call.input))
            p .note { (texts::BY_COMMAND) }
            pre .bytes tabindex="0" { code { (abi::text(&command)) } }
        }
    }
}

/// Quotes a word for a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::parse_abi;

    const CONTRACT: Address = Address::repeat_byte(9);
    const ABI: &str = r#"[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"value","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"},
                          {"type":"function","name":"deposit","inputs":[],"outputs":[],"stateMutability":"payable"}]"#;

    fn page(query: &str) -> String {
        page_of(parse_abi(ABI), query)
    }

    fn page_of(interface: Option<JsonAbi>, query: &str) -> String {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let submitted = FormInput::read(&query).unwrap();
        let contract = Contract { interface, ..Contract::default() };
        let function = submitted.function.map(|selector| writable(&contract, selector).unwrap());
        let call = function.map(|function| encoded(function, &submitted));
        let view = View { address: CONTRACT, contract: &contract, function, currency: "CRN" };
        markup(&view, &submitted, call.as_ref(), html! {}).into_string()
    }

    #[test]
    fn sent_form_shows_its_call() {
        let view = page("f=a9059cbb&a0=0x0707070707070707070707070707070707070707&a1=5");
        assert!(view.contains(&format!("0xa9059cbb{:0>64}{:0>64}", "07".repeat(20), "5")), "{view}");
        assert!(view.contains("'transfer(address,uint256)' '0x0707070707070707070707070707070707070707' '5'"), "{view}");
        assert_eq!(page("").matches("by-hand").count(), 0);
    }

    #[test]
    fn revoke_form_needs_no_abi() {
        const VIEW: &str = r#"[{"type":"function","name":"approve","inputs":[{"name":"a","type":"address"},{"name":"b","type":"uint256"}],"outputs":[],"stateMutability":"view"}]"#;
        let spender = "0x0707070707070707070707070707070707070707";
        let word = "07".repeat(20);
        for (query, call) in [
            (format!("f=095ea7b3&a0={spender}&a1=0"), format!("0x095ea7b3{word:0>64}{:0>64}", "")),
            (format!("f=095ea7b3&a0={}&a1=7", Address::ZERO), format!("0x095ea7b3{:0>64}{:0>64}", "", "7")),
            (format!("f=a22cb465&a0={spender}&a1=false"), format!("0xa22cb465{word:0>64}{:0>64}", "")),
        ] {
            for interface in [None, parse_abi(ABI), parse_abi(VIEW)] {
                let view = page_of(interface, &query);
                assert!(view.contains(&call) && view.contains(texts::BY_STANDARD), "{query}: {view}");
            }
        }
        let unknown = Contract { interface: parse_abi(ABI), ..Contract::default() };
        assert!(matches!(writable(&unknown, [1, 2, 3, 4]), Err(Failure::NotFound(_))));
        assert!(!page("f=a9059cbb").contains(texts::BY_STANDARD));
    }

    #[test]
    fn error_is_shown_at_its_field() {
        let view = page("f=a9059cbb&a0=<script>&a1=5");
        assert!(
            view.contains("value=\"&lt;script&gt;\"") && view.contains("aria-describedby=\"f-a9059cbb-0-wrong\""),
            "{view}"
        );
        assert!(view.contains("invalid address") && !view.contains("<script"));
    }

    #[test]
    fn value_field_only_for_payable_functions() {
        let view = page("f=d0e30db0&value=1.5");
        assert!(view.contains("--value 1500000000000000000"), "{view}");
        for wrong in ["1,5", "-1", "1e3", "1 gwei", "0x10", "1.0000000000000000001", &"9".repeat(90)] {
            assert!(page(&format!("f=d0e30db0&value={wrong}")).contains(texts::NO_AMOUNT), "{wrong}");
        }
        let call = to_send(CONTRACT, &Encoded { input: Bytes::new(), value: U256::from(16) }, None);
        assert_eq!(call["value"], "0x10");
    }

    #[test]
    fn shell_arguments_are_quoted() {
        assert_eq!(quoted("a'; rm -rf / #"), r"'a'\''; rm -rf / #'");
    }

    #[test]
    fn only_local_node_url_is_shared() {
        let indexer_status = Snapshot { chain_id: Some(7), currency: "CRN".into(), ..Snapshot::default() };
        assert!(wallet(&indexer_status, "http://127.0.0.1:8545").into_string().contains("data-rpc=\"http://127.0.0.1:8545\""));
        for far in ["http://10.0.0.7:8545", "http://localhost:secret@10.0.0.7:8545", "http://127.0.0.1.example:8545", "node"] {
            assert!(!wallet(&indexer_status, far).into_string().contains("data-rpc"), "{far}");
        }
    }

    #[test]
    fn wallet_script_receives_its_texts() {
        let view = wallet(&Snapshot::default(), "node").into_string();
        assert!(view.contains("&quot;anyway&quot;:&quot;Send anyway&quot;"), "{view}");
    }
}
