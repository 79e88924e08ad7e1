"""Scenario files (interfaces page, Scenarios): governance documents, nodes, a timeline of events and expectations."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from headrace.contracts.documents import fields as w
from headrace.contracts.documents.forms import Form, FormError, Reading, Several, Shape, Table, read_as
from headrace.contracts.documents.model import Documents
from headrace.contracts.documents.reader import DOCUMENTS
from headrace.contracts.documents.tree import Path, Tree
from headrace.contracts.facts import AnyFact
from headrace.contracts.values.arrays import ArrayError, parse_array, parse_part
from headrace.contracts.values.durations import DAY, SECOND
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.contracts.values.isolation import LEVELS, UNABLE
from headrace.contracts.values.mig import family_of
from headrace.simulate.names import elements_named, numbered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.documents.forms import Complaint

T = TypeVar("T")

COUNT_MAX = 1_000_000
"""Maximum number of jobs, and of GPUs, of a whole scenario."""
NODES_MAX = 100_000
AT_MAX = 36_500 * DAY
"""Latest moment: moments of the ledger have to be numbers that every reader of JSON represents exactly."""
NOT_YET = "no job {} has been submitted by then; with a count they are NAME-1 ..."
JOB_STATES = ("pending", "running", "preempting", "stopping", "suspended", "succeeded", "failed", "cancelled", "rejected")


ON_A_NODE = (
    *("node_lost", "node_back", "cordon", "uncordon", "drain", "confirm_empty"),
    *("refuse_starts", "stall_starts", "allow_starts"),
)
"""Events of a node, by field name."""
GOVERNED = ("apply", "delete", "force", "cordon", "uncordon", "drain", "confirm_empty")
"""Events that governance may refuse."""


class ScenarioPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of everything that only scenarios have."""


class Nodes(ScenarioPart, frozen=True, kw_only=True):
    """`count` nodes called `name-1` ..., or one called `name`. cpu in cores, memory in MiB. `suspends`: they can suspend jobs (R29).

    `isolation`: how well they are taken to keep jobs apart; `containers`: the same of jobs with an image, if it is not as well.
    """

    name: str
    count: int = 1
    labels: dict[str, str] = {}
    gpus: int = 0
    gpu_model: str = "GPU"
    cpus: int = 128
    memory: int = 1024 * 1024
    mig: bool = False
    suspends: bool = True
    isolation: str = "hardware"
    containers: str = ""


class Submit(ScenarioPart, frozen=True, kw_only=True):
    """Jobs that are submitted at one moment: `name`, or `name-1` ... `name-count`. Without `tenant` it is the policy's.

    `after` names jobs that have to succeed first. Durations in microseconds.
    """

    name: str
    queue: str
    count: int = 1
    tenant: str = ""
    user: str = ""
    duration: int | None = None
    preemptible: bool = True
    priority: int = 0
    time_limit: int | None = None
    max_retries: int = 0
    abort_takes: int = 0
    checkpoint_every: int | None = None
    saves_on_abort: bool = False
    after: tuple[str, ...] = ()
    request: dict[str, str] = {}
    image: str = ""
    command: tuple[str, ...] = ("simulated",)
    array: str = ""
    """It is an array, written as in a submission; its elements are called `name-index`."""
    ends: tuple[tuple[int, int], ...] = ()
    """Set when a real history is replayed: the work and the exit code of each attempt that ended by itself; never in files."""


class Delete(ScenarioPart, frozen=True, kw_only=True):
    """An object to be deleted."""

    kind: str
    name: str
    mode: str = ""
    tenant: str = DEFAULT_TENANT


class Expect(ScenarioPart, frozen=True, kw_only=True):
    """What has to be true at a moment; amounts as in documents. `job_nodes`: `n-1, n-2`, the nodes of its replicas, by rank."""

    jobs: dict[str, str] = {}
    reasons: dict[str, str] = {}
    job_pools: dict[str, str] = {}
    job_nodes: dict[str, str] = {}
    pools: dict[str, dict[str, dict[str, str]]] = {}
    policies: dict[str, dict[str, dict[str, str]]] = {}
    preemptions: int | None = None


class Moment(ScenarioPart, frozen=True, kw_only=True):
    """One entry of the timeline: `at` in microseconds since the start, and one event.

    `cancel_many`: jobs, those of one user by one request. `elements`: the part of an array that a `cancel` or `requeue` is about.

    `begins`: when a `drain` begins, since the start.

    `refused`: governance has to refuse it, with this text in its message. From `refuse_starts` or `stall_starts` on until `allow_starts`,
    the node refuses its starts (R36), or never completes them. From `idle` or `busy` on the nodes of a job measure that it does not use its
    GPUs, or that it does (R39); before, they cannot tell.
    """

    at: int
    submit: Submit | None = None
    node_lost: str = ""
    node_back: str = ""
    cordon: str = ""
    uncordon: str = ""
    drain: str = ""
    confirm_empty: str = ""
    refuse_starts: str = ""
    stall_starts: str = ""
    allow_starts: str = ""
    cancel: str = ""
    cancel_many: tuple[str, ...] = ()
    requeue: str = ""
    elements: str = ""
    begins: int | None = None
    finish: str = ""
    fail: str = ""
    idle: str = ""
    busy: str = ""
    force: str = ""
    node_joins: Nodes | None = None
    apply: Documents | None = None
    delete: Delete | None = None
    refused: str = ""
    expect: Expect | None = None
    stated: tuple[AnyFact, ...] = ()
    """Set when a real history is replayed: the facts, stated `by` a writer (empty: admission); never in files."""
    by: str = ""


