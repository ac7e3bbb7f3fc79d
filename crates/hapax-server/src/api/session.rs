//! /session: a browser signs in with a token once and gets a cookie, asks who it is, and signs out.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, RequestExt};
use hapax_core::Tenant;
use hapax_store::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::openapi::words::{RoleWord, SignIn};
use crate::answer::Answer;
use crate::auth::session::{self, is_https, is_ours, is_same_origin};
use crate::auth::{self, Access, Caller, Gate, Signed};
use crate::body::FromStranger;
use crate::problem::{self, Refusal};

/// A token to sign in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionBody {
    #[schema(max_length = 4096)]
    token: String,
}

/// Signs in: the answer sets the cookie of a session. It lasts 12 hours and ends with its token.
#[utoipa::path(post, path = "/session", operation_id = "begin_session",
    request_body(content = SessionBody, example = json!({"token": "hpx_0123456789abcdef0123456789abcdef_secret"})),
    responses((status = 204, description = "Signed in.", headers(
        ("Set-Cookie" = String, description = "hapax_session, for this server alone; no script can read it. By https its name is __Host-hapax_session.")))),
    extensions(("x-codes" = json!(
        ["unauthorized", "forbidden", "rate_limited", "request_timeout", "internal", "store_unavailable"]))))]
pub(super) async fn begin(
    axum::extract::State(app): axum::extract::State<App>,
    Extension(gate): Extension<Arc<Gate>>,
    request: Request,
) -> Result<Response, Refusal> {
    let authority = request.uri().authority().map(Authority::as_str);
    if !is_same_origin(request.headers(), authority) {
        return Err(problem::forbidden_csrf().into());
    }
    let (https, peer) = (
        is_https(request.headers()),
        auth::peer(request.extensions()),
    );
    let FromStranger(body) = request
        .extract_with_state::<FromStranger<SessionBody>, _, _>(&app)
        .await?;
    let cookie = gate.begin_session(&body.token, peer, https).await?;
    answer(&cookie)
}

/// Who asks.
#[derive(Serialize, ToSchema)]
#[schema(as = Session)]
pub(super) struct Shown {
    tenant: String,
    #[schema(value_type = RoleWord)]
    role: &'static str,
    /// The id of the token, or HAPAX_TOKEN; nothing where no token is asked for.
    token_id: Option<String>,
    /// The name that the token was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    token_name: Option<String>,
    /// When the session ends; a token by itself does not end.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    #[schema(value_type = SignIn)]
    auth: &'static str,
}

/// Tells who asks, by cookie or by token.
#[utoipa::path(get, path = "/session", operation_id = "get_session",
    responses((status = 200, description = "Who it is.", body = Shown)))]
pub(super) async fn show(
    Extension(gate): Extension<Arc<Gate>>,
    Extension(tenant): Extension<Tenant>,
    Extension(role): Extension<Role>,
    Extension(caller): Extension<Caller>,
    Extension(signed): Extension<Signed>,
) -> ([(HeaderName, &'static str); 1], Answer<Shown>) {
    let (token_id, token_name) = match &caller {
        Caller::Token(id, name) => (Some(id.to_string()), name.as_deref().map(str::to_owned)),
        Caller::Configured | Caller::Telegram => (Some(caller.to_string()), None),
        Caller::Local => (None, None),
    };
    let expires_at = match signed {
        Signed::Session(until) => Some(until.to_string()),
        Signed::Itself => None,
    };
    let auth = match gate.access() {
        Access::Token => "token",
        Access::Open => "none",
    };
    let shown = Shown {
        tenant: tenant.to_string(),
        role: role.as_str(),
        token_id,
        token_name,
        expires_at,
        auth,
    };
    ([(CACHE_CONTROL, "no-store")], Answer(shown))
}

/// Signs out: the session is over on every node, and the answer takes the cookie back. Without a session nothing changes.
#[utoipa::path(delete, path = "/session", operation_id = "end_session",
    responses((status = 204, description = "Signed out.", headers(
        ("Set-Cookie" = String, description = "hapax_session, empty.")))),
    extensions(("x-codes" = json!(["forbidden", "rate_limited", "internal", "store_unavailable"]))))]
pub(super) async fn end(
    Extension(gate): Extension<Arc<Gate>>,
    request: Request,
) -> Result<Response, Refusal> {
    let headers: &HeaderMap = request.headers();
    let authority = request.uri().authority().map(Authority::as_str);
    if session::cookie(headers).is_some() && !is_ours(request.method(), headers, authority) {
        return Err(problem::forbidden_csrf().into());
    }
    gate.end_session(headers, auth::peer(request.extensions()))
        .await?;
    answer(&session::cleared(is_https(headers)))
}

fn answer(cookie: &str) -> Result<Response, Refusal> {
    let cookie = HeaderValue::from_str(cookie).map_err(|_| problem::internal())?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(SET_COOKIE, cookie);
    let fresh = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, fresh);
    Ok(response)
}
