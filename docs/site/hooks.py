"""What `make docs` adds to the pages that stand in `docs/`: references made from the sources, and the files that pages link to.

A page links to a file of the repository by its relative path (`../tests/scenarios/V01.yaml`), so that the link works in a checkout as well.
On the site such a link leads to a copy of the file. A link to a file that does not exist stays as it is, and fails the strict build.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from google.api import annotations_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, MethodDescriptorProto
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from headrace.contracts.facts.fact import fact_type
from headrace.contracts.facts.levels import FIRST, SINCE
from headrace.contracts.facts.writers import WRITER_RULES
from headrace.contracts.schemas.openapi import OURS
from headrace.contracts.schemas.protos import descriptors

ROOT = Path(__file__).parents[2]
Comments = dict[tuple[int, ...], str]
COPIES = "repository"
"""The folder of the site with copies of files of the repository."""
RUNBOOKS = "deploy/runbooks"
OVERVIEWS = {"decisions/": "README.md", "runbooks/": "index.md"}
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
GENERATED = {
    "reference/api.md": "api",
    "reference/cli.md": "cli",
    "reference/documents.md": "documents",
    "reference/facts.md": "facts",
    "runbooks/index.md": "runbooks",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace a folder in the navigation (`decisions/`) by the pages in it, the overview first."""
    folders = {"decisions/": ROOT / "docs/decisions", "runbooks/": ROOT / RUNBOOKS}

    def pages(folder: str) -> list[str]:
        names = sorted(path.name for path in folders[folder].glob("*.md") if path.name not in ("index.md", "README.md"))
        return [f"{folder}{name}" for name in (OVERVIEWS[folder], *names)]

    for section in config.nav or ():
        for title, entries in section.items():
            if isinstance(entries, list):
                section[title] = [
                    {key: pages(value) if value in folders else value} for entry in entries for key, value in entry.items()
                ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, the runbooks, and every file of the repository that a page links to."""
    for path, what in GENERATED.items():
        files.append(File.generated(config, path, content=globals()[f"{what}_reference"]()))
    for runbook in sorted((ROOT / RUNBOOKS).glob("*.md")):
        files.append(File.generated(config, f"runbooks/{runbook.name}", content=runbook.read_text("utf-8")))
    for path in sorted({path for file in files.documentation_pages() for path in _linked(file)}):
        files.append(File.generated(config, _copy_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to files of the repository lead to their copies."""

    def lead(match: re.Match[str]) -> str:
        path = _in_repository(page.file.src_uri, match[2])
        if path is None:
            return match[0]
        target = os.path.relpath(_copy_of(path), PurePosixPath(page.file.src_uri).parent)
        return f"{match[1]}{target}{match[4]}"

    return LINK.sub(lead, markdown)


def _copy_of(path: str) -> str:
    """Where the site has a copy of a file of the repository; pages of other folders are shown as text."""
    return f"{COPIES}/{path}" + (".txt" if path.endswith(".md") else "")


def _linked(file: File) -> Iterator[str]:
    for match in LINK.finditer(file.content_string):
        path = _in_repository(file.src_uri, match[2])
        if path is not None:
            yield path


def _in_repository(page: str, link: str) -> str | None:
    """The file outside `docs/` that a page links to, relative to the repository; None for any other link."""
    path = Path(os.path.normpath(ROOT / "docs" / Path(page).parent / link))
    is_outside = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs")
    return path.relative_to(ROOT).as_posix() if is_outside and path.is_file() else None


def cli_reference() -> str:
    """Every command with its help, as the parser prints it."""
    os.environ["COLUMNS"] = "110"
    from headrace.cli.main import parser  # noqa: PLC0415  the parser reads the width of the terminal when it is made

    parts = ["# Commands", "What `--help` prints, for every command.", _help(parser())]
    parts += [f"## {command.prog}\n\n{_help(command)}" for command in _commands(parser())]
    return "\n\n".join(parts) + "\n"


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command
                yield from _commands(command)


def _help(parser: argparse.ArgumentParser) -> str:
    return f"```text\n{parser.format_help().rstrip()}\n```"


def facts_reference() -> str:
    """Every kind of fact: what it says, who may state it, about what, and from which level on."""
    levels: dict[type, int] = {**SINCE}
    rows = [
        f"| `{fact_type(rule.fact)}` | {rule.writer} | {rule.about} ({rule.states}) | {levels.get(rule.fact, FIRST)} |"
        f" {_first_line(rule.fact)} |"
        for rule in sorted(WRITER_RULES, key=lambda rule: fact_type(rule.fact))
    ]
    head = "# Facts\n\nEvery kind of fact in the ledger. JSON Schemas are in `contracts/schemas/facts`.\n\n"
    return (
        head
        + "\n".join(["| fact | stated by | about (in state) | from level | what it says |", "|---|---|---|---|---|", *rows])
        + "\n"
    )


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0].replace("|", "&#124;")


