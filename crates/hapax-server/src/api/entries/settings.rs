//! /config: what a client may know of how this server is set up. No secret is in it, nor the test mode, which is no setting.

use axum::extract::State;
use hapax_core::entry::{Column, Incoming, Schema, Search};
use hapax_intake::quality;
use serde::Serialize;
use utoipa::ToSchema;

use super::read::{DAYS_MAX, WORDS_CHARS_MAX, WORDS_MAX};
use crate::answer::Answer;
use crate::api::App;
use crate::api::openapi::words::EntrySchema;
use crate::config;

/// How this server is set up.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Settings {
    version: &'static str,
    #[schema(value_type = Vec<EntrySchema>)]
    schemas: [&'static str; 2],
    /// The columns of entries.
    columns: Vec<&'static str>,
    limits: Limits,
    retrieval: Retrieval,
    /// What canonical web addresses leave out beside the built-in list.
    tracking_parameters: Vec<String>,
    configured: Configured,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SettingsLimits)]
#[expect(
    clippy::struct_field_names,
    reason = "these are the names of the answer"
)]
struct Limits {
    body_bytes_max: usize,
    batch_body_bytes_max: usize,
    batch_items_max: usize,
    read_limit_max: usize,
    read_days_max: u64,
    q_chars_max: usize,
    q_words_max: usize,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SettingsRetrieval)]
struct Retrieval {
    version: &'static str,
    excerpt_chars_max: usize,
    searched_chars_max: usize,
}

/// What is there, and not how to reach it.
#[derive(Serialize, ToSchema)]
#[schema(as = SettingsConfigured)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a thing that is there or not"
)]
struct Configured {
    litellm: bool,
    gateway: bool,
    email_import_root: bool,
    telegram_secret: bool,
}

/// Tells what a client may know of how this server is set up. No secret is in it.
#[utoipa::path(get, path = "/config", operation_id = "get_config",
    responses((status = 200, description = "Limits, columns, and what is configured.", body = Settings)))]
pub(in crate::api) async fn show(State(app): State<App>) -> Answer<Settings> {
    let config = &app.config;
    Answer(Settings {
        version: env!("CARGO_PKG_VERSION"),
        schemas: Schema::ALL.map(Schema::as_str),
        columns: Column::ALL.iter().map(|column| column.as_str()).collect(),
        limits: Limits {
            body_bytes_max: config.body_bytes_max,
            batch_body_bytes_max: config.batch_body_bytes_max,
            batch_items_max: Incoming::BATCH_MAX,
            read_limit_max: Search::LIMIT_MAX,
            read_days_max: DAYS_MAX,
            q_chars_max: WORDS_CHARS_MAX,
            q_words_max: WORDS_MAX,
        },
        retrieval: Retrieval {
            version: quality::VERSION,
            excerpt_chars_max: quality::EXCERPT_CHARS_MAX,
            searched_chars_max: Search::SEARCHED_CHARS,
        },
        tracking_parameters: config.tracking_parameters.clone(),
        configured: Configured {
            litellm: app.enrich.is_configured(),
            gateway: !config.gateway_base_url.is_empty(),
            email_import_root: !config.email_import_root.as_os_str().is_empty(),
            telegram_secret: config::is_set(config::TELEGRAM_SECRET),
        },
    })
}
