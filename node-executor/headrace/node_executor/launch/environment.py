"""The environment of a job: a few variables of the executor, those of the job's owner, and those of Headrace. Pure.

Strategy: a variable of the executor's own environment is passed on only if it is named here or by the operator, so that no credential and
no `LD_PRELOAD` gets through. Variables that decide over devices or belong to Headrace cannot be set by the owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from zlib import crc32

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.values.amounts import GPU, GPU_UNITS, format_amount
from headrace.contracts.values.ids import array_of, index_of, split_job_key
from headrace.contracts.values.networks import NONE, PRIVATE
from headrace.node_executor.files.workspace import Paths
from headrace.node_executor.system.accounts import UserAccount

INHERITED = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
_INHERITED_PREFIX = "LC_"

RESUME_FROM = "HEADRACE_RESUME_FROM"

_FORBIDDEN = frozenset({"LD_PRELOAD", "LD_AUDIT"})
_FORBIDDEN_PREFIXES = (
    "HEADRACE_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MPS_",
    "NVIDIA_",
    "ROCR_VISIBLE",
    "HIP_VISIBLE",
    "GPU_DEVICE_ORDINAL",
)

_PORT_FIRST, _PORTS = 20_000, 10_000  # below the range of ports that the kernel assigns


def inherited(own: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The part of the executor's environment that every job gets: `INHERITED`, the locale, and the operator's `more`."""
    names = INHERITED | set(more)
    return {name: value for name, value in own.items() if name in names or name.startswith(_INHERITED_PREFIX)}


def job_environment(
    order: StartOrder,
    paths: Paths,
    base: Mapping[str, str],
    devices: Mapping[str, str],
    secrets: Mapping[str, str],
    traceparent: str = "",
) -> dict[str, str]:
    """All variables of the job: `base`, then the owner's, then the secrets, then Headrace's (interfaces page, The client)."""
    owner = {name: value for name, value in (*order.env.items(), *secrets.items()) if _may_set(name)}
    return {
        **base,
        **owner,
        **devices,
        **_ours(order, paths),
        **_gang(order),
        **({"HEADRACE_TRACEPARENT": traceparent} if traceparent else {}),
    }


def account_environment(account: UserAccount, paths: Paths) -> dict[str, str]:
    """Variables of the account that a job runs under: its name, and a home directory that it may use."""
    return {"HOME": paths.work or paths.control, "USER": account.name, "LOGNAME": account.name, "SHELL": "/bin/sh"}


def callback_environment(job: Mapping[str, str], paths: Paths, pid: int, deadline: int) -> dict[str, str]:
    """The job's variables, and the callback's deadline: Unix time in whole seconds, rounded down.

    The path of the preempt file is the direct one: that the callback reads the file says nothing about the job.
    """
    notice = {"HEADRACE_PREEMPT_FILE": paths.preempt, "HEADRACE_PREEMPT_DEADLINE": str(deadline // 1_000_000)}
    return {**job, **notice, "HEADRACE_JOB_PID": str(pid)}


def _may_set(name: str) -> bool:
    return bool(name) and "=" not in name and name not in _FORBIDDEN and not name.startswith(_FORBIDDEN_PREFIXES)


def _ours(order: StartOrder, paths: Paths) -> dict[str, str]:
    return {
        "HEADRACE_JOB_ID": split_job_key(order.job)[2],
        "HEADRACE_JOB_NAME": order.name,
        "HEADRACE_QUEUE": order.queue,
        "HEADRACE_ATTEMPT": str(order.attempt),
        "HEADRACE_CHECKPOINT_DIR": paths.checkpoints,
        RESUME_FROM: order.resume_from,
        "HEADRACE_PREEMPT_FILE": paths.polled,
        "HEADRACE_FINISHED_FILE": paths.finished,
        "HEADRACE_CONTROL_DIR": paths.control,
        "HEADRACE_DEVICES": ",".join(_share(share) for share in order.devices),
        **_array(order),
    }


def _array(order: StartOrder) -> dict[str, str]:
    """Variables that tell an element its index and the extent of its array; empty for any other job."""
    array = order.array
    if array is None:
        return {}
    return {
        "HEADRACE_ARRAY_ID": split_job_key(array_of(order.job))[2],
        "HEADRACE_ARRAY_INDEX": str(index_of(order.job)),
        "HEADRACE_ARRAY_COUNT": str(array.count),
        "HEADRACE_ARRAY_FIRST": str(array.first),
        "HEADRACE_ARRAY_LAST": str(array.last),
        "HEADRACE_ARRAY_STEP": str(array.step),
    }


def _share(share: DeviceShare) -> str:
    """Format a share: `gpu3`, `gpu3:0.5` for a part, or `gpu3:3g.40gb@4` for a slice."""
    if share.mig:
        return share.label
    if share.units == GPU_UNITS:
        return share.device
    return f"{share.device}:{format_amount(GPU, share.units)}"


def _gang(order: StartOrder) -> dict[str, str]:
    """Addresses of the replicas and where they meet (R35). Without a port in the first address, all compute the same one.

    Replicas that are all on this node meet on the loopback address, which needs no name to be resolved. Those in containers with networks
    of their own meet nowhere (R44), and get no addresses.
    """
    rank, replicas = str(order.rank), str(order.replicas)
    numbers = {"HEADRACE_RANK": rank, "HEADRACE_REPLICAS": replicas, "RANK": rank, "WORLD_SIZE": replicas}
    if order.image and order.network in (PRIVATE, NONE) and order.replicas > 1:
        return numbers
    first = order.peers[0] if len(set(order.peers)) > 1 else "127.0.0.1"
    host, colon, port = first.rpartition(":")
    if not (colon and port.isdecimal()):
        host, port = first, str(_PORT_FIRST + crc32(f"{order.job}/{order.attempt}".encode()) % _PORTS)
    return {**numbers, "HEADRACE_PEERS": ",".join(order.peers), "MASTER_ADDR": host, "MASTER_PORT": port}
