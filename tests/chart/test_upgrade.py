"""The chart beside what is installed: Helm asks an API server, as on an upgrade, and keeps what Kubernetes would refuse to change."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import Chart, Config

CHART = Path(__file__).parents[2] / "deploy/helm/headrace"
STATEFUL_SET = "/apis/apps/v1/namespaces/gpus/statefulsets/headrace-nats"
SCHEMAS = "/openapi/v2"
"""Where Helm asks for schemas, in the format of protocol buffers; an empty answer has none, so that nothing is validated here."""

OURS = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": "headrace", "meta.helm.sh/release-namespace": "gpus"},
}

Document = dict[str, Any]


def documents(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


class Server(ThreadingHTTPServer):
    """Discovery of the kinds that the chart has, and the objects in `objects` by their path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, Document] = {}
        rendered = Chart.load(str(CHART)).render({}, name="headrace", namespace="gpus")
        files = [text for name, text in rendered.items() if name.endswith(".yaml")]
        self.kinds = {(one["apiVersion"], one["kind"]) for text in files for one in documents(text)}

    def answer(self, path: str) -> Document | None:
        if path == "/version":
            return {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            versions = sorted({version for version, _ in self.kinds if "/" in version})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(version) for version in versions]}
        if path in self.objects:
            return self.objects[path]
        version = path.removeprefix("/apis/").removeprefix("/api/")
        kinds = sorted(kind for of, kind in self.kinds if of == version)
        if kinds:
            return {"kind": "APIResourceList", "groupVersion": version, "resources": [resource(kind) for kind in kinds]}
        return None


def group(version: str) -> Document:
    here = {"groupVersion": version, "version": version.partition("/")[2]}
    return {"name": version.partition("/")[0], "versions": [here], "preferredVersion": here}


def resource(kind: str) -> Document:
    lower = kind.lower()
    plural = lower[:-1] + "ies" if lower.endswith("y") else lower + "s"
    return {
        "name": plural,
        "singularName": lower,
        "namespaced": True,
        "kind": kind,
        "verbs": ["get", "list", "create", "patch"],
    }


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found = {} if path == SCHEMAS else self.server.answer(path)
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = b"" if path == SCHEMAS else json.dumps(missing if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    serving = threading.Thread(target=made.serve_forever, daemon=True)
    serving.start()
    yield made
    made.shutdown()
    made.server_close()
    serving.join()


def tried(server: Server, nats: Document) -> tuple[Document, str]:
    """The StatefulSet of NATS that Helm would send to the API server, and the notes."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    with Config(kubeconfig_content=json.dumps(kubeconfig), namespace="gpus", storage_driver="memory") as config:
        release = config.install(CHART, "headrace", {"nats": nats}, namespace="gpus", dry_run="server")
    (made,) = [one for one in documents(release["manifest"]) if one["kind"] == "StatefulSet"]
    return made, release["notes"]


def claimed(made: Document) -> Document:
    (claim,) = made["spec"]["volumeClaimTemplates"]
    return claim["spec"]


def installed(made: Document) -> Document:
    """As the API server has it, for a release of Helm."""
    return {**made, "metadata": {**made["metadata"], **OURS, "namespace": "gpus"}}


def test_more_storage_and_another_class_leave_the_claims_of_nats_as_they_were_installed_and_the_notes_say_so(
    server: Server,
) -> None:
    made, notes = tried(server, {"storage": "100Gi", "storageClass": "slow"})
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "resources": {"requests": {"storage": "100Gi"}}}
    assert claimed(made) == spec
    assert "stay as they were made" not in notes
    server.objects[STATEFUL_SET] = installed(made)
    again, notes = tried(server, {"storage": "200Gi", "storageClass": "fast"})
    assert claimed(again) == spec
    assert "The volumes of NATS stay as they were made: 100Gi of class slow." in notes


def test_a_volume_without_a_class_stays_without_one(server: Server) -> None:
    made, _ = tried(server, {"storage": "100Gi"})
    server.objects[STATEFUL_SET] = installed(made)
    again, notes = tried(server, {"storage": "100Gi", "storageClass": "fast"})
    assert (
        claimed(again) == claimed(made) == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}}}
    )
    assert "stay as they were made: 100Gi. An upgrade" in notes


def test_a_stateful_set_that_was_taken_away_is_made_again_with_the_new_value(server: Server) -> None:
    made, _ = tried(server, {"storage": "100Gi"})
    server.objects[STATEFUL_SET] = installed(made)
    del server.objects[STATEFUL_SET]  # kubectl delete statefulset --cascade=orphan
    again, notes = tried(server, {"storage": "200Gi"})
    assert claimed(again)["resources"] == {"requests": {"storage": "200Gi"}}
    assert "stay as they were made" not in notes
