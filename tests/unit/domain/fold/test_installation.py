from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PolicyProfile
from headrace.contracts.facts.levels import AMENDED, FIRST, LEVEL, RELEASES
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import GPU
from headrace.domain.fold.installation import HANDLERS, beyond_us
from headrace.domain.placement.placement import find_places
from headrace.domain.state.state import State
from tests.unit.domain.site import HALF, PROFILES, Site, policy, pool, profile


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
    sequence = site.append_facts(f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    assert (site.state.documents_sequence, site.state.pools["hall"].epoch) == (sequence, epoch + 1)

    site.append_facts(f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    assert (site.state.documents_sequence, site.state.pools["hall"].epoch) == (sequence, epoch + 1), "nothing has changed"


def test_a_level_beyond_this_release_says_what_to_install():
    assert beyond_us(raised(LEVEL + 1)) == (
        f"raises the installation to level {LEVEL + 1}, and headrace {RELEASES[-1]} reads up to level {LEVEL}: "
        "install headrace 0.9.0 or newer here"
    )


def test_a_level_that_this_release_reads_and_what_others_say_does_not_matter():
    assert beyond_us(raised(LEVEL)) == beyond_us(raised(LEVEL + 1, by="audit")) == ""


HALVES = profile("half-slice", mig="3g.40gb")


def at_the_first_level():
    """A pool of two devices in MIG mode, as a release before the amended rules knew it."""
    site = Site()
    site.state = State()
    site.law(pool(), *PROFILES, HALVES, policy(profiles=(PolicyProfile(name="half-slice"),)))
    site.node(mig=True, model="H100-80GB")
    return site


def placed(site, name):
    """Where the job lies now: device and start."""
    job = site.admit(name, "dev/half-slice", request={GPU: HALF}, mig="3g.40gb")
    (place,) = find_places(site.state, job, site.state.pools["hall"])
    site.grant(job, place)
    return place.devices[0].device, place.devices[0].start


def test_until_the_rules_are_amended_slices_lie_and_count_as_before():  # R20
    site = at_the_first_level()
    where = [placed(site, "a"), placed(site, "b")]
    assert (where, site.state.pools["hall"].mix.counts) == ([("gpu0", 4), ("gpu1", 4)], {})


def test_from_the_fact_on_that_amends_the_rules_slices_are_packed_and_counted():  # R20
    site = at_the_first_level()
    first = placed(site, "a")
    site.append_facts(f.InstallationLevelV1(level=AMENDED, release=RELEASES[AMENDED - 1]))
    job = site.admit("b", "dev/half-slice", request={GPU: HALF}, mig="3g.40gb")
    (place,) = find_places(site.state, job, site.state.pools["hall"])
    assert (first, place.devices[0].device, place.devices[0].start) == (("gpu0", 4), "gpu0", 0)
    assert site.state.pools["hall"].mix.counts == {job.request.shape: 1}
