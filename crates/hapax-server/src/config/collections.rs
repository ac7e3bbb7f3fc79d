//! The `[collections.NAME]` tables: which payloads are kept as snapshots, where their ids stand, and what shape they have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hapax_intake::snapshot::{Collection, CollectionName, Pointer, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Table;

use super::Config;
use crate::exit::Usage;

/// The most collections of a server.
const COLLECTIONS_MAX: usize = 100;

/// The largest file with a schema.
const SCHEMA_BYTES_MAX: u64 = 1 << 20;

/// Names that stand for something else in a path, now or by the contract.
pub(crate) const TAKEN: [&str; 24] = [
    "audit",
    "batches",
    "clarifications",
    "collections",
    "echo",
    "entries",
    "erase",
    "events",
    "imports",
    "intents",
    "jobs",
    "keys",
    "live",
    "ops",
    "overview",
    "policies",
    "receipts",
    "reconcile",
    "settings",
    "snapshots",
    "stats",
    "sweep",
    "tokens",
    "vault",
];

/// One table, as written.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Table>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_file: Option<PathBuf>,
}

/// The tables by name.
pub(crate) type Entries = BTreeMap<String, Entry>;

impl Config {
    /// The collections of this server, `courses` among them. Reads the files that hold schemas.
    ///
    /// # Errors
    /// [`Usage`] with the collection and the key that cannot be followed.
    pub(crate) fn collections(&self) -> Result<Vec<Arc<Collection>>> {
        let built_in = Collection::courses();
        let named: BTreeSet<&str> = self.collections.keys().map(String::as_str).collect();
        let mut collections = Vec::with_capacity(named.len() + 1);
        for (name, entry) in &self.collections {
            let mut collection = entry.collection(name, &built_in)?;
            if let Some(schema) = entry.schema_of_file(name)? {
                collection.schema = Some(schema);
            }
            collections.push(Arc::new(collection));
        }
        if !named.contains(built_in.name.as_str()) {
            collections.push(Arc::new(built_in));
        }
        Ok(collections)
    }

    /// Checks what can be checked without opening a file.
    pub(super) fn check_collections(&self) -> Result<()> {
        if self.collections.len() > COLLECTIONS_MAX {
            return Err(Usage::error(format!(
                "there are {} collections; at most {COLLECTIONS_MAX} are taken",
                self.collections.len()
            )));
        }
        let built_in = Collection::courses();
        for (name, entry) in &self.collections {
            entry.collection(name, &built_in)?;
        }
        Ok(())
    }
}

impl Entry {
    /// The collection, without the schema that a file holds. What an entry for the built-in one leaves out stays as it
    /// is, unless its id stands elsewhere: then its payloads are other ones.
    fn collection(&self, name: &str, built_in: &Collection) -> Result<Collection> {
        let refuse = |key: &str, why: String| refusal(name, key, &why);
        if TAKEN.contains(&name) {
            return Err(Usage::error(format!(
                "collections.{name}: /v1/{name} is taken by another route; choose another name"
            )));
        }
        let parsed: CollectionName = name
            .parse()
            .map_err(|why| Usage::error(format!("collections.{name}: {why}")))?;
        let pointer = |key: &str, text: &str| {
            let pointer = text.parse::<Pointer>();
            pointer.map_err(|why| refuse(key, why.to_string()))
        };
        let given = self.id.as_deref().map(|id| pointer("id", id)).transpose()?;
        let built_in = (parsed == built_in.name
            && given.as_ref().is_none_or(|id| *id == built_in.id))
        .then_some(built_in);
        let id = match (given, built_in) {
            (Some(id), _) => id,
            (None, Some(built_in)) => built_in.id.clone(),
            (None, None) => {
                return Err(refuse(
                    "id",
                    "is missing; say where the id stands, as in \"/order/id\"".into(),
                ));
            }
        };
        let label = match &self.label {
            Some(label) => Some(pointer("label", label)?),
            None => built_in.and_then(|built_in| built_in.label.clone()),
        };
        let schema = match (&self.schema, &self.schema_file) {
            (Some(_), Some(_)) => {
                return Err(refuse(
                    "schema_file",
                    "stands beside schema; keep one of them".into(),
                ));
            }
            (Some(table), None) => Some(compiled(name, "schema", &json_of(name, table)?)?),
            (None, _) => built_in.and_then(|built_in| built_in.schema.clone()),
        };
        Ok(Collection {
            name: parsed,
            id,
            label,
            schema,
        })
    }

