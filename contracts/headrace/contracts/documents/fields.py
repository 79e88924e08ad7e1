"""The scalar fields of documents: names, amounts, durations, choices; and the lists and tables made of them alone (R1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import TypeVar

from headrace.contracts.documents.forms import Form, FormError, Reading, Scalar, Several, Table
from headrace.contracts.documents.tree import Path
from headrace.contracts.values.amounts import GPU_MEMORY, JOB, MEMORY, Amounts, format_amount, is_key, model_of, parse_amount
from headrace.contracts.values.durations import SECOND, SPAN_MAX, format_duration, format_time, parse_duration, parse_time
from headrace.contracts.values.ids import DEFAULT_TENANT, is_token

T = TypeVar("T")

LINE_MAX = 500
WHOLE_MAX = 2**53 - 1


def _line(text: str) -> str:
    if len(text) > LINE_MAX or not text.isprintable():
        raise FormError(f"write one line of at most {LINE_MAX} printable characters")
    return text


def matching(pattern: str, noun: str, use: str) -> Callable[[str], str]:
    """A parser of text that matches a regular expression; `noun` and `use` go into its error: "invalid NOUN 'x': use USE"."""
    compiled = re.compile(pattern)

    def parse(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise FormError(f"invalid {noun} {text[:80]!r}: use {use}")
        return text

    return parse


_NAME_RULE = "1-63 of a-z, 0-9, '-'"


def _token(text: str) -> str:
    if not is_token(text):
        raise FormError(f"invalid name {text[:80]!r}: use {_NAME_RULE}")
    return text


def _request_key(key: str) -> str:
    if model_of(key):
        raise FormError(f"{key[:80]!r} may not stand in a request; ask for gpu, and name the model in gpu_models (R43)")
    return key if key == GPU_MEMORY else _resource_key(key)


def _resource_key(key: str) -> str:
    if key == GPU_MEMORY:
        raise FormError("gpu_memory may stand in a request only; its share of a GPU counts as gpu (R42)")
    likely = {"gpus": "gpu", "cpus": "cpu", "mem": "memory", "ram": "memory", "jobs": "job"}.get(key)
    if likely:
        raise FormError(f"unknown key {key!r}; did you mean {likely!r}?")
    if re.match(r"(nvidia\.com/)?mig[-:/.]", key):
        raise FormError(f"{key[:80]!r} is a slice of a GPU; a profile names it beside the request, as in mig: 1g.10gb")
    if not is_key(key):
        raise FormError(
            f"invalid resource {key[:80]!r}: use gpu, gpu:MODEL, cpu, memory, job or a key of your own such as license/abaqus"
        )
    return key


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise FormError(f"invalid flag {text[:80]!r}: use true or false")
    return text == "true"


def choice(*words: str) -> Scalar[str]:
    """One of a few words."""

    def parse(text: str) -> str:
        if text not in words:
            close = get_close_matches(text, words, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise FormError(f"{text[:80]!r} is not one of {', '.join(words)}{hint}")
        return text

    return Scalar(parse, f"one of {', '.join(words)}")


def whole(least: int = 0, most: int = WHOLE_MAX) -> Scalar[int]:
    """An integer between two bounds, both included."""

    def parse(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,16}", text) is None:
            raise FormError(f"invalid number {text[:80]!r}: use a whole number")
        number = int(text)
        if not least <= number <= most:
            raise FormError(f"{number} is too {'small' if number < least else 'large'}; write {least} to {most}")
        return number

    return Scalar(parse, "a whole number")


def duration(most: int | None = None) -> Scalar[int]:
    """A duration in microseconds, at most `most`."""

    def parse(text: str) -> int:
        span = parse_duration(text)
        if most is not None and span > most:
            raise FormError(f"{text} is too long; at most {format_duration(most)} is allowed")
        return span

    return Scalar(parse, "a duration such as 90s or 10m", format_duration)


def nullable(form: Scalar[T]) -> Scalar[T | None]:
    """Either `null`, or what `form` reads."""
    return Scalar(
        lambda text: None if text in ("null", "~", "") else form.parse(text),
        f"{form.example} or null",
        lambda value: None if value is None else form.show(value),
    )


class AmountsTable(Form[Amounts]):
    """Amounts by resource key (R1). In a `request` zeros are left out, and `job` is not allowed (R2); `gpu_memory` only there (R42)."""

    def __init__(self, *, request: bool = False) -> None:
        self.request = request
        self.texts = Table(AMOUNT, _request_key if request else _resource_key, "{gpu: 4, memory: 64GiB}")

    def read(self, written: object, at: Path, reading: Reading) -> Amounts:
        """Amounts as integers in the units of `amounts`."""
        amounts: Amounts = {}
        texts = self.texts.read(written, at, reading)
        for key, text in texts.items():
            try:
                if self.request and key == JOB:
                    raise FormError("every job takes one job by itself; leave it out (R2)")  # noted like other errors
                amounts[key] = parse_amount(key, text)
            except ValueError as error:
                reading.note((*at, key), error)
        if len(amounts) < len(texts):
            raise FormError
        return {key: amount for key, amount in amounts.items() if amount or not self.request}

    def write(self, value: Amounts) -> object:
        """The quantities as people write them."""
        return {key: format_amount(key, amount) for key, amount in value.items()}


def time_of_day(least: int, most: int) -> Scalar[int]:
    """Minutes after midnight, written `08:00`; bounds included."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,2}):([0-5][0-9])", text)
        minutes = int(match[1]) * 60 + int(match[2]) if match else -1
        if not least <= minutes <= most:
            raise FormError(f"invalid time of day {text[:80]!r}: use {_clock(least)} to {_clock(most)}")
        return minutes

    return Scalar(parse, 'a time of day such as "08:00"', _clock)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _moment(text: str) -> int:
    moment = parse_time(text)
    if moment % SECOND or not 0 <= moment <= SPAN_MAX:
        raise FormError(f"invalid time {text[:80]!r}: use whole seconds, from 1970 to 2255")
    return moment


