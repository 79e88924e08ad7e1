from __future__ import annotations

import pytest

from headrace.admission.guards import against_rules, too_fast
from headrace.contracts.documents.model import Group, RuntimeRules, SubmitRate, Tenant
from headrace.contracts.messages.submissions import JobSubmission
from headrace.domain.state.state import GovernanceObject, State

NOW = 1_000_000_000


def refusal_of(image: str = "", command: str = "python3", **rules: tuple[str, ...]) -> str | None:
    submission = JobSubmission(id="x", command=(command, "train.py"), image=image)
    rejection = against_rules(Group(name="ml", runtime=RuntimeRules(**rules)), submission)
    return None if rejection is None else f"{rejection.reason} {rejection.message}"


def test_without_rules_and_without_a_group_everything_may_run():
    assert refusal_of("anything:latest") is None
    assert against_rules(None, JobSubmission(id="x", command=("rm",))) is None


@pytest.mark.parametrize(
    ("image", "rules", "why"),
    [
        ("hub/ml/a:1", {"allow_images": ("hub/ml/*",)}, None),
        ("evil/a", {"allow_images": ("hub/ml/*", "lab/?")}, "image: group ml does not allow image evil/a: it allows hub/ml/*, lab/?"),
        ("", {"allow_images": ("hub/*",)}, "image: group ml does not allow a job without an image: it allows hub/*"),
        ("", {"allow_images": ("hub/*", "")}, None),
        ("hub/a:0", {"allow_images": ("hub/*",), "deny_images": ("*:0",)}, "image: group ml does not allow image hub/a:0: it denies *:0"),
    ],
)  # fmt: skip
def test_images_by_pattern_deny_before_allow(image, rules, why):
    assert refusal_of(image, **rules) == (None if why is None else f"RUNTIME_RULE {why}")


def test_commands_by_their_first_word():
    rules = {"allow_commands": ("python*", "/opt/*"), "deny_commands": ("python2*",)}
    assert refusal_of(**rules) is None
    assert (
        refusal_of(command="bash", **rules) == "RUNTIME_RULE command: group ml does not allow bash: it allows python*, /opt/*"
    )
    assert (
        refusal_of(command="python2.7", **rules)
        == "RUNTIME_RULE command: group ml does not allow python2.7: it denies python2*"
    )


@pytest.mark.parametrize(
    ("fields", "rules", "why"),
    [
        ({"env": {"SEED": "7"}}, {"deny_env": ("LD_*",)}, None),
        ({"env": {"LD_PRELOAD": "x"}}, {"deny_env": ("LD_*",)}, "env: group ml does not allow LD_PRELOAD to be set: it denies LD_*"),
        ({"secret_env": ("ANY",)}, {}, None),
        ({"secret_env": ("HF",)}, {"secrets": {"HF": "file:hf"}}, None),
        ({"secret_env": ("X",)}, {"secrets": {"HF": "file:hf"}}, "secret_env: group ml has no secret X; it has HF"),
    ],
)  # fmt: skip
def test_variables_and_secrets_are_those_that_the_group_allows(fields, rules, why):
    rejection = against_rules(Group(name="ml", runtime=RuntimeRules(**rules)), JobSubmission(id="x", command=("a",), **fields))
    assert (None if rejection is None else rejection.message) == why


def test_a_pattern_that_is_hard_to_match_takes_no_time():
    assert refusal_of("a" * 10_000, deny_images=("*a" * 60 + "b",)) is None


def test_a_tenant_that_is_too_fast_is_told_when_to_come_back():
    state = State(now=NOW)
    assert too_fast(state, "default", NOW, 1_000_000) is None
    tenant = Tenant(name="default", submit_rate=SubmitRate(per_second=2, burst=3))
    state.tenants["default"] = GovernanceObject(tenant, 1)
    assert too_fast(state, "default", NOW, 2) is None
    rejection, wait = too_fast(state, "default", NOW, 3)
    assert (rejection.reason, wait) == ("TOO_FAST", 500_000)
    assert rejection.message == "tenant default may submit 2 jobs a second; try again in 500ms"
