import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.api import resource_pb2 as _resource_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headrace.contracts.api import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Node(_message.Message):
    __slots__ = ("name", "pool", "state", "labels", "model", "gpus", "gpu_free", "cpu", "cpu_free", "memory", "memory_free", "leases", "heard_time", "slices", "dedicated_to", "cordoned", "sequence", "isolation", "unfit", "unapproved", "maintenance")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class IsolationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class UnfitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_FREE_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    CPU_FREE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FREE_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    HEARD_TIME_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    DEDICATED_TO_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    UNAPPROVED_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    pool: str
    state: str
    labels: _containers.ScalarMap[str, str]
    model: str
    gpus: int
    gpu_free: str
    cpu: str
    cpu_free: str
    memory: str
    memory_free: str
    leases: int
    heard_time: _timestamp_pb2.Timestamp
    slices: _containers.RepeatedCompositeFieldContainer[DeviceSlices]
    dedicated_to: str
    cordoned: str
    sequence: str
    isolation: _containers.ScalarMap[str, str]
    unfit: _containers.ScalarMap[str, str]
    unapproved: _containers.RepeatedScalarFieldContainer[str]
    maintenance: NodeMaintenance
    def __init__(self, name: _Optional[str] = ..., pool: _Optional[str] = ..., state: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., model: _Optional[str] = ..., gpus: _Optional[int] = ..., gpu_free: _Optional[str] = ..., cpu: _Optional[str] = ..., cpu_free: _Optional[str] = ..., memory: _Optional[str] = ..., memory_free: _Optional[str] = ..., leases: _Optional[int] = ..., heard_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., slices: _Optional[_Iterable[_Union[DeviceSlices, _Mapping]]] = ..., dedicated_to: _Optional[str] = ..., cordoned: _Optional[str] = ..., sequence: _Optional[str] = ..., isolation: _Optional[_Mapping[str, str]] = ..., unfit: _Optional[_Mapping[str, str]] = ..., unapproved: _Optional[_Iterable[str]] = ..., maintenance: _Optional[_Union[NodeMaintenance, _Mapping]] = ...) -> None: ...

class NodeMaintenance(_message.Message):
    __slots__ = ("kind", "begin_time", "end_time", "reason", "scheduled_by")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_BY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    begin_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    reason: str
    scheduled_by: str
    def __init__(self, kind: _Optional[str] = ..., begin_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., scheduled_by: _Optional[str] = ...) -> None: ...

class NodeClaims(_message.Message):
    __slots__ = ("labels", "gpus", "isolation")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    gpus: int
    isolation: str
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., gpus: _Optional[int] = ..., isolation: _Optional[str] = ...) -> None: ...

class ApproveNodeRequest(_message.Message):
    __slots__ = ("name", "claims", "reason", "validate_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    claims: NodeClaims
    reason: str
    validate_only: bool
    def __init__(self, name: _Optional[str] = ..., claims: _Optional[_Union[NodeClaims, _Mapping]] = ..., reason: _Optional[str] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class DeviceSlices(_message.Message):
    __slots__ = ("device", "slices")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    device: str
    slices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, device: _Optional[str] = ..., slices: _Optional[_Iterable[str]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "filter", "min_sequence")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    filter: str
    min_sequence: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token", "sequence")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page_token: str
    sequence: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("name", "min_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_sequence: str
    def __init__(self, name: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class NodeOrderRequest(_message.Message):
    __slots__ = ("name", "reason", "validate_only", "begin_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    validate_only: bool
    begin_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., validate_only: _Optional[bool] = ..., begin_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
