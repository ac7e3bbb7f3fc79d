//! Whose key it is: a tenant, and a space within it. Keys in different scopes never meet.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use crate::error::Invalid;
use crate::key::visible;

/// The business or user that everything stored belongs to. Tenants never meet.
///
/// ```
/// use hapax_core::Tenant;
///
/// let tenant: Tenant = "11111111-1111-1111-1111-111111111111".parse()?;
/// assert_eq!(tenant.simple(), "11111111111111111111111111111111");
/// assert_eq!("default".parse::<Tenant>()?, Tenant::DEFAULT);
/// assert!("acme".parse::<Tenant>().is_err());
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tenant(Uuid);

impl Tenant {
    /// The tenant of a server that serves only one, written `default`.
    pub const DEFAULT: Self = Self(Uuid::nil());

    /// The tenant with this UUID.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The tenant's UUID.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }

    /// The UUID without hyphens, as derived keys carry it.
    #[must_use]
    pub fn simple(self) -> String {
        self.0.simple().to_string()
    }
}

impl FromStr for Tenant {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "default" {
            return Ok(Self::DEFAULT);
        }
        Uuid::parse_str(text)
            .map(Self)
            .map_err(|_| Invalid::new("tenant", "is neither a UUID nor 'default'"))
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A family of keys within a tenant, such as the route pattern `POST:payments-link`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Space(Arc<str>);

impl Space {
    /// The longest space in bytes. A derived key (tenant, space, content hash) then still fits a [`Key`](crate::Key).
    pub const BYTES_MAX: usize = 200;

    /// Checks the form of `text` and keeps it as a space.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, longer than [`Space::BYTES_MAX`] or holds anything but visible ASCII.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        visible("space", text, Self::BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The space as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose key: a tenant and a space within it.
///
/// ```
/// use hapax_core::{Scope, Tenant};
///
/// let scope = Scope::new(Tenant::DEFAULT, "PUT:customers-{id}")?;
/// assert_eq!(scope.space.as_str(), "PUT:customers-{id}");
/// assert!(Scope::new(Tenant::DEFAULT, "").is_err());
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    /// Who owns the key.
    pub tenant: Tenant,
    /// The family of keys it belongs to.
    pub space: Space,
}

impl Scope {
    /// The scope of `space` within `tenant`.
    ///
    /// # Errors
    /// [`Invalid`] when `space` does not have the form [`Space::new`] asks for.
    pub fn new(tenant: Tenant, space: &str) -> Result<Self, Invalid> {
        Ok(Self {
            tenant,
            space: Space::new(space)?,
        })
    }
}
