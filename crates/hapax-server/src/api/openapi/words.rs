//! Schemas of what has no type of its own here: words of the core, rows of entries, and payloads that are read by hand.
//! Words and columns are taken from where they are defined, so a new one is in the document at once.

use std::borrow::Cow;

use hapax_core::difference::Part;
use hapax_core::entry::{
    BatchStatus, Column, ColumnKind as Kind, Incoming, ItemStatus, Schema as Home,
};
use hapax_core::job::{Class, OpState, State};
use hapax_core::{Action, Durability};
use hapax_store::Role;
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder, Schema,
    SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::import::asked::THREAD_POLICIES;

type Made = RefOr<Schema>;

/// Rows, which have the columns that were asked for and not always all.
pub(super) const ROWS: [&str; 3] = ["EntryRow", "WrittenRow", "NormalizedEntry"];

/// Gives each name a schema under that name.
macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident => $schema:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> Made {
                $schema
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

schemas! {
    /// How far a job is.
    JobState => words("How far a job is.", State::ALL.map(State::as_str));
    /// How far an operation is.
    OpStateWord => words("How far an operation is.", OP_STATES.map(OpState::as_str));
    /// What happens when the runner of an operation dies.
    OpClass => words(
        "What happens when the runner of an operation dies before it is recorded.",
        CLASSES.map(Class::as_str),
    );
    /// How a key stands.
    KeyState => words("How a key stands.", ["held", "in_doubt", "settled", "erased"]);
    /// What a claim gets.
    ClaimAction => words("What a claim gets.", ["process", "replay", "conflict", "in_progress", "in_doubt", "erased"]);
    /// What became of a key.
    CompletedState => words("What became of a key.", ["settled", "released", "in_doubt"]);
    /// What beginning an operation gets.
    BeginAction => words("What beginning an operation gets.", ["execute", "replay", "in_progress", "in_doubt", "failed", "waiting"]);
    /// How two requests of one key differ.
    ConflictDetails => conflict().into();
    /// One of the two schemas of entries.
    EntrySchema => words("The schema of real entries, or that of the test mode.", Home::ALL.map(Home::as_str));
    /// How far a batch is.
    BatchState => words("How far a batch is.", BatchStatus::ALL.iter().map(|status| status.as_str()));
    /// How far an item of a batch is.
    ItemState => words("How far an item of a batch is.", ItemStatus::ALL.iter().map(|status| status.as_str()));
    /// What an audit row tells of.
    AuditAction => words("What happened.", Action::ALL.map(Action::as_str));
    /// What a token allows.
    RoleWord => words("What a token allows.", [Role::Owner, Role::Writer, Role::Viewer].map(Role::as_str));
    /// Whether tokens are asked for.
    SignIn => words("How one signs in: with a token, or not at all.", ["token", "none"]);
    /// How far a step of a plan is.
    NodeState => words("How far a step of a plan is.", ["pending", "running", "done", "failed", "in_doubt"]);
    /// What an acknowledged write survives.
    DurabilityWord => words("What an acknowledged write survives.", DURABILITIES.map(Durability::as_str));
    /// What happens to an entry whose key is there.
    ConflictWord => words("What happens to an entry whose key is there.", ["skip", "update"]);
    /// When the secondary key alone makes an entry the same one.
    SecondaryWord => words("When the secondary key alone makes an entry the same one.", ["always", "only_if_primary_missing"]);
    /// Why something failed.
    Reason => either(
        "Why: a text, or an object or a list that is kept as JSON.",
        [Type::String, Type::Object, Type::Array],
    );
    /// The number of an entry as clients send it.
    EntryNumber => ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::Integer, Type::String]))
        .pattern(Some("^-?[0-9]{1,18}$"))
        .description(Some("The number of an entry; a text with digits is taken too."))
        .into();
    /// A column of entries.
    ColumnName => words("A column of entries.", Column::ALL.iter().map(|column| column.as_str()));
    /// What a mail is.
    MailType => words("What a mail is.", ["newsletter", "correspondence_thread"]);
    /// A policy that threads can be kept by.
    ThreadPolicy => words("A policy that threads can be kept by.", THREAD_POLICIES);
    /// A name that stands in a body.
    SubjectName => ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Number]))
        .min_length(Some(1))
        .description(Some("A text, or a number."))
        .into();
    /// A row of entries.
    EntryRow => columns("An entry. Which columns it has depends on the route and on `returning`.", |_| true)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .into();
    /// A row with what was done to it.
    WrittenRow => written().into();
    /// What an insert takes.
    InsertBody => one_or_many("An entry as flat fields, or many in `items`. It needs a source, and a text, a title or a URL.", true);
    /// What an update takes.
    UpdateBody => one_or_many("A change of the entry that `id` or `entry_id` names, as flat fields, or many in `items`.", false);
    /// A flat entry, ready to be inserted.
    NormalizedEntry => columns("A flat entry with its keys, ready for /db/insert.", is_given)
        .property("retrieval_update_skipped", ObjectBuilder::new().schema_type(Type::Boolean).description(
            Some("There was no text, so there are no retrieval fields.")))
        .into();
}

const OP_STATES: [OpState; 6] = [
    OpState::Running,
    OpState::Done,
    OpState::Retryable,
    OpState::Failed,
    OpState::InDoubt,
    OpState::Waiting,
];
const CLASSES: [Class; 5] = [
    Class::Tx,
    Class::Keyed,
    Class::Probe,
    Class::Replayable,
    Class::AtMostOnce,
];
const DURABILITIES: [Durability; 4] = [
    Durability::Full,
    Durability::Relaxed,
    Durability::BestEffort,
    Durability::Process,
];

