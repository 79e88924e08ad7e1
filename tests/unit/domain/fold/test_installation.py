from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.levels import LEVEL, RELEASES
from headrace.contracts.records import Record
from headrace.domain.fold.installation import HANDLERS, beyond_us
from headrace.domain.state import State


def raised(level, by="governance"):
    return Record(by=by, now=1, engine="e", as_of=0, facts=(f.InstallationLevelV1(level=level, release="0.9.0"),))


def test_the_level_is_what_was_said_and_never_falls():
    state = State()
    levels = []
    for level in (2, 3, 1):
        HANDLERS[f.InstallationLevelV1](state, f.InstallationLevelV1(level=level, release="0.9.0"), 1, 0)
        levels.append(state.terms.level)
    assert levels == [2, 3, 3]


def test_a_level_beyond_this_release_says_what_to_install():
    assert beyond_us(raised(LEVEL + 1)) == (
        f"raises the installation to level {LEVEL + 1}, and headrace {RELEASES[-1]} reads up to level {LEVEL}: "
        "install headrace 0.9.0 or newer here"
    )


def test_a_level_that_this_release_reads_and_what_others_say_is_no_matter():
    assert beyond_us(raised(LEVEL)) == beyond_us(raised(LEVEL + 1, by="audit")) == ""
