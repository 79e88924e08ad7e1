"""The cloud of the bench is one that helps: its nodes come as their pool promises them, run jobs, and leave once."""

from __future__ import annotations

from bench.bursting import BOOT, HALL, IDLE, weeks
from bench.philly import GPUS_PER_NODE, Job
from headrace.contracts.values.durations import HOUR


def test_jobs_that_the_hall_cannot_hold_run_on_nodes_of_the_cloud_which_leave_when_they_are_idle() -> None:
    jobs = [Job(number, number, 3_600, GPUS_PER_NODE, "c") for number in range(HALL + 4)]
    without, behind = weeks(jobs, 0), weeks(jobs, 10)
    assert (without["instances"], behind["instances"]) == (0, 4)
    assert behind["cloud_gpu_hours"] == round(4 * GPUS_PER_NODE * (BOOT + HOUR + IDLE) / HOUR)
    assert behind["wait_mean_s"] < without["wait_mean_s"]
