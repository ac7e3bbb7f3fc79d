//! What Telegram's Bot API delivers, normalised and inserted in one call. A delivery that comes again gives the same
//! entry, because its keys do.

use axum::extract::State;
use axum::{Extension, Json as Answer};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::entry::{Column, Done, Draft, Fields, Incoming, Target};
use hapax_intake::date;
use hapax_intake::telegram::{NOTHING_TO_KEEP, Update};
use serde_json::{Value, json};

use super::asked::document;
use super::write::count;
use super::{off_the_runtime, shown};
use crate::api::App;
use crate::body::Received;
use crate::problem::{self, Refusal};

/// Takes an update. One without a text is answered all the same, or it would be delivered again.
pub(in crate::api) async fn update(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Received(bytes): Received,
) -> Result<Answer<Value>, Refusal> {
    let tracking = app.tracking.clone();
    let read = off_the_runtime(move || {
        let update = Update::read(document(&bytes)?).map_err(|why| problem::intake(&why))?;
        let entry = update.message.map(|message| message.normalize(&tracking));
        let entry = entry.transpose().map_err(|why| problem::intake(&why))?;
        Ok::<_, Problem>((update.update_id, entry))
    });
    let (update_id, entry) = read.await??;
    let Some(entry) = entry else {
        let ignored = json!({
            "ok": true, "action": "ignored", "reason": NOTHING_TO_KEEP, "update_id": update_id,
        });
        return Ok(Answer(ignored));
    };
    let items = vec![incoming(entry)];
    let mut written = app
        .store
        .entries
        .write_entries(tenant, Target::Active, items, false)
        .await?;
    count(&written);
    match written.done.pop() {
        Some(Done::Kept(kept)) => {
            let mut entry = shown::kept(&kept, &Column::DEFAULT_ROW);
            let action = entry.remove("action");
            let told =
                json!({"ok": true, "action": action, "update_id": update_id, "entry": entry});
            Ok(Answer(told))
        }
        Some(Done::Refused(refused)) => Err(shown::refused(&refused).into()),
        Some(Done::Missing) | None => Err(problem::internal().into()),
    }
}

/// The entry as an insert takes it, checked like one that a client sends.
fn incoming(entry: Fields) -> Incoming {
    let entry = entry.into_json();
    Draft::read(&entry, date::time).map_or_else(Incoming::Refused, Incoming::Insert)
}