fn words(about: &str, words: impl IntoIterator<Item = &'static str>) -> Made {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
        .description(Some(about))
        .into()
}

fn either<const N: usize>(about: &str, kinds: [Type; N]) -> Made {
    ObjectBuilder::new()
        .schema_type(SchemaType::Array(kinds.into()))
        .description(Some(about))
        .into()
}

/// What a client gives; the rest is the store's.
fn is_given(column: Column) -> bool {
    let stores = [
        Column::EntryId,
        Column::Id,
        Column::UpdatedAt,
        Column::Revision,
    ];
    !stores.contains(&column)
}

/// An object with these columns, each of which may be null.
fn columns(about: &str, takes: impl Fn(Column) -> bool) -> ObjectBuilder {
    let chosen = Column::ALL.iter().filter(|column| takes(**column));
    chosen.fold(
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some(about)),
        |object, column| object.property(column.as_str(), value(column.kind())),
    )
}

fn value(kind: Kind) -> Made {
    let of =
        |kind: Type| ObjectBuilder::new().schema_type(SchemaType::Array(vec![kind, Type::Null]));
    match kind {
        Kind::Text => of(Type::String).into(),
        Kind::Count => of(Type::Integer).minimum(Some(0)).into(),
        Kind::Number => of(Type::Number).into(),
        Kind::Flag => of(Type::Boolean).into(),
        Kind::Object => of(Type::Object)
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .into(),
        Kind::Texts => ArrayBuilder::new()
            .schema_type(SchemaType::Array(vec![Type::Array, Type::Null]))
            .items(ObjectBuilder::new().schema_type(Type::String))
            .into(),
        Kind::Moment => of(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .into(),
    }
}

fn plain(kind: Type, about: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(kind)
        .description(Some(about))
}

fn written() -> ObjectBuilder {
    let action =
        plain(Type::String, "What was done.").enum_values(Some(["inserted", "updated", "skipped"]));
    let conflict = plain(Type::Object, "A secondary key that belongs to another row.")
        .property("field", plain(Type::String, "Which key."))
        .property("key", plain(Type::String, "The key."))
        .property("entry_id", plain(Type::Integer, "The row that has it."));
    let error = plain(Type::Object, "Why this item of a batch was not taken.")
        .property("code", plain(Type::String, "The code."))
        .property("message", plain(Type::String, "What is wrong."))
        .required("code")
        .required("message");
    let names = ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::String));
    columns("An entry with what was done to it.", |_| true)
        .property("action", action)
        .property(
            "matched_on",
            plain(Type::String, "Which key was there already.")
                .enum_values(Some(["primary", "secondary"])),
        )
        .property("conflicts", ArrayBuilder::new().items(conflict))
        .property(
            "ignored",
            names.description(Some("Columns that only the store gives, or that stay.")),
        )
        .property(
            "_batch_index",
            plain(Type::Integer, "Its place in the batch."),
        )
        .property(
            "_batch_ok",
            plain(Type::Boolean, "Whether it was taken; in a batch only."),
        )
        .property("error", error)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

fn conflict() -> ObjectBuilder {
    let hash =
        || ObjectBuilder::new().schema_type(SchemaType::Array(vec![Type::String, Type::Null]));
    let lines = ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::String));
    let time = plain(Type::String, "When the key was used first.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    plain(
        Type::Object,
        "How this request differs from the one that had the key first.",
    )
    .property(
        "differs",
        ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(Type::String).enum_values(Some(
                Part::ALL.map(Part::as_str),
            )))
            .description(Some(
                "Which parts differ, as far as that is known. Another principal is told of no other part.",
            )),
    )
    .property("original_key", plain(Type::String, "The key."))
    .property("current_hash", hash())
    .property("original_hash", hash())
    .property(
        "diff_summary",
        lines.description(Some("Lines such as `seat: '12A' → '12B'`.")),
    )
    .property("original_timestamp", time)
    .property(
        "retry_after",
        plain(Type::Integer, "Seconds until the key expires."),
    )
}

/// One entry as flat fields, or a batch of them.
fn one_or_many(about: &str, is_new: bool) -> Made {
    let names = || {
        let about = "The columns of the answer; the usual ones if none is named.";
        ArrayBuilder::new()
            .schema_type(SchemaType::Array(vec![Type::Array, Type::Null]))
            .items(Ref::from_schema_name(ColumnName::name()))
            .max_items(Some(100))
            .description(Some(about))
    };
    let source = || {
        let about = "Where it comes from, such as telegram, email or web.";
        plain(Type::String, about).min_length(Some(1))
    };
    let mut flat = columns("One entry.", |_| true).property("returning", names());
    let mut item = columns("One entry.", |_| true);
    if is_new {
        flat = flat.required("source").property("source", source());
        item = item.required("source").property("source", source());
    }
    let bad = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some(
            "Anything else is a bad item: its row of the answer has an `error`, and the others are taken.",
        ));
    let many = plain(
        Type::Object,
        "Many entries, each taken or refused by itself.",
    )
    .property(
        "items",
        ArrayBuilder::new()
            .items(AnyOfBuilder::new().item(item).item(bad))
            .max_items(Some(Incoming::BATCH_MAX)),
    )
    .property(
        "continue_on_error",
        plain(
            Type::Boolean,
            "false: a fault in one item leaves nothing of the batch.",
        )
        .default(Some(true.into())),
    )
    .property("returning", names())
    .required("items")
    .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    AnyOfBuilder::new()
        .item(flat)
        .item(many)
        .description(Some(about))
        .into()
}
