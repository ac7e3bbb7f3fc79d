//! A mailbox is imported: begun, or joined where it runs already, and waited for unless the caller does not want to.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::entry::{Import, NewImport};
use serde::Deserialize;
use std::time::Duration;
use utoipa::ToSchema;

use super::super::App;
use super::super::entries::shown;
use super::super::openapi::words::ThreadPolicy;
use super::super::payload::invalid;
use crate::answer::Answer;
use crate::body::Json;
use crate::import::asked::{self, Asked};
use crate::import::desk::Waited;
use crate::import::mailbox::Mailbox;
use crate::import::open::Closed;
use crate::import::roots::Roots;
use crate::import::shown::Shown;
use crate::import::threads;
use crate::problem::{self, Refusal};

/// An import to be begun.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ImportBody {
    /// The file, beneath the tenant's folder of EMAIL_IMPORT_ROOT.
    #[schema(min_length = 1)]
    mbox_path: String,
    /// How many entries a batch for enrichment holds.
    #[schema(minimum = 500, maximum = 2000, default = 500)]
    batch_size: Option<u64>,
    /// How many messages are written at once.
    #[schema(minimum = 1, maximum = 2000, default = 200)]
    insert_chunk_size: Option<u64>,
    /// How long enrichment may take, in hours or days.
    #[schema(pattern = "^[1-9][0-9]{0,3}[hd]$", default = "24h")]
    completion_window: Option<String>,
    /// The policy that threads are kept by.
    #[schema(value_type = Option<ThreadPolicy>)]
    thread_policy: Option<String>,
    /// true: answer at once.
    #[serde(rename = "async")]
    is_async: Option<bool>,
}

/// Imports a mailbox beneath the folder of imports. It answers 200 when it is done, 202 if the caller does not wait for it. The same
/// file again joins the import that runs; a client that goes away does not stop it.
#[utoipa::path(post, path = "/import/email/mbox", operation_id = "import_mbox",
    request_body(content = ImportBody, example = json!({"mbox_path": "inbox.mbox", "async": true})),
    responses((status = 200, description = "It is done.", body = Shown), (status = 202, description = "It goes on.", body = Shown)),
    extensions(("x-codes" = json!(["not_found", "idempotency_fields_required", "unknown_policy", "policy_disabled", "shutting_down"]))))]
pub(in crate::api) async fn mbox(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Json(body): Json<ImportBody>,
) -> Result<Response, Refusal> {
    let asked = Asked {
        batch_size: body.batch_size.unwrap_or(asked::BATCH_SIZE),
        insert_chunk_size: body.insert_chunk_size.unwrap_or(asked::CHUNK_SIZE),
        completion_window: body
            .completion_window
            .unwrap_or_else(|| asked::WINDOW.to_owned()),
        thread_policy: body.thread_policy,
    };
    let faults = asked.faults();
    if !faults.is_empty() {
        return Err(problem::schema(&faults).into());
    }
    let roots = app.imports.roots().ok_or_else(unset)?.clone();
    let from = roots.clone();
    let open = move || opened(&from, tenant, &body.mbox_path, asked);
    let opened = tokio::task::spawn_blocking(open).await;
    let new = opened.map_err(|_| problem::internal())??;
    let new = threads::checked(&app.store, tenant, new).await?;
    let new = new.map_err(|refused| shown::refused(&refused))?;
    // On a task of its own: what is begun is also offered to a worker, whether or not the client is still there.
    let desk = app.imports.clone();
    let begun = tokio::spawn(async move { desk.begin(tenant, &roots, new).await });
    let import = begun.await.map_err(|_| problem::internal())??;
    let folders = app.imports.folders(tenant);
    let answer = |status, import: &Import, stalled: Option<String>| {
        let shown = Shown::of(import, folders.as_ref());
        let shown = match stalled {
            Some(why) => shown.stalled(why),
            None => shown,
        };
        (status, Answer(shown)).into_response()
    };
    if body.is_async == Some(true) {
        return Ok(answer(StatusCode::ACCEPTED, &import, None));
    }
    let waited = app.imports.wait(tenant, import.id).await?;
    Ok(match waited.ok_or_else(problem::not_found)? {
        Waited::Ended(import) => answer(StatusCode::OK, &import, None),
        Waited::Stalled(import, why) => answer(StatusCode::ACCEPTED, &import, Some(why)),
        Waited::Closing(import) => return Err(closing(&import).into()),
    })
}

/// The import of the file that is asked for, which is there and can be read.
fn opened(
    roots: &Roots,
    tenant: Tenant,
    asked_path: &str,
    asked: Asked,
) -> Result<NewImport, Problem> {
    let opened = roots.of(tenant).open(asked_path).map_err(|closed| match closed {
        Closed::Form(why) => invalid("mbox_path", why),
        Closed::Forbidden => forbidden(),
        Closed::Folder => invalid("mbox_path", "is a folder; name the file in it"),
        Closed::Missing => Problem::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "no such file is beneath EMAIL_IMPORT_ROOT",
        ),
        Closed::NoFolder if tenant != Tenant::DEFAULT && roots.base().path().is_dir() => {
            Problem::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "this tenant has no folder beneath EMAIL_IMPORT_ROOT; make tenants/UUID there, by the tenant's id",
            )
        }
        Closed::NoFolder => unset(),
        Closed::Io(error) => {
            tracing::error!(%error, "a mailbox could not be opened");
            problem::internal()
        }
    })?;
    let mailbox = Mailbox::of(opened.file).map_err(|error| {
        tracing::error!(%error, "a mailbox could not be read");
        problem::internal()
    })?;
    // A name that is not text cannot be kept.
    asked.import(&opened.path, &mailbox).ok_or_else(forbidden)
}

/// One answer to everything that must not be opened. It does not repeat the path.
fn forbidden() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "mbox_path must name a plain file beneath the tenant's folder of EMAIL_IMPORT_ROOT, after links are resolved",
    )
}

fn unset() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "nothing can be imported: set EMAIL_IMPORT_ROOT to the folder that holds the mailboxes, and start again",
    )
}

fn closing(import: &Import) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "shutting_down",
        "the server is stopping; the import goes on where it stopped when the same request is sent again",
    )
    .with_detail("import_id", import.id.to_string())
    .retry_after(Duration::from_secs(1))
}
