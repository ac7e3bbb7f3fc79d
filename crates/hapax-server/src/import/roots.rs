//! Which folders a tenant's mailboxes lie in. Tenants share the folder of imports and not what is in it.

use std::path::Path;

use hapax_core::Tenant;

use super::open::{Closed, Opened, Root};
use super::owner::{Owner, TENANTS};

/// The folders that mailboxes are opened beneath.
#[derive(Clone, Debug)]
pub(crate) enum Roots {
    /// One folder, whoever imports: the command line takes any file that its user can read.
    One(Root),
    /// The tenant `default` has the folder itself without those of the others. Every other tenant has `tenants/UUID` in it,
    /// and after that `UUID`, which was the only one before.
    ByTenant(Root),
}

impl Roots {
    /// The folders of this tenant, which nobody looked at yet.
    pub(crate) fn of(&self, tenant: Tenant) -> Folders {
        let base = match self {
            Self::One(root) => return Folders(vec![root.clone()]),
            Self::ByTenant(base) => base,
        };
        let owner = Owner::of(tenant);
        if owner == Owner::Default {
            return Folders(vec![base.share("", owner)]);
        }
        let uuid = tenant.as_uuid().to_string();
        let own = [format!("{TENANTS}/{uuid}"), uuid];
        Folders(own.iter().map(|own| base.share(own, owner)).collect())
    }

    /// The folder that all others are beneath.
    pub(crate) const fn base(&self) -> &Root {
        let (Self::One(root) | Self::ByTenant(root)) = self;
        root
    }
}

/// The folders of one tenant, in the order in which a file is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Folders(Vec<Root>);

impl Folders {
    /// Opens what `asked` names: relative to a folder, or absolute and beneath one.
    ///
    /// # Errors
    /// [`Closed`]; it never waits, whatever is there.
    pub(crate) fn open(&self, asked: &str) -> Result<Opened, Closed> {
        let is_absolute = Path::new(asked).is_absolute();
        let mut closed = Closed::NoFolder;
        for folder in &self.0 {
            match folder.open(asked) {
                Err(Closed::NoFolder) => {}
                Err(Closed::Missing) => closed = Closed::Missing,
                // It may be beneath the next one.
                Err(Closed::Forbidden) if is_absolute => {
                    if matches!(closed, Closed::NoFolder) {
                        closed = Closed::Forbidden;
                    }
                }
                done => return done,
            }
        }
        Err(closed)
    }

    /// Whether a file at this path, without links, is one that may be opened here, as far as the path says.
    pub(crate) fn hold(&self, real: &Path) -> bool {
        self.0.iter().any(|folder| folder.holds(real))
    }

    /// Where a file of an import is, as far as callers are told: its path beneath a folder, or only its name.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let beneath = self.0.iter().find_map(|folder| folder.beneath(path));
        let name = || Path::new(path.file_name().unwrap_or_default()).to_owned();
        beneath.unwrap_or_else(name).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    const ADA: &str = "11111111-1111-1111-1111-111111111111";
    const BOB: &str = "22222222-2222-2222-2222-222222222222";

    fn tenant(uuid: &str) -> Tenant {
        uuid.parse().unwrap()
    }

    /// A folder of imports with mail of the default tenant, of Ada, and of Bob, who has his in the old place.
    fn house() -> (TempDir, Roots) {
        let house = tempfile::tempdir().unwrap();
        let at = |name: &str| house.path().join(name);
        for folder in ["team", &format!("tenants/{ADA}"), BOB] {
            fs::create_dir_all(at(folder)).unwrap();
            fs::write(at(folder).join("a.mbox"), folder).unwrap();
        }
        fs::write(at("tenants/a.mbox"), "nobody's").unwrap();
        let roots = Roots::ByTenant(Root::new(house.path()).unwrap());
        (house, roots)
    }

    fn opened(roots: &Roots, tenant: Tenant, asked: &str) -> Result<String, Closed> {
        let opened = roots.of(tenant).open(asked)?;
        Ok(std::io::read_to_string(opened.file).unwrap())
    }

    fn is_forbidden(roots: &Roots, tenant: Tenant, asked: &str) -> bool {
        matches!(opened(roots, tenant, asked), Err(Closed::Forbidden))
    }

    fn is_missing(roots: &Roots, tenant: Tenant, asked: &str) -> bool {
        matches!(opened(roots, tenant, asked), Err(Closed::Missing))
    }

    #[test]
    fn every_tenant_has_its_own_and_an_old_folder_still_serves_its_tenant() {
        let (house, roots) = house();
        let (ada, bob) = (tenant(ADA), tenant(BOB));
        let own = format!("tenants/{ADA}");
        assert_eq!(
            opened(&roots, Tenant::DEFAULT, "team/a.mbox").unwrap(),
            "team"
        );
        assert_eq!(opened(&roots, ada, "a.mbox").unwrap(), own);
        assert_eq!(opened(&roots, bob, "a.mbox").unwrap(), BOB);
        let absolute = house.path().join(BOB).join("a.mbox");
        let absolute = absolute.to_str().unwrap();
        assert_eq!(opened(&roots, bob, absolute).unwrap(), BOB);
        assert!(
            roots
                .of(bob)
                .hold(&Path::new(absolute).canonicalize().unwrap())
        );

        // He gets a new one: that comes first, and the old one is still there.
        let new = house.path().join("tenants").join(BOB);
        fs::create_dir(&new).unwrap();
        assert!(is_missing(&roots, bob, "none.mbox"));
        assert_eq!(opened(&roots, bob, "a.mbox").unwrap(), BOB);
        assert_eq!(opened(&roots, bob, absolute).unwrap(), BOB);
        fs::write(new.join("a.mbox"), "new").unwrap();
        assert_eq!(opened(&roots, bob, "a.mbox").unwrap(), "new");
        assert_eq!(roots.of(bob).shown(&new.join("a.mbox")), "a.mbox");
        assert_eq!(roots.of(bob).shown(Path::new(absolute)), "a.mbox");
    }

