//! `docs/rpc.md` is what the tables say. After a change of them: `WRITE_DOCS=1 cargo test -p corniche-api --test reference`.

use corniche_api::openrpc::signature;
use corniche_api::{ErrorCode, Method, NOT_SERVED, Namespaces, Reason};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
<!-- Made from sdk/api: `WRITE_DOCS=1 cargo test -p corniche-api --test reference`. -->
# JSON-RPC

What a node answers over HTTP and WebSocket, on one port. `rpc_discover` answers the same as an OpenRPC document with a schema of every type.
Parameters stand by position; those with a question mark may be left out.

Namespaces are switched by `[serve] namespaces` in `node.toml` or by `--namespaces eth,net,…` (`all`: every one). Methods of one that is off are
answered with −32601 and a message that says so.
";

/// Numbered by the method's own description, unlike everything else.
const SIMULATION_ERRORS: &str = "\
| -38010 to -38026 | `eth_simulateV1` only, as its description numbers them: a nonce too low (-38010) or too high (-38011), a fee below the base fee (-38012), too little \
gas (-38013) or money (-38014), the block's gas limit (-38015), block numbers (-38020) or times (-38021) out of order, a sender with code (-38024), too \
much init code (-38025), too many blocks or too much gas of all together (-38026) |
";

fn page() -> String {
    let mut page = HEAD.to_string();
    let served = Namespaces::default();
    let by_default: BTreeSet<_> = served.names().collect();
    for namespace in Namespaces::all().names() {
        let note = if by_default.contains(namespace) { "" } else { "Off by default, on in `corniche dev`.\n\n" };
        write!(page, "\n## `{namespace}_`\n\n{note}| method | parameters | answer | |\n|---|---|---|---|\n").unwrap();
        for method in Method::ALL.iter().filter(|method| method.namespace() == namespace) {
            let (params, result) = signature(*method);
            let params: Vec<String> = params
                .iter()
                .map(|param| format!("{}{}: {}", param.name, if param.required { "" } else { "?" }, param.kind))
                .collect();
            let params = params.join(", ").replace('|', "\\|");
            let params = if params.is_empty() { String::new() } else { format!("`{params}`") };
            let result = result.replace('|', "\\|");
            writeln!(page, "| `{}` | {params} | `{result}` | {} |", method.name(), method.summary()).unwrap();
        }
    }
    page += "\n## What nodes of Ethereum have and a node here does not serve\n\n| methods | why |\n|---|---|\n";
    for (methods, why) in NOT_SERVED {
        let methods: Vec<String> = methods.iter().map(|method| format!("`{method}`")).collect();
        writeln!(page, "| {} | {why} |", methods.join(", ")).unwrap();
    }
    page += "\n## Errors\n\nThe start of a message is fixed, because clients match it; detail may follow a colon.\n\n| code | messages |\n|---|---|\n";
    for code in ErrorCode::ALL {
        let phrases: Vec<&str> =
            Reason::ALL.iter().filter(|reason| reason.code() == *code).map(|reason| reason.phrase()).collect();
        let general = Some(code.meaning()).filter(|meaning| !phrases.contains(meaning));
        let said: Vec<&str> = general.into_iter().chain(phrases).collect();
        writeln!(page, "| {} | {} |", code.number(), said.join("; ")).unwrap();
    }
    page += SIMULATION_ERRORS;
    page
}

#[test]
fn page_matches_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rpc.md");
    let page = page();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/rpc.md is old: WRITE_DOCS=1 cargo test -p corniche-api --test reference");
}

#[test]
fn not_served_excludes_served_methods() {
    for (methods, _) in NOT_SERVED {
        for method in *methods {
            assert_eq!(Method::from_name(method), None, "{method}");
        }
    }
}