class Scenario(ScenarioPart, frozen=True, kw_only=True):
    """A scenario with its documents, nodes and timeline."""

    documents: Documents
    nodes: tuple[Nodes, ...] = ()
    timeline: tuple[Moment, ...] = ()


class _File(Documents, frozen=True, kw_only=True):
    """A file as it is written: the documents, and the parts that only scenarios have."""

    nodes: tuple[Nodes, ...] = ()
    timeline: tuple[Moment, ...] = ()


class _Anything(Form[str]):
    """Text of any kind, as written."""

    def read(self, written: object, at: Path, reading: Reading) -> str:  # noqa: ARG002  # a word needs no place
        """Return the text unchanged."""
        if not isinstance(written, str):
            raise FormError("write one word or number here")
        return written

    def write(self, value: str) -> object:
        """Return the text unchanged."""
        return value


def _any_key(key: str) -> str:
    return key


def _check_nodes(nodes: Nodes) -> Iterator[Complaint]:
    if nodes.mig and not family_of(nodes.gpu_model):
        yield ("mig",), f"a {nodes.gpu_model} cannot be cut into MIG slices; write gpu_model: H100-80GB, say"


def _check_submit(submit: Submit) -> Iterator[Complaint]:
    if submit.checkpoint_every is not None and submit.checkpoint_every < SECOND:
        yield ("checkpoint_every",), "write 1s or more, or leave it out"
    if submit.queue.count("/") != 1:
        yield ("queue",), f"invalid queue {submit.queue!r}; write <policy>/<profile>"
    if submit.array:
        try:
            parse_array(submit.array)
        except ArrayError as error:
            yield ("array",), str(error)
        if submit.count != 1:
            yield ("count",), "an array is one submission; leave count out"


def _check_moment(moment: Moment) -> Iterator[Complaint]:
    fields = (name for name in moment.__struct_fields__ if name not in ("at", "refused", "by", "elements", "begins"))
    events = [name for name in fields if getattr(moment, name) not in (None, "", ())]
    if not events:
        names = [name for name in MOMENT.forms if name not in ("at", "refused", "elements", "begins")]
        yield (), f"nothing happens here; write one of {', '.join(names)}"
    elif len(events) != 1:
        yield (), f"one thing happens in each entry, here are {len(events)}; write more entries with the same 'at'"
    elif moment.elements and not (moment.cancel or moment.requeue):
        yield ("elements",), "it names the part of an array for cancel or requeue; write it beside one of them"
    elif moment.begins is not None and (not moment.drain or moment.begins <= moment.at):
        yield ("begins",), "it says when a drain begins; write it beside drain, later than at"
    elif moment.elements and (wrong := _wrong_part(moment.elements)):
        yield ("elements",), wrong
    elif moment.refused and events[0] not in GOVERNED:
        yield (
            ("refused",),
            f"{events[0]} cannot be refused by governance; write it beside one of {', '.join(GOVERNED)}",
        )


def _wrong_part(text: str) -> str:
    try:
        parse_part(text)
    except ArrayError as error:
        return str(error)
    return ""


def _check_names(file: _File) -> Iterator[Complaint]:
    """Names are unique, and events refer to names that exist by then."""
    much = _too_much(file)
    if much is not None:
        yield much
        return
    nodes: set[str] = set()
    jobs: set[str] = set()
    for place, row in enumerate(file.nodes):
        yield from check_new_names("node", row, nodes, ("nodes", place, "name"))
    for place, moment in sorted(enumerate(file.timeline), key=lambda entry: entry[1].at):
        if moment.submit is not None:
            for name in moment.submit.after:
                if name not in jobs:
                    yield ("timeline", place, "submit", "after"), NOT_YET.format(name)
            yield from check_new_names("job", moment.submit, jobs, ("timeline", place, "submit", "name"))
        if moment.node_joins is not None:
            yield from check_new_names("node", moment.node_joins, nodes, ("timeline", place, "node_joins", "name"))
        for what, name in _named_jobs(moment):
            if name not in jobs:
                yield ("timeline", place, what), NOT_YET.format(name)
        for what in ON_A_NODE:
            if (name := getattr(moment, what)) and name not in nodes:
                yield ("timeline", place, what), f"node {name} does not exist; with a count they are NAME-1 ..."


