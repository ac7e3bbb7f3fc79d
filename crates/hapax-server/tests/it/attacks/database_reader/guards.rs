//! Row level security that somebody took off a table, or made a hole in: PostgreSQL only.

use std::process::Command;

use crate::fixture::{path, refused, run, succeed};

/// A statement on this database, as its superuser.
fn on(url: &str, statement: &str) {
    let output = Command::new("psql")
        .args([url, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statement])
        .output()
        .expect("psql is installed");
    assert!(output.status.success(), "{statement}: {output:?}");
}

/// Whatever `change` did is refused at the start with these words, by every command, and nothing is once it is undone.
fn is_refused(change: &str, undo: &str, words: &[&str]) {
    let url = crate::postgres::database();
    succeed(&["migrate", "--database", &url]);
    let folder = tempfile::tempdir().unwrap();
    let at = ["--database", url.as_str(), "--data", path(folder.path())];
    succeed(&[&["keys", "list"][..], &at].concat());

    on(&url, change);
    let serve = [&["serve", "--listen", "127.0.0.1:0"][..], &at].concat();
    let list = [&["keys", "list"][..], &at].concat();
    // A server that starts would run on, so what ends by itself comes first.
    for command in [list, serve] {
        let said = refused(&command, 1);
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
    let doctor = [&["doctor", "--listen", "127.0.0.1:0"][..], &at].concat();
    assert_eq!(run(&doctor).status.code(), Some(1));

    on(&url, undo);
    succeed(&[&["keys", "list"][..], &at].concat());
}

#[test]
fn a_start_is_refused_while_the_questions_to_a_model_are_not_forced() {
    is_refused(
        "ALTER TABLE llm_question NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE llm_question FORCE ROW LEVEL SECURITY",
        &["ALTER TABLE llm_question FORCE ROW LEVEL SECURITY"],
    );
}

#[test]
fn a_start_is_refused_while_a_policy_lets_everybody_in() {
    is_refused(
        "CREATE POLICY everybody ON llm_question TO hapax_app USING (true)",
        "DROP POLICY everybody ON llm_question",
        &["DROP POLICY everybody ON llm_question"],
    );
    is_refused(
        "CREATE POLICY everybody ON job FOR SELECT TO PUBLIC USING (true)",
        "DROP POLICY everybody ON job",
        &["everybody of job"],
    );
}

#[test]
fn a_start_is_refused_while_a_policy_of_ours_was_widened_or_dropped() {
    let own = "tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid";
    is_refused(
        "ALTER POLICY op_tenant_isolation ON op USING (true)",
        &format!("ALTER POLICY op_tenant_isolation ON op USING ({own})"),
        &["op_tenant_isolation of op"],
    );
    is_refused(
        "DROP POLICY llm_answer_tenant_isolation ON llm_answer",
        &format!(
            "CREATE POLICY llm_answer_tenant_isolation ON llm_answer TO hapax_app USING ({own}) WITH CHECK ({own})"
        ),
        &["llm_answer_tenant_isolation of llm_answer is missing"],
    );
}

#[test]
fn a_start_is_refused_while_a_new_table_of_tenants_has_no_row_level_security() {
    is_refused(
        "CREATE TABLE pkm.leak (tenant_id uuid NOT NULL, said text)",
        "DROP TABLE pkm.leak",
        &["pkm.leak", "ENABLE ROW LEVEL SECURITY", "another schema"],
    );
    is_refused(
        "CREATE TABLE leak (tenant_id uuid NOT NULL) PARTITION BY HASH (tenant_id)",
        "DROP TABLE leak",
        &["ALTER TABLE leak ENABLE ROW LEVEL SECURITY"],
    );
}

#[test]
fn a_start_is_refused_while_a_view_reads_past_row_level_security() {
    is_refused(
        "CREATE SCHEMA report; CREATE VIEW report.answers AS SELECT * FROM llm_answer; \
         GRANT USAGE ON SCHEMA report TO PUBLIC; GRANT SELECT ON report.answers TO hapax_app",
        "ALTER VIEW report.answers SET (security_invoker = true)",
        &["report.answers", "security_invoker"],
    );
    is_refused(
        "ALTER VIEW artifact_jobs RESET (security_invoker)",
        "ALTER VIEW artifact_jobs SET (security_invoker = true)",
        &["artifact_jobs"],
    );
}

#[test]
fn the_clean_up_runs_nothing_that_others_made_in_its_schema() {
    let url = crate::postgres::database();
    succeed(&["migrate", "--database", &url]);
    // Whoever may make functions in the schema of the ledger makes one that the clean-up seems to call, and that is called
    // as soon as a statement is planned.
    on(
        &url,
        "CREATE FUNCTION now() RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS \
         $$ BEGIN RAISE 'run as %', current_user; END $$",
    );
    on(&url, "SELECT cleanup_expired_idempotency_keys()");
}
