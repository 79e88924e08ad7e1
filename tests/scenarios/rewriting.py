"""`REWRITE=1 make scenarios`: writes what the scenarios do now into the expectations of their files, to be reviewed as a diff.

Strategy: the file is not written anew. PyYAML's nodes say at which characters each expected value stands, and only the values that differ
are replaced there, so that comments, order, quotes and line breaks of everything else remain.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from headrace.contracts.documents.yaml_text import read_tree
from headrace.simulate.expectations import comparisons
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World

HERE = Path(__file__).parent


class CannotRewriteError(Exception):
    """The outcome cannot be written as an expectation: the file names a thing that does not exist. It has to be changed by hand."""


def rewritten(text: str) -> str:
    """The scenario with the values that its run has; the same text if all of its expectations hold."""
    scenario = read_scenario(read_tree(text))
    positions = {id(moment.expect): number for number, moment in enumerate(scenario.timeline) if moment.expect is not None}
    nodes = _timeline(text)
    world = World(scenario)
    found = {}
    for _, expect in world.run():
        for one in comparisons(world, expect):
            if one.wanted != one.found:
                if " " in one.found:  # values are single words; a sentence says that the thing does not exist
                    raise CannotRewriteError(f"{one.what}: {one.found}")
                node = _at(nodes[positions[id(expect)]], ("expect", *one.path))
                place = node.start_mark.index, node.end_mark.index
                if found.setdefault(place, one.found) != one.found:
                    raise CannotRewriteError(f"{one.what}: one alias stands for {found[place]} and for {one.found}")
    for (start, end), value in sorted(found.items(), reverse=True):
        text = text[:start] + value + text[end:]
    read_scenario(read_tree(text))
    return text


def main(folder: Path = HERE) -> int:
    """Rewrites the files of a folder and prints their names; 1 if one cannot be rewritten."""
    failed = 0
    for path in sorted(folder.glob("*.yaml")):
        before = path.read_text(encoding="utf-8")
        try:
            after = rewritten(before)
        except CannotRewriteError as error:
            print(f"{path.name}: cannot be rewritten: {error}", file=sys.stderr)
            failed = 1
            continue
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"rewritten: {path.name}")
    return failed


def _timeline(text: str) -> list[yaml.Node]:
    """The nodes of the timeline's moments, over all documents of the file."""
    return [
        moment
        for document in yaml.compose_all(text, Loader=yaml.SafeLoader)
        for key, value in document.value
        if key.value == "timeline"
        for moment in value.value
    ]


def _at(node: yaml.Node, path: tuple[str, ...]) -> yaml.Node:
    for name in path:
        node = next(value for key, value in node.value if key.value == name)
    return node


if __name__ == "__main__":
    sys.exit(main())
