//! What a case works on: an empty store, its clock, and short words for what every case does.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::entry::{
    Catalog, Chunk, Column, Cursor, Draft, Import, ImportError, ImportStatus, Imports, Incoming,
    NewImport, Row, Schema, Search, Sort, Target, TestMode,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::clock::Clock;

/// Makes every change of a stored import fail, or heals that.
type Hurt = Box<dyn Fn(bool) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// An empty store of imports and entries, and the clock it reads.
pub struct ImportSubject {
    /// The store under test.
    pub imports: Arc<dyn Imports>,
    /// The same store.
    pub catalog: Arc<dyn Catalog>,
    clock: Clock,
    hurt: Hurt,
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl ImportSubject {
    /// A subject over an empty `store` that reads `clock`. `hurt(true)` makes the store fail when the row of an import
    /// is changed, after its entries were written, such as by a trigger on the table; `hurt(false)` heals it.
    #[must_use]
    pub fn new<S, H, F>(store: Arc<S>, clock: Clock, hurt: H) -> Self
    where
        S: Catalog + Imports,
        H: Fn(bool) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            imports: store.clone(),
            catalog: store,
            clock,
            hurt: Box::new(move |hurts| Box::pin(hurt(hurts))),
            keep: Vec::new(),
        }
    }

    /// Keeps `guard`, such as a temporary folder, for as long as the subject lives.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.keep.push(Box::new(guard));
        self
    }

    /// Moves the store's clock forward.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    pub(super) async fn hurt(&self, hurts: bool) {
        (self.hurt)(hurts).await;
    }

    /// Begins an import of the tenant of every case.
    pub(super) async fn begin(&self, new: NewImport) -> Import {
        self.begin_of(Tenant::DEFAULT, new).await
    }

    pub(super) async fn begin_of(&self, tenant: Tenant, new: NewImport) -> Import {
        let begun = self.imports.begin_import(tenant, new).await;
        begun.expect("the store answers")
    }

    /// The import as it is stored.
    pub(super) async fn stored(&self, id: Uuid) -> Import {
        let found = self.imports.import(Tenant::DEFAULT, id).await;
        found.expect("the store answers").expect("it is there")
    }

    /// Writes a chunk.
    pub(super) async fn write(&self, id: Uuid, chunk: Chunk) -> Option<Import> {
        let written = self.imports.import_chunk(Tenant::DEFAULT, id, chunk).await;
        let written = written.expect("the store answers");
        if let Some(import) = &written {
            assert_eq!(
                *import,
                self.stored(id).await,
                "the answer is what is stored"
            );
        }
        written
    }

    /// Imports these entries whole, up to the last chunk.
    pub(super) async fn read(&self, number: u128, path: &str, entries: Vec<Incoming>) -> Import {
        let import = self.begin(new(number, path)).await;
        let chunk = chunk(&import.cursor, entries).last();
        self.write(import.id, chunk.0).await.expect("it is written")
    }

    /// Imports these entries whole, and queues what there is to queue.
    pub(super) async fn run(&self, number: u128, path: &str, entries: Vec<Incoming>) -> Import {
        let import = self.read(number, path, entries).await;
        self.queue_all(Tenant::DEFAULT, import.id).await
    }

    /// Gives an import up that was not given up before.
    pub(super) async fn give_up(&self, id: Uuid, why: &str) -> Import {
        let given_up = self.fail(id, why).await.expect("it ran");
        assert_eq!(
            given_up,
            self.stored(id).await,
            "the answer is what is stored"
        );
        given_up
    }

    pub(super) async fn fail(&self, id: Uuid, why: &str) -> Option<Import> {
        let failed = self
            .imports
            .fail_import(Tenant::DEFAULT, id, why.to_owned());
        failed.await.expect("the store answers")
    }

    /// Queues until the import has ended.
    pub(super) async fn queue_all(&self, tenant: Tenant, id: Uuid) -> Import {
        for _ in 0..20 {
            let queued = self
                .imports
                .queue_candidates(tenant, id, Uuid::new_v4())
                .await;
            let import = queued.expect("the store answers").expect("it runs");
            if import.status != ImportStatus::Running {
                return import;
            }
        }
        panic!("the import never ends");
    }

    /// All entries of a schema.
    pub(super) async fn entries(&self, schema: Schema) -> Vec<Row> {
        self.entries_of(Tenant::DEFAULT, schema).await
    }

    pub(super) async fn entries_of(&self, tenant: Tenant, schema: Schema) -> Vec<Row> {
        let everything = Search {
            words: None,
            source: None,
            since: None,
            before: None,
            sort: Sort::Newest,
            limit: Search::LIMIT_MAX,
        };
        let target = Target::Pinned(schema);
        let found = self.catalog.search_entries(tenant, target, everything);
        found.await.expect("the store answers")
    }

    pub(super) async fn set_test_mode(&self, is_on: bool) {
        let mode = TestMode::Set(is_on);
        let changed = self.catalog.change_test_mode(Tenant::DEFAULT, mode).await;
        assert_eq!(changed.expect("the store answers"), is_on);
    }
}

