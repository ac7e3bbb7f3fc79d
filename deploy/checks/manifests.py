"""The Kubernetes manifests: each fits its schema, and they fit each other. A cluster would say the same, later."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Iterator

import kubernetes_validate
import yaml
from found import HERE, SHUTDOWN_S, Found

FOLDERS = ["base", "migrate", "sqlite"]
KUBERNETES = HERE / "kubernetes"
# The oldest version that is still cared for, and the newest that the schemas know.
VERSIONS = ["1.31", "1.37"]

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def name(document: Document) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


def pod_of(document: Document) -> Document | None:
    """The template of the pods that this one makes."""
    return document.get("spec", {}).get("template") if document["kind"] != "Pod" else document


def matches(selector: Document, labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    return "matchExpressions" not in selector and wanted.items() <= labels.items()


def probes(container: Document) -> Iterator[tuple[str, Document]]:
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        if kind in container:
            yield kind, container[kind]


def check_schema(found: Found, document: Document, where: str) -> None:
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
            wrong = ""
        except kubernetes_validate.ValidationError as error:
            wrong = f": {error.message} at {list(error.path)}"
        found.holds(not wrong, f"{where} {name(document)} fits the schema of {version}{wrong}")


def check_pod(found: Found, pod: Document, where: str, there: dict[str, Document]) -> None:
    """A pod's references lead somewhere, and it asks for no right."""
    spec = pod["spec"]
    if "serviceAccountName" in spec:
        found.holds(f"ServiceAccount/{spec['serviceAccountName']}" in there, f"{where}: its service account is in the folder")
    found.holds(spec.get("automountServiceAccountToken") is False, f"{where} gets no token of the cluster")
    context = spec.get("securityContext", {})
    found.holds(context.get("runAsNonRoot") is True and context.get("runAsUser", 0) > 0, f"{where} is not root")
    found.holds(context.get("seccompProfile") == {"type": "RuntimeDefault"}, f"{where} has the usual seccomp profile")
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    for volume in volumes.values():
        for kind, key in (("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName")):
            if kind in volume:
                target = f"{kind[0].upper()}{kind[1:]}/{volume[kind][key]}"
                found.holds(target in there, f"{where}: {target} is in the folder or an example")
    for container in spec["containers"]:
        check_container(found, container, where, volumes, there)


def check_container(
    found: Found, container: Document, where: str, volumes: dict[str, Document], there: dict[str, Document]
) -> None:
    own = container.get("securityContext", {})
    found.holds(own.get("allowPrivilegeEscalation") is False, f"{where} gains no rights")
    found.holds(own.get("readOnlyRootFilesystem") is True, f"{where} has a read-only root")
    found.holds(own.get("capabilities") == {"drop": ["ALL"]}, f"{where} drops all capabilities")
    found.holds("memory" in container.get("resources", {}).get("limits", {}), f"{where} has a limit on memory")
    ports = {port.get("name") for port in container.get("ports", [])}
    for kind, probe in probes(container):
        asked = probe["httpGet"]
        found.holds(asked["port"] in ports, f"{where}: the port of {kind} is one of the container")
        wanted = "/ready" if kind == "readinessProbe" else "/health"
        found.holds(asked["path"] == wanted, f"{where}: {kind} asks {wanted}")
    mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
    claimed = there.get("claims", {})
    for path, volume in mounts.items():
        found.holds(volume in volumes or volume in claimed, f"{where}: {path} is a volume of the pod")
    for variable in container.get("env", []):
        value = variable.get("value", "")
        if not (variable["name"].endswith("_FILE") or variable["name"] == "HAPAX_CONFIG"):
            continue
        folder, _, file = value.rpartition("/")
        volume = volumes.get(mounts.get(folder, ""), {})
        source = volume.get("secret", {}).get("secretName") or volume.get("configMap", {}).get("name")
        kind = "Secret" if "secret" in volume else "ConfigMap"
        held = there.get(f"{kind}/{source}", {})
        keys = {**held.get("stringData", {}), **held.get("data", {})}
        found.holds(file in keys, f"{where}: {variable['name']} names a file that {kind}/{source} holds")


