"""Prepares what a job is started with from its order: directories, account, limits, secrets, environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from headrace.contracts.documents.model import Mount
from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.values.amounts import CPU, MEMORY
from headrace.contracts.values.ids import split_job_key
from headrace.contracts.values.networks import HOST
from headrace.node_executor.devices import Devices
from headrace.node_executor.files.workspace import Paths, Workspace
from headrace.node_executor.launch.environment import account_environment, job_environment
from headrace.node_executor.launch.secrets import SecretResolver
from headrace.node_executor.runtimes import COMMAND_UNUSABLE, CannotStart, Container
from headrace.node_executor.runtimes.container_request import device_names
from headrace.node_executor.system.accounts import Accounts, NumberTaken, UserAccount
from headrace.node_executor.system.cgroups import Groups, LeaseGroup, Limits


class Prepared(NamedTuple):
    """What a job is started with. `directory` is where it runs; `account`, `group`: see `runtimes.Launch`."""

    paths: Paths
    env: dict[str, str]
    directory: str
    account: UserAccount | None = None
    group: LeaseGroup | None = None
    container: Container | None = None


class Bounds(NamedTuple):
    """Accounts of jobs, their control groups (None: not available on this node), and the limit of processes for each replica."""

    accounts: Accounts
    groups: Groups | None = None
    pids: int = 0


class Preparation:
    """Prepares leases. `base` is what every job inherits; `secrets` resolves references in orders."""

    def __init__(
        self, workspace: Workspace, devices: Devices, base: Mapping[str, str], secrets: SecretResolver, bounds: Bounds
    ) -> None:
        self._workspace = workspace
        self._devices = devices
        self._base = base
        self._secrets = secrets
        self._bounds = bounds

    def prepare(self, order: StartOrder, traceparent: str) -> Prepared:
        """Make the directories and compose the environment. Raises `CannotStart`."""
        if order.workdir and not order.workdir.startswith("/"):
            raise CannotStart(f"the working directory {order.workdir} is not an absolute path", COMMAND_UNUSABLE)
        for mount in order.mounts:
            _check_mount(mount, contained=bool(order.image))
        secrets = self._values(order)
        login = self._secrets.registry_login(split_job_key(order.job)[0], order.image) if order.image else ""
        prepared = self._prepared(order, secrets, traceparent, login)
        try:
            self._bounds.accounts.claim(order.job, prepared.account)
        except NumberTaken as error:
            raise CannotStart(str(error)) from None
        except OSError as error:
            raise CannotStart(f"the node cannot note whose number this is: {error.strerror}") from None
        try:
            self._workspace.make(prepared.paths, prepared.account)
            self._workspace.hand_over(order, prepared.account)
        except OSError as error:
            raise CannotStart(f"the node cannot make the job's directories: {error.strerror}") from None
        if prepared.group is not None:
            self._make(prepared.group, order.amounts.get(CPU, 0), order.amounts.get(MEMORY, 0))
        return prepared

    def make_group(self, name: str) -> LeaseGroup | None:
        """Create a group of that name without limits of its own; None if this node has no groups. Raises `CannotStart`."""
        group = self._bounds.groups.group(name) if self._bounds.groups is not None else None
        if group is not None:
            self._make(group, 0, 0)
        return group

    def _make(self, group: LeaseGroup, cpu: int, memory: int) -> None:
        try:
            group.make(Limits(cpu, memory, self._bounds.pids))
        except OSError as error:
            group.remove()
            raise CannotStart(f"the node cannot hold the job to its limits: {error.strerror}") from None

    def close(self) -> None:
        """Remove the node's group if it is empty, as the executor stops."""
        if self._bounds.groups is not None:
            self._bounds.groups.close()

    def recall(self, order: StartOrder) -> Prepared:
        """Prepare a lease again that a former executor started, without secrets that no longer exist. Never raises."""
        try:
            secrets = self._values(order)
        except CannotStart:
            secrets = {}
        return self._prepared(order, secrets)

    def _prepared(self, order: StartOrder, secrets: Mapping[str, str], traceparent: str = "", login: str = "") -> Prepared:
        paths, groups = self._workspace.paths(order), self._bounds.groups
        account = self._bounds.accounts.of(order.job, order.account)
        if account is not None and order.devices:
            account = account.with_devices(self._devices.nodes(order.devices))
        base = self._base if account is None else {**self._base, **account_environment(account, paths)}
        env = job_environment(order, paths, base, self._devices.environment(order.devices), secrets, traceparent)
        name, directory = self._workspace.name(order), order.workdir or paths.work
        if order.image:
            return Prepared(paths, env, directory, account, None, self._container(order, paths, name, login))
        return Prepared(paths, env, directory, account, groups.group(name) if groups is not None else None)

    def _container(self, order: StartOrder, paths: Paths, name: str, login: str) -> Container:
        """The container of a lease: its directories and what it was granted."""
        return Container(
            image=order.image,
            binds=tuple(path for path in (paths.control, paths.checkpoints) if path),
            devices=device_names(self._devices, order.devices, name),
            nodes=self._devices.nodes(order.devices),
            cpu=order.amounts.get(CPU, 0),
            memory=order.amounts.get(MEMORY, 0),
            pids=self._bounds.pids,
            mounts=order.mounts,
            login=login,
            network=order.network or HOST,
        )

    def _values(self, order: StartOrder) -> dict[str, str]:
        if not order.secret_env:
            return {}
        tenant = split_job_key(order.job)[0]
        return {name: self._secrets.resolve(tenant, name, order.secrets.get(name, "")) for name in order.secret_env}


def _check_mount(mount: Mount, *, contained: bool) -> None:
    """Raise `CannotStart` if a job without a container asks for a mount at another path: it sees the node's directories where they are."""
    if mount.source != mount.target and not contained:
        raise CannotStart(f"only a container can show {mount.source} at {mount.target}: submit the job with an image")
    if not os.path.isdir(mount.source):
        raise CannotStart(f"this node has no directory {mount.source}, which the group's rules have the job find")
