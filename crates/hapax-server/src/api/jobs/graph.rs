//! A job's plan as a picture needs it: nodes, the ways between them, and how far each node is. Which plan a job has is
//! known by its kind.

use axum::Extension;
use axum::extract::State;
use hapax::job::Outline;
use hapax_core::Tenant;
use hapax_core::job::{Job, Op, OpState};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::super::App;
use super::super::openapi::words::{NodeState, OpClass};
use super::Id;
use super::shown::{raw, why};
use crate::answer::Answer;
use crate::problem::{self, Refusal};
use crate::{enrich, intents};

/// The plan of a job, and how far it is.
#[derive(Serialize, ToSchema)]
#[schema(as = JobGraph)]
pub(in crate::api) struct Graph {
    /// Its name, empty where there is none.
    plan: String,
    nodes: Vec<ShownNode>,
    /// From which node it may go on to which.
    edges: Vec<(String, String)>,
}

impl Graph {
    /// That of a job which runs by no plan of ours.
    fn none() -> Self {
        Self {
            plan: String::new(),
            nodes: Vec::new(),
            edges: Vec::new(),
        }
    }
}

/// A step of a plan.
#[derive(Serialize, ToSchema)]
#[schema(as = JobGraphNode)]
struct ShownNode {
    name: String,
    #[schema(value_type = OpClass)]
    class: &'static str,
    #[schema(value_type = NodeState)]
    state: &'static str,
    /// How many operations of the job are of this step.
    visits: usize,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    op_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    error: Option<Box<RawValue>>,
}

/// Shows the plan of a job with how far each step is. A job that runs by no plan has no nodes.
#[utoipa::path(get, path = "/v1/jobs/{id}/graph", operation_id = "get_job_graph",
    responses((status = 200, description = "The plan.", body = Graph)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
) -> Result<Answer<Graph>, Refusal> {
    let found = app.store.queue.job(tenant, id).await?;
    let (job, ops) = found.ok_or_else(problem::not_found)?;
    Ok(Answer(match outline(&job) {
        Some(outline) => graph(outline, &ops),
        None => Graph::none(),
    }))
}

/// The plan that a job of this kind is run by, if it is one of ours.
fn outline(job: &Job) -> Option<Outline> {
    if job.kind.is_download() {
        return Some(hapax_effects::download::plan::plan().outline());
    }
    if job.kind == intents::inbox::kind() {
        return Some(intents::graph::plan().outline());
    }
    if job.kind != enrich::job::kind() {
        return None;
    }
    match enrich::job::Errand::of(job).map(|errand| errand.graph) {
        Ok(enrich::job::Graph::Schedule) => Some(enrich::schedule::plan().outline()),
        Ok(enrich::job::Graph::Collect) => Some(enrich::collect::plan().outline()),
        // What is about no batch is a request that somebody waits for.
        Err(_) => Some(enrich::sync::plan().outline()),
    }
}

fn graph(outline: Outline, ops: &[Op]) -> Graph {
    let node = |name: &str, class: &'static str| {
        let of_node = ops.iter().filter(|op| op.kind == name);
        let visits = of_node.clone().count();
        let last = of_node.max_by_key(|op| op.started_at);
        ShownNode {
            name: name.to_owned(),
            class,
            state: last.map_or("pending", |op| word(op.state)),
            visits,
            op_key: last.map(|op| op.key.to_string()),
            started_at: last.map(|op| op.started_at.to_string()),
            ended_at: last.and_then(|op| op.finished_at.map(|at| at.to_string())),
            result: last.and_then(|op| op.result.as_deref().and_then(raw)),
            error: last.and_then(|op| op.error.as_deref().and_then(why)),
        }
    };
    let edges = outline.edges.iter();
    Graph {
        nodes: outline
            .nodes
            .iter()
            .map(|(name, class)| node(name, class.as_str()))
            .collect(),
        edges: edges
            .map(|(from, to)| (from.to_string(), to.to_string()))
            .collect(),
        plan: outline.name,
    }
}

/// What waits for an answer runs, as far as the plan can tell; what failed for now is tried again.
const fn word(state: OpState) -> &'static str {
    match state {
        OpState::Running | OpState::Waiting => "running",
        OpState::Done => "done",
        OpState::Retryable | OpState::Failed => "failed",
        OpState::InDoubt => "in_doubt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::job::{JobId, JobKind, NewJob};
    use hapax_core::{Tenant, Time};
    use serde_json::json;

    fn job(kind: &str, payload: &str) -> Job {
        let kind = JobKind::new(kind).unwrap();
        let new = NewJob::new(kind, "w", "a", "https://example.org/").unwrap();
        let new = new.with_payload(payload).unwrap();
        new.at(Tenant::DEFAULT, 1, Time::from_ms(0))
    }

    #[test]
    fn every_kind_with_a_plan_has_its_own() {
        let name = |kind: &str, payload: &str| outline(&job(kind, payload)).map(|plan| plan.name);
        assert_eq!(name("download", "{}").as_deref(), Some("download"));
        assert_eq!(name("intent", "{}").as_deref(), Some("intent"));
        let batch = |graph: &str| {
            json!({"graph": graph, "schema": "pkm", "batch_id": uuid::Uuid::nil(), "attempt": 1})
                .to_string()
        };
        let of_batch = |graph: &str| {
            let id = format!("t1-{graph}-pkm-{}-1", uuid::Uuid::nil());
            let mut job = job("enrich", &batch(graph));
            job.id = JobId::new(&id).unwrap();
            outline(&job).map(|plan| plan.name)
        };
        assert_eq!(of_batch("schedule").as_deref(), Some("t1-schedule"));
        assert_eq!(of_batch("collect").as_deref(), Some("t1-collect"));
        assert_eq!(name("enrich", "{}").as_deref(), Some("t1-sync"));
        let foreign = name("enrich", &batch("schedule"));
        assert_eq!(foreign.as_deref(), Some("t1-sync"), "its id is not its own");
        assert_eq!(name("import", "{}"), None);
        assert_eq!(name("my-own", "{}"), None);
    }

    #[test]
    fn a_plan_without_operations_is_pending_from_end_to_end() {
        let plan = outline(&job("download", "{}")).unwrap();
        let shown = json!(graph(plan, &[]));
        let nodes = shown["nodes"].as_array().unwrap();
        assert!(nodes.len() > 5 && nodes.iter().all(|node| node["state"] == "pending"));
        assert!(
            shown["edges"]
                .as_array()
                .unwrap()
                .contains(&json!(["STREAM", "FINALIZE"]))
        );
    }
}
