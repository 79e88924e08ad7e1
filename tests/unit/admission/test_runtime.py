"""What a group's rules make of a job."""

from __future__ import annotations

import pytest

from headrace.admission.runtime import default_request, rules_of, text_of, uses, with_defaults
from headrace.contracts.documents.model import Group, Mount, RuntimeRules
from headrace.contracts.messages.submissions import JobSubmission, JobText

RULES = RuntimeRules(
    env={"HF_HOME": "/data/hf", "MODE": "team"},
    secrets={"TOKEN": "file:hf", "KEY": "env:WANDB"},
    give_secrets=("TOKEN",),
    mounts=(Mount(source="/data", target="/data"), Mount(source="/out", target="/out", read_only=False)),
    default_image="base:1",
    default_request={"gpu": 63_000, "memory": 512, "license/x": 1},
)


def submission(**fields):
    return JobSubmission(id="x", command=("python",), **fields)


def test_a_job_gets_what_the_rules_give_and_keeps_its_own_else():
    completed = with_defaults(
        RULES, submission(env={"MODE": "mine", "SEED": "7"}, secret_env=("KEY",), workdir="/w", on_abort=("save",))
    )
    assert text_of(RULES, completed) == JobText(
        command=("python",),
        env={"MODE": "team", "SEED": "7", "HF_HOME": "/data/hf"},
        secret_env=("KEY", "TOKEN"),
        image="base:1",
        workdir="/w",
        on_abort=("save",),
        secrets={"KEY": "env:WANDB", "TOKEN": "file:hf"},
        mounts=RULES.mounts,
    )


def test_what_is_used_is_named_without_a_value():
    completed = with_defaults(RULES, submission(secret_env=("KEY",)))
    uses_named = uses(RULES, completed, text_of(RULES, completed))
    assert uses_named == (
        "image base:1 by default",
        "env HF_HOME set",
        "env MODE set",
        "secret KEY from env:WANDB",
        "secret TOKEN from file:hf",
        "mount /data read-only",
        "mount /out",
    )
    assert not [line for line in uses_named if "/data/hf" in line or "team" in line]


def test_a_job_that_names_an_image_keeps_it():
    assert with_defaults(RULES, submission(image="mine:2")).image == "mine:2"


def test_a_group_without_rules_changes_nothing():
    submitted = submission(env={"A": "b"}, secret_env=("X",))
    rules = rules_of(None)
    assert rules_of(Group(name="g")) == rules
    assert with_defaults(rules, submitted) is submitted
    assert text_of(rules, submitted) == JobText(command=("python",), env={"A": "b"}, secret_env=("X",))
    assert (uses(rules, submitted, text_of(rules, submitted)), default_request(rules, {"gpu": 1})) == ((), {})


@pytest.mark.parametrize(
    ("profile", "asked"),
    [
        ({"gpu": 126_000}, {"gpu": 63_000}),
        ({"gpu": 12_600, "memory": 4_096}, {"gpu": 12_600, "memory": 512}),
        ({"cpu": 1_000}, {}),
    ],
)
def test_a_job_that_asks_for_nothing_asks_for_the_usual_as_far_as_the_profile_has_it(profile, asked):
    assert default_request(RULES, profile) == asked
