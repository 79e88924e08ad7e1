"""Status of the services as `headrace status` prints it; all of it if they run on other machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.bus.nats.permissions import CALLOUT_USER, STANDBY
from headrace.cli.arguments import Failed
from headrace.cli.output.formatting import as_json
from headrace.cli.output.tables import table
from headrace.contracts.messages.installation import InstallationView
from headrace.contracts.messages.queries import ServiceView

DETAIL_KEYS = ("jobs", "pending", "running", "facts_per_s", "verified", "sealed", "findings")


def show_services(title: Mapping[str, str], view: InstallationView, trouble: str, *, json: bool) -> int:
    """Print the status of each service of an installation that is not run by an `up` of this machine.

    `title`: where it is, `directory` or `server`. A standby that does not answer is left out. Raises `Failed` if a service is
    missing.
    """
    tip = view.tip
    rows = [status_row(name, one, tip) for name, one in view.services.items() if one is not None or not name.endswith(STANDBY)]
    if json:
        print(as_json({**title, "tip": tip, "parts": rows}))
    else:
        where = title["server"] if "server" in title else f"as {title['directory']} says where it is"
        print(f"Headrace {where}; the ledger ends at {tip}\n")
        keys = ("name", "state", "folded", "lag", "jobs", "pending", "running", "engine")
        print(table([key.upper() for key in ("part", *keys[1:])], ([row.get(key) for key in keys] for row in rows)))
    silent = [str(row["name"]) for row in rows if row["state"] == "silent"]
    wrong = [trouble] if trouble else [f"{', '.join(silent)}: no answer"] if silent else []
    if wrong := [*wrong, *troubles(rows), *found(rows)]:
        raise Failed("; ".join(wrong))
    return 0


def status_row(name: str, view: ServiceView | None, tip: int) -> dict[str, object]:
    """Row of one service."""
    if view is None:
        return {"name": name, "state": "silent"}
    row: dict[str, object] = {"name": name, "state": "standby" if view.detail.get("decides") == 0 else "running"}
    if name != CALLOUT_USER:  # it reads one subject, not the whole ledger
        row |= {"folded": view.folded, "lag": max(0, tip - view.folded)}
    row |= {"trouble": view.trouble} if view.trouble else {}
    return (
        row
        | {"engine": view.engine, "reads": view.reads}
        | {key: view.detail[key] for key in DETAIL_KEYS if key in view.detail}
    )


def troubles(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Problems of parts that work nevertheless, each with the names of the parts that report it."""
    by_trouble: dict[str, list[str]] = {}
    for row in rows:
        if row.get("trouble"):
            by_trouble.setdefault(str(row["trouble"]), []).append(str(row["name"]))
    return [f"{', '.join(names)}: {why}" for why, names in by_trouble.items()]


def found(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """A line with the number of findings of verification; empty if zero."""
    count = sum(count_in(row.get("findings")) for row in rows)
    if not count:
        return []
    what = "1 finding" if count == 1 else f"{count} findings"
    return [f"THE LEDGER IS NOT AS IT WAS WRITTEN OR DECIDED: {what}; `headrace audit verify` says what and where"]


def count_in(value: object) -> int:
    """The number; 0 if the value is not a number."""
    return value if isinstance(value, int) else 0
