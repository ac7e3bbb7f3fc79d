//! The policy that an import keeps threads by, looked up before it begins: thousands of refused mails say it too late.

use hapax_core::entry::{NewImport, Refused, Schema, Target, usable};
use hapax_core::{Error, Tenant};

use crate::store::Store;

/// The import with its schema pinned to the one whose policies were looked at. One that names no policy stays as it is.
///
/// # Errors
/// When the store could not be asked. Inside, the refusal if the policy is not there or disabled.
pub(crate) async fn checked(
    store: &Store,
    tenant: Tenant,
    mut new: NewImport,
) -> Result<Result<NewImport, Refused>, Error> {
    let Some(key) = new.thread_policy.as_deref() else {
        return Ok(Ok(new));
    };
    let schema = match new.target {
        Target::Pinned(schema) => schema,
        Target::Active => Schema::of_test_mode(store.entries.test_mode(tenant).await?),
    };
    let target = Target::Pinned(schema);
    let policies = store.entries.policies(tenant, target).await?;
    let policy = policies.iter().find(|policy| policy.key == key);
    if let Err(refused) = usable(policy, key) {
        return Ok(Err(refused));
    }
    new.target = target;
    Ok(Ok(new))
}
