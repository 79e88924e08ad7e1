import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headrace.contracts.api import nodes_pb2 as _nodes_pb2
from headrace.contracts.api import pools_pb2 as _pools_pb2
from headrace.contracts.api import queues_pb2 as _queues_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListRecordsRequest(_message.Message):
    __slots__ = ("after", "page_size", "page_token")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    after: str
    page_size: int
    page_token: str
    def __init__(self, after: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRecordsResponse(_message.Message):
    __slots__ = ("records", "next_page_token", "sequence")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[LedgerRecord]
    next_page_token: str
    sequence: str
    def __init__(self, records: _Optional[_Iterable[_Union[LedgerRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class LedgerRecord(_message.Message):
    __slots__ = ("sequence", "subject", "store_time", "digest", "record")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    STORE_TIME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    subject: str
    store_time: _timestamp_pb2.Timestamp
    digest: str
    record: _struct_pb2.Struct
    def __init__(self, sequence: _Optional[str] = ..., subject: _Optional[str] = ..., store_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., digest: _Optional[str] = ..., record: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class GetStateRequest(_message.Message):
    __slots__ = ("at",)
    AT_FIELD_NUMBER: _ClassVar[int]
    at: str
    def __init__(self, at: _Optional[str] = ...) -> None: ...

class PastState(_message.Message):
    __slots__ = ("sequence", "time", "pools", "nodes", "queues", "jobs", "leases")
    class JobsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    time: _timestamp_pb2.Timestamp
    pools: _containers.RepeatedCompositeFieldContainer[_pools_pb2.Pool]
    nodes: _containers.RepeatedCompositeFieldContainer[_nodes_pb2.Node]
    queues: _containers.RepeatedCompositeFieldContainer[_queues_pb2.Queue]
    jobs: _containers.ScalarMap[str, int]
    leases: _containers.RepeatedCompositeFieldContainer[HeldLease]
    def __init__(self, sequence: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pools: _Optional[_Iterable[_Union[_pools_pb2.Pool, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[_nodes_pb2.Node, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[_queues_pb2.Queue, _Mapping]]] = ..., jobs: _Optional[_Mapping[str, int]] = ..., leases: _Optional[_Iterable[_Union[HeldLease, _Mapping]]] = ...) -> None: ...

class HeldLease(_message.Message):
    __slots__ = ("lease", "node", "pool", "devices", "amounts")
    class AmountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LEASE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    lease: str
    node: str
    pool: str
    devices: _containers.RepeatedScalarFieldContainer[str]
    amounts: _containers.ScalarMap[str, str]
    def __init__(self, lease: _Optional[str] = ..., node: _Optional[str] = ..., pool: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ..., amounts: _Optional[_Mapping[str, str]] = ...) -> None: ...
