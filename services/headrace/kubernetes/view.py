"""What the bridge sees in one round, and the steps that it may take. Values without behaviour.

Each step is conditional: on the version of its pod, or on the last record of its node. A step that comes too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.nodes import NodeRegisteredV1
from headrace.contracts.messages.orders import NodeAnswer
from headrace.contracts.messages.queries import JobView
from headrace.contracts.messages.submissions import JobSubmission
from headrace.kubernetes.objects import KubernetesNode, Pod


class View(NamedTuple):
    """Pods, nodes and ledger, as seen in one round.

    `accounts`: by namespace the service account `tenant.user` of its jobs. `answers`: by node what should run there; a node that was not
    answered is missing. `jobs`: by job key; None for a job that the ledger does not know; a job that could not be asked about is missing.
    `listed`: accounts whose jobs that have not ended are all in `jobs`. `registered`: by node what this process has stated of it last.
    `foreign`: by node the GPUs that pods of others take. `lacking`: by key of a job without its pods the moment since when this process has
    seen it so; `doubted`: by uid of a pod whose grant no answer knows, the same. `now` and moments: microseconds.
    """

    cluster: str
    accounts: Mapping[str, str]
    pods: tuple[Pod, ...]
    nodes: tuple[KubernetesNode, ...]
    answers: Mapping[str, NodeAnswer]
    jobs: Mapping[str, JobView | None]
    listed: frozenset[str]
    registered: Mapping[str, NodeRegisteredV1]
    foreign: Mapping[str, int]
    lacking: Mapping[str, int]
    doubted: Mapping[str, int]
    now: int


class Assign(NamedTuple):
    """Label a gated pod with its job and rank."""

    pod: Pod
    job: str
    rank: int


class Submit(NamedTuple):
    """Submit a job to a queue for the account of a namespace."""

    namespace: str
    queue: str
    submission: JobSubmission


class Cancel(NamedTuple):
    """Ask that a job of a namespace's account ends."""

    namespace: str
    job: str
    reason: str


class Ungate(NamedTuple):
    """Take the gate off: the pod may be placed on this node, for this grant."""

    pod: Pod
    node: str
    attempt: int
    granted: int


class Evict(NamedTuple):
    """End a pod whose lease is to stop, with this many seconds between SIGTERM and SIGKILL. `why`: if it is a lease that it has no more."""

    pod: Pod
    grace: int
    why: str = ""


class Delete(NamedTuple):
    """Delete a pod that may run and never had a lease, with the same."""

    pod: Pod
    grace: int
    why: str


class Release(NamedTuple):
    """Take the finalizer off: how the pod ended is in the ledger."""

    pod: Pod


class SetCondition(NamedTuple):
    """Set the pod's condition, and write an event."""

    pod: Pod
    status: str
    reason: str
    message: str


class Absent(NamedTuple):
    """A pod that is not there: that of one replica of one attempt of a job, by its id."""

    namespace: str
    job: str
    attempt: int
    rank: int


class State(NamedTuple):
    """State facts of a node in one record, behind its last one. `absent`: pods that are looked for once more before."""

    node: str
    facts: tuple[AnyFact, ...]
    last_record: int
    as_of: int
    log_time: int
    absent: tuple[Absent, ...] = ()


Step = Assign | Submit | Cancel | Ungate | Evict | Delete | Release | SetCondition | State
