from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.api import resource_pb2 as _resource_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from headrace.contracts.api import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServiceAccount(_message.Message):
    __slots__ = ("name", "groups", "on_behalf", "etag", "closed", "sequence", "warnings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    on_behalf: _containers.RepeatedScalarFieldContainer[str]
    etag: str
    closed: str
    sequence: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., on_behalf: _Optional[_Iterable[str]] = ..., etag: _Optional[str] = ..., closed: _Optional[str] = ..., sequence: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListServiceAccountsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "filter", "min_sequence")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    filter: str
    min_sequence: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class ListServiceAccountsResponse(_message.Message):
    __slots__ = ("service_accounts", "next_page_token", "sequence")
    SERVICE_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    service_accounts: _containers.RepeatedCompositeFieldContainer[ServiceAccount]
    next_page_token: str
    sequence: str
    def __init__(self, service_accounts: _Optional[_Iterable[_Union[ServiceAccount, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetServiceAccountRequest(_message.Message):
    __slots__ = ("name", "min_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_sequence: str
    def __init__(self, name: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class CreateServiceAccountRequest(_message.Message):
    __slots__ = ("parent", "service_account_id", "service_account", "validate_only", "reason")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    parent: str
    service_account_id: str
    service_account: ServiceAccount
    validate_only: bool
    reason: str
    def __init__(self, parent: _Optional[str] = ..., service_account_id: _Optional[str] = ..., service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class UpdateServiceAccountRequest(_message.Message):
    __slots__ = ("service_account", "update_mask", "allow_missing", "validate_only", "reason")
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    service_account: ServiceAccount
    update_mask: _field_mask_pb2.FieldMask
    allow_missing: bool
    validate_only: bool
    reason: str
    def __init__(self, service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., allow_missing: _Optional[bool] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteServiceAccountRequest(_message.Message):
    __slots__ = ("name", "mode", "etag", "validate_only", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _plan_pb2.DeleteMode
    etag: str
    validate_only: bool
    reason: str
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_plan_pb2.DeleteMode, str]] = ..., etag: _Optional[str] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...
