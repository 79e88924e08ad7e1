"""Effects of a group's runtime rules on a job (R13): defaults, forced environment, mounts, secrets by reference. Pure.

Rules that forbid are in `guards`. Everything that the rules give is named in the fact, without values, so each use is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from headrace.contracts.documents.model import RuntimeRules
from headrace.contracts.messages.submissions import JobText

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.contracts.documents.model import Group
    from headrace.contracts.messages.submissions import JobSubmission
    from headrace.contracts.values.amounts import Amounts

NO_RULES = RuntimeRules()


def rules_of(group: Group | None) -> RuntimeRules:
    """The rules of a group; empty rules for a queue without a group."""
    return NO_RULES if group is None else group.runtime


def with_defaults(rules: RuntimeRules, submission: JobSubmission) -> JobSubmission:
    """The submission with the rules' default image if it names no image."""
    return (
        structs.replace(submission, image=rules.default_image) if rules.default_image and not submission.image else submission
    )


def default_request(rules: RuntimeRules, profile: Amounts) -> Amounts:
    """Request of a job that names no amounts: the rules' amounts, at most the profile's."""
    return {key: min(amount, profile[key]) for key, amount in rules.default_request.items() if profile.get(key)}


def text_of(rules: RuntimeRules, submission: JobSubmission) -> JobText:
    """Text that the node runs: the submission under the rules."""
    secret_env = (*submission.secret_env, *(name for name in rules.give_secrets if name not in submission.secret_env))
    return JobText(
        command=submission.command,
        env={**submission.env, **rules.env},
        secret_env=secret_env,
        image=submission.image,
        workdir=submission.workdir,
        on_abort=submission.on_abort,
        secrets={name: rules.secrets[name] for name in secret_env if name in rules.secrets},
        mounts=rules.mounts,
    )


def uses(rules: RuntimeRules, submission: JobSubmission, text: JobText) -> tuple[str, ...]:
    """Uses of the rules by a job, one line each, for the record; contains no value of a variable."""
    image = (_image(rules),) if rules.default_image and submission.image == rules.default_image else ()
    return (*image, *_variables(rules), *_secrets(text.secrets), *_mounts(rules))


def possible_uses(rules: RuntimeRules, *, contained: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Uses that the rules give every job, and those that they may give a job known only by its `contained`."""
    given = {name: rules.secrets[name] for name in rules.give_secrets if name in rules.secrets}
    always = {*_variables(rules), *_secrets(given), *_mounts(rules)}
    image = {_image(rules)} if rules.default_image and contained else set()
    return frozenset(always), frozenset(always | image | set(_secrets(rules.secrets)))


def _image(rules: RuntimeRules) -> str:
    return f"image {rules.default_image} by default"


def _variables(rules: RuntimeRules) -> tuple[str, ...]:
    return tuple(f"env {name} set" for name in sorted(rules.env))


def _secrets(references: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"secret {name} from {references[name]}" for name in sorted(references))


def _mounts(rules: RuntimeRules) -> tuple[str, ...]:
    return tuple(f"mount {mount.target}{' read-only' if mount.read_only else ''}" for mount in rules.mounts)
