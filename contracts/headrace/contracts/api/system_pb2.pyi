import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import httpbody_pb2 as _httpbody_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetOpenApiRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCallerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CallerView(_message.Message):
    __slots__ = ("role", "tenant", "handle", "groups", "sequence")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    role: str
    tenant: str
    handle: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    sequence: str
    def __init__(self, role: _Optional[str] = ..., tenant: _Optional[str] = ..., handle: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InstallationStatus(_message.Message):
    __slots__ = ("tip", "services", "leader", "followers", "clustered")
    TIP_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    FOLLOWERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTERED_FIELD_NUMBER: _ClassVar[int]
    tip: str
    services: _containers.RepeatedCompositeFieldContainer[ServiceStatus]
    leader: str
    followers: _containers.RepeatedCompositeFieldContainer[LedgerFollower]
    clustered: bool
    def __init__(self, tip: _Optional[str] = ..., services: _Optional[_Iterable[_Union[ServiceStatus, _Mapping]]] = ..., leader: _Optional[str] = ..., followers: _Optional[_Iterable[_Union[LedgerFollower, _Mapping]]] = ..., clustered: _Optional[bool] = ...) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("name", "answered", "sequence", "time", "engine", "reads", "level", "newest", "held_back", "trouble", "detail")
    class DetailEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    answered: bool
    sequence: str
    time: _timestamp_pb2.Timestamp
    engine: str
    reads: int
    level: int
    newest: int
    held_back: _containers.RepeatedScalarFieldContainer[str]
    trouble: str
    detail: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., answered: _Optional[bool] = ..., sequence: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., engine: _Optional[str] = ..., reads: _Optional[int] = ..., level: _Optional[int] = ..., newest: _Optional[int] = ..., held_back: _Optional[_Iterable[str]] = ..., trouble: _Optional[str] = ..., detail: _Optional[_Mapping[str, int]] = ...) -> None: ...

class LedgerFollower(_message.Message):
    __slots__ = ("name", "current", "offline", "lag")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    current: bool
    offline: bool
    lag: int
    def __init__(self, name: _Optional[str] = ..., current: _Optional[bool] = ..., offline: _Optional[bool] = ..., lag: _Optional[int] = ...) -> None: ...