def _named_jobs(moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield the jobs that events refer to, with the event."""
    for what in ("cancel", "requeue", "finish", "fail", "idle", "busy"):
        if name := getattr(moment, what):
            yield what, name
    yield from (("cancel_many", name) for name in moment.cancel_many)


def _too_much(file: _File) -> Complaint | None:
    """Return a complaint if the scenario is too large to run."""
    rows = (*file.nodes, *(moment.node_joins for moment in file.timeline if moment.node_joins is not None))
    nodes, gpus = sum(row.count for row in rows), sum(row.count * row.gpus for row in rows)
    jobs = sum(moment.submit.count for moment in file.timeline if moment.submit is not None)
    if nodes > NODES_MAX or gpus > COUNT_MAX:
        return ("nodes",), f"{nodes} nodes with {gpus} GPUs are too many; write at most {NODES_MAX} with {COUNT_MAX}"
    return (("timeline",), f"{jobs} jobs are too many; write at most {COUNT_MAX}") if jobs > COUNT_MAX else None


def check_new_names(sort: str, row: Nodes | Submit, taken: set[str], at: Path) -> Iterator[Complaint]:
    """Yield a complaint if a node or job of the row is in `taken` already; then add them to it."""
    names = numbered(row.name, row.count)
    if isinstance(row, Submit) and row.array:
        names += elements_named(row.name, row.array)
    again = next((name for name in names if name in taken), None)
    if again is not None:
        yield at, f"there is a {sort} {again} already; names are given once"
    taken.update(names)


_TEXT = _Anything()
_WORDS = Table(_TEXT, _any_key, "{name: value}")
_AMOUNTS = Table(Table(_WORDS, _any_key, "{gpu: {used: 9}}"), _any_key, "{onprem: {gpu: {used: 9}}}")
_STATES = Table(w.choice(*JOB_STATES), _any_key, "{job-1: running}")

NODES = Shape(
    Nodes,
    {
        "name": w.TOKEN,
        "count": w.whole(1, COUNT_MAX),
        "labels": w.LABELS,
        "gpus": w.whole(0, 1_024),
        "gpu_model": w.MODEL,
        "cpus": w.whole(0, 1_000_000),
        "memory": w.MEMORY_AMOUNT,
        "mig": w.FLAG,
        "suspends": w.FLAG,
        "isolation": w.choice(*LEVELS),
        "containers": w.choice(*LEVELS, UNABLE),
    },
    check=_check_nodes,
)
SUBMIT = Shape(
    Submit,
    {
        "name": w.TOKEN,
        "queue": _TEXT,
        "count": w.whole(1, COUNT_MAX),
        "tenant": w.TOKEN,
        "user": w.TOKEN,
        "duration": w.DURATION,
        "preemptible": w.FLAG,
        "priority": w.whole(-COUNT_MAX, COUNT_MAX),
        "time_limit": w.DURATION,
        "max_retries": w.whole(0, 1_000),
        "abort_takes": w.DURATION,
        "checkpoint_every": w.DURATION,
        "saves_on_abort": w.FLAG,
        "after": w.TOKENS,
        "request": _WORDS,
        "image": _TEXT,
        "command": Several(_TEXT, least=1),
        "array": _TEXT,
    },
    check=_check_submit,
)
DELETE = Shape(
    Delete,
    {
        "kind": w.choice("policy", "profile", "pool", "group", "tenant"),
        "name": w.TOKEN,
        "mode": w.choice("freeze", "drain", "cancel"),
        "tenant": w.TOKEN,
    },
)
EXPECT = Shape(
    Expect,
    {
        "jobs": _STATES,
        "reasons": _WORDS,
        "job_pools": _WORDS,
        "job_nodes": _WORDS,
        "pools": _AMOUNTS,
        "policies": _AMOUNTS,
        "preemptions": w.whole(),
    },
)
MOMENT = Shape(
    Moment,
    {
        "at": w.duration(AT_MAX),
        "submit": SUBMIT,
        **dict.fromkeys(ON_A_NODE, w.TOKEN),
        "cancel": w.TOKEN,
        "cancel_many": Several(w.TOKEN, least=1),
        "requeue": w.TOKEN,
        "elements": _TEXT,
        "begins": w.nullable(w.duration(AT_MAX)),
        "finish": w.TOKEN,
        "fail": w.TOKEN,
        "idle": w.TOKEN,
        "busy": w.TOKEN,
        "force": w.TOKEN,
        "node_joins": NODES,
        "apply": DOCUMENTS,
        "delete": DELETE,
        "refused": _TEXT,
        "expect": EXPECT,
    },
    check=_check_moment,
)
_FILE = Shape(_File, {**DOCUMENTS.forms, "nodes": Several(NODES), "timeline": Several(MOMENT)}, check=_check_names)


def read_scenario(tree: Tree) -> Scenario:
    """Read the scenario in a tree. Raises `DocumentErrors` with all errors, each with its line."""
    file = read_as(_FILE, tree)
    documents = Documents(**{name: getattr(file, name) for name in Documents.__struct_fields__})
    return Scenario(documents=documents, nodes=file.nodes, timeline=file.timeline)
