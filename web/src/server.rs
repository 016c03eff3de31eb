//! Router of the explorer, with the middleware for all requests: rate limits, headers, error pages.

use crate::{
    api::{self, problem::Problem},
    app_state::AppState,
    links,
    pages::{self, Html, layout},
    texts::failure,
    views::Failure,
};
use axum::{
    Router,
    extract::{ConnectInfo, Query, Request, State, rejection::QueryRejection},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use maud::html;
use std::{net::SocketAddr, sync::Arc, time::Instant};
use tower_http::compression::{CompressionLayer, CompressionLevel};

mod assets;
mod connections;
mod live;

pub use connections::serve;

/// Allows no third-party resources, no framing and no inline scripts. Forms may only target this site.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Returns the router for pages, API and assets.
pub fn router(app: Arc<AppState>) -> Router {
    Router::new()
        .route(links::HOME, get(pages::home::show))
        .route(links::BLOCKS, get(pages::blocks::list))
        .route("/block/{block}", get(pages::blocks::show))
        .route(links::TRANSACTIONS, get(pages::transactions::list))
        .route("/tx/{hash}", get(pages::transactions::show))
        .route(links::DAG, get(pages::dag::show))
        .merge(pages::account::routes())
        .route(links::SEARCH, get(pages::search::show))
        .route(links::API, get(etherscan_or_page).post(api::etherscan::post))
        .merge(api::router())
        .route(links::TOKENS, get(pages::tokens::list))
        .route("/token/{address}", get(pages::token::show))
        .route("/token/{address}/{part}", get(pages::token::part))
        .route(links::VALIDATORS, get(pages::validators::list))
        .route("/validator/{index}", get(pages::validator::show))
        .route(links::STATISTICS, get(pages::statistics::show))
        .route(links::NETWORK, get(pages::network::show))
        .route(links::LIVE, get(live::stream))
        .route("/assets/{file}", get(assets::serve))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard))
        // Pages are mostly tags and shrink to a fifth. Event streams are not compressed.
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .with_state(app)
}

/// `GET /api`: a response of the Etherscan-compatible API, or the documentation.
async fn etherscan_or_page(
    State(app): State<Arc<AppState>>,
    query: Result<Query<api::etherscan::Pairs>, QueryRejection>,
    request: Request,
) -> Response {
    match api::etherscan::is_api_request(&request) {
        true => api::etherscan::get(app, query).await,
        false => pages::api::page(&app, &api::reference::reference()).into_response(),
    }
}

async fn not_found(request: Request) -> Response {
    let text = failure::no_page(request.uri().path());
    match api::is_api_request(&request) {
        true => Problem::missing(format!("{text} {} {}", links::API, failure::LISTS_ENDPOINTS)).into_response(),
        false => Failure::NotFound(text).into_response(),
    }
}

/// Middleware around every request: rate limit, halt check, headers.
async fn guard(
    State(app): State<Arc<AppState>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let is_asset = request.uri().path().starts_with("/assets/");
    // API requests receive JSON errors. Assets and the status endpoint work even when the indexer has halted.
    let is_api_request = api::is_api_request(&request);
    let is_always_served = is_asset || request.uri().path() == api::STATUS;
    let method = request.method().clone();
    let mut response = if !is_asset && !app.limits.take(from.ip(), Instant::now()) {
        ([("retry-after", "2")], busy(request.uri().path(), is_api_request)).into_response()
    } else if let Some(halt) = app.status().halt.filter(|_| !is_always_served) {
        halted(is_api_request, halt.to_string())
    } else {
        next.run(request).await
    };
    if is_api_request {
        api::allow_all_origins(&method, &mut response);
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn busy(path: &str, is_api_request: bool) -> Response {
    match is_api_request {
        true if path == links::API => return api::etherscan::busy(),
        true => return Problem::new("too_many_requests", failure::BUSY_HINT).into_response(),
        false => {}
    }
    let body = html! { h1 { (failure::BUSY) } p { (failure::BUSY_HINT) } };
    (StatusCode::TOO_MANY_REQUESTS, Html(layout::bare(failure::BUSY, body))).into_response()
}

fn halted(is_api_request: bool, why: String) -> Response {
    if is_api_request {
        return Problem::new("halted", why).into_response();
    }
    let body = html! { h1 { (failure::HALTED) } p { (why) } };
    (StatusCode::SERVICE_UNAVAILABLE, Html(layout::bare(failure::HALTED, body))).into_response()
}
