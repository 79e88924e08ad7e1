"""Keeps jobs of this node from the metadata service of a cloud, where that is wanted and possible."""

from __future__ import annotations

import os

import structlog

from headrace.node_executor.arguments import ALLOW
from headrace.node_executor.system.accounts import Accounts
from headrace.node_executor.system.metadata_address import deny, deny_behind_bridge

_log = structlog.get_logger("headrace.node_executor")


def keep_from_metadata(choice: str, accounts: Accounts, *, containers: bool = False) -> None:
    """Deny jobs the metadata service: to their accounts, if they have any, and, as root, to containers with networks of their own."""
    if choice == ALLOW:
        return
    denied = {"accounts of jobs": deny(accounts.numbers)} if accounts.numbers is not None else {}
    if containers and os.geteuid() == 0:
        denied["containers with networks of their own"] = deny_behind_bridge()
    for whose, why in denied.items():
        if why:
            help_ = "install nftables, or block 169.254.169.254 for jobs in another way and give --metadata allow"
            _log.warning("metadata_open_to_jobs", jobs=whose, reason=why, help=help_)
