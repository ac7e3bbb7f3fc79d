//! Policies: rows that people change. A tenant that has none gets those to start with.

use hapax_core::entry::{Policy, PolicyChange, Target};
use hapax_core::{Error, Tenant};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::get;
use super::super::jobs::link::{Failure, Link, Order};
use super::mode::only;
use super::rows;
use super::statements::Statements;

impl PgLedger {
    pub(super) async fn list_policies(
        &self,
        tenant: Tenant,
        target: Target,
    ) -> Result<Vec<Policy>, Error> {
        trying!(self, "listing policies", link, {
            let at = self.begin_at(link, tenant, target, &Vec::new()).await?;
            let statements = Statements::of(at.schema);
            let to = tenant.as_uuid();
            let orders = vec![Order::Query(&statements.policy_list, vec![&to])];
            let answers = link.look(orders).await?;
            let there = answers.first().map_or(&[][..], Vec::as_slice);
            let (policies, seeded) = seen_or_seeded(link, statements, to, there).await?;
            link.finish(Vec::new(), seeded).await?;
            Ok(policies)
        })
    }

    pub(super) async fn put_policy(
        &self,
        tenant: Tenant,
        target: Target,
        key: String,
        change: PolicyChange,
    ) -> Result<Policy, Error> {
        let operation = "changing a policy";
        let to = tenant.as_uuid();
        // Two changes of one policy are made one after the other, also of one that is not there yet.
        let locks = vec![lock(to)];
        trying!(self, operation, link, {
            let at = self.begin_at(link, tenant, target, &locks).await?;
            let statements = Statements::of(at.schema);
            let orders = vec![Order::Query(&statements.policy_list, vec![&to])];
            let answers = link.look(orders).await?;
            let there = answers.first().map_or(&[][..], Vec::as_slice);
            let (policies, _) = seen_or_seeded(link, statements, to, there).await?;
            let from = policies.iter().find(|policy| policy.key == key);
            let mut next = change.over(&key, from);
            let (action, matching) = (next.conflict_action.as_str(), next.secondary_match.as_str());
            let put = Order::Query(
                &statements.policy_put,
                vec![
                    &to,
                    &next.key,
                    &next.source,
                    &next.content_type,
                    &action,
                    &next.update_fields,
                    &matching,
                    &next.enabled,
                ],
            );
            let answers = link.look(vec![put]).await?;
            let rows = answers.first().map_or(&[][..], Vec::as_slice);
            match only(rows, operation).and_then(|row| get(row, 0)) {
                Ok(id) => next.id = id,
                Err(error) => return Err(link.give_up(error).await),
            }
            link.finish(Vec::new(), true).await?;
            Ok(next)
        })
    }

    pub(super) async fn drop_policy(
        &self,
        tenant: Tenant,
        target: Target,
        key: String,
    ) -> Result<bool, Error> {
        let to = tenant.as_uuid();
        let locks = vec![lock(to)];
        trying!(self, "removing a policy", link, {
            let at = self.begin_at(link, tenant, target, &locks).await?;
            let statements = Statements::of(at.schema);
            let orders = vec![Order::Query(&statements.policy_drop, vec![&to, &key])];
            let answers = link.look(orders).await?;
            let was_there = answers.first().is_some_and(|rows| !rows.is_empty());
            link.finish(Vec::new(), was_there).await?;
            Ok(was_there)
        })
    }
}

/// The policies in these rows; those to start with, if there is none, and whether they were written.
pub(super) async fn seen_or_seeded(
    link: &mut Link,
    statements: &'static Statements,
    tenant: Uuid,
    there: &[Row],
) -> Result<(Vec<Policy>, bool), Failure> {
    let read = |there: &[Row]| {
        there
            .iter()
            .map(rows::policy)
            .collect::<Result<Vec<_>, _>>()
    };
    let (policies, seeded) = if there.is_empty() {
        let seeds = Policy::seeds();
        let keys: Vec<&str> = seeds.iter().map(|seed| &*seed.key).collect();
        let sources: Vec<&str> = seeds.iter().map(|seed| &*seed.source).collect();
        let contents: Vec<&str> = seeds.iter().map(|seed| &*seed.content_type).collect();
        let actions = seeds.iter().map(|seed| seed.conflict_action.as_str());
        let actions: Vec<&str> = actions.collect();
        let matching = seeds.iter().map(|seed| seed.secondary_match.as_str());
        let matching: Vec<&str> = matching.collect();
        let orders = vec![
            Order::Query(
                &statements.policy_seed,
                vec![&tenant, &keys, &sources, &contents, &actions, &matching],
            ),
            Order::Query(&statements.policy_list, vec![&tenant]),
        ];
        let answers = link.look(orders).await?;
        (read(answers.last().map_or(&[][..], Vec::as_slice)), true)
    } else {
        (read(there), false)
    };
    match policies {
        Ok(policies) => Ok((policies, seeded)),
        Err(error) => Err(link.give_up(error).await),
    }
}

fn lock(tenant: Uuid) -> i64 {
    let mut hash = Sha256::new();
    hash.update(b"policies");
    hash.update(tenant.as_bytes());
    super::writes::lock_key(&hash.finalize().into())
}
