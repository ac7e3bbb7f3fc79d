//! Whose a place beneath the folder of imports is: told by its first names alone. It looks at no disk.

use std::ffi::OsStr;
use std::path::{Component, Path};

use hapax_core::Tenant;
use uuid::Uuid;

/// The folder in the folder of imports that holds those of the tenants.
pub(super) const TENANTS: &str = "tenants";

/// The owner of a place beneath the folder of imports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// The tenant `default`: every place that is not in the folder of a tenant.
    Default,
    /// The tenant with this UUID. That of the tenant `default` is none: its files do not lie in a folder by its UUID.
    Named(Uuid),
    /// No tenant: `tenants` itself, and what is in it beside the folders of tenants.
    Nobody,
}

impl Owner {
    /// The owner of what this tenant may import.
    pub(super) fn of(tenant: Tenant) -> Self {
        if tenant == Tenant::DEFAULT {
            Self::Default
        } else {
            Self::Named(tenant.as_uuid())
        }
    }

    /// The owner of the place with this path beneath the folder of imports, links resolved.
    pub(super) fn at(beneath: &Path) -> Self {
        let mut names = beneath.components().filter_map(|part| match part {
            Component::Normal(name) => Some(plain(name)),
            _ => None,
        });
        let Some(first) = names.next() else {
            return Self::Default;
        };
        if is_short_for_a_uuid(&first) {
            return Self::Nobody;
        }
        if !first.eq_ignore_ascii_case(TENANTS) {
            return named(&first).map_or(Self::Default, Self::Named);
        }
        let second = names.next().and_then(|second| named(&second));
        second.map_or(Self::Nobody, Self::Named)
    }
}

/// The name as the laxest file system reads it: letter case does not count, a ligature is its letters, and what it
/// overlooks, as a zero-width joiner or dots and spaces at the end, is not there. It only ever takes more names for those
/// of tenants.
fn plain(name: &OsStr) -> String {
    let upper = name.to_string_lossy().to_uppercase();
    let ascii: String = upper.chars().filter(char::is_ascii).collect();
    ascii.trim_end_matches(['.', ' ']).to_owned()
}

/// Whether a FAT file system may take the name for that of a folder called by a UUID: `A1B2C3~1`.
fn is_short_for_a_uuid(name: &str) -> bool {
    name.split_once('~').is_some_and(|(head, number)| {
        (1..=6).contains(&head.len())
            && head.bytes().all(|byte| byte.is_ascii_hexdigit())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The UUID that a name spells, in whichever form.
fn named(name: &str) -> Option<Uuid> {
    Uuid::try_parse(&name.to_ascii_lowercase()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: &str = "a1b2c3d4-ffff-4fff-8fff-0123456789ab";

    fn at(path: &str) -> Owner {
        Owner::at(Path::new(path))
    }

    #[test]
    fn what_lies_in_a_folder_by_a_uuid_is_that_tenants_in_whichever_spelling() {
        let ada = Owner::Named(ADA.parse().unwrap());
        let simple = ADA.replace('-', "");
        for name in [
            ADA.to_owned(),
            ADA.to_uppercase(),
            simple.to_uppercase(),
            format!("{{{ADA}}}"),
            format!("urn:uuid:{ADA}"),
            ADA.replacen("ff", "\u{fb00}", 1),
            ADA.replacen('a', "\u{200d}a", 1),
            format!("{ADA}."),
            format!("{ADA}. ."),
            format!("{ADA}.\u{200d}"),
            simple,
        ] {
            assert_eq!(at(&name), ada, "{name}");
            assert_eq!(at(&format!("{name}/deep/a.mbox")), ada, "{name}");
            for tenants in [
                "tenants",
                "TENANTS",
                "Tenants",
                "tenant\u{17f}",
                "ten\u{ad}ants",
                "tenants.",
                "TENANTS .",
            ] {
                assert_eq!(at(&format!("{tenants}/{name}/a.mbox")), ada, "{name}");
            }
        }
    }

    #[test]
    fn the_folder_of_tenants_is_nobodys_and_the_rest_is_the_default_tenants() {
        for path in [
            "tenants",
            "tenants/a.mbox",
            "TENANTS/ada/a.mbox",
            "tenants/tenants",
            "A1B2C3~1/a.mbox",
            "a1f3b2~12",
            "tenants/A1B2C3~1/a.mbox",
        ] {
            assert_eq!(at(path), Owner::Nobody, "{path}");
        }
        let in_a_folder = format!("ada/tenants/{ADA}");
        let by_ending = format!("{ADA}.mbox");
        for path in [
            "",
            "a.mbox",
            "ada/a.mbox",
            "tenants.mbox",
            "tenants.old/a.mbox",
            "a~/a.mbox",
            "backup~1.mbox",
            &in_a_folder,
            &by_ending,
        ] {
            assert_eq!(at(path), Owner::Default, "{path}");
        }
    }

    #[test]
    fn the_default_tenant_has_no_folder_by_its_uuid() {
        let default = Tenant::DEFAULT.as_uuid().to_string();
        assert_eq!(Owner::of(Tenant::DEFAULT), Owner::Default);
        for path in [default.clone(), format!("tenants/{default}/a.mbox")] {
            assert_ne!(at(&path), Owner::Default, "{path}");
        }
        let ada: Tenant = ADA.parse().unwrap();
        assert_eq!(Owner::of(ada), at(&format!("tenants/{ADA}")));
    }
}
