from __future__ import annotations

import pytest

from headrace.contracts.documents import fields as w
from headrace.contracts.documents.forms import read_as
from headrace.contracts.documents.tree import DocumentErrors, Tree
from headrace.contracts.values.durations import MINUTE

READ_AND_WRITTEN = [
    (w.TOKEN, "gpu01-hq", "gpu01-hq"),
    (w.LINE, "Acme – ärger", "Acme – ärger"),
    (w.FLAG, "true", True),
    (w.FLAG, "false", False),
    (w.DURATION, "10m", 10 * MINUTE),
    (w.duration(most=MINUTE), "1m", MINUTE),
    (w.whole(-5, 5), "-5", -5),
    (w.choice("wait", "borrow"), "wait", "wait"),
    (w.time_of_day(0, 1440), "08:05", 485),
    (w.time_of_day(0, 1440), "24:00", 1440),
    (w.nullable(w.whole()), "null", None),
    (w.nullable(w.whole()), "7", 7),
    (w.nullable(w.DURATION), "10m", 10 * MINUTE),
    (w.MEMORY_AMOUNT, "64GiB", 65_536),
    (w.MIG_SLICE, "3g.40gb", "3g.40gb"),
    (w.MIG_SLICE, "1g.10gb+me", "1g.10gb+me"),
    (w.MODEL, "H100-80GB", "H100-80GB"),
    (w.RESOURCE, "license/abaqus", "license/abaqus"),
    (w.TENANT_PATH, "acme/inference", "acme/inference"),
    (w.TIMEZONE, "Europe/Berlin", "Europe/Berlin"),
    (w.TIMEZONE, "America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
    (w.AMOUNTS, {"gpu": "1/7", "memory": "0MiB", "license/x": "2"}, {"gpu": 18_000, "memory": 0, "license/x": 2}),
    (w.REQUEST, {"gpu": "0.5", "cpu": "4"}, {"gpu": 63_000, "cpu": 4_000}),
    (w.LABELS, {"site": "hq", "topology.k8s.io/zone": "A_1"}, {"site": "hq", "topology.k8s.io/zone": "A_1"}),
    (w.PRICES, {"gpu": "2.50"}, {"gpu": "2.50"}),
    (w.PATHS, ["acme", "acme/contractors"], ("acme", "acme/contractors")),
    (w.TOKENS, ["a", "b"], ("a", "b")),
]


@pytest.mark.parametrize(("form", "written", "value"), READ_AND_WRITTEN)
def test_words_mean_values_and_values_are_written_as_the_words(form, written, value):
    assert read_as(form, Tree({"x": written}), ("x",)) == value
    shown = form.write(value)
    assert (
        shown if isinstance(shown, dict | list) else {True: "true", False: "false", None: "null"}.get(shown, str(shown))
    ) == written


def test_a_name_without_a_tenant_is_in_the_default_one():
    assert w.in_tenant("inference") == "default/inference"


def test_zeros_are_left_out_of_a_request():
    assert read_as(w.REQUEST, Tree({"x": {"gpu": "0", "cpu": "1"}}), ("x",)) == {"cpu": 1_000}


@pytest.mark.parametrize(
    ("form", "written", "complaint"),
    [
        (w.TOKEN, "GPU 1", "invalid name 'GPU 1': use 1-63 of a-z, 0-9, '-'"),
        (w.LINE, "a\nb", "write one line of at most 500 printable characters"),
        (w.LINE, "x" * 501, "write one line of at most 500 printable characters"),
        (w.FLAG, "yes", "invalid flag 'yes': use true or false"),
        (w.duration(most=MINUTE), "2m", "2m is too long; at most 1m is allowed"),
        (w.DURATION, "fast", "invalid duration 'fast': use 90s, 10m, 1h30m or 2d"),
        (w.whole(1, 9), "0", "0 is too small; write 1 to 9"),
        (w.whole(1, 9), "10", "10 is too large; write 1 to 9"),
        (w.whole(1, 9), "1.0", "invalid number '1.0': use a whole number"),
        (w.whole(1, 9), "9" * 5_000, f"invalid number {'9' * 80!r}: use a whole number"),
        (w.choice("wait", "borrow"), "borow", "'borow' is not one of wait, borrow; did you mean 'borrow'?"),
        (w.choice("wait", "borrow"), "x", "'x' is not one of wait, borrow"),
        (w.time_of_day(0, 1439), "24:00", "invalid time of day '24:00': use 00:00 to 23:59"),
        (w.time_of_day(0, 1439), "8", "invalid time of day '8': use 00:00 to 23:59"),
        (w.nullable(w.whole()), "none", "invalid number 'none': use a whole number"),
        (w.MIG_SLICE, "3g", "invalid MIG slice '3g': use one such as 3g.40gb"),
        (w.TENANT_PATH, "a/b/c", "invalid name 'a/b/c': use NAME or TENANT/NAME"),
        (w.TIMEZONE, "Berlin time", "invalid time zone 'Berlin time': use one such as Europe/Berlin or UTC"),
        (w.RESOURCE, "mem", "unknown key 'mem'; did you mean 'memory'?"),
        (
            w.RESOURCE,
            "mig:1g.10gb",
            "'mig:1g.10gb' is a slice of a GPU; a profile names it beside the request, as in mig: 1g.10gb",
        ),
        (
            w.RESOURCE,
            "GPU",
            "invalid resource 'GPU': use gpu, gpu:MODEL, cpu, memory, job or a key of your own such as license/abaqus",
        ),
    ],
)
def test_an_unknown_word_is_refused_with_the_way_out(form, written, complaint):
    with pytest.raises(DocumentErrors) as refused:
        read_as(form, Tree({"x": written}), ("x",))
    assert [(error.path, error.message) for error in refused.value.errors] == [("x", complaint)]


@pytest.mark.parametrize(
    ("form", "written", "complaints"),
    [
        (w.AMOUNTS, {"gpus": "1", "ram": "x"}, [
            ("x.gpus", "unknown key 'gpus'; did you mean 'gpu'?"),
            ("x.ram", "unknown key 'ram'; did you mean 'memory'?"),
        ]),
        (w.AMOUNTS, {"gpu": ["1"]}, [("x.gpu", "write an amount such as 4, 0.5 or 64GiB, not a list")]),
        (w.REQUEST, {"job": "1"}, [("x.job", "every job takes one job by itself; leave it out (R2)")]),
        (w.LABELS, {"a b": "c", "d": ""}, [
            ("x.a b", "invalid label 'a b': use letters, digits, '.', '_', '/' and '-'"),
            ("x.d", "invalid label value '': use letters, digits, '.', '_' and '-'"),
        ]),
        (w.PRICES, {"gpu": "2,50"}, [("x.gpu", "invalid price '2,50': use a number such as 2.50")]),
        (w.AMOUNTS, "4", [("x", "write a mapping such as {gpu: 4, memory: 64GiB}, not '4'")]),
    ],
)  # fmt: skip
def test_a_table_names_the_entry_that_is_wrong(form, written, complaints):
    with pytest.raises(DocumentErrors) as refused:
        read_as(form, Tree({"x": written}), ("x",))
    assert [(error.path, error.message) for error in refused.value.errors] == complaints