/// An import of this path to be begun, into the active schema, in batches of two.
pub(super) fn new(number: u128, path: &str) -> NewImport {
    NewImport {
        id: Uuid::from_u128(number),
        path: path.to_owned(),
        target: Target::Active,
        batch_size: 2,
        insert_chunk_size: 3,
        completion_window: "24h".to_owned(),
        thread_policy: None,
        bytes: None,
    }
}

/// A chunk that is being put together.
pub(super) struct Made(pub(super) Chunk);

impl Made {
    /// The file ends with it.
    pub(super) fn last(mut self) -> Self {
        self.0.is_last = true;
        self
    }

    /// With messages after its entries that could not be read, at these places.
    pub(super) fn with_faults(mut self, indices: impl IntoIterator<Item = u64>) -> Self {
        for index in indices {
            self.0.faults.push(ImportError {
                phase: "normalize",
                index,
                message: format!("message {index} has no text"),
            });
            self.0.messages += 1;
        }
        self.0.to = place(self.0.from.index + self.0.messages);
        self
    }
}

/// The next messages, each an entry.
pub(super) fn chunk(from: &Cursor, entries: Vec<Incoming>) -> Made {
    let messages = entries.len() as u64;
    Made(Chunk {
        from: from.clone(),
        to: place(from.index + messages),
        messages,
        entries: (from.index..).zip(entries).collect(),
        faults: Vec::new(),
        is_last: false,
    })
}

/// The place of a message in a file whose messages have 100 bytes each.
pub(super) fn place(index: u64) -> Cursor {
    Cursor {
        index,
        offset: index * 100,
        mark: (index > 0).then(|| format!("mark of {index}")),
    }
}

/// A newsletter: the second one with this key is skipped.
pub(super) fn newsletter(key: &str) -> Incoming {
    entry(json!({
        "source": "email-batch", "content_type": "newsletter", "title": format!("News {key}"),
        "clean_text": format!("What happened: {key}"),
        "idempotency_policy_key": "email_newsletter_v1", "idempotency_key_primary": key,
    }))
}

/// A message of a thread without an id: one with this key and another text goes over it.
pub(super) fn thread(key: &str, text: &str) -> Incoming {
    message(key, "", text)
}

/// A message of a thread: one with this key and another id goes over it.
pub(super) fn message(key: &str, id: &str, text: &str) -> Incoming {
    entry(json!({
        "source": "email-batch", "content_type": "correspondence_thread", "title": format!("About {key}"),
        "clean_text": text, "metadata": {"email": {"message_id": id}},
        "idempotency_policy_key": "email_correspondence_thread_v1", "idempotency_key_primary": key,
    }))
}

/// An entry that no store takes: it comes from a source that needs keys, and has none.
pub(super) fn keyless() -> Incoming {
    entry(json!({"source": "email-batch", "clean_text": "nobody knows me again"}))
}

pub(super) fn entry(value: Value) -> Incoming {
    let members: Map<String, Value> = match value {
        Value::Object(members) => members,
        other => panic!("an entry is an object, not {other}"),
    };
    Incoming::Insert(Draft::read(&members, |_| None).expect("cases use entries that can be read"))
}

/// The titles of rows, sorted.
pub(super) fn titles(rows: &[Row]) -> Vec<String> {
    let title = |row: &Row| {
        row.fields
            .text(Column::Title)
            .unwrap_or_default()
            .to_owned()
    };
    let mut titles: Vec<String> = rows.iter().map(title).collect();
    titles.sort();
    titles
}

/// How many entries each batch of an import holds.
pub(super) fn requests(import: &Import) -> Vec<u64> {
    import
        .batches
        .iter()
        .map(|batch| batch.request_count)
        .collect()
}
