"""The command line of measurements: numbers that make no sense are refused with the name of the option."""

from __future__ import annotations

import pytest

from bench.options import options


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--rack", "-3"], "argument --rack: -3 is negative"), (["--nodes", "4", "-2"], "argument --nodes: -2 is negative")],
)
def test_a_negative_number_is_refused_with_the_name_of_its_option(arguments, named, capsys) -> None:
    parser = options("bench.packing", "Packing.", "a minute")
    parser.add_argument("--rack", type=int, default=0)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1])
    assert vars(parser.parse_args(["--nodes", "2", "0"])) == {"rack": 0, "nodes": [2, 0]}
    with pytest.raises(SystemExit) as end:
        parser.parse_args(arguments)
    assert (end.value.code, named in capsys.readouterr().err) == (2, True)
