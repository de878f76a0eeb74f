"""Checks deploy/kubernetes against the schemas of Kubernetes, unknown fields refused, and what no schema says: that names refer to
something, and that words and amounts are such as Kubernetes knows.

A Sandbox of agent-sandbox is no part of Kubernetes: its pod and its claims are checked as what the controller makes of them.
Started by scripts/check-manifests.sh; prints a line for each document and exits with 1 when one is wrong.
"""

import pathlib
import re
import sys

import kubernetes_validate
import yaml

# The oldest and the newest that are promised.
VERSIONS = ["1.29", "1.34"]
SANDBOX = "agents.x-k8s.io/v1beta1"
QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|Ki|[MGTPE]i?)?")
WORDS = {
    "protocol": {"TCP", "UDP", "SCTP"},
    "policyTypes": {"Ingress", "Egress"},
    "accessModes": {"ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"},
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "podManagementPolicy": {"OrderedReady", "Parallel"},
    "fsGroupChangePolicy": {"OnRootMismatch", "Always"},
}
SANDBOX_FIELDS = {"podTemplate", "volumeClaimTemplates"}


def parts(document):
    """What of a document Kubernetes itself knows."""
    if document.get("apiVersion") != SANDBOX:
        return [document]
    if document.get("kind") != "Sandbox":
        raise ValueError(f"kind: unknown {document.get('kind')}")
    spec = document["spec"]
    unknown = set(spec) - SANDBOX_FIELDS
    if unknown or set(document) != {"apiVersion", "kind", "metadata", "spec"}:
        raise ValueError(f"spec: unknown fields {sorted(unknown)}")
    template = spec["podTemplate"]
    if set(template) - {"metadata", "spec"} or set(template.get("metadata", {})) - {"labels", "annotations"}:
        raise ValueError("spec.podTemplate: unknown fields")
    claims = spec.get("volumeClaimTemplates", [])
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**document["metadata"], **template.get("metadata", {})}}
    return [pod, *({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim} for claim in claims)]


def find(value, name):
    """All values of a field, however deep."""
    if isinstance(value, list):
        return [found for item in value for found in find(item, name)]
    if not isinstance(value, dict):
        return []
    return ([value[name]] if name in value else []) + [found for item in value.values() for found in find(item, name)]


def refuse_unknown(field, values, known):
    for value in values:
        if value not in known:
            raise ValueError(f"{field}: {value} is none of {', '.join(map(str, sorted(known)))}")


def check_words(document):
    for field, known in WORDS.items():
        values = find(document, field)
        refuse_unknown(field, [word for value in values for word in (value if isinstance(value, list) else [value])], known)
    amounts = [amount for field in ("limits", "requests") for group in find(document, field) for amount in group.values()]
    for amount in amounts + find(document, "sizeLimit"):
        if not QUANTITY.fullmatch(str(amount)):
            raise ValueError(f"{amount} is no amount, such as 250m, 2 or 4Gi")


def check_references(document, services):
    """Volumes, ports and labels within a workload; the service that a StatefulSet names."""
    spec = document["spec"]
    template = spec.get("template") or spec.get("podTemplate")
    if template is None:
        return
    claims = [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])]
    volumes = {volume["name"] for volume in template["spec"].get("volumes", [])} | set(claims)
    for container in template["spec"]["containers"]:
        refuse_unknown("volumeMounts", [mount["name"] for mount in container.get("volumeMounts", [])], volumes)
        ports = {port.get("name") for port in container.get("ports", [])}
        refuse_unknown("port of a probe", [p for p in find(container, "port") if isinstance(p, str)], ports)
    labels = template["metadata"]["labels"].items()
    for label in spec.get("selector", {}).get("matchLabels", {}).items():
        if label not in labels:
            raise ValueError(f"selector: the pods have no label {': '.join(label)}")
    if "serviceName" in spec and services:
        refuse_unknown("serviceName", [spec["serviceName"]], services)


def main(files):
    wrong = 0
    documents = [d for file in files for d in yaml.safe_load_all(pathlib.Path(file).read_text())]
    services = {d["metadata"]["name"] for d in documents if d.get("kind") == "Service"}
    for file in files:
        for document in yaml.safe_load_all(pathlib.Path(file).read_text()):
            name = f"{file} {document.get('kind')}"
            try:
                check_words(document)
                check_references(document, services)
                for part in parts(document):
                    for version in VERSIONS:
                        kubernetes_validate.validate(part, version, strict=True)
                print(f"ok      {name}")
            except Exception as error:
                wrong += 1
                print(f"WRONG   {name}: {getattr(error, 'message', error)}")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
