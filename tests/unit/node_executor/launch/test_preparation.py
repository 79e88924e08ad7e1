from __future__ import annotations

import os

import pytest

from headrace.contracts.documents.model import Mount
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.account_numbers import FIRST
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.launch.preparation import Bounds, Preparation
from headrace.node_executor.launch.secrets import references
from headrace.node_executor.runtimes import CannotStart, Container
from headrace.node_executor.system.account_numbers import AccountNumbers
from headrace.node_executor.system.accounts import Accounts, UserAccount
from headrace.node_executor.system.cgroups import Groups


@pytest.fixture
def preparation(tmp_path) -> Preparation:
    (tmp_path / "secrets" / "acme").mkdir(parents=True)
    (tmp_path / "secrets" / "acme" / "TOKEN").write_text("s3cret\n")
    secrets, bounds = references(str(tmp_path / "secrets"), {}), Bounds(Accounts("self"))
    return Preparation(Workspace(str(tmp_path)), simulated("2xH100-80GB"), {"PATH": "/bin"}, secrets, bounds)


def test_an_order_becomes_directories_and_an_environment(preparation, make_order) -> None:
    prepared = preparation.prepare(make_order(secret_env=("TOKEN",)), "00-1-2-01")
    assert prepared.directory == prepared.paths.work
    assert {name: prepared.env[name] for name in ("PATH", "TOKEN", "CUDA_VISIBLE_DEVICES", "HEADRACE_TRACEPARENT")} == {
        "PATH": "/bin",
        "TOKEN": "s3cret",
        "CUDA_VISIBLE_DEVICES": "0",
        "HEADRACE_TRACEPARENT": "00-1-2-01",
    }


def test_a_secret_is_found_by_its_reference(preparation, make_order) -> None:
    order = make_order(secret_env=("HF",), secrets={"HF": "file:TOKEN"})
    assert preparation.prepare(order, "").env["HF"] == "s3cret"


def test_without_a_container_a_mount_is_the_directory_itself(preparation, make_order, tmp_path) -> None:
    here = str(tmp_path)
    preparation.prepare(make_order(mounts=(Mount(source=here, target=here),)), "")
    for mount in (Mount(source=here, target="/data"), Mount(source="/no/such", target="/no/such")):
        with pytest.raises(CannotStart, match="only a container can show|this node has no directory"):
            preparation.prepare(make_order(mounts=(mount,)), "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")
def test_a_start_under_the_number_of_another_user_is_refused_for_a_cause_of_the_node(tmp_path, make_order) -> None:
    accounts = Accounts("own", AccountNumbers(str(tmp_path / "numbers.json")))
    workspace = Workspace(str(tmp_path), others=True)
    preparation = Preparation(workspace, simulated("2xH100-80GB"), {}, references("", {}), Bounds(accounts))
    prepared = preparation.prepare(make_order(account=FIRST + 7), "")
    assert (prepared.account.uid, os.stat(prepared.paths.work).st_uid) == (FIRST + 7, FIRST + 7)
    stranger = f"evil.mallory.{make_order().job.rpartition('.')[2]}"
    with pytest.raises(CannotStart, match="knows the number") as refused:
        preparation.prepare(make_order(job=stranger, account=FIRST + 7), "")
    assert refused.value.exit_code is None
    assert not [name for name in os.listdir(workspace.leases) if name.startswith("evil.")]


def test_a_job_may_name_its_own_directory(preparation, make_order) -> None:
    assert preparation.prepare(make_order(workdir="/home/alice"), "").directory == "/home/alice"


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"workdir": "here"}, 126, "the working directory here is not an absolute path"),
        ({"secret_env": ("NOPE",)}, 126, "this node has no secret NOPE of tenant acme"),
        ({"secret_env": ("../../x",)}, 126, "'../../x' cannot be the name of a secret"),
        (
            {"secret_env": ("TOKEN",), "job": "other.eve.01j9z3k4m5n6p7q8r9s0t1v2w3"},
            126,
            "this node has no secret TOKEN of tenant other",
        ),
    ],
)
def test_what_cannot_be_prepared_says_whose_fault_it_is(preparation, make_order, fields, code, message) -> None:
    with pytest.raises(CannotStart) as error:
        preparation.prepare(make_order(**fields), "")
    assert (error.value.message, error.value.exit_code) == (message, code)


def test_a_node_that_cannot_make_directories_is_at_fault_itself(preparation, make_order, tmp_path) -> None:
    (tmp_path / "leases").rmdir()
    with pytest.raises(CannotStart) as error:
        preparation.prepare(make_order(), "")
    assert error.value.message == "the node cannot make the job's directories: No such file or directory"
    assert error.value.exit_code is None


