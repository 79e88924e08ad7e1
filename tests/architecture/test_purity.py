"""Fold, decide, act never mix: only the modules named here touch clocks, chance, files, processes, sockets, logs or the loop.

The linter of imports draws the lines between packages; this draws the line inside them. Whatever is not named a shell is pure, and
pure modules import no shell, so that everything that is decided can be replayed.
"""

from __future__ import annotations

import ast

from tests.architecture.tree import imported, module_name, parsed, sources

WORLD = {
    "asyncio", "asyncpg", "concurrent", "datetime", "fcntl", "http", "io", "logging", "multiprocessing", "nats", "opentelemetry", "os",
    "pathlib", "psutil", "pty", "pynvml", "random", "secrets", "select", "shutil", "signal", "socket", "sqlite3", "structlog",
    "subprocess", "sys", "tempfile", "termios", "threading", "time", "urllib", "uuid", "uvloop", "zoneinfo",
}  # fmt: skip

SHELLS = (
    "headrace.bus",  # everything asynchronous starts here
    "headrace.nats_client",  # the connection to NATS
    "headrace.health",  # answers over HTTP
    "headrace.archive",  # reads and writes files
    "headrace.service",  # the loop around a pure decider
    "headrace.host",  # starts services as a process
    "headrace.supervisor",  # starts and watches processes
    "headrace.cli",  # speaks to people
    "headrace.demo",  # plays the worked example with real processes
    "headrace.client",  # runs in other people's programs
    "headrace.node_executor",  # runs processes; its core is pure, see PURE_AGAIN
    "headrace.contracts.values.durations",  # writes moments as dates; never asks what time it is
    "headrace.contracts.own_accounts",  # looks whether this machine can use them
    "headrace.contracts.transport.tls",  # reads the certificates of authorities
    "headrace.contracts.documents.file",  # reads documents and scenarios
    "headrace.contracts.schemas.protos",  # runs protoc
    "headrace.contracts.schemas.generate",  # writes the generated files
    "headrace.governance.level_upgrade",  # listens who is there
    "headrace.governance.node_exclusion",  # has connections ended
    "headrace.governance.missing_keys",  # looks at the keys on the disk
    "headrace.audit.archiving",  # looks at the disk, and archives
    "headrace.audit.seal_store",  # the files that are kept apart
    "headrace.audit.verify_reading",  # reads the log
    "headrace.audit.verify_watch",  # follows it, and states seals
    "headrace.simulate.run_pair",  # plays two worlds in two processes
    "headrace.simulate.whatif_worker",  # reads the ledger
    "headrace.simulate.whatif_process",  # follows it, and forks for each question
    "headrace.simulate.parent_death",  # asks the system for a signal
    "headrace.simulate.command",  # reads the scenario file
    "headrace.simulate.ledger_window",  # has two worlds played
    "headrace.simulate.whatif",  # plays two worlds
    "headrace.simulate.virtual_system",  # feeds the in-memory log, in virtual time
    "headrace.simulate.world",  # plays a timeline on it
    "headrace.accounting.storage.ledger_copy",  # reads the copy of the records
    "headrace.accounting.storage.database",  # the books' database
    "headrace.accounting.storage.schema",  # makes its tables
    "headrace.accounting.storage.store",  # writes the books
    "headrace.accounting.reports.history",  # reads the records
    "headrace.accounting.books.periods",  # reads the time zone database
    "headrace.accounting.reports.usage_reader",  # reads the books
    "headrace.accounting.storage.batching",  # reads the log
    "headrace.accounting.sampling",  # hears the samples of nodes
    "headrace.accounting.storage.load_store",  # writes their sums
    "headrace.accounting.reports.load_reader",  # reads them
    "headrace.accounting.reports.invoice_query",  # reads a month of them
    "headrace.accounting.reports.usage",  # answers from them
    "headrace.accounting.reports.preemptions",  # answers from them
    "headrace.accounting.reports.timeline",  # answers from them
    "headrace.accounting.reports.statement_pieces",  # keeps what was answered
    "headrace.identity.owner",  # reads the login of the installation's owner
    "headrace.governance.time_zones",  # reads the time zone database
    "headrace.callout",  # answers the NATS server
    "headrace.governance.api",  # answers calls; what needs no call is pure, see PURE_AGAIN
    "headrace.identity.pii",  # opens what is sealed, which takes a key from the store
    "headrace.identity.jwks",  # fetches the keys of providers
    "headrace.identity.providers",  # reads who they are
    "headrace.identity.signing",  # keeps the keys of the embedded issuer
    "headrace.identity.verifier",  # looks at the clock
    "headrace.feed.publisher",  # publishes
    "headrace.views.state_at",  # reads the ledger again
    "headrace.views.queries",  # answers
    "headrace.views.past_queries",  # answers
    "headrace.views.history_backfill",  # reads the ledger again
    "headrace.views.live_views",  # hears nodes
    "headrace.audit.snapshotter",  # follows the ledger, keeps objects
    "headrace.audit.ledger_writer",  # appends
    "headrace.provisioner.acting",  # calls providers
    "headrace.provisioner.providers",  # are providers
    "headrace.kubernetes.acting",  # calls the API server
    "headrace.kubernetes.api",  # is these calls
    "headrace.kubernetes.ledger_access",  # connects to NATS and the API
    "headrace.kubernetes.watching",  # follows the API server
    "headrace.kubernetes.webhook",  # answers it
    "headrace.feed.sealed_text_cache",  # opens sealed texts, which takes a key from the store
)
"""Modules, and packages with all that is in them, that touch the world. A service's `service` and `__main__` always do."""

