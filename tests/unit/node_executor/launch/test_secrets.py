"""Secrets come from where the reference says, for the job's own tenant, or not at all."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from headrace.node_executor.launch.secrets import Environment, Files, exact_variable, references, registry_of
from headrace.node_executor.runtimes import CannotStart


@pytest.fixture
def directory(tmp_path):
    for tenant, name, value in (("acme", "TOKEN", "t0k\n"), ("acme", "hf.key", "hf"), ("other", "theirs", "not yours")):
        (tmp_path / tenant).mkdir(exist_ok=True)
        (tmp_path / tenant / name).write_text(value)
    (tmp_path / "acme" / "binary").write_bytes(b"\xff\xfe")
    return str(tmp_path)


OWN = {"HEADRACE_SECRET_ACME__WANDB": "w", "HEADRACE_SECRET_MY_TEAM__KEY": "k", "PATH": "/bin"}


@pytest.mark.parametrize(
    ("tenant", "variable", "reference", "value"),
    [
        ("acme", "TOKEN", "", "t0k"),
        ("acme", "HF", "file:hf.key", "hf"),
        ("acme", "KEY", "env:WANDB", "w"),
        ("my-team", "KEY", "env:KEY", "k"),
    ],
)
def test_a_reference_leads_to_its_value(directory, tenant, variable, reference, value):
    assert references(directory, OWN).resolve(tenant, variable, reference) == value


@pytest.mark.parametrize(
    ("tenant", "variable", "reference", "says"),
    [
        ("acme", "NOPE", "", "this node has no secret NOPE of tenant acme"),
        ("acme", "X", "file:theirs", r"this node has no secret X \(from file:theirs\) of tenant acme"),
        ("other", "KEY", "env:WANDB", "of tenant other"),
        ("acme", "X", "env:PATH", "of tenant acme"),
        ("acme", "X", "file:../other/theirs", "does not refer to a secret of this node"),
        ("acme", "X", "file:..", "does not refer to a secret"),
        ("acme", "X", "file:/etc/passwd", "does not refer to a secret"),
        ("acme", "X", "vault:a", "does not refer to a secret"),
        ("acme", "X", "file", "does not refer to a secret"),
        ("acme", "../../x", "", "cannot be the name of a secret"),
        ("acme", "A=B", "file:hf.key", "cannot be the name of a secret"),
        ("acme", "BINARY", "file:binary", "this node has no secret"),
    ],
)
def test_what_leads_nowhere_or_elsewhere_is_refused(directory, tenant, variable, reference, says):
    with pytest.raises(CannotStart, match=says) as refused:
        references(directory, OWN).resolve(tenant, variable, reference)
    assert refused.value.exit_code == 126


AMBIGUOUS = {
    "HEADRACE_SECRET_ACME__DEV__KEY": "of acme--dev, or of acme?",
    "HEADRACE_SECRET_ACME___KEY": "of acme-, or of acme?",
}


@pytest.mark.parametrize(("tenant", "name"), [("acme--dev", "KEY"), ("acme", "DEV__KEY"), ("acme-", "KEY"), ("acme", "_KEY")])
def test_a_variable_that_two_tenants_could_mean_is_given_to_neither_and_what_to_write_is_said(tenant, name):
    exact = exact_variable(tenant, name)
    with pytest.raises(CannotStart, match=f"the variable {exact} of its executor, of tenant {tenant}"):
        references("/nowhere", AMBIGUOUS).resolve(tenant, "X", f"env:{name}")
    assert references("/nowhere", AMBIGUOUS | {exact: "mine"}).resolve(tenant, "X", f"env:{name}") == "mine"


def test_every_pair_of_tenant_and_name_has_a_variable_of_its_own():
    tenants = ["".join(letters) for length in (1, 2, 3) for letters in product("ad-", repeat=length)]
    names = ["".join(letters) for length in (1, 2) for letters in product("A_d", repeat=length)]
    own = {pair: exact_variable(*pair) for pair in product(tenants, names)}
    assert len(set(own.values())) == len(own)
    short = {f"HEADRACE_SECRET_{tenant.upper().replace('-', '_')}__{name}" for tenant, name in own}
    read = Counter(
        text for text in short.union(own.values()) for pair in own if Environment({text: "x"}).value(*pair) is not None
    )
    assert max(read.values()) == 1


@pytest.mark.parametrize("provider", [Files("/nowhere"), Environment({})])
def test_every_provider_says_so_where_it_has_nothing(provider):
    assert provider.value("acme", "TOKEN") is None


def test_a_registry_has_a_login_of_the_tenant_which_no_variable_can_have(directory, tmp_path):
    (tmp_path / "acme" / "registry.ghcr.io").write_text("robot:t0ken\n")
    (tmp_path / "acme" / "registry.localhost_5000").write_text("no colon")
    found = references(directory, OWN)
    assert found.registry_login("acme", "ghcr.io/acme/trainer:1") == "robot:t0ken"
    assert found.registry_login("other", "ghcr.io/acme/trainer:1") == found.registry_login("acme", "trainer:1") == ""
    with pytest.raises(CannotStart, match="the secret registry.localhost_5000 of tenant acme is not USER:PASSWORD") as error:
        found.registry_login("acme", "localhost:5000/x")
    assert error.value.exit_code is None
    with pytest.raises(CannotStart, match="cannot be the name of a secret"):
        found.resolve("acme", "registry.ghcr.io")


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("trainer:1", "docker.io"),
        ("org/trainer", "docker.io"),
        ("ghcr.io/org/trainer@sha256:0", "ghcr.io"),
        ("localhost/x", "localhost"),
        ("host:5000/x", "host:5000"),
    ],
)
def test_an_image_names_its_registry_or_means_docker_hub(image, host):
    assert registry_of(image) == host
