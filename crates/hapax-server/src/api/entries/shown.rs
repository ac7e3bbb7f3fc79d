//! Entries as the API shows them: a row with what was done, or why nothing was.

use axum::http::StatusCode;
use hapax::problem::Problem;
use hapax_core::entry::{Column, Done, Kept, Refused};
use serde_json::{Map, Value, json};

use crate::problem;

/// How many faults of a batch are told at once.
const FAULTS_SHOWN_MAX: usize = 50;

/// A row with what was done to it.
pub(super) fn kept(kept: &Kept, columns: &[Column]) -> Map<String, Value> {
    let mut row = kept.row.to_json(columns);
    row.insert("action".to_owned(), kept.action.as_str().into());
    if let Some(which) = kept.matched_on {
        row.insert("matched_on".to_owned(), which.as_str().into());
    }
    if let Some(conflict) = &kept.conflict {
        let conflict = json!([{
            "field": conflict.which.column().as_str(),
            "key": conflict.key,
            "entry_id": conflict.entry_id,
        }]);
        row.insert("conflicts".to_owned(), conflict);
    }
    if !kept.ignored.is_empty() {
        let names: Vec<&str> = kept.ignored.iter().map(|column| column.as_str()).collect();
        row.insert("ignored".to_owned(), names.into());
    }
    row
}

/// What came of one item of a batch.
pub(super) fn item(index: usize, done: &Done, columns: &[Column]) -> Map<String, Value> {
    let mut row = match done {
        Done::Kept(entry) => kept(entry, columns),
        Done::Refused(refused) => error(refused.code, &refused.message),
        Done::Missing => {
            let missing = missing();
            error(missing.code, &missing.message)
        }
    };
    row.insert("_batch_index".to_owned(), index.into());
    let is_kept = matches!(done, Done::Kept(_));
    row.insert("_batch_ok".to_owned(), is_kept.into());
    row
}

fn error(code: &str, message: &str) -> Map<String, Value> {
    let error = json!({"code": code, "message": message});
    Map::from_iter([("error".to_owned(), error)])
}

/// An entry that stood alone and was not taken.
pub(in crate::api) fn refused(refused: &Refused) -> Problem {
    let problem = Problem::new(status(refused.code), refused.code, &refused.message);
    if refused.faults.is_empty() {
        return problem;
    }
    problem.with_detail("errors", listed(&refused.faults))
}

/// A batch of which nothing is kept: the first fault decides what it is, and all are listed by their places.
pub(super) fn nothing_kept(done: &[Done]) -> Problem {
    let refusals = done
        .iter()
        .enumerate()
        .filter_map(|(index, done)| match done {
            Done::Kept(_) => None,
            Done::Refused(refused) => Some((index, refused.clone())),
            Done::Missing => Some((index, missing())),
        });
    let mut first: Option<(usize, Refused)> = None;
    let mut faults = Vec::new();
    for (index, refused) in refusals {
        let place = format!("/items/{index}");
        if refused.faults.is_empty() {
            faults.push((place, refused.message.clone()));
        } else {
            let within = refused.faults.iter();
            faults.extend(within.map(|(path, why)| (format!("{place}{path}"), why.clone())));
        }
        faults.truncate(FAULTS_SHOWN_MAX);
        first.get_or_insert((index, refused));
        if faults.len() == FAULTS_SHOWN_MAX {
            break;
        }
    }
    let Some((index, refused)) = first else {
        return problem::internal();
    };
    let message = format!(
        "nothing of the batch is kept; item {index}: {}",
        refused.message
    );
    Problem::new(status(refused.code), refused.code, message)
        .with_detail("index", index)
        .with_detail("errors", listed(&faults))
}

fn listed(faults: &[(String, String)]) -> Vec<Value> {
    let told = faults.iter().take(FAULTS_SHOWN_MAX);
    told.map(|(path, message)| json!({"path": path, "message": message}))
        .collect()
}

fn missing() -> Refused {
    Refused::new("not_found", "there is no entry with this id")
}

fn status(code: &str) -> StatusCode {
    match code {
        "not_found" => StatusCode::NOT_FOUND,
        "payload_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    }
}
