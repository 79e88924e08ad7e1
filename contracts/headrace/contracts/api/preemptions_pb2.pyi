import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListPreemptionsRequest(_message.Message):
    __slots__ = ("parent", "since", "until", "job", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    job: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., job: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPreemptionsResponse(_message.Message):
    __slots__ = ("preemptions", "next_page_token", "sequence")
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    preemptions: _containers.RepeatedCompositeFieldContainer[Preemption]
    next_page_token: str
    sequence: str
    def __init__(self, preemptions: _Optional[_Iterable[_Union[Preemption, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetPreemptionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Preemption(_message.Message):
    __slots__ = ("name", "preemptor", "pool", "cause", "rule", "order_time", "settle_time", "to_signal", "grace", "to_release", "lost", "unused", "places", "victims", "others", "started")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    ORDER_TIME_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    TO_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    TO_RELEASE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    preemptor: PreemptionJob
    pool: str
    cause: str
    rule: str
    order_time: _timestamp_pb2.Timestamp
    settle_time: _timestamp_pb2.Timestamp
    to_signal: int
    grace: int
    to_release: int
    lost: str
    unused: str
    places: _containers.RepeatedCompositeFieldContainer[PreemptionPlace]
    victims: _containers.RepeatedCompositeFieldContainer[PreemptionVictim]
    others: int
    started: PreemptionAttempt
    def __init__(self, name: _Optional[str] = ..., preemptor: _Optional[_Union[PreemptionJob, _Mapping]] = ..., pool: _Optional[str] = ..., cause: _Optional[str] = ..., rule: _Optional[str] = ..., order_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., to_signal: _Optional[int] = ..., grace: _Optional[int] = ..., to_release: _Optional[int] = ..., lost: _Optional[str] = ..., unused: _Optional[str] = ..., places: _Optional[_Iterable[_Union[PreemptionPlace, _Mapping]]] = ..., victims: _Optional[_Iterable[_Union[PreemptionVictim, _Mapping]]] = ..., others: _Optional[int] = ..., started: _Optional[_Union[PreemptionAttempt, _Mapping]] = ...) -> None: ...

class PreemptionJob(_message.Message):
    __slots__ = ("job", "display_name", "user", "queue")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    job: str
    display_name: str
    user: str
    queue: str
    def __init__(self, job: _Optional[str] = ..., display_name: _Optional[str] = ..., user: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class PreemptionPlace(_message.Message):
    __slots__ = ("rank", "node", "devices")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    rank: int
    node: str
    devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rank: _Optional[int] = ..., node: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ...) -> None: ...

class PreemptionVictim(_message.Message):
    __slots__ = ("job", "attempt", "expected_loss", "lost", "steps", "next")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LOSS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    job: PreemptionJob
    attempt: PreemptionAttempt
    expected_loss: str
    lost: str
    steps: _containers.RepeatedCompositeFieldContainer[PreemptionStep]
    next: PreemptionAttempt
    def __init__(self, job: _Optional[_Union[PreemptionJob, _Mapping]] = ..., attempt: _Optional[_Union[PreemptionAttempt, _Mapping]] = ..., expected_loss: _Optional[str] = ..., lost: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[PreemptionStep, _Mapping]]] = ..., next: _Optional[_Union[PreemptionAttempt, _Mapping]] = ...) -> None: ...

class PreemptionAttempt(_message.Message):
    __slots__ = ("attempt", "pool", "nodes", "grant_time", "start_time", "end_time", "resume_from", "checkpoint", "checkpoint_time")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GRANT_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_TIME_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    pool: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    grant_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    resume_from: str
    checkpoint: str
    checkpoint_time: _timestamp_pb2.Timestamp
    def __init__(self, attempt: _Optional[int] = ..., pool: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., grant_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., resume_from: _Optional[str] = ..., checkpoint: _Optional[str] = ..., checkpoint_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PreemptionStep(_message.Message):
    __slots__ = ("rank", "rung", "time", "took", "result")
    RANK_FIELD_NUMBER: _ClassVar[int]
    RUNG_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    rung: str
    time: _timestamp_pb2.Timestamp
    took: int
    result: str
    def __init__(self, rank: _Optional[int] = ..., rung: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., took: _Optional[int] = ..., result: _Optional[str] = ...) -> None: ...
