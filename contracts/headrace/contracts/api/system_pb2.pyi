from google.api import annotations_pb2 as _annotations_pb2
from google.api import httpbody_pb2 as _httpbody_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

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
