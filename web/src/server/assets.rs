//! The few files that pages load, from the binary. Their addresses carry the version, so browsers keep them.

use axum::{
    extract::Path,
    http::StatusCode,
    response::{IntoResponse, Response},
};

/// Name, type, content.
const FILES: [(&str, &str, &str); 5] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../assets/style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("../assets/app.js")),
    ("dag.js", "text/javascript; charset=utf-8", include_str!("../assets/dag.js")),
    ("wallet.js", "text/javascript; charset=utf-8", include_str!("../assets/wallet.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// A file by its name.
pub async fn serve(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(file, ..)| *file == name) {
        Some((_, kind, content)) => {
            ([("content-type", *kind), ("cache-control", "public, max-age=86400")], *content).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
