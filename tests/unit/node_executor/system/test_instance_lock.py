from __future__ import annotations

import os
import subprocess

import pytest

from headrace.node_executor.system.instance_lock import DirectoryInUse, InstanceLock


def test_a_data_directory_has_one_executor_at_a_time(tmp_path) -> None:
    first = InstanceLock(str(tmp_path))
    with pytest.raises(DirectoryInUse, match="another executor uses"):
        InstanceLock(str(tmp_path), wait=0.1)
    first.release()
    InstanceLock(str(tmp_path), wait=0.1).release()


def test_a_starter_of_the_previous_executor_is_waited_for(tmp_path) -> None:
    first = InstanceLock(str(tmp_path))
    heir = subprocess.Popen(["cat"], pass_fds=(first.lock,), stdin=subprocess.PIPE)
    first.release()
    with pytest.raises(DirectoryInUse):
        InstanceLock(str(tmp_path), wait=0.1)
    heir.communicate()
    InstanceLock(str(tmp_path), wait=0.1).release()


def test_what_a_job_starts_does_not_inherit_the_lock(tmp_path) -> None:
    instance = InstanceLock(str(tmp_path))
    assert not os.get_inheritable(instance.lock)
    instance.release()