    #[test]
    fn the_default_tenant_opens_nothing_of_another_and_is_not_told_what_is_there() {
        let (house, roots) = house();
        symlink(format!("tenants/{ADA}"), house.path().join("to-ada")).unwrap();
        symlink(
            format!("../{BOB}/a.mbox"),
            house.path().join("team/bob.mbox"),
        )
        .unwrap();
        symlink(
            format!("../{BOB}/none"),
            house.path().join("team/none.mbox"),
        )
        .unwrap();
        symlink(".", house.path().join("here")).unwrap();
        let absolute = house.path().join(BOB).join("a.mbox");
        let nobody = "33333333-3333-3333-3333-333333333333";
        let long = "n".repeat(300);
        for path in [
            format!("tenants/{ADA}/a.mbox"),
            format!("tenants/{ADA}/none"),
            format!("tenants/{ADA}/{long}"),
            format!("tenants/{nobody}/none"),
            format!("tenants/{nobody}/{long}"),
            format!("./tenants/{ADA}/a.mbox"),
            format!("team/../tenants/{ADA}/a.mbox"),
            format!("here/tenants/{ADA}/a.mbox"),
            format!("here/{nobody}/none"),
            format!("here/{BOB}/a.mbox"),
            format!("//{BOB}/a.mbox"),
            format!("{BOB}/a.mbox"),
            format!("{BOB}/none"),
            format!("{nobody}/none"),
            nobody.to_owned(),
            "tenants".to_owned(),
            "tenants/a.mbox".to_owned(),
            "tenants/none".to_owned(),
            "to-ada/a.mbox".to_owned(),
            "to-ada/none".to_owned(),
            "team/bob.mbox".to_owned(),
            "team/none.mbox".to_owned(),
            absolute.display().to_string(),
        ] {
            assert!(is_forbidden(&roots, Tenant::DEFAULT, &path), "{path}");
        }
        // No name on this disk: it is looked for as it is.
        assert!(is_missing(
            &roots,
            Tenant::DEFAULT,
            &format!("tenants%2f{ADA}%2fa.mbox")
        ));
        assert!(
            !roots
                .of(Tenant::DEFAULT)
                .hold(&absolute.canonicalize().unwrap())
        );
    }

    #[test]
    fn a_link_into_the_folder_of_another_is_not_followed() {
        let (house, roots) = house();
        let own = house.path().join("tenants").join(ADA);
        symlink(format!("../../{BOB}/a.mbox"), own.join("bob.mbox")).unwrap();
        symlink("../../team", own.join("team")).unwrap();
        for path in ["bob.mbox", "team/a.mbox", "team/none", "../a.mbox"] {
            assert!(is_forbidden(&roots, tenant(ADA), path), "{path}");
        }
        // The folder itself is such a link.
        let carol = "33333333-3333-3333-3333-333333333333";
        let linked = house.path().join("tenants").join(carol);
        for (to, path) in [
            (BOB, "a.mbox"),
            (BOB, "none"),
            ("team", "a.mbox"),
            ("", "team/a.mbox"),
        ] {
            symlink(house.path().join(to), &linked).unwrap();
            assert!(is_forbidden(&roots, tenant(carol), path), "{to}/{path}");
            fs::remove_file(&linked).unwrap();
        }
        // Out of the folder of imports is where the operator says, and to the old place is one's own.
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("a.mbox"), "elsewhere").unwrap();
        symlink(elsewhere.path(), &linked).unwrap();
        assert_eq!(
            opened(&roots, tenant(carol), "a.mbox").unwrap(),
            "elsewhere"
        );
        symlink(house.path().join(BOB), linked.with_file_name(BOB)).unwrap();
        assert_eq!(opened(&roots, tenant(BOB), "a.mbox").unwrap(), BOB);
    }

    #[test]
    fn the_command_line_has_one_folder_whoever_imports() {
        let (house, _) = house();
        let alone = Roots::One(Root::new(house.path()).unwrap());
        let path = format!("{BOB}/a.mbox");
        for tenant in [Tenant::DEFAULT, tenant(ADA)] {
            assert_eq!(opened(&alone, tenant, &path).unwrap(), BOB);
        }
        assert_eq!(alone.base().path(), house.path());
        let gone = Roots::ByTenant(Root::new(&house.path().join("none")).unwrap());
        assert!(matches!(
            opened(&gone, tenant(ADA), "a"),
            Err(Closed::NoFolder)
        ));
    }
}
