"""NVIDIA's MPS: programs of several jobs share a GPU through a server of the driver, which refuses each what is beyond its part.

Strategy: one daemon for each device, started with the first lease that shares it and ended with the last. A client's limits of memory and
multiprocessors are in its environment, and the server's own limit is that of the largest part on the device. A client may lower its
limits, evade them in some drivers by naming a device that it does not see, or bypass the server; the last is prevented only by the
compute mode EXCLUSIVE_PROCESS, which an administrator may set. All of that is tested, and if any of it works the level is `cooperative`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping

import structlog

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import CannotEnclose, Enclosure, EnforcementRequest
from headrace.node_executor.enforcement.parts import part_of, threads
from headrace.node_executor.enforcement.probe_run import ProbeRun

CONTROL = "nvidia-cuda-mps-control"
PATIENCE = 15.0
TRIED = 2_048
"""Limit of the probe in MiB; more than a context takes."""
SOCKET_PATH_MAX = 107
"""Bytes of the path of a socket that the kernel accepts; with a longer one the daemon ends with exit code 1 and writes nothing."""
ESCAPE = "0={lower}M,1={more}M"
"""Limits that a client sets which tries to evade its own."""

_log = structlog.get_logger("headrace.node_executor")


class MpsMechanism:
    """Daemons for the GPUs of `devices`, with their pipes below `directory`, on a local file system; `trial` runs the probe."""

    name = "MPS"

    def __init__(self, devices: NvmlDevices, directory: str, program: str | None = None, trial: ProbeRun | None = None) -> None:
        self._devices = devices
        self._directory = directory
        self._program = program or shutil.which(CONTROL) or ""
        self._trial = trial or ProbeRun()
        self._level = ""
        self._leases: dict[str, dict[str, int]] = {}
        """MiB of each lease, by device."""

    def prove(self) -> str:
        """Return the level: the probe must be refused what is beyond its part; the level depends on whether it can evade the limit.

        The probe has a daemon of its own, because jobs of a former executor may be connected to theirs.
        """
        name = self._devices.least_used
        if not name or not self._program:
            return ""
        if not self._trial.is_roomy(TRIED, {"CUDA_VISIBLE_DEVICES": self._devices.gpu(name).uuid}):
            return ""  # tested first: a device in exclusive mode belongs to its server afterwards
        trial = MpsMechanism(self._devices, f"{self._directory}.probe-{os.getpid()}", self._program, self._trial)
        try:
            env = trial._begin(name, "probe", TRIED, 100)
        except CannotEnclose as error:
            _log.warning("no_mps", reason=str(error))
            return ""
        try:
            if not self._trial.is_held(TRIED, env):
                return ""
            self._level = "driver" if self._is_inescapable(self._devices.gpu(name).uuid, env) else "cooperative"
        finally:
            trial._end(name, "probe")
            shutil.rmtree(trial._directory, ignore_errors=True)
        return self._level

    def _is_inescapable(self, uuid: str, env: Mapping[str, str]) -> bool:
        """Return whether the limit also holds for clients that change their limits, or use the device without the server."""
        if not self._devices.nvml.is_exclusive(uuid):
            return False
        limit = ESCAPE.format(lower=TRIED // 2, more=2 * TRIED)
        if not self._trial.is_held(TRIED, {**env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit}):
            return False
        alone = self._trial.send(("take", "16"), {"CUDA_VISIBLE_DEVICES": uuid})
        return bool(alone) and alone[0] != 0

    def enclose(self, case: EnforcementRequest) -> Enclosure:
        """Connect a lease to the daemon of its device."""
        env: dict[str, str] = {}
        for share in case.shares:
            if share.units < GPU_UNITS:
                part = part_of(self._devices.gpu(share.device).memory, share.units)
                env = self._begin(share.device, case.lease, part, threads(share.units))
        return Enclosure(self._level or "cooperative", env)

    def adopt(self, case: EnforcementRequest) -> Enclosure:
        """Note a client of a former executor; its daemon runs on as well."""
        env: dict[str, str] = {}
        for share in case.shares:
            if share.units < GPU_UNITS:
                part = part_of(self._devices.gpu(share.device).memory, share.units)
                self._leases.setdefault(share.device, {})[case.lease] = part
                env = self._env(share.device, part, threads(share.units))
        return Enclosure(self._level or "cooperative", env)

    def open(self, lease: str) -> str:
        """Free its part; a daemon without clients is ended."""
        for device in [device for device, those in self._leases.items() if lease in those]:
            self._end(device, lease)
        return ""

    def _begin(self, device: str, lease: str, part: int, percent: int) -> dict[str, str]:
        pipe, env = f"{self._directory}/{device}", self._env(device, part, percent)
        those = self._leases.setdefault(device, {})
        if not those:
            for directory in (self._directory, pipe, f"{pipe}.log"):
                os.makedirs(directory, 0o711, exist_ok=True)
            os.chmod(pipe, 0o755)  # noqa: S103 - a server that belongs to the job's user has to pass
            self._start(_unlimited(env))
        those[lease] = part
        self._command(env, f"set_default_device_pinned_mem_limit 0 {max(those.values())}M")
        return env

    def _start(self, env: Mapping[str, str]) -> None:
        """Start the daemon, unless one of a former executor answers."""
        try:
            self._run(env, ("-d",))
        except CannotEnclose as error:
            try:
                self._command(env, "get_server_list")
            except CannotEnclose:
                size = len(os.fsencode(f"{env['CUDA_MPS_PIPE_DIRECTORY']}/control"))
                long = f"; the path of its socket has {size} bytes, and {SOCKET_PATH_MAX} are possible: give a shorter --data"
                raise CannotEnclose(f"{error}{long if size > SOCKET_PATH_MAX else ''}") from None

    def _env(self, device: str, part: int, percent: int) -> dict[str, str]:
        pipe = f"{self._directory}/{device}"
        return {
            "CUDA_VISIBLE_DEVICES": self._devices.gpu(device).uuid,
            "CUDA_MPS_PIPE_DIRECTORY": pipe,
            "CUDA_MPS_LOG_DIRECTORY": f"{pipe}.log",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={part}M",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent),
        }

    def _end(self, device: str, lease: str) -> None:
        those = self._leases.get(device, {})
        those.pop(lease, None)
        env = {"CUDA_MPS_PIPE_DIRECTORY": f"{self._directory}/{device}"}
        with contextlib.suppress(CannotEnclose):
            if those:
                self._command(env, f"set_default_device_pinned_mem_limit 0 {max(those.values())}M")
            else:
                self._command(env, "quit")

    def _command(self, env: Mapping[str, str], words: str) -> str:
        return self._run(env, (), f"{words}\n")

    def _run(self, env: Mapping[str, str], arguments: tuple[str, ...], words: str = "") -> str:
        surroundings = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "MOCK_NVML_STATE") if name in os.environ}
        try:
            done = subprocess.run(  # noqa: S603 - NVIDIA's own program
                [self._program, *arguments],
                env=surroundings | dict(env),
                input=words,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
                cwd="/",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotEnclose(f"the MPS daemon does not accept commands: {error}") from None
        if done.returncode:
            raise CannotEnclose(f"the MPS daemon refuses: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return done.stdout


def _unlimited(env: Mapping[str, str]) -> dict[str, str]:
    """Return a client's variables without limits: the daemon's environment."""
    limits = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    return {name: value for name, value in env.items() if name not in limits}
