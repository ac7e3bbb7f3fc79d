//! What guards the tables of tenants: the policies that hapax makes, and the rule that says whether what the catalog shows
//! is that and nothing else. It changes nothing.

use tokio_postgres::{Client, Row};

const GUARDS: &str = include_str!("../../sql/postgres/guards.sql");

const APP: &str = "hapax_app";
const JANITOR: &str = "hapax_janitor";

/// Rows of the tenant that the transaction names, as the catalog shows it, without its spaces.
const OWN: &str = "(tenant_id=(NULLIF(current_setting('hapax.tenant'::text,true),''::text))::uuid)";
/// The same, asked once per statement.
const OWN_ONCE: &str =
    "(tenant_id=(SELECT(NULLIF(current_setting('hapax.tenant'::text,true),''::text))::uuid))";
const WORDS_OF_OWN: &str = "((tenant_id=(NULLIF(current_setting('hapax.tenant'::text,true),''::text))::uuid)AND(found_by@@\
     plainto_tsquery('simple'::regconfig,pkm.searched(((NULLIF(current_setting('hapax.words'::text,true),''::text)||'of'::text)\
     ||replace(current_setting('hapax.tenant'::text,true),'-'::text,''::text))))))";
const SWEPT: &str = "((state=ANY(ARRAY['expired'::text,'free'::text]))AND(purge_atISNOTNULL)AND(num_nonnulls(request_body,\
     request_headers,response_body,response_headers)=0))";
const LIVE: &str = "(status=ANY(ARRAY['queued'::text,'submitted'::text,'collecting'::text]))";
const TOKEN_BY_ID: &str =
    "(id=(NULLIF(current_setting('hapax.token_id'::text,true),''::text))::uuid)";
const ALL: &str = "true";

/// A table or view over what tenants store, and what guards it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "a list of findings, each on its own"
)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Relation {
    /// Its name, with the schema where that is not the one of the ledger.
    name: String,
    is_view: bool,
    enabled: bool,
    forced: bool,
    /// Whether this session's role is, or may become, its owner.
    owned: bool,
    owner: String,
    /// Of a view: whether it reads with the rights of the role that asks.
    invoker: bool,
    policies: Vec<Policy>,
}

/// One policy of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Policy {
    name: String,
    permissive: bool,
    /// `*` all, `r` select, `a` insert, `w` update, `d` delete.
    command: char,
    roles: String,
    using: Option<String>,
    check: Option<String>,
}

impl Policy {
    /// Whether it lets a role see no more than rows of the tenant that the transaction names.
    fn is_of_one_tenant(&self) -> bool {
        let own = |given: &Option<String>| {
            given
                .as_deref()
                .is_none_or(|given| [OWN, OWN_ONCE].contains(&given))
        };
        !self.permissive || (own(&self.using) && own(&self.check))
    }

    /// Whether it is for nobody but the role that sweeps, whose columns are granted one by one.
    fn is_of_janitor(&self) -> bool {
        self.roles == JANITOR
    }
}

/// What the catalog says about the tables of tenants.
pub(super) async fn read(client: &Client) -> Result<Vec<Relation>, tokio_postgres::Error> {
    let mut relations: Vec<Relation> = Vec::new();
    for row in client.query(GUARDS, &[]).await? {
        let name: String = row.try_get(0)?;
        if relations.last().is_none_or(|last| last.name != name) {
            relations.push(relation(&row, name)?);
        }
        if let (Some(policy), Some(relation)) = (policy(&row)?, relations.last_mut()) {
            relation.policies.push(policy);
        }
    }
    Ok(relations)
}

fn relation(row: &Row, name: String) -> Result<Relation, tokio_postgres::Error> {
    let kind: String = row.try_get(1)?;
    Ok(Relation {
        name,
        is_view: matches!(kind.as_str(), "v" | "m"),
        enabled: row.try_get(2)?,
        forced: row.try_get(3)?,
        owned: row.try_get(4)?,
        owner: row.try_get(5)?,
        // What a materialised view holds was read with its owner's rights.
        invoker: kind == "v" && row.try_get(6)?,
        policies: Vec::new(),
    })
}