PURE_AGAIN = (
    "headrace.health.metrics",
    "headrace.node_executor.core",
    *(
        f"headrace.governance.api.{name}"
        for name in ("errors", "filters", "filter_fields", "masks", "messages", "names", "paging")
    ),
)

HARMLESS_SHELLS = ("headrace.contracts.values.durations",)
"""Shells that a pure module may import, because what they give depends on their arguments only."""

NO_FLOATS = (
    "headrace.domain",
    "headrace.allocator",
    "headrace.preemption",
    "headrace.provisioner.decide",
    "headrace.kubernetes",
    "headrace.contracts.values.amounts",
)


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def is_shell(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last in ("service", "__main__") or (within(name, SHELLS) and not within(name, PURE_AGAIN))


def pure_sources() -> list[str]:
    return [path for path in sources() if not is_shell(module_name(path))]


def test_pure_modules_do_not_touch_the_world():
    touching = {
        f"{module_name(path)} imports {name}"
        for path in pure_sources()
        for name in imported(path)
        if name.partition(".")[0] in WORLD
    }
    assert sorted(touching) == [], "move it to the service's shell, or name the module in SHELLS with its reason"


def test_pure_modules_import_no_shell():
    modules = {module_name(path) for path in sources()}
    leaning = {
        f"{module_name(path)} imports {name}"
        for path in pure_sources()
        for name in imported(path)
        if name in modules and is_shell(name) and not within(name, HARMLESS_SHELLS)
    }
    assert sorted(leaning) == []


def test_every_shell_that_is_named_is_there():
    modules = [module_name(path) for path in sources()]
    assert [shell for shell in SHELLS if not any(within(name, (shell,)) for name in modules)] == []


def test_no_rule_uses_a_float():
    """R1: no float in any rule. A float would come in as a literal, as `float(...)` or out of `/`."""
    found = [
        f"{path}:{node.lineno}"
        for path in pure_sources()
        if within(module_name(path), NO_FLOATS)
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Constant) and isinstance(node.value, float))
        or (isinstance(node, ast.Name) and node.id == "float")
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))
    ]
    assert found == []
