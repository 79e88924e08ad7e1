from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeleteMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELETE_MODE_UNSPECIFIED: _ClassVar[DeleteMode]
    FREEZE: _ClassVar[DeleteMode]
    DRAIN: _ClassVar[DeleteMode]
    CANCEL: _ClassVar[DeleteMode]
DELETE_MODE_UNSPECIFIED: DeleteMode
FREEZE: DeleteMode
DRAIN: DeleteMode
CANCEL: DeleteMode

class Plan(_message.Message):
    __slots__ = ("changes", "warnings", "applied", "running", "pending", "revision", "sequence", "lines")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    applied: bool
    running: int
    pending: int
    revision: str
    sequence: str
    lines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ..., applied: _Optional[bool] = ..., running: _Optional[int] = ..., pending: _Optional[int] = ..., revision: _Optional[str] = ..., sequence: _Optional[str] = ..., lines: _Optional[_Iterable[str]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("kind", "name", "action", "fields", "etag")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    action: str
    fields: _containers.RepeatedScalarFieldContainer[str]
    etag: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., action: _Optional[str] = ..., fields: _Optional[_Iterable[str]] = ..., etag: _Optional[str] = ...) -> None: ...