def documents_reference() -> str:
    """The commented example of every document."""
    text = (ROOT / "deploy/examples/reference/documents.yaml").read_text("utf-8")
    intro = "Every kind of document with every key. `headrace apply -f FILE` takes files like this one."
    return f"# Documents\n\n{intro}\n\n```yaml\n{text}```\n"


def runbooks_reference() -> str:
    """The list of runbooks."""
    names = sorted(path.stem for path in (ROOT / RUNBOOKS).glob("*.md"))
    rows = "\n".join(f"- [{name}]({name}.md)" for name in names)
    return f"# Runbooks\n\nOne page for each alert: what it means, how to see it, what to do, and when it is over.\n\n{rows}\n"


def api_reference() -> str:
    """Services, methods and messages of the gRPC API, from the comments of the protos."""
    intro = "Services and messages as the protos in `contracts/proto` declare them. HTTP paths lead to the same methods."
    parts = ["# API", f"{intro} An installation serves its OpenAPI description under `/openapi.json`."]
    for file in descriptors().file:
        if file.package != OURS:
            continue
        comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        for number, service in enumerate(file.service):
            parts.append(f"## {service.name}\n\n{_comment(comments, 6, number)}")
            parts += [
                _method(comments, service.name, method, 6, number, 2, index) for index, method in enumerate(service.method)
            ]
        parts += [_message(comments, message, 4, number) for number, message in enumerate(file.message_type)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _method(comments: Comments, service: str, method: MethodDescriptorProto, *path: int) -> str:
    takes, gives = method.input_type.rpartition(".")[2], method.output_type.rpartition(".")[2]
    stream = "a stream of " if method.server_streaming else ""
    comment = _comment(comments, *path)
    return f"### {service}.{method.name}\n\n{comment}\n\n`{_http(method)}` takes `{takes}` and returns {stream}`{gives}`."


def _comment(comments: Comments, *path: int) -> str:
    return " ".join(line.strip() for line in comments.get(path, "").strip().splitlines())


def _http(method: MethodDescriptorProto) -> str:
    """The verb and path of a method."""
    rule = method.options.Extensions[annotations_pb2.http]
    verb = str(rule.WhichOneof("pattern"))
    return f"{verb.upper()} {getattr(rule, verb)}"


def _message(comments: Comments, message: DescriptorProto, *path: int) -> str:
    rows = [
        f"| `{field.name}` | {_type(message, field)} | {_comment(comments, *path, 2, index).replace('|', '&#124;')} |"
        for index, field in enumerate(message.field)
    ]
    table = "\n".join(["| field | type | |", "|---|---|---|", *rows]) if rows else ""
    comment = _comment(comments, *path)
    return f"### {message.name}\n\n{comment}\n\n{table}".rstrip()


def _type(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    name = field.type_name.rpartition(".")[2] or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    entry = next((nested for nested in message.nested_type if nested.name == name and nested.options.map_entry), None)
    if entry is not None:
        key, value = (_type(entry, part) for part in entry.field)
        return f"map of {key} to {value}"
    return f"list of {name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name