fn policy(row: &Row) -> Result<Option<Policy>, tokio_postgres::Error> {
    let Some(name) = row.try_get(7)? else {
        return Ok(None);
    };
    let bare = |text: Option<String>| text.map(|text| bare(&text));
    let command: Option<String> = row.try_get(9)?;
    Ok(Some(Policy {
        name,
        permissive: row.try_get(8)?,
        command: command.and_then(|word| word.chars().next()).unwrap_or('?'),
        roles: row.try_get::<_, Option<String>>(10)?.unwrap_or_default(),
        using: bare(row.try_get(11)?),
        check: bare(row.try_get(12)?),
    }))
}

/// An expression of the catalog without its spaces, which no release promises, and without the name of a subquery's column.
fn bare(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    text.replace("AS\"nullif\"", "")
}

/// Whether the role of this session owns a table of tenants.
pub(super) fn owns(relations: &[Relation]) -> bool {
    relations.iter().any(|found| !found.is_view && found.owned)
}

/// Whether a table that this program needs is not there.
pub(super) fn is_incomplete(relations: &[Relation]) -> bool {
    let ours = ours();
    let mut wanted = ours.iter().map(|(table, _)| table);
    wanted.any(|table| !relations.iter().any(|found| found.name == *table))
}

/// The first thing that leaves rows of tenants unguarded, and what to do about it. `is_newer` says that a newer program has
/// migrated the database: it looks after its own tables, and what it changed of ours is judged by what it lets through.
pub(super) fn unguarded(relations: &[Relation], is_newer: bool) -> Option<String> {
    let ours = ours();
    relations.iter().find_map(|found| {
        if found.is_view {
            return view(found);
        }
        let known = ours.iter().find(|(table, _)| *table == found.name);
        if known.is_none() && is_newer {
            return None;
        }
        table(found, known.map(|(_, policies)| &policies[..]), is_newer)
    })
}

fn view(found: &Relation) -> Option<String> {
    // It is owned by a role that row level security binds, and by a policy of its own.
    let is_ours = ["pkm.entries_found", "pkm_test.entries_found"].contains(&found.name.as_str())
        && found.owner == JANITOR;
    (!found.invoker && !is_ours).then(|| {
        let name = &found.name;
        format!(
            "the view {name} reads rows of every tenant with the rights of {}; run `ALTER VIEW {name} SET (security_invoker = \
             true)`, or revoke it from the roles of hapax",
            found.owner
        )
    })
}

fn table(found: &Relation, known: Option<&[Policy]>, is_newer: bool) -> Option<String> {
    let name = &found.name;
    let or_move = match known {
        Some(_) => "",
        None => ", or move a table that is not of hapax to another schema",
    };
    if !found.enabled {
        return Some(format!(
            "row level security is off for {name}, which has a tenant_id; run `ALTER TABLE {name} ENABLE ROW LEVEL SECURITY`, \
             and FORCE it{or_move}"
        ));
    }
    if !found.forced {
        return Some(format!(
            "row level security is not forced for {name}; run `ALTER TABLE {name} FORCE ROW LEVEL SECURITY`{or_move}"
        ));
    }
    match known {
        Some(ours) if !is_newer => exactly(name, &found.policies, ours),
        Some(_) | None => {
            let ours = known.unwrap_or_default();
            let lets_others_in = |policy: &&Policy| {
                !ours.contains(policy) && !policy.is_of_janitor() && !policy.is_of_one_tenant()
            };
            let added = found.policies.iter().find(lets_others_in);
            added.map(|policy| foreign(name, &policy.name))
        }
    }
}

fn exactly(table: &str, found: &[Policy], ours: &[Policy]) -> Option<String> {
    if let Some(added) = found.iter().find(|policy| !ours.contains(policy)) {
        return Some(foreign(table, &added.name));
    }
    ours.iter()
        .find(|policy| !found.contains(policy))
        .map(|policy| {
            format!(
                "the policy {} of {table} is missing; make it again as the migrations of hapax do",
                policy.name
            )
        })
}

fn foreign(table: &str, policy: &str) -> String {
    format!(
        "the policy {policy} of {table} is not as hapax makes it, and may show rows of other tenants; DROP POLICY {policy} ON \
         {table}, and make it again as the migrations of hapax do if it was one of theirs"
    )
}

