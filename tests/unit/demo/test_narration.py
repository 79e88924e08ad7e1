from headrace.contracts.messages.queries import FactView
from headrace.contracts.messages.usage import UsageRow
from headrace.demo.narration import Timeline, books, gpu_seconds, headline


def fact(sequence: int, at: int, text: str, kind: str = "job.admitted.v1") -> FactView:
    return FactView(sequence=sequence, at=at, by="admission", type=kind, text=text, rule="R13")


def test_a_timeline_tells_each_fact_once_in_the_order_of_the_ledger_with_names_for_ids(capsys):
    timeline = Timeline()
    timeline.names = {"01abc": "r-1", "/data/": ""}
    timeline.print_new({"d": [fact(7, 3_000_000, "takes back from 01abc")], "r-1": [fact(5, 1_000_000, "saved /data/x")]})
    timeline.print_new({"r-1": [fact(5, 1_000_000, "saved /data/x"), fact(9, 3_500_000, "left")]})
    assert capsys.readouterr().out.splitlines() == [
        "   0.00s  admission        r-1  saved x  (R13)",
        "   2.00s  admission        d    takes back from r-1  (R13)",
        "   2.50s  admission        r-1  left  (R13)",
    ]


def test_facts_that_only_repeat_others_are_not_told(capsys):
    Timeline().print_new({"r-1": [fact(1, 0, "started", "lease.started.v1")]})
    assert capsys.readouterr().out == ""


def test_gpu_seconds_are_cut_off_not_rounded():
    second = 126_000 * 1_000_000
    assert [gpu_seconds(str(amount)) for amount in (0, second, 3 * second // 2, second - 1)] == [
        "0.000",
        "1.000",
        "1.500",
        "0.999",
    ]


def test_the_books_are_a_table(capsys):
    second = 126_000 * 1_000_000
    books([UsageRow(group={"group": "rnd"}, key="gpu", total=str(3 * second), reserved=str(2 * second), borrowed=str(second))])
    assert capsys.readouterr().out.splitlines() == [
        "   group        GPU-seconds    reserved    borrowed      lost",
        "   rnd                3.000       2.000       1.000     0.000",
    ]


def test_a_headline_is_as_wide_as_the_others(capsys):
    headline("An act")
    headline("Another act of the same play")
    first, second = (line for line in capsys.readouterr().out.splitlines() if line)
    assert len(first) == len(second) == 100