def test_what_a_former_executor_prepared_is_found_again_without_a_secret_that_is_gone(
    preparation, make_order, tmp_path
) -> None:
    order = make_order(secret_env=("TOKEN",))
    prepared = preparation.prepare(order, "")
    assert preparation.recall(order) == prepared
    (tmp_path / "secrets" / "acme" / "TOKEN").unlink()
    assert preparation.recall(order).env == {name: value for name, value in prepared.env.items() if name != "TOKEN"}


def test_a_job_under_another_account_finds_its_name_and_a_home(tmp_path, make_order, monkeypatch) -> None:
    chowned = []
    monkeypatch.setattr("os.chown", lambda path, uid, gid, **_: chowned.append((path, uid, gid)))

    class Alices:
        def of(self, _job: str, _number: int) -> UserAccount:
            return UserAccount(77, 78, "alice")

        def claim(self, _job: str, _account: UserAccount | None) -> None: ...

    bounds = Bounds(Alices())  # type: ignore[arg-type]
    one = Preparation(Workspace(str(tmp_path)), simulated("2xH100-80GB"), {"HOME": "/root"}, references("", {}), bounds)
    prepared = one.prepare(make_order(), "")
    paths = prepared.paths
    assert (prepared.env["HOME"], prepared.env["USER"]) == (paths.work, "alice")
    assert prepared.account == UserAccount(77, 78, "alice")  # simulated devices have no nodes
    assert chowned == [(path, 77, 78) for path in (paths.control, paths.work, paths.checkpoints)]


def test_a_group_that_cannot_be_made_is_the_nodes_fault(tmp_path, make_order) -> None:
    mounts = f"30 1 0:1 / {tmp_path}/cgroup rw - cgroup2 none rw"
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpu")
    (tmp_path / "cgroup" / "cgroup.subtree_control").write_text("cpu")
    made = tmp_path / "cgroup" / "headrace.gpu01"
    made.mkdir()
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (made / name).write_text("cpu")
    groups = Groups("gpu01", mounts, "0::/")
    one = Preparation(
        Workspace(str(tmp_path)), simulated("2xH100-80GB"), {}, references("", {}), Bounds(Accounts("self"), groups)
    )
    with pytest.raises(CannotStart, match="cannot hold the job to its limits: No such file") as error:
        one.prepare(make_order(amounts={"cpu": 1000}), "")
    assert error.value.exit_code is None


def test_what_has_an_image_is_given_its_own_directories_and_its_limits(preparation, make_order) -> None:
    prepared = preparation.prepare(make_order(image="trainer:1", amounts={"cpu": 500, "memory": 64}), "")
    binds = (prepared.paths.control, prepared.paths.checkpoints)
    assert prepared.container == Container("trainer:1", binds, cpu=500, memory=64, network="host")
    assert prepared.group is None


@pytest.mark.parametrize(("ordered", "given"), [("", "host"), ("private", "private"), ("host", "host"), ("none", "none")])
def test_a_container_is_given_the_network_of_its_order_and_that_of_the_host_if_it_names_none(
    preparation, make_order, ordered: str, given: str
) -> None:
    """R44: below level 3 no order names one."""
    container = preparation.prepare(make_order(image="trainer:1", network=ordered), "").container
    assert container is not None
    assert container.network == given


def test_the_login_of_its_registry_goes_with_an_image_and_not_into_the_environment(preparation, make_order, tmp_path) -> None:
    (tmp_path / "secrets" / "acme" / "registry.ghcr.io").write_text("robot:t0ken")
    prepared = preparation.prepare(make_order(image="ghcr.io/acme/trainer:1"), "")
    assert prepared.container is not None
    assert (prepared.container.login, "t0ken" in str(prepared.env)) == ("robot:t0ken", False)


def test_only_a_container_finds_a_directory_of_the_node_elsewhere(preparation, make_order, tmp_path) -> None:
    mounts = (Mount(source=str(tmp_path), target="/data"),)
    assert preparation.prepare(make_order(image="trainer:1", mounts=mounts), "").container.mounts == mounts
    with pytest.raises(CannotStart, match=f"only a container can show {tmp_path} at /data: submit the job with an image"):
        preparation.prepare(make_order(mounts=mounts), "")


def test_a_container_is_given_a_part_of_a_gpu_by_the_name_of_the_gpu(machine, tmp_path, make_order) -> None:
    devices = NvmlDevices(Nvml(), lambda: 0)
    one = Preparation(Workspace(str(tmp_path)), devices, {}, references("", {}), Bounds(Accounts("self")))
    half = DeviceShare(device="GPU-a1b2c300", units=GPU_UNITS // 2)
    prepared = one.prepare(make_order(image="trainer:1", devices=(half,)), "")
    assert prepared.container is not None
    uuid = prepared.env["CUDA_VISIBLE_DEVICES"]
    assert uuid.startswith("GPU-a1b2c300-")
    assert prepared.container.devices == (f"nvidia.com/gpu={uuid}",)
    assert prepared.env["HEADRACE_DEVICES"] == "GPU-a1b2c300:0.5"
    devices.close()
