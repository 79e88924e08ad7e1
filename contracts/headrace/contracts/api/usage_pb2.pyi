import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.api import resource_pb2 as _resource_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetUsageRequest(_message.Message):
    __slots__ = ("parent", "since", "until", "by", "per", "timezone", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    PER_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    by: _containers.RepeatedScalarFieldContainer[str]
    per: str
    timezone: str
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[_Iterable[str]] = ..., per: _Optional[str] = ..., timezone: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class UsageReport(_message.Message):
    __slots__ = ("lines", "sequence", "next_page_token", "time", "currency", "warnings")
    LINES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[UsageLine]
    sequence: str
    next_page_token: str
    time: _timestamp_pb2.Timestamp
    currency: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lines: _Optional[_Iterable[_Union[UsageLine, _Mapping]]] = ..., sequence: _Optional[str] = ..., next_page_token: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., currency: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class GetUtilizationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Utilization(_message.Message):
    __slots__ = ("time", "devices", "holders", "idle_nodes", "unknown")
    TIME_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    IDLE_NODES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    devices: LoadColumns
    holders: _containers.RepeatedCompositeFieldContainer[IdleHolder]
    idle_nodes: _containers.RepeatedCompositeFieldContainer[IdleNode]
    unknown: int
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., devices: _Optional[_Union[LoadColumns, _Mapping]] = ..., holders: _Optional[_Iterable[_Union[IdleHolder, _Mapping]]] = ..., idle_nodes: _Optional[_Iterable[_Union[IdleNode, _Mapping]]] = ..., unknown: _Optional[int] = ...) -> None: ...

class LoadColumns(_message.Message):
    __slots__ = ("node", "name", "busy", "average", "memory", "held", "idle")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedScalarFieldContainer[str]
    name: _containers.RepeatedScalarFieldContainer[str]
    busy: _containers.RepeatedScalarFieldContainer[int]
    average: _containers.RepeatedScalarFieldContainer[int]
    memory: _containers.RepeatedScalarFieldContainer[int]
    held: _containers.RepeatedScalarFieldContainer[int]
    idle: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[_Iterable[str]] = ..., name: _Optional[_Iterable[str]] = ..., busy: _Optional[_Iterable[int]] = ..., average: _Optional[_Iterable[int]] = ..., memory: _Optional[_Iterable[int]] = ..., held: _Optional[_Iterable[int]] = ..., idle: _Optional[_Iterable[int]] = ...) -> None: ...

class IdleHolder(_message.Message):
    __slots__ = ("job", "display_name", "user", "queue", "pool", "node", "devices", "gpus", "held", "average", "idle_time", "idle_yields")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIME_FIELD_NUMBER: _ClassVar[int]
    IDLE_YIELDS_FIELD_NUMBER: _ClassVar[int]
    job: str
    display_name: str
    user: str
    queue: str
    pool: str
    node: str
    devices: _containers.RepeatedScalarFieldContainer[str]
    gpus: str
    held: int
    average: int
    idle_time: _timestamp_pb2.Timestamp
    idle_yields: bool
    def __init__(self, job: _Optional[str] = ..., display_name: _Optional[str] = ..., user: _Optional[str] = ..., queue: _Optional[str] = ..., pool: _Optional[str] = ..., node: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ..., gpus: _Optional[str] = ..., held: _Optional[int] = ..., average: _Optional[int] = ..., idle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., idle_yields: _Optional[bool] = ...) -> None: ...

class IdleNode(_message.Message):
    __slots__ = ("node", "pool", "gpus")
    NODE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    node: str
    pool: str
    gpus: str
    def __init__(self, node: _Optional[str] = ..., pool: _Optional[str] = ..., gpus: _Optional[str] = ...) -> None: ...

class GetStatementRequest(_message.Message):
    __slots__ = ("parent", "month", "timezone", "form", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    MONTH_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    month: str
    timezone: str
    form: str
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., month: _Optional[str] = ..., timezone: _Optional[str] = ..., form: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class Statement(_message.Message):
    __slots__ = ("text", "final", "next_page_token", "sequence")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    text: str
    final: bool
    next_page_token: str
    sequence: str
    def __init__(self, text: _Optional[str] = ..., final: _Optional[bool] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class UsageLine(_message.Message):
    __slots__ = ("group", "key", "hours", "reserved_hours", "borrowed_hours", "lost_hours", "jobs", "exact", "idle_hours", "suspended_hours", "waiting_hours", "cost", "lost_cost", "kept_hours", "provider_lost_hours", "exact_amounts", "measured_hours", "busy_hours", "idle_held_hours")
    class GroupEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ExactAmountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_HOURS_FIELD_NUMBER: _ClassVar[int]
    BORROWED_HOURS_FIELD_NUMBER: _ClassVar[int]
    LOST_HOURS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    IDLE_HOURS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_HOURS_FIELD_NUMBER: _ClassVar[int]
    WAITING_HOURS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LOST_COST_FIELD_NUMBER: _ClassVar[int]
    KEPT_HOURS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_LOST_HOURS_FIELD_NUMBER: _ClassVar[int]
    EXACT_AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    MEASURED_HOURS_FIELD_NUMBER: _ClassVar[int]
    BUSY_HOURS_FIELD_NUMBER: _ClassVar[int]
    IDLE_HELD_HOURS_FIELD_NUMBER: _ClassVar[int]
    group: _containers.ScalarMap[str, str]
    key: str
    hours: str
    reserved_hours: str
    borrowed_hours: str
    lost_hours: str
    jobs: int
    exact: str
    idle_hours: str
    suspended_hours: str
    waiting_hours: str
    cost: str
    lost_cost: str
    kept_hours: str
    provider_lost_hours: str
    exact_amounts: _containers.ScalarMap[str, str]
    measured_hours: str
    busy_hours: str
    idle_held_hours: str
    def __init__(self, group: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., hours: _Optional[str] = ..., reserved_hours: _Optional[str] = ..., borrowed_hours: _Optional[str] = ..., lost_hours: _Optional[str] = ..., jobs: _Optional[int] = ..., exact: _Optional[str] = ..., idle_hours: _Optional[str] = ..., suspended_hours: _Optional[str] = ..., waiting_hours: _Optional[str] = ..., cost: _Optional[str] = ..., lost_cost: _Optional[str] = ..., kept_hours: _Optional[str] = ..., provider_lost_hours: _Optional[str] = ..., exact_amounts: _Optional[_Mapping[str, str]] = ..., measured_hours: _Optional[str] = ..., busy_hours: _Optional[str] = ..., idle_held_hours: _Optional[str] = ...) -> None: ...
