//! Which folder a tenant's mailboxes lie in. Tenants share the folder of imports and not what is in it.

use hapax_core::Tenant;

use super::open::Root;

/// The folders that mailboxes are opened beneath.
#[derive(Clone, Debug)]
pub(crate) enum Roots {
    /// One folder, whoever imports: the command line takes any file that its user can read.
    One(Root),
    /// The tenant `default` has the folder itself, every other tenant the one beneath it that is named by its UUID.
    ByTenant(Root),
}

impl Roots {
    /// The folder of this tenant, which nobody looked at yet.
    pub(crate) fn of(&self, tenant: Tenant) -> Root {
        match self {
            Self::ByTenant(root) if tenant != Tenant::DEFAULT => {
                root.beneath(&tenant.as_uuid().to_string())
            }
            Self::One(root) | Self::ByTenant(root) => root.clone(),
        }
    }

    /// The folder that all others are beneath.
    pub(crate) const fn base(&self) -> &Root {
        let (Self::One(root) | Self::ByTenant(root)) = self;
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_tenant_but_the_default_one_has_a_folder_of_its_own() {
        let base = Root::new(Path::new("/srv/mail")).unwrap();
        let other: Tenant = "11111111-1111-1111-1111-111111111111".parse().unwrap();
        let shared = Roots::ByTenant(base.clone());
        assert_eq!(shared.of(Tenant::DEFAULT).path(), Path::new("/srv/mail"));
        assert_eq!(
            shared.of(other).path(),
            Path::new("/srv/mail/11111111-1111-1111-1111-111111111111")
        );
        assert_eq!(shared.base().path(), Path::new("/srv/mail"));
        assert_eq!(Roots::One(base).of(other).path(), Path::new("/srv/mail"));
    }
}
