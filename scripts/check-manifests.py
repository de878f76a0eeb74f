"""Checks deploy/kubernetes against the schemas of Kubernetes, unknown fields refused.

A Sandbox of agent-sandbox is no part of Kubernetes: its pod and its claims are checked as what the controller makes of them.
Started by scripts/check-manifests.sh; prints a line for each document and exits with 1 when one is wrong.
"""

import pathlib
import sys

import kubernetes_validate
import yaml

# The oldest and the newest that are promised.
VERSIONS = ["1.29", "1.34"]
SANDBOX = "agents.x-k8s.io/v1beta1"
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
    named = {volume["name"] for volume in template["spec"].get("volumes", [])} | {c["metadata"]["name"] for c in claims}
    for container in template["spec"]["containers"]:
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in named:
                raise ValueError(f"volumeMounts: there is no volume {mount['name']}")
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**document["metadata"], **template.get("metadata", {})}}
    return [pod, *({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim} for claim in claims)]


def main(files):
    wrong = 0
    for file in files:
        for document in yaml.safe_load_all(pathlib.Path(file).read_text()):
            name = f"{file} {document.get('kind')}"
            try:
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
