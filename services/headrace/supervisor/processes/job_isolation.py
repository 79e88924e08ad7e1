"""Whether jobs of this installation's nodes are isolated from it and from each other, and who may log in if they are not.

Jobs of simulated nodes run on this machine. If they run as the account that started `up`, each of them can read that account's files: the
owner's login, the keys, the files of all other jobs. That is harmless while only the owner submits, so others cannot log in then unless
the owner states that all users are trusted with everything.
"""

from __future__ import annotations

import os
import pwd

from headrace.contracts.own_accounts import why_shared
from headrace.identity.providers import ISSUERS
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.network.ports import LOOPBACK

FLAG = "--jobs-are-trusted"
WAY_OUT = f"Start it as root, or say {FLAG} if you trust all users who will submit"


def why_not_isolated(installation: Installation, settings: Settings) -> str:
    """Return why jobs run as the account of `up`; "" if they are isolated or none run here: other executors isolate theirs."""
    if not settings.nodes:
        return ""
    why = why_shared(str(installation.node_directory(settings.host)))
    if not why:
        return ""
    return f"they run as {_we()}: {why}"


def local_jobs(installation: Installation, settings: Settings) -> str:
    """Return as whom jobs of instances of provider `local` run: `own` or `self`; "" if none may run here.

    If they cannot be kept apart, they may only while the owner is the only one who submits, or all users are trusted.
    """
    if not why_shared(str(installation.node_directory(settings.host))):
        return "own"
    return "self" if why_owner_only(installation, settings) or settings.jobs_are_trusted else ""


def why_owner_only(installation: Installation, settings: Settings) -> str:
    """Return why only the owner and administrators can log in; empty if others can."""
    return "" if settings.jobs_are_trusted else why_not_isolated(installation, settings)


def check(installation: Installation, settings: Settings) -> None:
    """Raise `InstallationError` if others could log in who must not."""
    why = why_owner_only(installation, settings)
    if not why:
        return
    way_out = f"jobs here are not kept apart ({why}), so every user who submits one has access to all that you have. {WAY_OUT}"
    if settings.listen != LOOPBACK:
        raise InstallationError(f"--listen: {way_out}")
    if (installation.directory / ISSUERS).exists():
        raise InstallationError(f"{installation.directory / ISSUERS} lets others in: {way_out}")


def summary(installation: Installation, settings: Settings) -> str:
    """Return one line about it, for `status`."""
    why = why_not_isolated(installation, settings)
    if not why:
        return (
            "each user's run as an account of their own"
            if settings.nodes
            else "none run here; other executors look after theirs"
        )
    if settings.jobs_are_trusted:
        return f"not kept apart ({why}), and trusted ({FLAG}): every user who submits one has access to all that {_we()} has"
    return f"not kept apart ({why}), so only the owner and administrators can log in. {WAY_OUT}"


def _we() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"account {os.geteuid()}"
