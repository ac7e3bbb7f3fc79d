//! /config: what a client may know of how this server is set up. No secret is in it, nor the test mode, which is no setting.

use axum::Json as Answer;
use axum::extract::State;
use hapax_core::entry::{Column, Incoming, Schema, Search};
use hapax_intake::quality;
use serde_json::{Value, json};

use super::read::{DAYS_MAX, WORDS_CHARS_MAX, WORDS_MAX};
use crate::api::App;
use crate::config;

pub(in crate::api) async fn show(State(app): State<App>) -> Answer<Value> {
    let config = &app.config;
    let columns: Vec<&str> = Column::ALL.iter().map(|column| column.as_str()).collect();
    Answer(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "schemas": Schema::ALL.map(Schema::as_str),
        "columns": columns,
        "limits": {
            "body_bytes_max": config.body_bytes_max,
            "batch_body_bytes_max": config.batch_body_bytes_max,
            "batch_items_max": Incoming::BATCH_MAX,
            "read_limit_max": Search::LIMIT_MAX,
            "read_days_max": DAYS_MAX,
            "q_chars_max": WORDS_CHARS_MAX,
            "q_words_max": WORDS_MAX,
        },
        "retrieval": {
            "version": quality::VERSION,
            "excerpt_chars_max": quality::EXCERPT_CHARS_MAX,
            "searched_chars_max": Search::SEARCHED_CHARS,
        },
        "tracking_parameters": config.tracking_parameters,
        "configured": {
            "litellm": app.enrich.is_configured(),
            "gateway": !config.gateway_base_url.is_empty(),
            "email_import_root": !config.email_import_root.as_os_str().is_empty(),
            "telegram_secret": config::is_set(config::TELEGRAM_SECRET),
        },
    }))
}
