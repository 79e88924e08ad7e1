"""How the bridge is set up."""

from __future__ import annotations

import pytest

from headrace.kubernetes.api import BadKubeconfig, from_kubeconfig
from headrace.kubernetes.ledger_access import tokens_in
from headrace.kubernetes.service import BadSetting, settings

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
"""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "config").write_text(KUBECONFIG)
    return {
        "KUBECONFIG": str(tmp_path / "config"),
        "HEADRACE_KUBERNETES_NODE_TOKENS": str(tmp_path / "nodes"),
        "HEADRACE_KUBERNETES_ACCOUNT_TOKENS": str(tmp_path / "accounts"),
    }


def test_a_kubeconfig_says_where_the_api_server_is(environment):
    found = settings(environment)
    assert (found.access.server, found.access.token, found.resource, found.webhook) == (
        "http://127.0.0.1:1",
        "secret",
        "nvidia.com/gpu",
        None,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"HEADRACE_KUBERNETES_NODE_TOKENS": ""}, "HEADRACE_KUBERNETES_NODE_TOKENS is not set"),
        ({"KUBECONFIG": ""}, "neither KUBECONFIG nor KUBERNETES_SERVICE_HOST is set: where is the API server?"),
        ({"HEADRACE_KUBERNETES_WEBHOOK": "9443"}, "HEADRACE_KUBERNETES_WEBHOOK: invalid address '9443'; use HOST:PORT"),
        ({"HEADRACE_KUBERNETES_WEBHOOK": "0.0.0.0:9443"}, "HEADRACE_KUBERNETES_CERTIFICATE is not set"),
    ],
)
def test_a_setting_that_is_missing_is_named(environment, change, message):
    with pytest.raises(BadSetting) as error:
        settings(environment | change)
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["", "current-context: x", "{", KUBECONFIG.replace("token: secret", "exec: {command: aws}")])
def test_a_kubeconfig_that_cannot_be_used_is_refused(tmp_path, text):
    (tmp_path / "config").write_text(text)
    with pytest.raises(BadKubeconfig):
        from_kubeconfig(tmp_path / "config")


def test_tokens_are_files_named_as_their_bearers(tmp_path):
    (tmp_path / "n1").write_text("one\n")
    (tmp_path / "n2").write_text("\n")
    (tmp_path / "..data").mkdir()
    (tmp_path / "No Name").write_text("x")
    assert tokens_in(tmp_path) == {"n1": "one"}
    assert tokens_in(tmp_path / "nowhere") == {}
