"""Ports: the configured one or none, the last one if it is free, else any."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.supervisor.network.ports import LOOPBACK, PortTaken, choose_port, free_port, is_free, reserve


@pytest.fixture
def taken():
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_port_with_a_listener_is_not_free(taken):
    assert not is_free(taken)
    assert is_free(free_port())


def test_a_free_port_is_not_one_that_an_outgoing_connection_could_get():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(20_000 <= free_port() < lowest for _ in range(20))


def test_the_configured_port_is_taken_or_refused_with_the_way_out(taken):
    free = free_port()
    assert choose_port(free, taken) == free
    with pytest.raises(PortTaken, match=f"--nats-port: port {taken} is taken; name another, or leave it out"):
        choose_port(taken, free)


def test_the_port_of_the_last_time_is_taken_again_if_it_is_free(taken):
    free = free_port()
    assert choose_port(None, free) == free
    assert choose_port(None, taken) != taken
    assert is_free(choose_port(None, None))


@pytest.fixture
def chosen_by_another():
    """A port that another process has chosen, on which nothing listens yet."""
    choosing = "from headrace.supervisor.network.ports import free_port; print(free_port(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", choosing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        yield int(other.stdout.readline()), other
        other.kill()


def test_a_port_that_another_process_has_chosen_is_not_chosen_again_before_its_server_listens(chosen_by_another, monkeypatch):
    port, _ = chosen_by_another
    draws, randrange = iter([port, port]), random.randrange
    monkeypatch.setattr(random, "randrange", lambda *limits: next(draws, None) or randrange(*limits))
    assert is_free(port)
    assert choose_port(None, port) != port
    assert next(draws, None) is None


def test_a_chosen_port_is_free_for_others_once_the_process_that_chose_it_has_ended(chosen_by_another):
    port, other = chosen_by_another
    assert not reserve(port)
    other.kill()
    other.wait()
    assert reserve(port)


def test_the_process_that_chose_a_port_may_choose_it_again():
    port = free_port()
    assert (reserve(port), choose_port(None, port)) == (True, port)
