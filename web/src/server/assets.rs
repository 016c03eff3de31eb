//! Static files of the pages, compiled into the binary. Their URLs contain the version, so browsers may cache them.

use axum::{
    extract::Path,
    http::StatusCode,
    response::{IntoResponse, Response},
};

/// Name, content type, content.
const FILES: [(&str, &str, &str); 5] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../assets/style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("../assets/app.js")),
    ("dag.js", "text/javascript; charset=utf-8", include_str!("../assets/dag.js")),
    ("wallet.js", "text/javascript; charset=utf-8", include_str!("../assets/wallet.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// Serves a file by name.
pub async fn serve(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(file, ..)| *file == name) {
        Some((_, kind, content)) => {
            ([("content-type", *kind), ("cache-control", "public, max-age=86400")], *content).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
