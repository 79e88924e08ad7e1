"""`python -m headrace.node_executor run`: puts the executor together from its arguments, runs it, and ends it in order.

Exit codes: 0 stopped as asked, 1 failed, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

import structlog

from headrace.contracts.amounts import CPU, MEMORY, AmountError, parse_amount
from headrace.contracts.durations import DurationError, parse_duration
from headrace.contracts.facts import LeaseEndedV1, NodeRegisteredV1
from headrace.contracts.ids import is_token, split_lease_id
from headrace.contracts.subjects import node_writer
from headrace.node_executor import guard
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.node import Closed, Node
from headrace.node_executor.devices import Devices, DevicesUnknown
from headrace.node_executor.devices.simulated import SimulatedDevices, simulated
from headrace.node_executor.environment import inherited
from headrace.node_executor.executor import Equipment, Executor, clock
from headrace.node_executor.journal import Began, Journal
from headrace.node_executor.ledger import Ledger
from headrace.node_executor.link import Address, Hears, Link, Pace
from headrace.node_executor.preparation import Preparation
from headrace.node_executor.retention import Kept
from headrace.node_executor.runtimes.process import ProcessRuntime
from headrace.node_executor.tracing import tracing
from headrace.node_executor.workspace import Workspace
