from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.levels import FIRST, LEVEL, RELEASES
from headrace.contracts.records import Record
from headrace.domain.fold.installation import HANDLERS, beyond_us
from headrace.domain.state import State
from tests.unit.domain.site import Site


def raised(level, by="governance"):
    return Record(by=by, now=1, engine="e", as_of=0, facts=(f.InstallationLevelV1(level=level, release="0.9.0"),))


def test_the_level_is_what_was_said_and_never_falls():
    state = State()
    levels = []
    for level in (2, 3, 1):
        HANDLERS[f.InstallationLevelV1](state, f.InstallationLevelV1(level=level, release="0.9.0"), 1, 0)
        levels.append(state.terms.level)
    assert levels == [2, 3, 3]


def test_where_other_rules_hold_from_now_on_everything_is_looked_at_again():
    site = Site()
    site.state.terms.level, epoch = FIRST, site.state.pools["hall"].epoch
    sequence = site.say(f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    assert (site.state.documents_sequence, site.state.pools["hall"].epoch) == (sequence, epoch + 1)

    site.say(f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    assert (site.state.documents_sequence, site.state.pools["hall"].epoch) == (sequence, epoch + 1), "nothing has changed"


def test_a_level_beyond_this_release_says_what_to_install():
    assert beyond_us(raised(LEVEL + 1)) == (
        f"raises the installation to level {LEVEL + 1}, and headrace {RELEASES[-1]} reads up to level {LEVEL}: "
        "install headrace 0.9.0 or newer here"
    )


def test_a_level_that_this_release_reads_and_what_others_say_is_no_matter():
    assert beyond_us(raised(LEVEL)) == beyond_us(raised(LEVEL + 1, by="audit")) == ""
