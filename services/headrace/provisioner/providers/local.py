"""Provider `local`: an instance is a node executor on this machine, a process in a session of its own that outlives the provisioner.

Below its directory each instance has one of its own, named after it: `order.json` (its tags), `pid`, `log` and, once
it is gone, `ended`. To play that it is taken back, write `notice.json` there: `{"kind": "spot", "deadline": MICROSECONDS}`.
The process writes its own pid, into a file that must not exist yet: so one order makes one process, at
whatever moment the provisioner dies.

`faults.json` beside the instances is a switchboard for tests and rehearsals (`Faults`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.archive import atomic_files
from headrace.contracts.values.ids import is_token
from headrace.provisioner.providers import Created, Listed, NotAuthorized, ProviderAway, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.contracts.documents.model import Offer
    from headrace.provisioner.providers import OfferAsked, Order

NAME = "local"
DIRECTORY = "burst"
"""Directory of the provisioner in the installation's directory; instances are below it, by provider."""

NODES = "nodes"
"""Directory of the executors' data in the installation's directory."""

ENDS_WITHIN = 15.0
"""Seconds that an executor gets to end its jobs; then it is killed."""

KEPT = 86_400.0
"""Seconds for which the directory of an ended instance is kept, with its log."""

_BEGIN = 'read -r stat < /proc/$$/stat; set -C; echo "$stat" > "$0" || exit 0; set +C; exec "$@"'
"""Shell: write who we are into the file named first, unless it exists, and become the command that follows."""

_APART = f"/bin/sh -c '{_BEGIN}' \"$@\" &"
"""Shell: do that in the background, so that the process outlives this one, as a child of init."""


