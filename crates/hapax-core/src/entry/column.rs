//! The columns of an entry: their names, what they hold, and who may write them.

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number, not negative.
    Count,
    /// A finite number.
    Number,
    /// True or false.
    Flag,
    /// A JSON object.
    Object,
    /// A list of texts.
    Texts,
    /// A moment.
    Moment,
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident $text:literal $kind:ident,)*) => {
        /// A column of an entry. The list is the whole whitelist: no other name reaches a statement.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Column { $($(#[$doc])* $name,)* }

        impl Column {
            /// All of them, in the order of an answer.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in JSON and SQL.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it holds.
            #[must_use]
            pub const fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }
        }
    };
}

columns! {
    /// The entry's number. Given by the store.
    EntryId "entry_id" Count,
    /// The entry's UUID. Given by the store.
    Id "id" Text,
    /// When it was inserted.
    CreatedAt "created_at" Moment,
    /// When it was inserted or changed last. Given by the store.
    UpdatedAt "updated_at" Moment,
    /// How many states it has had, the present one included. Given by the store.
    Revision "revision" Count,
    /// Where it came from: `telegram`, `email`, `email-batch`, `web`, …
    Source "source" Text,
    /// What it was kept for.
    Intent "intent" Text,
    /// `thought`, `note`, `link`, `newsletter`, `correspondence_thread`, …
    ContentType "content_type" Text,
    /// What people call it.
    Title "title" Text,
    /// Who wrote it.
    Author "author" Text,
    /// The text as it came in.
    CaptureText "capture_text" Text,
    /// The text as it was extracted, of a web page or a message.
    ExtractedText "extracted_text" Text,
    /// The text to read, search and enrich.
    CleanText "clean_text" Text,
    /// Where it points, as given.
    Url "url" Text,
    /// Where it points, in the one spelling that keys use.
    UrlCanonical "url_canonical" Text,
    /// The first lines.
    RetrievalExcerpt "retrieval_excerpt" Text,
    /// Which rules made the excerpt and the quality.
    RetrievalVersion "retrieval_version" Text,
    /// Words of the clean text.
    CleanWordCount "clean_word_count" Count,
    /// Characters of the clean text.
    CleanCharCount "clean_char_count" Count,
    /// Characters of the extracted text.
    ExtractedCharCount "extracted_char_count" Count,
    /// Links in the clean text.
    LinkCount "link_count" Count,
    /// Links for each word.
    LinkRatio "link_ratio" Number,
    /// Mostly links.
    BoilerplateHeavy "boilerplate_heavy" Flag,
    /// Too short to say much.
    LowSignal "low_signal" Flag,
    /// From 0 to 1.
    QualityScore "quality_score" Number,
    /// What it is about.
    TopicPrimary "topic_primary" Text,
    /// How sure that is, from 0 to 1.
    TopicPrimaryConfidence "topic_primary_confidence" Number,
    /// What else it is about.
    TopicSecondary "topic_secondary" Text,
    /// How sure that is, from 0 to 1.
    TopicSecondaryConfidence "topic_secondary_confidence" Number,
    /// Words to find it by.
    Keywords "keywords" Texts,
    /// What it says, in a sentence.
    Gist "gist" Text,
    /// What enrichment noticed.
    Flags "flags" Object,
    /// How far enrichment is.
    EnrichmentStatus "enrichment_status" Text,
    /// The model that enriched it.
    EnrichmentModel "enrichment_model" Text,
    /// The prompt that enriched it.
    PromptVersion "prompt_version" Text,
    /// The fingerprint of the text that enrichment is of, in hex.
    EnrichedHash "enriched_hash" Text,
    /// Everything else. It is merged, never replaced.
    Metadata "metadata" Object,
    /// The policy that its keys belong to.
    IdempotencyPolicyKey "idempotency_policy_key" Text,
    /// The key that makes it the same entry.
    IdempotencyKeyPrimary "idempotency_key_primary" Text,
    /// Another key that can make it the same entry.
    IdempotencyKeySecondary "idempotency_key_secondary" Text,
}

impl Column {
    /// What an answer holds unless `returning` says otherwise.
    pub const DEFAULT_ROW: [Self; 10] = [
        Self::EntryId,
        Self::Id,
        Self::CreatedAt,
        Self::Source,
        Self::Intent,
        Self::ContentType,
        Self::Title,
        Self::Author,
        Self::Url,
        Self::UrlCanonical,
    ];

    /// The column with this name.
    ///
    /// ```
    /// use hapax_core::entry::Column;
    ///
    /// assert_eq!(Column::named("clean_text"), Some(Column::CleanText));
    /// assert_eq!(Column::named("tenant_id; DROP TABLE entries"), None);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|column| column.as_str() == name)
    }

    /// Whether the store gives it, so that no caller can.
    #[must_use]
    pub const fn is_given(self) -> bool {
        matches!(
            self,
            Self::EntryId | Self::Id | Self::CreatedAt | Self::UpdatedAt | Self::Revision
        )
    }

    /// Whether it is part of what makes an entry the same one.
    #[must_use]
    pub const fn is_key(self) -> bool {
        matches!(
            self,
            Self::IdempotencyPolicyKey
                | Self::IdempotencyKeyPrimary
                | Self::IdempotencyKeySecondary
        )
    }

    /// Whether a row that is there may get another value in it.
    #[must_use]
    pub const fn is_changeable(self) -> bool {
        !self.is_given() && !self.is_key()
    }
}
