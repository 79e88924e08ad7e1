"""Who is let in where jobs can read what the owner can, and where they cannot."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.processes.job_isolation import check, summary, why_not_isolated, why_owner_only

SETTINGS = Settings(host="box")


@pytest.fixture
def installation(tmp_path):
    made = Installation(tmp_path / "data")
    made.prepare()
    return made


@pytest.fixture
def together(monkeypatch):
    """As on a laptop."""
    monkeypatch.setattr(
        "headrace.supervisor.processes.job_isolation.why_shared", lambda _: "only root can run jobs under other accounts"
    )
    monkeypatch.setattr("headrace.supervisor.processes.job_isolation._we", lambda: "ada")


@pytest.fixture
def apart(monkeypatch):
    """As for root."""
    monkeypatch.setattr("headrace.supervisor.processes.job_isolation.why_shared", lambda _: "")


def test_the_owner_alone_may_have_jobs_that_run_as_the_owner(installation, together):
    check(installation, SETTINGS)
    why = "they run as ada: only root can run jobs under other accounts"
    assert (why_not_isolated(installation, SETTINGS), why_owner_only(installation, SETTINGS)) == (why, why)
    assert summary(installation, SETTINGS).startswith(
        f"not kept apart ({why}), so only the owner and administrators can log in. Start it as root"
    )


@pytest.mark.parametrize("what", ["--listen: ", "issuers.yaml lets others in: "])
def test_what_could_come_from_elsewhere_is_refused_with_the_way_out(installation, together, what):
    settings = SETTINGS
    if what == "--listen: ":
        settings = replace(SETTINGS, listen="0.0.0.0")
    else:
        (installation.directory / "issuers.yaml").write_text("issuers: []")
    with pytest.raises(InstallationError) as refused:
        check(installation, settings)
    assert what in str(refused.value)
    assert "or say --jobs-are-trusted if you trust all users who will submit" in str(refused.value)
    check(installation, replace(settings, jobs_are_trusted=True))


def test_who_trusts_all_jobs_lets_others_in_and_sees_it_in_the_status(installation, together):
    trusted = replace(SETTINGS, jobs_are_trusted=True)
    assert why_owner_only(installation, trusted) == ""
    assert summary(installation, trusted).endswith(
        "and trusted (--jobs-are-trusted): every user who submits one has access to all that ada has"
    )


def test_where_jobs_have_accounts_of_their_own_others_may_come(installation, apart):
    check(installation, replace(SETTINGS, listen="0.0.0.0"))
    assert summary(installation, SETTINGS) == "each user's run as an account of their own"


def test_without_nodes_no_job_runs_here(installation, together):
    another_place = replace(SETTINGS, nodes=0, listen="0.0.0.0")
    check(installation, another_place)
    assert summary(installation, another_place) == "none run here; other executors look after theirs"
