//! The ledger that most services write for themselves, on the tables of hapax: a transaction that claims, the
//! handler, a transaction that settles, each on a connection from a pool that the request has for itself.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use anyhow::{Context, Result};
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use hapax::core::{Fingerprint, Tenant};
use hapax::store::PgLedger;
use tokio_postgres::{NoTls, Transaction};
use uuid::Uuid;

const CLAIM: &str = include_str!("sql/claim.sql");
const SETTLE: &str = include_str!("sql/settle.sql");
const FIND: &str = include_str!("sql/find.sql");
const SET_TENANT: &str = include_str!("sql/set_tenant.sql");

/// As many connections as two cores of a database can use well.
const CONNECTIONS: usize = 16;
const BODY_BYTES_MAX: usize = 1 << 20;

/// `inner` behind the plain ledger.
pub(crate) async fn around(inner: Router, database: &str) -> Result<Router> {
    PgLedger::migrate(database).await?;
    let config: tokio_postgres::Config = database.parse()?;
    let fast = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let pool = Pool::builder(Manager::from_config(config, NoTls, fast))
        .max_size(CONNECTIONS)
        .post_create(Hook::async_fn(|client, _| {
            Box::pin(async move {
                client
                    .batch_execute("SET ROLE hapax_app")
                    .await
                    .map_err(HookError::Backend)
            })
        }))
        .build()?;
    Ok(inner.layer(from_fn_with_state(pool, answer)))
}

async fn answer(State(pool): State<Pool>, request: Request, next: Next) -> Response {
    match once(&pool, request, next).await {
        Ok(response) => response,
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}")).into_response(),
    }
}

async fn once(pool: &Pool, request: Request, next: Next) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let key = parts.headers.get("idempotency-key").context("no key")?;
    let key = key.to_str()?.to_owned();
    let body = to_bytes(body, BODY_BYTES_MAX).await?;
    let fingerprint = Fingerprint::of(&body);
    // As hapax does it, the id is made of the key, so that the primary key is all that is looked at.
    let id = id_of(&key);
    let mut connection = pool.get().await?;
    if !claim(&mut connection, id, &key, &fingerprint, &body).await? {
        return replay(&mut connection, id, &fingerprint).await;
    }
    drop(connection);
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, BODY_BYTES_MAX).await?;
    let mut connection = pool.get().await?;
    let transaction = begin(&mut connection).await?;
    let statement = transaction.prepare_cached(SETTLE).await?;
    let status = i32::from(parts.status.as_u16());
    let written = transaction
        .execute(&statement, &[&tenant(), &id, &status, &&body[..]])
        .await?;
    anyhow::ensure!(written == 1, "the key was taken over");
    transaction.commit().await?;
    Ok(Response::from_parts(parts, Body::from(body)))
}

async fn claim(
    connection: &mut Object,
    id: Uuid,
    key: &str,
    fingerprint: &Fingerprint,
    body: &[u8],
) -> Result<bool> {
    let transaction = begin(connection).await?;
    let statement = transaction.prepare_cached(CLAIM).await?;
    let fingerprint = &fingerprint.as_bytes()[..];
    let written = transaction
        .execute(&statement, &[&tenant(), &id, &key, &fingerprint, &body])
        .await?;
    transaction.commit().await?;
    Ok(written == 1)
}

async fn replay(connection: &mut Object, id: Uuid, fingerprint: &Fingerprint) -> Result<Response> {
    let transaction = begin(connection).await?;
    let statement = transaction.prepare_cached(FIND).await?;
    let row = transaction.query_one(&statement, &[&tenant(), &id]).await?;
    transaction.commit().await?;
    let (stored, status, body): (Vec<u8>, Option<i32>, Option<Vec<u8>>) =
        (row.get(0), row.get(1), row.get(2));
    let (Some(status), Some(body)) = (status, body) else {
        return Ok(StatusCode::CONFLICT.into_response());
    };
    if stored != fingerprint.as_bytes() {
        return Ok(StatusCode::CONFLICT.into_response());
    }
    let status = StatusCode::from_u16(u16::try_from(status)?)?;
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

/// A transaction that row level security lets see the tenant's rows.
async fn begin(connection: &mut Object) -> Result<deadpool_postgres::Transaction<'_>> {
    let transaction = connection.transaction().await?;
    let statement = transaction.prepare_cached(SET_TENANT).await?;
    Transaction::execute(&transaction, &statement, &[&tenant()]).await?;
    Ok(transaction)
}

fn tenant() -> Uuid {
    Tenant::DEFAULT.as_uuid()
}

fn id_of(key: &str) -> Uuid {
    let hash = Fingerprint::of(key.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    Uuid::from_bytes(id)
}
