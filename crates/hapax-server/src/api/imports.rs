//! Imports of mailboxes: begun in the file below, shown as they stand, and listed.

pub(super) mod begin;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use hapax_core::Tenant;
use hapax_core::entry::Search;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::App;
use super::jobs::path_parameter;
use super::payload::invalid;
use super::query::Query;
use crate::answer::Answer;
use crate::import::shown::Shown;
use crate::problem::{self, Refusal};

/// The id of an import in the path.
pub(super) struct Id(pub(super) Uuid);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let text = path_parameter(parts, state, "id").await?;
        let id = Uuid::parse_str(&text).map_err(|_| problem::not_found())?;
        Ok(Self(id))
    }
}

/// Shows an import as it stands now.
#[utoipa::path(get, path = "/import/{id}", operation_id = "get_import",
    responses((status = 200, description = "The import.", body = Shown)))]
pub(super) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
) -> Result<Answer<Shown>, Refusal> {
    let found = app.store.imports.import(tenant, id).await?;
    let import = found.ok_or_else(problem::not_found)?;
    Ok(Answer(Shown::of(
        &import,
        app.imports.folders(tenant).as_ref(),
    )))
}

/// Which imports to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page of imports.
#[derive(Serialize, ToSchema)]
#[schema(as = ImportPage)]
pub(super) struct Page {
    items: Vec<Shown>,
    next_cursor: Option<String>,
}

/// Lists imports, newest first.
#[utoipa::path(get, path = "/v1/imports", operation_id = "list_imports",
    params(ListQuery), responses((status = 200, description = "A page of imports.", body = Page)))]
pub(super) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    let limit = query.limit.unwrap_or(50);
    if !(1..=Search::LIMIT_MAX).contains(&limit) {
        let why = format!("must be from 1 to {}", Search::LIMIT_MAX);
        return Err(invalid("limit", why).into());
    }
    let after = query.cursor.as_deref().map(Uuid::parse_str).transpose();
    let after = after.map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?;
    let found = app.store.imports.imports(tenant, after, limit).await?;
    let last = found.last().filter(|_| found.len() == limit);
    let folders = app.imports.folders(tenant);
    Ok(Answer(Page {
        next_cursor: last.map(|last| last.id.to_string()),
        items: found
            .iter()
            .map(|import| Shown::of(import, folders.as_ref()))
            .collect(),
    }))
}
