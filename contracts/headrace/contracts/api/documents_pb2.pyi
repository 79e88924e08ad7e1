from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from headrace.contracts.api import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
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

class GetDocumentsRequest(_message.Message):
    __slots__ = ("kind", "name", "min_sequence")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    min_sequence: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class GetDocumentsResponse(_message.Message):
    __slots__ = ("documents", "sequence")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedCompositeFieldContainer[Document]
    sequence: str
    def __init__(self, documents: _Optional[_Iterable[_Union[Document, _Mapping]]] = ..., sequence: _Optional[str] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("kind", "name", "etag", "closed", "document")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    etag: str
    closed: str
    document: _struct_pb2.Struct
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., etag: _Optional[str] = ..., closed: _Optional[str] = ..., document: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class DeleteDocumentRequest(_message.Message):
    __slots__ = ("kind", "name", "tenant", "mode", "etag", "validate_only", "reason")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    tenant: str
    mode: _plan_pb2.DeleteMode
    etag: str
    validate_only: bool
    reason: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., tenant: _Optional[str] = ..., mode: _Optional[_Union[_plan_pb2.DeleteMode, str]] = ..., etag: _Optional[str] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...
