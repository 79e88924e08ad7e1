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

class Group(_message.Message):
    __slots__ = ("name", "members", "service_accounts", "on_behalf", "runtime", "etag", "closed", "sequence", "warnings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    members: _containers.RepeatedScalarFieldContainer[str]
    service_accounts: _containers.RepeatedScalarFieldContainer[str]
    on_behalf: _containers.RepeatedScalarFieldContainer[str]
    runtime: RuntimeRules
    etag: str
    closed: str
    sequence: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., service_accounts: _Optional[_Iterable[str]] = ..., on_behalf: _Optional[_Iterable[str]] = ..., runtime: _Optional[_Union[RuntimeRules, _Mapping]] = ..., etag: _Optional[str] = ..., closed: _Optional[str] = ..., sequence: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class RuntimeRules(_message.Message):
    __slots__ = ("allow_images", "deny_images", "allow_commands", "deny_commands", "env", "deny_env", "secrets", "give_secrets", "mounts", "default_image", "default_request")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SecretsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DefaultRequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALLOW_IMAGES_FIELD_NUMBER: _ClassVar[int]
    DENY_IMAGES_FIELD_NUMBER: _ClassVar[int]
    ALLOW_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    DENY_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    DENY_ENV_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    GIVE_SECRETS_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_IMAGE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    allow_images: _containers.RepeatedScalarFieldContainer[str]
    deny_images: _containers.RepeatedScalarFieldContainer[str]
    allow_commands: _containers.RepeatedScalarFieldContainer[str]
    deny_commands: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    deny_env: _containers.RepeatedScalarFieldContainer[str]
    secrets: _containers.ScalarMap[str, str]
    give_secrets: _containers.RepeatedScalarFieldContainer[str]
    mounts: _containers.RepeatedCompositeFieldContainer[Mount]
    default_image: str
    default_request: _containers.ScalarMap[str, str]
    def __init__(self, allow_images: _Optional[_Iterable[str]] = ..., deny_images: _Optional[_Iterable[str]] = ..., allow_commands: _Optional[_Iterable[str]] = ..., deny_commands: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., deny_env: _Optional[_Iterable[str]] = ..., secrets: _Optional[_Mapping[str, str]] = ..., give_secrets: _Optional[_Iterable[str]] = ..., mounts: _Optional[_Iterable[_Union[Mount, _Mapping]]] = ..., default_image: _Optional[str] = ..., default_request: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Mount(_message.Message):
    __slots__ = ("source", "target", "read_only")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    read_only: bool
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., read_only: _Optional[bool] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
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

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups", "next_page_token", "sequence")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    next_page_token: str
    sequence: str
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetGroupRequest(_message.Message):
    __slots__ = ("name", "min_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_sequence: str
    def __init__(self, name: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class CreateGroupRequest(_message.Message):
    __slots__ = ("parent", "group_id", "group", "validate_only", "reason")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    parent: str
    group_id: str
    group: Group
    validate_only: bool
    reason: str
    def __init__(self, parent: _Optional[str] = ..., group_id: _Optional[str] = ..., group: _Optional[_Union[Group, _Mapping]] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class UpdateGroupRequest(_message.Message):
    __slots__ = ("group", "update_mask", "allow_missing", "validate_only", "reason")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group: Group
    update_mask: _field_mask_pb2.FieldMask
    allow_missing: bool
    validate_only: bool
    reason: str
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., allow_missing: _Optional[bool] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
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
