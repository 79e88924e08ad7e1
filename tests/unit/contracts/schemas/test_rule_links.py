"""Rules in descriptions are links to their headings."""

from headrace.contracts.schemas.rule_links import linked, with_linked_descriptions


def test_every_cited_rule_becomes_a_link_and_other_words_stay():
    assert linked("Kept (R16, R18); R2D2, HR16 and [R3](x) stay") == (
        "Kept ([R16](docs/rules.md#r16), [R18](docs/rules.md#r18)); R2D2, HR16 and [R3](x) stay"
    )


def test_only_descriptions_are_changed():
    document = {"description": "See R1.", "pattern": "R1", "enum": ["R1"], "items": [{"description": "R38"}]}
    assert with_linked_descriptions(document) == {
        "description": "See [R1](docs/rules.md#r1).",
        "pattern": "R1",
        "enum": ["R1"],
        "items": [{"description": "[R38](docs/rules.md#r38)"}],
    }
