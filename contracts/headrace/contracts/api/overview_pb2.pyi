import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headrace.contracts.api import pools_pb2 as _pools_pb2
from headrace.contracts.api import queues_pb2 as _queues_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetOverviewRequest(_message.Message):
    __slots__ = ("at",)
    AT_FIELD_NUMBER: _ClassVar[int]
    at: str
    def __init__(self, at: _Optional[str] = ...) -> None: ...

class WatchOverviewRequest(_message.Message):
    __slots__ = ("since", "nouns", "tenants", "every_event", "parts")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    NOUNS_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    EVERY_EVENT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    since: str
    nouns: _containers.RepeatedScalarFieldContainer[str]
    tenants: _containers.RepeatedScalarFieldContainer[str]
    every_event: bool
    parts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, since: _Optional[str] = ..., nouns: _Optional[_Iterable[str]] = ..., tenants: _Optional[_Iterable[str]] = ..., every_event: _Optional[bool] = ..., parts: _Optional[_Iterable[str]] = ...) -> None: ...

class Overview(_message.Message):
    __slots__ = ("sequence", "time", "tip", "pools", "queues", "nodes", "devices", "holders")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TIP_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    time: _timestamp_pb2.Timestamp
    tip: str
    pools: _containers.RepeatedCompositeFieldContainer[_pools_pb2.Pool]
    queues: _containers.RepeatedCompositeFieldContainer[_queues_pb2.Queue]
    nodes: NodeColumns
    devices: DeviceColumns
    holders: HolderColumns
    def __init__(self, sequence: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tip: _Optional[str] = ..., pools: _Optional[_Iterable[_Union[_pools_pb2.Pool, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[_queues_pb2.Queue, _Mapping]]] = ..., nodes: _Optional[_Union[NodeColumns, _Mapping]] = ..., devices: _Optional[_Union[DeviceColumns, _Mapping]] = ..., holders: _Optional[_Union[HolderColumns, _Mapping]] = ...) -> None: ...

class NodeColumns(_message.Message):
    __slots__ = ("name", "pool", "state", "model", "maintenance")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    name: _containers.RepeatedScalarFieldContainer[str]
    pool: _containers.RepeatedScalarFieldContainer[str]
    state: _containers.RepeatedScalarFieldContainer[str]
    model: _containers.RepeatedScalarFieldContainer[str]
    maintenance: MaintenanceColumns
    def __init__(self, name: _Optional[_Iterable[str]] = ..., pool: _Optional[_Iterable[str]] = ..., state: _Optional[_Iterable[str]] = ..., model: _Optional[_Iterable[str]] = ..., maintenance: _Optional[_Union[MaintenanceColumns, _Mapping]] = ...) -> None: ...

class MaintenanceColumns(_message.Message):
    __slots__ = ("node", "kind", "begin", "end", "reason", "scheduled_by")
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_BY_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedScalarFieldContainer[int]
    kind: _containers.RepeatedScalarFieldContainer[str]
    begin: _containers.RepeatedScalarFieldContainer[int]
    end: _containers.RepeatedScalarFieldContainer[int]
    reason: _containers.RepeatedScalarFieldContainer[str]
    scheduled_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[_Iterable[int]] = ..., kind: _Optional[_Iterable[str]] = ..., begin: _Optional[_Iterable[int]] = ..., end: _Optional[_Iterable[int]] = ..., reason: _Optional[_Iterable[str]] = ..., scheduled_by: _Optional[_Iterable[str]] = ...) -> None: ...

class DeviceColumns(_message.Message):
    __slots__ = ("node", "name", "used", "kept", "unfit", "shares")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedScalarFieldContainer[int]
    name: _containers.RepeatedScalarFieldContainer[str]
    used: _containers.RepeatedScalarFieldContainer[int]
    kept: _containers.RepeatedScalarFieldContainer[int]
    unfit: _containers.RepeatedScalarFieldContainer[str]
    shares: ShareColumns
    def __init__(self, node: _Optional[_Iterable[int]] = ..., name: _Optional[_Iterable[str]] = ..., used: _Optional[_Iterable[int]] = ..., kept: _Optional[_Iterable[int]] = ..., unfit: _Optional[_Iterable[str]] = ..., shares: _Optional[_Union[ShareColumns, _Mapping]] = ...) -> None: ...

class ShareColumns(_message.Message):
    __slots__ = ("device", "holder", "units", "mig", "start")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    MIG_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    device: _containers.RepeatedScalarFieldContainer[int]
    holder: _containers.RepeatedScalarFieldContainer[int]
    units: _containers.RepeatedScalarFieldContainer[int]
    mig: _containers.RepeatedScalarFieldContainer[str]
    start: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, device: _Optional[_Iterable[int]] = ..., holder: _Optional[_Iterable[int]] = ..., units: _Optional[_Iterable[int]] = ..., mig: _Optional[_Iterable[str]] = ..., start: _Optional[_Iterable[int]] = ...) -> None: ...

class HolderColumns(_message.Message):
    __slots__ = ("id", "display_name", "tenant", "user", "queue", "state", "since")
    ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    id: _containers.RepeatedScalarFieldContainer[str]
    display_name: _containers.RepeatedScalarFieldContainer[str]
    tenant: _containers.RepeatedScalarFieldContainer[str]
    user: _containers.RepeatedScalarFieldContainer[str]
    queue: _containers.RepeatedScalarFieldContainer[str]
    state: _containers.RepeatedScalarFieldContainer[str]
    since: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[_Iterable[str]] = ..., display_name: _Optional[_Iterable[str]] = ..., tenant: _Optional[_Iterable[str]] = ..., user: _Optional[_Iterable[str]] = ..., queue: _Optional[_Iterable[str]] = ..., state: _Optional[_Iterable[str]] = ..., since: _Optional[_Iterable[int]] = ...) -> None: ...

class OverviewChange(_message.Message):
    __slots__ = ("sequence", "time", "overview", "events", "left_out", "loads")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LOADS_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    time: _timestamp_pb2.Timestamp
    overview: Overview
    events: _containers.RepeatedCompositeFieldContainer[OverviewEvent]
    left_out: int
    loads: DeviceLoads
    def __init__(self, sequence: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., overview: _Optional[_Union[Overview, _Mapping]] = ..., events: _Optional[_Iterable[_Union[OverviewEvent, _Mapping]]] = ..., left_out: _Optional[int] = ..., loads: _Optional[_Union[DeviceLoads, _Mapping]] = ...) -> None: ...

class DeviceLoads(_message.Message):
    __slots__ = ("busy", "idle")
    BUSY_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    busy: _containers.RepeatedScalarFieldContainer[int]
    idle: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, busy: _Optional[_Iterable[int]] = ..., idle: _Optional[_Iterable[int]] = ...) -> None: ...

class OverviewEvent(_message.Message):
    __slots__ = ("sequence", "number", "time", "by", "type", "about", "text", "rule")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    number: int
    time: _timestamp_pb2.Timestamp
    by: str
    type: str
    about: str
    text: str
    rule: str
    def __init__(self, sequence: _Optional[str] = ..., number: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., type: _Optional[str] = ..., about: _Optional[str] = ..., text: _Optional[str] = ..., rule: _Optional[str] = ...) -> None: ...