def check_stop(found: Found, pod: Document, where: str) -> None:
    """What is in flight has its time before the pod is killed."""
    pause = 0
    for container in pod["spec"]["containers"]:
        command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
        pause = max(pause, int(command[1]) if command[:1] == ["sleep"] else 0)
    grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
    found.holds(grace > pause + SHUTDOWN_S, f"{where}: {grace} s are more than the pause and shutdown_ms together")


def check_folder(found: Found, folder: str, examples: list[Document]) -> None:
    path = KUBERNETES / folder
    listed = yaml.safe_load((path / "kustomization.yaml").read_text())
    files = {file.name for file in path.glob("*.yaml")} - {"kustomization.yaml"}
    found.holds(set(listed["resources"]) == files, f"{folder}: kustomization.yaml lists every file, and only those")
    tags = {image["name"]: image.get("newTag", "latest") for image in listed.get("images", [])}
    made = [document for file in sorted(files) for document in documents(path / file)]
    there: dict[str, Any] = {name(document): document for document in made + examples}
    found.holds(len({name(document) for document in made}) == len(made), f"{folder}: no two objects have one name")
    pods = [(document, pod) for document in made if (pod := pod_of(document))]
    for document in made:
        check_schema(found, document, folder)
        if document["kind"] == "ConfigMap":
            found.holds(
                tomllib.loads(document["data"]["hapax.toml"]).get("shutdown_ms", SHUTDOWN_S * 1000) <= SHUTDOWN_S * 1000,
                f"{folder}: shutdown_ms is what the grace periods were made for",
            )
    for document, pod in pods:
        where = f"{folder} {name(document)}"
        labels = pod["metadata"]["labels"]
        if "selector" in document["spec"]:
            found.holds(matches(document["spec"]["selector"], labels), f"{where}: its selector matches its pods")
        for spread in pod["spec"].get("topologySpreadConstraints", []):
            found.holds(matches(spread["labelSelector"], labels), f"{where}: it is spread among its own pods")
        claims = document["spec"].get("volumeClaimTemplates", [])
        check_pod(found, pod, where, {**there, "claims": {claim["metadata"]["name"]: claim for claim in claims}})
        for container in pod["spec"]["containers"]:
            image, _, tag = container["image"].partition(":")
            tag = tag or tags.get(image, "latest")
            found.holds(tag != "latest", f"{where}: its image has a version, {image}:{tag}")
        if document["kind"] != "Job":
            check_stop(found, pod, where)
    check_selectors(found, folder, made, pods)


def check_selectors(found: Found, folder: str, made: list[Document], pods: list[tuple[Document, Document]]) -> None:
    """Whatever selects pods selects some, and a service's port is one of theirs."""
    for document in made:
        spec = document.get("spec", {})
        if document["kind"] in ("PodDisruptionBudget", "NetworkPolicy"):
            selector = spec.get("selector", spec.get("podSelector"))
        elif document["kind"] == "Service":
            selector = {"matchLabels": spec["selector"]}
        else:
            continue
        selected = [pod for _, pod in pods if matches(selector, pod["metadata"]["labels"])]
        found.holds(selected, f"{folder} {name(document)} selects a pod")
        wanted = [port["targetPort"] for port in spec.get("ports", [])]
        wanted += [
            port["port"] for rule in spec.get("ingress", []) for port in rule.get("ports", []) if isinstance(port["port"], str)
        ]
        for pod in selected if wanted else []:
            ports = {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", [])}
            found.holds(set(wanted) <= ports, f"{folder} {name(document)}: {wanted} are ports of its pods")


def main() -> None:
    found = Found()
    examples = documents(KUBERNETES / "secret.example.yaml")
    for example in examples:
        check_schema(found, example, "secret.example.yaml")
    for folder in FOLDERS:
        check_folder(found, folder, examples)
    namespaces = {(KUBERNETES / folder / "namespace.yaml").read_text() for folder in ("base", "sqlite")}
    found.holds(len(namespaces) == 1, "both variants have the same namespace")
    found.end()


main()