def in_tenant(text: str) -> str:
    """A name `NAME` or `TENANT/NAME`, returned with its tenant."""
    _path(text)
    return text if "/" in text else f"{DEFAULT_TENANT}/{text}"


_path = matching(r"[a-z0-9-]{1,63}(/[a-z0-9-]{1,63})?", "name", "NAME or TENANT/NAME")
_label = matching(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?", "label", "letters, digits, '.', '_', '/' and '-'")
_label_value = matching(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", "label value", "letters, digits, '.', '_' and '-'")
_model = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "GPU model", "one such as H100-80GB")
_slice = matching(r"[1-9]g\.[1-9][0-9]{0,2}gb(\+me)?", "MIG slice", "one such as 3g.40gb")
_zone = matching(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}", "time zone", "one such as Europe/Berlin or UTC")
_price = matching(r"[0-9]{1,9}(\.[0-9]{1,6})?", "price", "a number such as 2.50")

_variable = matching(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "name of a variable", "one such as HF_HOME")
_reference = matching(r"(file|env):[A-Za-z0-9][A-Za-z0-9._-]{0,127}", "reference to a secret", "file:NAME or env:NAME")
_directory = matching(r"(?!.*/\.\.?(/|$))/[^\0\n:]{0,500}", "directory", "an absolute path such as /data, without .. in it")

AMOUNT = Scalar(str, "an amount such as 4, 0.5 or 64GiB")
DURATION = duration()
FLAG = Scalar(_flag, "true or false")
LINE = Scalar(_line, "text")
MEMORY_AMOUNT = Scalar(lambda text: parse_amount(MEMORY, text), "64GiB", lambda value: format_amount(MEMORY, value))
LABEL = Scalar(_label, "a label such as example.com/rack")
MIG_SLICE = Scalar(_slice, "a MIG slice such as 3g.40gb")
MODEL = Scalar(_model, "a GPU model such as H100-80GB")
MOMENT = Scalar(_moment, "a time such as 2026-11-21T08:00:00Z", lambda value: format_time(value).replace(".000Z", "Z"))
RESOURCE = Scalar(_resource_key, "a resource such as gpu")
TENANT_PATH = Scalar(in_tenant, "NAME or TENANT/NAME")
TIMEZONE = Scalar(_zone, "a time zone such as Europe/Berlin")
TOKEN = Scalar(_token, f"a name of {_NAME_RULE}")

AMOUNTS = AmountsTable()
LABELS = Table(Scalar(_label_value, "text"), _label, "{site: hq}")
PATHS = Several(Scalar(_path, "NAME or TENANT/NAME"))
PATTERNS = Several(Scalar(_line, "a pattern such as registry.example/ml/*"))
PRICE = Scalar(_price, "a price such as 2.50")
PRICES = Table(Scalar(_price, "a price such as 2.50"), _resource_key, "{gpu: 2.50}")
REQUEST = AmountsTable(request=True)
TOKENS = Several(TOKEN)
VARIABLES = Several(Scalar(_variable, "a variable such as HF_TOKEN"))
ENVIRONMENT = Table(LINE, _variable, "{HF_HOME: /data/hf}")
REFERENCES = Table(Scalar(_reference, "file:NAME or env:NAME"), _variable, "{HF_TOKEN: file:hf}")
DIRECTORY = Scalar(_directory, "an absolute path such as /data")
