//! The list of forward-only migrations and the check that what ran is what is here.
//! How a store locks and runs them is its own business.

use data_encoding::HEXLOWER;
use hapax_core::{Error, Kind};
use sha2::{Digest, Sha256};

/// One migration: a number that never changes, a name, and its SQL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    pub(crate) number: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    /// The hash that is stored beside the number, so that an edited migration is noticed.
    pub(crate) fn sha256(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(self.sql.as_bytes()))
    }
}

/// Lists `migrations/<backend>/NNNN_name.sql` in order; the numbers count from 1.
macro_rules! migrations {
    ($backend:literal: $($file:literal),+ $(,)?) => {
        &[$($crate::migration::Migration {
            number: $crate::migration::number($file),
            name: $file,
            sql: include_str!(concat!("../../migrations/", $backend, "/", $file, ".sql")),
        }),+]
    };
}
pub(crate) use migrations;

/// The number that a migration's name begins with.
pub(crate) const fn number(name: &str) -> i64 {
    let bytes = name.as_bytes();
    let mut number = 0;
    let mut at = 0;
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        number = number * 10 + (bytes[at] - b'0') as i64;
        at += 1;
    }
    number
}

/// The migrations that still have to run, given the (number, sha256) pairs that did.
///
/// Numbers beyond ours are left alone: a newer binary may have added them beside us.
///
/// # Errors
/// [`Kind::Unsafe`] when a migration that ran is not the one we have under that number.
pub(crate) fn pending(
    all: &'static [Migration],
    ran: &[(i64, String)],
) -> Result<Vec<&'static Migration>, Error> {
    let mut pending = Vec::new();
    for migration in all {
        match ran.iter().find(|(number, _)| *number == migration.number) {
            Some((_, sha256)) if *sha256 == migration.sha256() => {}
            Some(_) => {
                let why = format!(
                    "migration {} was changed after it ran; restore it and add a new one",
                    migration.name
                );
                return Err(Error::new(Kind::Unsafe, "migrating the database").because(why));
            }
            None => pending.push(migration),
        }
    }
    Ok(pending)
}

/// The names of those that ran and are not ours: a newer program added them.
pub(crate) fn newer(all: &'static [Migration], ran: Vec<(i64, String)>) -> Vec<String> {
    let is_ours = |number: i64| all.iter().any(|migration| migration.number == number);
    ran.into_iter()
        .filter(|(number, _)| !is_ours(*number))
        .map(|(_, name)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    static ALL: &[Migration] = &[
        Migration {
            number: 1,
            name: "0001_a",
            sql: "A",
        },
        Migration {
            number: 2,
            name: "0002_b",
            sql: "B",
        },
    ];

    #[test]
    fn only_what_did_not_run_is_pending_and_newer_numbers_are_left_alone() {
        let ran = [(1, ALL[0].sha256()), (99, "x".to_owned())];
        let left: Vec<_> = pending(ALL, &ran)
            .unwrap()
            .iter()
            .map(|migration| migration.number)
            .collect();
        assert_eq!(left, [2]);
    }

    #[test]
    fn a_migration_edited_after_it_ran_is_refused() {
        assert_eq!(
            pending(ALL, &[(1, "other".to_owned())]).unwrap_err().kind(),
            Kind::Unsafe
        );
    }

    #[test]
    fn what_ran_and_is_not_ours_is_newer() {
        let ran = vec![(1, "0001_a".to_owned()), (3, "0003_c".to_owned())];
        assert_eq!(newer(ALL, ran), ["0003_c"]);
    }

    #[test]
    fn the_number_is_read_from_the_name() {
        assert_eq!(number("0042_answer"), 42);
    }
}
