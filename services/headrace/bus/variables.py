"""Environment variables of a service, and the exit codes by which its supervisor knows how it ended.

They are apart from `process`, because commands that start nothing read them as well and need neither logs nor a connection.
"""

from __future__ import annotations

URL = "HEADRACE_NATS_URL"
USER = "HEADRACE_NATS_USER"
PASSWORD = "HEADRACE_NATS_PASSWORD"  # noqa: S105 - the name of the variable
DATA = "HEADRACE_DATA"
SYSTEM_USER = "HEADRACE_SYSTEM_USER"
SYSTEM_PASSWORD = "HEADRACE_SYSTEM_PASSWORD"  # noqa: S105 - the same; of the callout, for ending connections
INSTANCE = "HEADRACE_INSTANCE"
"""Name of this process if its service runs more than once; it answers by that name."""
TURN = "HEADRACE_TURN"
"""`first` or `later` if a service runs more than once: which instance leads if all start together. Not set: the only instance."""
API = "HEADRACE_API"
"""Address at which *governance* serves the API, such as `unix:/path`; without it the API is not served."""
JOBS_TOGETHER = "HEADRACE_JOBS_TOGETHER"
"""Why only the owner and administrators can log in (jobs can read what the owner can). Empty: others can too."""
LOCAL_JOBS = "HEADRACE_LOCAL_JOBS"
"""Whether jobs of instances of provider `local` run as accounts of their `own` or as `self`. Not set: there are no such instances."""
NODES_URL = "HEADRACE_NODES_URL"
"""Addresses of the NATS servers as instances of a cloud reach them. Not set: those of the service."""
INSTALLATION = "HEADRACE_INSTALLATION"
"""The tag of this installation's instances. Not set: one that is made once, in the directory of the provisioner."""
ENVIRONMENT = "HEADRACE_ENVIRONMENT"
"""A file with more of these variables, a line each, as `headrace config write` writes them; variables that are set take precedence."""

STOPPED, FAILED, DEPOSED, BROKEN, DOUBTED = 0, 1, 3, 4, 5


def of_service(variable: str, service: str) -> str:
    """Name of a variable that holds for one service of a process only."""
    return f"{variable}__{service.upper()}"