    fn schema_of_file(&self, name: &str) -> Result<Option<Schema>> {
        let Some(path) = &self.schema_file else {
            return Ok(None);
        };
        let refuse =
            |why: String| refusal(name, "schema_file", &format!("{}: {why}", path.display()));
        let about = std::fs::metadata(path).map_err(|why| refuse(why.to_string()))?;
        if about.len() > SCHEMA_BYTES_MAX {
            return Err(refuse(format!("is over {SCHEMA_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(path).map_err(|why| refuse(why.to_string()))?;
        let schema: Value =
            serde_json::from_slice(&text).map_err(|why| refuse(format!("is not JSON: {why}")))?;
        compiled(name, "schema_file", &schema).map(Some)
    }
}

fn json_of(name: &str, table: &Table) -> Result<Value> {
    serde_json::to_value(table).map_err(|why| refusal(name, "schema", &why.to_string()))
}

fn compiled(name: &str, key: &str, schema: &Value) -> Result<Schema> {
    Schema::compile(schema).map_err(|why| refusal(name, key, &why.to_string()))
}

fn refusal(name: &str, key: &str, why: &str) -> anyhow::Error {
    Usage::error(format!("collections.{name}: {key}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_intake::snapshot::read;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    fn collections(text: &str) -> Vec<Arc<Collection>> {
        config(text).collections().unwrap()
    }

    fn refused(text: &str) -> String {
        let why = config(text).check_collections().unwrap_err();
        assert!(why.is::<Usage>());
        why.to_string()
    }

    #[test]
    fn courses_are_there_without_being_asked_for() {
        let names = |text: &str| -> Vec<String> {
            collections(text)
                .iter()
                .map(|found| found.name.to_string())
                .collect()
        };
        assert_eq!(names(""), ["courses"]);
        assert_eq!(
            names("[collections.orders]\nid = '/number'"),
            ["orders", "courses"]
        );
    }

    #[test]
    fn an_entry_for_courses_keeps_what_it_does_not_say() {
        let nameless = br#"{"course":{"id":"a"}}"#;
        for same in [
            "[collections.courses]",
            "[collections.courses]\nid = '/course/id'",
        ] {
            let courses = collections(same).remove(0);
            assert!(courses.label.is_some(), "{same}");
            assert!(read(nameless, &courses).is_err(), "{same}");
        }
        let open = collections("[collections.courses.schema]").remove(0);
        assert!(
            read(nameless, &open).is_ok(),
            "an empty schema asks for nothing"
        );
        let elsewhere = collections("[collections.courses]\nid = '/id'").remove(0);
        assert!(elsewhere.label.is_none() && elsewhere.schema.is_none());
        assert_eq!(read(br#"{"id":7}"#, &elsewhere).unwrap().entity_id, "7");
    }

    #[test]
    fn a_schema_stands_in_the_table_or_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"required":["total"]}"#).unwrap();
        let by_file = format!("schema_file = '{}'", file.path().display());
        for schema in ["schema = { required = ['total'] }", &by_file] {
            let orders =
                collections(&format!("[collections.orders]\nid = '/n'\n{schema}")).remove(0);
            assert!(read(br#"{"n":1}"#, &orders).is_err(), "{schema}");
            assert!(read(br#"{"n":1,"total":2}"#, &orders).is_ok(), "{schema}");
        }
        std::fs::write(file.path(), "{").unwrap();
        let broken = config(&format!("[collections.orders]\nid = '/n'\n{by_file}"));
        assert!(
            broken.check_collections().is_ok(),
            "no file is opened for other commands"
        );
        let why = broken.collections().unwrap_err().to_string();
        assert!(
            why.contains("collections.orders: schema_file") && why.contains("not JSON"),
            "{why}"
        );
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_name() {
        for (text, said) in [
            ("[collections.orders]", "collections.orders: id: is missing"),
            (
                "[collections.orders]\nid = 'n'",
                "collections.orders: id: a JSON pointer",
            ),
            (
                "[collections.orders]\nid = '/n'\nlabel = 'n'",
                "collections.orders: label: a JSON",
            ),
            (
                "[collections.Orders]\nid = '/n'",
                "collections.Orders: a collection's name",
            ),
            (
                "[collections.jobs]\nid = '/n'",
                "collections.jobs: /v1/jobs is taken",
            ),
            (
                "[collections.o]\nid = '/n'\nschema = { type = 'thing' }",
                "collections.o: schema: not a usable",
            ),
            (
                "[collections.o]\nid = '/n'\nschema = {}\nschema_file = 'f'",
                "stands beside schema",
            ),
        ] {
            let why = refused(text);
            assert!(why.contains(said), "{text}: {why}");
        }
        assert!(toml::from_str::<Config>("[collections.o]\nid = '/n'\nlable = '/x'").is_err());
    }
}
