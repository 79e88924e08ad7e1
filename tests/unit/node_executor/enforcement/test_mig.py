"""Slices made for leases and destroyed after them, against the mock."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.node_executor.devices.health import Trouble
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import CannotEnclose
from headrace.node_executor.enforcement.mig import (
    TRIES_BEFORE_STUCK,
    MadeSlice,
    MigJournal,
    MigMechanism,
    Reconciled,
    capability_nodes,
)
from tests.mock_nvml import Machine
from tests.unit.node_executor.enforcement.conftest import FIRST, SECOND, SLICE

LEASE = "acme.alice.j/1/0"


class Site:
    """A mechanism with its journal, and what it reported."""

    def __init__(self, devices: NvmlDevices, path: Path) -> None:
        self.devices, self.path = devices, path
        self.reported: list[tuple[str, Trouble | None]] = []
        self.start()

    def start(self) -> None:
        """As after a crash: from the journal alone."""
        self.journal = MigJournal(str(self.path))
        self.mechanism = MigMechanism(
            self.devices, self.journal, lambda device, trouble: self.reported.append((device, trouble))
        )

    def there(self) -> list[tuple[int, int]]:
        """(start, size) of all slices of the first GPU."""
        return [(one.start, one.size) for one in self.devices.nvml.instances(self.devices.gpu(FIRST).uuid)]

    def make(self, name: str, start: int) -> int:
        """A slice of another program."""
        uuid = self.devices.gpu(FIRST).uuid
        kind = next(kind for kind in self.devices.nvml.kinds(uuid) if kind.name == name)
        return self.devices.nvml.make_instance(uuid, kind, start)


@pytest.fixture
def site(cut: NvmlDevices, tmp_path: Path) -> Site:
    return Site(cut, tmp_path / "slices")


def test_it_proves_itself_by_a_slice_that_it_takes_away_again(site: Site) -> None:
    assert (site.mechanism.prove(), site.there()) == ("hardware", [])


def test_without_the_right_or_a_gpu_in_mig_mode_it_does_not(site: Site, machine: Machine, devices: NvmlDevices) -> None:
    machine.set("mig", 1)
    machine.set("no_permission", 1)
    assert site.mechanism.prove() == ""
    machine.set("no_permission", 0)
    machine.set("mig", 0)
    assert Site(NvmlDevices(devices.nvml, lambda: 0), site.path).mechanism.prove() == ""


def test_a_lease_gets_its_slice_where_the_grant_says_and_sees_it_by_name(site: Site, case) -> None:
    got = site.mechanism.enclose(case(SLICE))
    assert (got.level, site.there()) == ("hardware", [(4, 4)])
    assert got.env["CUDA_VISIBLE_DEVICES"] == got.env["NVIDIA_VISIBLE_DEVICES"]
    assert got.env["CUDA_VISIBLE_DEVICES"].startswith("MIG-")
    assert site.mechanism.open(LEASE) == ""
    assert (site.there(), site.journal.ours, site.mechanism.open(LEASE)) == ([], {}, "")


def test_asked_twice_it_makes_one(site: Site, case) -> None:
    assert site.mechanism.enclose(case(SLICE)) == site.mechanism.enclose(case(SLICE))
    assert site.there() == [(4, 4)]


def test_two_slices_of_one_lease_come_and_go_together(site: Site, case) -> None:
    small = DeviceShare(device=FIRST, units=18_000, mig="1g.10gb", start=0)
    got = site.mechanism.enclose(case(SLICE, small))
    assert (len(got.env["CUDA_VISIBLE_DEVICES"].split(",")), site.there()) == (2, [(0, 1), (4, 4)])
    assert (site.mechanism.open(LEASE), site.there()) == ("", [])


@pytest.mark.parametrize(
    ("share", "why"),
    [
        pytest.param(DeviceShare(device=FIRST, units=1, mig="5g.10gb"), "offers no slice 5g.10gb", id="no such slice"),
        pytest.param(DeviceShare(device=FIRST, units=1, mig="3g.40gb", start=2), "Insufficient Resources", id="no such place"),
        pytest.param(DeviceShare(device=SECOND, units=1, mig="3g.40gb"), "is not in MIG mode", id="not in MIG mode"),
    ],
)
def test_what_cannot_be_made_is_told_and_leaves_nothing(site: Site, case, share: DeviceShare, why: str) -> None:
    with pytest.raises(CannotEnclose, match=why):
        site.mechanism.enclose(case(share))
    assert (site.there(), site.journal.ours) == ([], {})


def test_half_of_what_a_lease_wants_is_taken_back(site: Site, case) -> None:
    with pytest.raises(CannotEnclose):
        site.mechanism.enclose(case(SLICE, DeviceShare(device=FIRST, units=1, mig="4g.40gb", start=4)))
    assert (site.there(), site.journal.ours) == ([], {})


def test_a_driver_that_has_no_room_for_a_moment_is_asked_again(site: Site, case, machine: Machine) -> None:
    machine.set("refuse_create", 1)
    site.mechanism.enclose(case(SLICE))
    assert site.there() == [(4, 4)]


def test_a_slice_in_use_is_waited_for_reported_when_it_is_stuck_and_when_it_is_not_any_more(
    site: Site, case, machine: Machine, sleeper: int
) -> None:
    site.mechanism.enclose(case(SLICE))
    (made,) = site.journal.ours[LEASE]
    machine.process(sleeper, 100, instance=made.instance)
    assert site.mechanism.open(LEASE) == f"slice 3g.40gb@4 of {FIRST} is in use"
    assert site.reported == []
    for _ in range(TRIES_BEFORE_STUCK):
        site.mechanism.open(LEASE)
    assert site.reported == [(FIRST, Trouble("stuck_slice", 4, "the driver does not let go of slice 3g.40gb@4"))]
    machine.gone(sleeper)
    assert (site.mechanism.open(LEASE), site.there(), site.reported[1:]) == ("", [], [(FIRST, None)])


def test_after_a_crash_slices_of_leases_that_run_stay_and_others_of_ours_go(site: Site, case) -> None:
    site.mechanism.enclose(case(SLICE))
    site.mechanism.enclose(case(DeviceShare(device=FIRST, units=1, mig="2g.20gb", start=0), lease="acme.bob.k/1/0"))
    site.start()
    assert site.mechanism.reconcile([LEASE]) == Reconciled(1, {})
    assert (site.there(), list(site.journal.ours)) == ([(4, 4)], [LEASE])
    assert (site.mechanism.open(LEASE), site.there()) == ("", [])


def test_a_crash_between_note_and_slice_is_nothing_and_between_slice_and_note_is_ours(site: Site) -> None:
    kind = next(kind.id for kind in site.devices.nvml.kinds(site.devices.gpu(FIRST).uuid) if kind.name == "3g.40gb")
    for made_as_well in (False, True):
        site.journal.note(MadeSlice(LEASE, FIRST, kind, 0))
        if made_as_well:
            site.make("3g.40gb", 0)
        site.start()
        assert site.mechanism.reconcile([]) == Reconciled(int(made_as_well), {})
        assert (site.there(), site.journal.ours) == ([], {})


def test_slices_of_others_are_left_alone_and_told(site: Site) -> None:
    site.make("1g.10gb", 6)
    assert site.mechanism.reconcile([]) == Reconciled(0, {FIRST: ("1g.10gb@6",)})
    assert site.there() == [(6, 1)]
    assert site.reported == [(FIRST, Trouble("foreign_slice", 1, "slices of others are on it: 1g.10gb@6"))]
    assert site.mechanism.prove() == "hardware"


def test_slices_of_others_are_seen_to_come_and_go_beside_what_is_stuck(site: Site, case, machine: Machine) -> None:
    assert (site.mechanism.check_foreign_slices(), site.reported) == ({}, [])
    number = site.make("1g.10gb", 3)
    assert (site.mechanism.check_foreign_slices(), site.mechanism.check_foreign_slices()) == (
        {FIRST: ("1g.10gb@3",)},
        {FIRST: ("1g.10gb@3",)},
    )
    foreign = Trouble("foreign_slice", 1, "slices of others are on it: 1g.10gb@3")
    assert site.reported == [(FIRST, foreign)]
    site.mechanism.enclose(case(SLICE))
    machine.set("stuck", 1)
    for _ in range(TRIES_BEFORE_STUCK):
        site.mechanism.open(LEASE)
    stuck = Trouble("stuck_slice", 4, "the driver does not let go of slice 3g.40gb@4")
    assert site.reported == [(FIRST, foreign), (FIRST, stuck)]
    machine.set("stuck", 0)
    assert (site.mechanism.open(LEASE), site.reported[2:]) == ("", [(FIRST, foreign)])
    site.devices.nvml.destroy_instance(site.devices.gpu(FIRST).uuid, number)
    assert (site.mechanism.check_foreign_slices(), site.reported[3:]) == ({}, [(FIRST, None)])


def test_a_torn_line_of_the_journal_is_skipped(site: Site, case) -> None:
    site.mechanism.enclose(case(SLICE))
    with site.path.open("ab") as file:
        file.write(b'{"gone":"acme.al')
    site.start()
    assert [one.start for one in site.journal.ours[LEASE]] == [4]
    assert all(json.loads(line) for line in site.path.read_text().splitlines())


def test_one_thread_makes_all_slices_one_after_the_other(site: Site, case, machine: Machine) -> None:
    machine.set("latency_ms", 20)
    shares = [DeviceShare(device=FIRST, units=1, mig="1g.10gb", start=start) for start in range(5)]
    cases = [case(share, lease=f"acme.alice.j{number}/1/0") for number, share in enumerate(shares)]
    with ThreadPoolExecutor(1) as worker:
        done = [worker.submit(site.mechanism.enclose, one) for one in cases]
        threading.Thread(target=site.devices.on_devices).start()  # looking meanwhile does no harm
        assert len({one.result().env["CUDA_VISIBLE_DEVICES"] for one in done}) == 5
    assert (machine.get("most_inside"), len(site.there())) == (1, 5)


def test_the_nodes_that_open_a_slice_are_those_that_the_driver_lists(tmp_path: Path) -> None:
    table = tmp_path / "mig-minors"
    table.write_text("config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 21\n")
    assert capability_nodes(0, 1, str(table)) == ["/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"]
    assert capability_nodes(0, 1, str(tmp_path / "nothing")) == []