/// The tables with a `tenant_id` and their policies, as the migrations make them.
fn ours() -> Vec<(String, Vec<Policy>)> {
    let simple = |name: &str| policy_of(name, "tenant_isolation", '*', APP, Some(OWN), Some(OWN));
    let overview = |name: &str| policy_of(name, "overview", 'r', JANITOR, Some(ALL), None);
    let once = |name: &str, using| {
        policy_of(
            name,
            "tenant_isolation",
            '*',
            APP,
            Some(using),
            Some(OWN_ONCE),
        )
    };
    let mut ours: Vec<(String, Vec<Policy>)> = [
        "entity",
        "imports",
        "llm_answer",
        "llm_question",
        "observation",
        "snapshot_alias",
    ]
    .map(|name| (name.to_owned(), vec![simple(name)]))
    .into();
    let mut add = |name: &str, policies: Vec<Policy>| ours.push((name.to_owned(), policies));
    for name in ["op", "snapshot"] {
        add(name, vec![simple(name), overview(name)]);
    }
    add("job", vec![once("job", OWN), overview("job")]);
    add("job_list", vec![once("job_list", OWN_ONCE)]);
    for name in ["job_ready", "job_later"] {
        add(name, vec![once(name, OWN_ONCE), overview(name)]);
    }
    let keys = "idempotency_keys";
    let sweep = policy_of(keys, "sweep", '*', JANITOR, Some(ALL), Some(SWEPT));
    add(keys, vec![simple(keys), sweep]);
    let administration =
        |name| policy_of(name, "administration", '*', JANITOR, Some(ALL), Some(ALL));
    let wrapped = "tenant_key";
    let isolation = policy_of(wrapped, "isolation", '*', APP, Some(OWN), Some(OWN));
    add(wrapped, vec![isolation, administration(wrapped)]);
    let by_id = policy_of("token", "by_id", 'r', APP, Some(TOKEN_BY_ID), None);
    add("token", vec![by_id, administration("token")]);
    // The table had the name of its policies before it got a view.
    let (audit, noted) = ("audit_log", "(action='cleanup_idempotency_keys'::text)");
    let trail = vec![
        policy_of(audit, "tenant_reads", 'r', APP, Some(OWN), None),
        policy_of(audit, "tenant_adds", 'a', APP, None, Some(OWN)),
        policy_of(audit, "sweep_adds", 'a', JANITOR, None, Some(noted)),
        policy_of(audit, "sweep_finds", 'r', JANITOR, Some(ALL), None),
        policy_of(audit, "sweep_removes", 'd', JANITOR, Some(ALL), None),
    ];
    add("audit_note", trail);
    add("pkm.runtime_config", vec![simple("runtime_config")]);
    for home in ["pkm", "pkm_test"] {
        for name in [
            "entry_messages",
            "entry_revisions",
            "idempotency_policies",
            "t1_batch_items",
        ] {
            add(&format!("{home}.{name}"), vec![simple(name)]);
        }
        let found = policy_of(
            "entries",
            "found_by_words",
            'r',
            JANITOR,
            Some(WORDS_OF_OWN),
            None,
        );
        add(&format!("{home}.entries"), vec![simple("entries"), found]);
        let live = policy_of("t1_batches", "overview", 'r', JANITOR, Some(LIVE), None);
        add(
            &format!("{home}.t1_batches"),
            vec![simple("t1_batches"), live],
        );
    }
    ours
}

