//! What can be asked of an import, and its limits. The API and the command line ask the same.

use std::path::Path;

use hapax_core::entry::{NewImport, Target};
use hapax_intake::email::{REFERENCES_POLICY, THREAD_POLICY};
use uuid::Uuid;

use super::mailbox::Mailbox;

/// How many entries a batch for enrichment holds.
pub(crate) const BATCH_SIZES: (u64, u64) = (500, 2000);
/// How many messages are written at once.
pub(crate) const CHUNK_SIZES: (u64, u64) = (1, 2000);
/// What is meant when nothing is said.
pub(crate) const BATCH_SIZE: u64 = 500;
pub(crate) const CHUNK_SIZE: u64 = 200;
pub(crate) const WINDOW: &str = "24h";
/// The policies that threads can be kept by.
pub(crate) const THREAD_POLICIES: [&str; 2] = [THREAD_POLICY, REFERENCES_POLICY];

/// What is asked of an import.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) batch_size: u64,
    pub(crate) insert_chunk_size: u64,
    pub(crate) completion_window: String,
    pub(crate) thread_policy: Option<String>,
}

impl Asked {
    /// Everything that is wrong with it: the member and why.
    pub(crate) fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fault = |path: &str, why: String| faults.push((path.to_owned(), why));
        for (path, value, (least, most)) in [
            ("batch_size", self.batch_size, BATCH_SIZES),
            ("insert_chunk_size", self.insert_chunk_size, CHUNK_SIZES),
        ] {
            if !(least..=most).contains(&value) {
                fault(path, format!("must be from {least} to {most}"));
            }
        }
        if !is_window(&self.completion_window) {
            fault(
                "completion_window",
                "must be hours or days, as in 24h or 7d".to_owned(),
            );
        }
        if let Some(policy) = &self.thread_policy
            && !THREAD_POLICIES.contains(&policy.as_str())
        {
            fault(
                "thread_policy",
                format!("must be one of {}", THREAD_POLICIES.join(", ")),
            );
        }
        faults
    }

    /// The import of this mailbox. It goes to the schema that is active when it begins. The limits were checked.
    pub(crate) fn import(self, path: &Path, mailbox: &Mailbox) -> Option<NewImport> {
        Some(NewImport {
            id: Uuid::now_v7(),
            path: path.to_str()?.to_owned(),
            target: Target::Active,
            batch_size: u32::try_from(self.batch_size).ok()?,
            insert_chunk_size: u32::try_from(self.insert_chunk_size).ok()?,
            completion_window: self.completion_window,
            thread_policy: self.thread_policy,
            bytes: mailbox.bytes(),
        })
    }
}

/// Whether it is a span such as `24h`: up to four digits, no zero in front, and a unit.
pub(crate) fn is_window(text: &str) -> bool {
    let digits = text.strip_suffix(['h', 'd']).unwrap_or_default();
    (1..=4).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_over_its_limits_is_named() {
        let good = Asked {
            batch_size: 500,
            insert_chunk_size: 2000,
            completion_window: "24h".to_owned(),
            thread_policy: Some("email_thread_refs_v1".to_owned()),
        };
        assert!(good.faults().is_empty());
        let bad = Asked {
            batch_size: 499,
            insert_chunk_size: 0,
            completion_window: "24 hours".to_owned(),
            thread_policy: Some("telegram_link_v1".to_owned()),
        };
        let named: Vec<String> = bad.faults().into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            named,
            [
                "batch_size",
                "insert_chunk_size",
                "completion_window",
                "thread_policy"
            ]
        );
        for wrong in [
            "", "h", "0h", "24", "24H", "-1h", "1.5h", "99999h", "２４h", "24hh",
        ] {
            assert!(!is_window(wrong), "{wrong}");
        }
    }
}