class Faults(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Faults to be played.

    `refuse`: code by offer (`*`: every offer). `away`, `unauthorized`: no call is answered. `lose_answers`: instances are made, and the
    answer is lost. `empty_list`: the list shows nothing. `dead`: instances end as soon as they have begun. `devices`: other ones than
    ordered. `prices`: of an hour, in millionths, by offer.
    """

    refuse: dict[str, str] = {}
    away: bool = False
    unauthorized: bool = False
    lose_answers: bool = False
    empty_list: bool = False
    dead: bool = False
    devices: str = ""
    prices: dict[str, int] = {}


class _Tags(msgspec.Struct, kw_only=True):
    instance: str
    installation: str
    token: str
    pool: str
    offer: str
    created_at: int


class LocalProvider:
    """The instances below one directory, with their executors' data below `nodes`, through which jobs of other accounts may pass.

    `why_not`: why jobs may not run on this machine; empty if they may.
    """

    def __init__(self, directory: Path, nodes: Path, installation: str, why_not: str = "") -> None:
        self._directory = directory
        self._nodes = nodes
        self._installation = installation
        self._why_not = why_not

    async def create(self, order: Order) -> Created | Refusal:
        """Start the process, or find the one that was started."""
        return await asyncio.to_thread(self._create, order)

    async def end(self, instance: str, provider_id: str, region: str) -> int:  # noqa: ARG002 - an instance is found by its name
        """Stop the process: first in order, then by killing it."""
        return await asyncio.to_thread(self._end, instance)

    async def list(self, regions: Sequence[str]) -> Sequence[Listed]:  # noqa: ARG002 - there is only this machine
        """The instances of this installation."""
        return await asyncio.to_thread(self._list)

    async def prices(self, offers: Sequence[Offer]) -> dict[str, int]:  # noqa: ARG002 - the switchboard names offers
        """The prices of the switchboard."""
        return (await asyncio.to_thread(self._faults)).prices

    async def check(self, offers: Sequence[OfferAsked]) -> dict[str, str]:
        """What the switchboard would refuse, and whether jobs may run here."""
        faults = await asyncio.to_thread(self._faults)
        codes = {offer.name: faults.refuse.get(offer.name, faults.refuse.get("*", "")) for offer, _ in offers}
        return {name: self._why_not or code for name, code in codes.items()}

    def _create(self, order: Order) -> Created | Refusal:
        faults = self._faults()
        if self._why_not:
            return Refusal("INVALID", self._why_not)
        place = self._directory / order.instance
        tags = self._tags(place)
        if tags is not None and tags.token != order.token:
            return Refusal("INVALID", f"instance {order.instance} was made by another order")
        if tags is None:
            code = faults.refuse.get(order.offer.name, faults.refuse.get("*", ""))
            if code:
                return Refusal(code, f"offer {order.offer.name}: switched off in {self._directory / 'faults.json'}")
            tags = _Tags(
                instance=order.instance,
                installation=self._installation,
                token=order.token,
                pool=order.pool,
                offer=order.offer.name,
                created_at=time.time_ns() // 1_000,
            )
            place.mkdir(0o700, parents=True, exist_ok=True)
            atomic_files.write(place / "order.json", msgspec.json.encode(tags), 0o600)
        if not (place / "pid").exists() and not (place / "ended").exists():
            self._begin(place, order, faults)
        if faults.lose_answers:
            raise ProviderAway("the answer was lost")
        return Created(f"{NAME}/{order.instance}", tags.created_at)

    def _begin(self, place: Path, order: Order, faults: Faults) -> None:
        if not order.environment:
            raise ProviderAway("its node has no login yet")
        devices = faults.devices or f"{order.node.gpus}x{order.node.gpu_model}{'+mig' if order.node.mig else ''}"
        command = [sys.executable, "-P", "-m", "headrace.node_executor", *order.arguments]
        command += [
            "--data",
            str(self._nodes / order.instance),
            "--devices",
            f"sim:{devices}",
            "--notice",
            str(place / "notice.json"),
        ]
        with (place / "log").open("ab") as log:
            subprocess.run(  # noqa: S603 - our own executor
                ["/bin/sh", "-c", _APART, "sh", str(place / "pid"), *(["/bin/true"] if faults.dead else command)],
                check=True,
                env=os.environ | order.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + ENDS_WITHIN
        while _read_stat(place / "pid") is None and time.monotonic() < deadline:
            time.sleep(0.005)

    def _end(self, instance: str) -> int:
        self._faults()
        place = self._directory / instance
        place.mkdir(0o700, parents=True, exist_ok=True)
        if (place / "ended").exists():
            return _read_number(place / "ended")
        end_process(place)
        at = time.time_ns() // 1_000
        atomic_files.write(place / "ended", str(at).encode(), 0o600)
        return at

    def _list(self) -> Sequence[Listed]:
        if self._faults().empty_list:
            return []
        found = []
        for place in sorted(self._directory.iterdir()) if self._directory.is_dir() else ():
            tags = self._tags(place) if is_token(place.name) else None
            if tags is None or tags.installation != self._installation:
                continue
            ended = (place / "ended").exists()
            if ended and time.time() - (place / "ended").stat().st_mtime > KEPT:
                shutil.rmtree(self._nodes / place.name, ignore_errors=True)
                shutil.rmtree(place, ignore_errors=True)
                continue
            begun = _read_stat(place / "pid") is not None
            runs = not ended and (not begun or bool(pid_of(place)))
            at = _read_number(place / "ended") if ended else 0
            found.append(Listed(tags.instance, f"{NAME}/{tags.instance}", tags.created_at, runs, ended_at=at))
        return found

    def _tags(self, place: Path) -> _Tags | None:
        try:
            return msgspec.json.decode((place / "order.json").read_bytes(), type=_Tags)
        except (OSError, msgspec.DecodeError):
            return None

    def _faults(self) -> Faults:
        try:
            faults = msgspec.json.decode((self._directory / "faults.json").read_bytes(), type=Faults)
        except FileNotFoundError:
            return Faults()
        except (OSError, msgspec.DecodeError) as error:
            raise ProviderAway(f"{self._directory / 'faults.json'}: {error}") from None
        if faults.unauthorized:
            raise NotAuthorized("switched off")
        if faults.away:
            raise ProviderAway("switched off")
        return faults


def pid_of(place: Path) -> int:
    """The process of an instance; 0 if it does not run: a process that has taken over its number does not count."""
    begun = _read_stat(place / "pid")
    now = _read_stat(Path(f"/proc/{begun.pid}/stat")) if begun is not None else None
    if begun is None or now is None or now.state in "ZX" or now.started != begun.started:
        return 0
    return begun.pid


class _Stat(NamedTuple):
    """A line of `/proc/PID/stat`, as far as it is needed: `started` in ticks since the machine began."""

    pid: int
    state: str
    started: str


def _read_stat(path: Path) -> _Stat | None:
    try:
        pid, _, rest = path.read_text("utf-8", "replace").partition(" ")
        fields = rest.rpartition(")")[2].split()
        return _Stat(int(pid), fields[0], fields[19])
    except (OSError, ValueError, IndexError):
        return None


def end_process(place: Path) -> None:
    """Stop the process of an instance in order, and kill it if it does not stop. Returns once it is gone."""
    for number, seconds in ((signal.SIGTERM, ENDS_WITHIN), (signal.SIGQUIT, ENDS_WITHIN / 3), (signal.SIGKILL, ENDS_WITHIN)):
        pid = pid_of(place)
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while pid_of(place) and time.monotonic() < deadline:
            time.sleep(0.05)


def end_all(directory: Path) -> None:
    """Stop the processes of all instances below a directory, as the installation is stopped."""
    places = sorted(directory.iterdir()) if directory.is_dir() else []
    for pid in filter(None, map(pid_of, places)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    for place in places:
        end_process(place)


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text("ascii").strip() or 0)
    except (OSError, ValueError):
        return 0