fn policy_of(
    table: &str,
    what: &str,
    command: char,
    role: &str,
    using: Option<&str>,
    check: Option<&str>,
) -> Policy {
    Policy {
        name: format!("{table}_{what}"),
        permissive: true,
        command,
        roles: role.to_owned(),
        using: using.map(str::to_owned),
        check: check.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_made() -> Vec<Relation> {
        let made = |(name, policies)| Relation {
            name,
            is_view: false,
            enabled: true,
            forced: true,
            owned: false,
            owner: "postgres".to_owned(),
            invoker: false,
            policies,
        };
        ours().into_iter().map(made).collect()
    }

    /// The finding after one change to one relation.
    fn after(name: &str, is_newer: bool, change: impl FnOnce(&mut Relation)) -> Option<String> {
        let mut relations = as_made();
        let found = relations.iter_mut().find(|found| found.name == name);
        change(found.expect("it is one of ours"));
        unguarded(&relations, is_newer)
    }

    #[test]
    fn what_the_migrations_make_is_guarded() {
        let made = as_made();
        assert_eq!(made.len(), 29);
        assert_eq!(unguarded(&made, false), None);
        assert!(!is_incomplete(&made) && is_incomplete(&made[1..]));
    }

    #[test]
    fn every_table_is_looked_at_and_named() {
        for (name, _) in ours() {
            let off = after(&name, false, |found| found.enabled = false).unwrap();
            assert!(off.contains(&format!("TABLE {name} ENABLE")), "{off}");
            let unforced = after(&name, true, |found| found.forced = false).unwrap();
            assert!(
                unforced.contains(&format!("TABLE {name} FORCE")),
                "{unforced}"
            );
            let missing = after(&name, false, |found| drop(found.policies.pop())).unwrap();
            assert!(
                missing.contains(&name) && missing.contains("missing"),
                "{missing}"
            );
        }
    }

    #[test]
    fn a_policy_that_is_not_exactly_ours_is_refused() {
        let changes: [fn(&mut Policy); 6] = [
            |policy| policy.using = Some(ALL.to_owned()),
            |policy| policy.check = Some(ALL.to_owned()),
            |policy| policy.check = None,
            |policy| policy.roles = "public".to_owned(),
            |policy| policy.command = 'r',
            |policy| policy.permissive = false,
        ];
        for change in changes {
            let said = after("op", false, |found| change(&mut found.policies[0])).unwrap();
            assert!(said.contains("op_tenant_isolation of op"), "{said}");
        }
    }

    #[test]
    fn beside_a_newer_program_only_what_lets_others_in_is_refused() {
        let policy = |roles: &str, using: &str| Policy {
            roles: roles.to_owned(),
            ..policy_of("op", "new", 'r', APP, Some(using), None)
        };
        for (policy, is_refused) in [
            (policy(APP, OWN), false),
            (policy(JANITOR, ALL), false),
            (policy(APP, ALL), true),
            (policy("public", ALL), true),
            (policy("hapax_app,hapax_janitor", ALL), true),
        ] {
            let said = after("op", true, |found| found.policies.push(policy.clone()));
            assert_eq!(said.is_some(), is_refused, "{policy:?}");
            assert!(after("op", false, |found| found.policies.push(policy)).is_some());
        }
    }

    #[test]
    fn a_table_that_is_not_of_hapax_is_looked_at_unless_a_newer_program_does() {
        let mut found = as_made();
        let mut other = found[0].clone();
        other.name = "other".to_owned();
        other.forced = false;
        found.push(other);
        let said = unguarded(&found, false).unwrap();
        assert!(
            said.contains("other") && said.contains("another schema"),
            "{said}"
        );
        assert_eq!(unguarded(&found, true), None);
    }

    #[test]
    fn a_view_reads_with_the_rights_of_who_asks() {
        let view = |name: &str, owner: &str, invoker| Relation {
            name: name.to_owned(),
            is_view: true,
            owner: owner.to_owned(),
            invoker,
            enabled: false,
            forced: false,
            owned: false,
            policies: Vec::new(),
        };
        for (view, is_refused) in [
            (view("artifact_jobs", "postgres", true), false),
            (view("artifact_jobs", "postgres", false), true),
            (view("pkm.entries_found", JANITOR, false), false),
            (view("pkm.entries_found", "postgres", false), true),
            (view("other", JANITOR, false), true),
        ] {
            let said = unguarded(std::slice::from_ref(&view), false);
            assert_eq!(said.is_some(), is_refused, "{view:?}");
        }
    }

    #[test]
    fn spaces_of_the_catalog_do_not_count() {
        let shown = "(tenant_id = ( SELECT (NULLIF(current_setting('hapax.tenant'::text, true), ''::text))::uuid AS \"nullif\"))";
        assert_eq!(bare(shown), OWN_ONCE);
    }
}
