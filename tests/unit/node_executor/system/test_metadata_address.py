"""Jobs cannot reach the metadata service of a cloud: in a network namespace that has one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from headrace.contracts.values.account_numbers import COUNT, FIRST
from headrace.node_executor.metadata_rules import keep_from_metadata
from headrace.node_executor.system.accounts import Accounts
from headrace.node_executor.system.metadata_address import deny, deny_behind_bridge, rules, rules_behind
from tests.patience import PATIENCE
from tests.private_network import REACHES, WHY_NOT, private_network

DENY = """
from headrace.node_executor.metadata_rules import keep_from_metadata
from headrace.node_executor.system.accounts import Accounts
keep_from_metadata("CHOICE", Accounts("WHO"))
"""

AS_AN_ACCOUNT = """
import ctypes, os
os.setgroups([])
os.setresgid(NUMBER, NUMBER, NUMBER)
os.setresuid(NUMBER, NUMBER, NUMBER)
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
"""


def python(within: tuple[str, ...], program: str) -> str:
    done = subprocess.run(
        [*within, sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True, cwd="/"
    )
    return done.stdout.strip()


def reaches(within: tuple[str, ...], number: int, port: int = 80) -> str:
    """What the account with this number finds."""
    return python(within, AS_AN_ACCOUNT.replace("NUMBER", str(number)) + REACHES.replace("PORT", str(port)))


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_every_account_of_jobs_is_refused_and_others_are_not() -> None:
    with private_network() as within:
        accounts = (FIRST, FIRST + 7, FIRST + COUNT - 1)
        assert [reaches(within, number) for number in accounts] == ["reached"] * 3
        for _ in range(2):  # an executor that is started again states its rules again
            python(within, DENY.replace("CHOICE", "deny").replace("WHO", "own"))
        assert [reaches(within, number) for number in accounts] == ["refused"] * 3
        assert [reaches(within, number) for number in (0, 1_000, FIRST - 1, FIRST + COUNT)] == ["reached"] * 4
        assert reaches(within, FIRST, port=53) == "reached", "there some clouds answer for names"


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_a_fixed_account_is_refused_beside_those_of_users_and_no_account_is_if_the_operator_allows_it() -> None:
    with private_network() as within:
        python(within, DENY.replace("CHOICE", "allow").replace("WHO", "own"))
        python(within, DENY.replace("CHOICE", "deny").replace("WHO", "self"))
        assert [reaches(within, number) for number in (0, 65_534, FIRST)] == ["reached"] * 3
        python(within, DENY.replace("CHOICE", "deny").replace("WHO", "own"))
        python(within, DENY.replace("CHOICE", "deny").replace("WHO", "nobody"))
        assert [reaches(within, number) for number in (0, 65_534, FIRST)] == ["reached", "refused", "refused"]


def test_rules_name_the_accounts_and_replace_earlier_ones_of_the_same() -> None:
    lines = rules(5, 9).splitlines()
    assert lines[:2] == ["add table inet headrace_jobs", "delete table inet headrace_jobs"]
    assert "    meta skuid 5-9 ip daddr { 169.254.169.254 } reject" in lines
    assert "add table inet headrace_jobs_7" in rules(7, 7)


def test_rules_for_a_bridge_name_it_and_stand_in_a_table_of_their_own() -> None:
    lines = rules_behind("br7").splitlines()
    assert lines[:2] == ["add table inet headrace_containers", "delete table inet headrace_containers"]
    assert lines.count('    iifname "br7" jump metadata') == 2


def test_without_nftables_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert (deny((5, 9)), deny_behind_bridge()) == ("nft is missing", "nft is missing")


@pytest.mark.parametrize(
    ("user", "choice", "who", "containers", "warned"),
    [
        (0, "deny", "nobody", True, ["accounts of jobs", "containers with networks of their own"]),
        (0, "deny", "self", True, ["containers with networks of their own"]),
        (0, "deny", "nobody", False, ["accounts of jobs"]),
        (1000, "deny", "self", True, []),
        (0, "allow", "nobody", True, []),
    ],
)
def test_an_executor_says_to_whose_jobs_the_service_stays_open(
    monkeypatch: pytest.MonkeyPatch, user: int, choice: str, who: str, containers: bool, warned: list[str]
) -> None:
    """Root denies it to containers as well; another user cannot, and its jobs run as it does."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with capture_logs() as logs:
        keep_from_metadata(choice, Accounts(who), containers=containers)
    assert [entry["jobs"] for entry in logs if entry["event"] == "metadata_open_to_jobs"] == warned
