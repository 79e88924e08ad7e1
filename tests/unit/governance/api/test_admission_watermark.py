from __future__ import annotations

from types import SimpleNamespace

from headrace.bus.log import LogUnavailable
from headrace.contracts.messages.queries import Answer, StatusRequest
from headrace.contracts.transport.codec import decode, encode
from headrace.governance.api import admission_watermark
from headrace.governance.api.admission_watermark import AdmissionWatermark


class Wire:
    """Admission of the release before, which has read one more record each time it is asked; or is away."""

    def __init__(self, reads: int = 0, *, away: bool = False) -> None:
        self.reads = reads
        self.away = away
        self.asked = 0

    async def ask(self, subject, payload=b"", headers=None, within=0.0):
        assert subject == "hr.query.admission.status.default.governance"
        assert decode(payload, StatusRequest).folded > 0
        self.asked += 1
        if self.away:
            raise LogUnavailable("away")
        self.reads += 1
        return SimpleNamespace(data=encode(Answer(sequence=self.reads)))


async def test_admission_is_asked_only_behind_what_it_is_not_known_to_have_read():
    wire = Wire(reads=5)
    known = AdmissionWatermark(wire)
    known.has_read(5)
    known.has_read(3)
    await known.reach(5)
    assert wire.asked == 0
    await known.reach(7)
    await known.reach(7)
    assert (wire.asked, wire.reads) == (2, 7)


async def test_who_does_not_answer_is_not_waited_for(monkeypatch):
    gone = Wire(away=True)
    await AdmissionWatermark(gone).reach(1)
    assert gone.asked == 1
    monkeypatch.setattr(admission_watermark, "WITHIN", 0.01)
    slow = Wire(reads=-1_000_000)
    await AdmissionWatermark(slow).reach(1)
    assert slow.reads < 1
