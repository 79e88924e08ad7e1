"""The Python of the protos in `contracts/proto`, and the OpenAPI document of the same: written by `headrace.contracts.schemas.generate`.

Needed after a change of the protos: it uses `grpcio-tools`, which is part of the development environment only.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from headrace.contracts.schemas.openapi import openapi

SOURCES = Path(__file__).parents[3] / "proto"
CODE = Path(__file__).parents[1] / "api"
PACKAGE = "headrace/v1"
OPENAPI = "openapi.json"

_IMPORT = re.compile(r"^from headrace\.v1 import", re.MULTILINE)


class ProtosBroken(Exception):
    """protoc does not accept the files; the text is its output, one line each."""


def generate() -> dict[str, str]:
    """The text of every generated file, by its name in `CODE`."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        _protoc(f"--python_out={out}", f"--pyi_out={out}")
        made = sorted((out / PACKAGE).iterdir())
        files = {path.name: _IMPORT.sub("from headrace.contracts.api import", path.read_text("utf-8")) for path in made}
    return files | {OPENAPI: openapi(descriptors())}


def descriptors() -> FileDescriptorSet:
    """The protos with their comments, and the files that they import."""
    with TemporaryDirectory() as folder:
        described = Path(folder, "described")
        _protoc("--include_imports", "--include_source_info", f"-o{described}")
        return FileDescriptorSet.FromString(described.read_bytes())


def written(folder: Path = CODE) -> dict[str, str]:
    """The files that are checked in, by the same names."""
    paths = (*folder.glob("*_pb2.py"), *folder.glob("*_pb2.pyi"), *folder.glob(OPENAPI))
    return {path.name: path.read_text("utf-8") for path in paths}


def _protoc(*arguments: str) -> None:
    sources = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.proto"))
    command = (sys.executable, "-m", "grpc_tools.protoc", f"-I{SOURCES}", f"-I{_google()}", *arguments, *sources)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the input is our own
    if ended.returncode:
        raise ProtosBroken(ended.stderr.strip())


def _google() -> Path:
    """The folder of Google's common protos."""
    found = find_spec("google.api")
    if found is None or not found.submodule_search_locations:
        raise ProtosBroken("googleapis-common-protos is not installed")
    return Path(next(iter(found.submodule_search_locations))).parents[1]
