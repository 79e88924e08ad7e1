from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from headrace.contracts.api import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ApplyDocumentsRequest(_message.Message):
    __slots__ = ("documents", "dry_run", "reason", "revisions")
    class RevisionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    documents: _struct_pb2.Struct
    dry_run: bool
    reason: str
    revisions: _containers.ScalarMap[str, str]
    def __init__(self, documents: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., dry_run: _Optional[bool] = ..., reason: _Optional[str] = ..., revisions: _Optional[_Mapping[str, str]] = ...) -> None: ...
