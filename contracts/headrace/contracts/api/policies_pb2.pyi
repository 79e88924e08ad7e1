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

class Policy(_message.Message):
    __slots__ = ("name", "group", "profiles", "beyond_limit", "priority", "weight", "reservation", "limit", "per_pool", "preemption", "max_pending", "budgets", "windows", "etag", "closed", "sequence", "warnings", "fair_among", "per_user", "default_time_limit", "max_time_limit", "idle_after", "idle")
    class ReservationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PerPoolEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Scope
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Scope, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    BEYOND_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PER_POOL_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    FAIR_AMONG_FIELD_NUMBER: _ClassVar[int]
    PER_USER_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    IDLE_AFTER_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    group: str
    profiles: _containers.RepeatedCompositeFieldContainer[PolicyProfile]
    beyond_limit: _containers.RepeatedScalarFieldContainer[str]
    priority: int
    weight: int
    reservation: _containers.ScalarMap[str, str]
    limit: _containers.ScalarMap[str, str]
    per_pool: _containers.MessageMap[str, Scope]
    preemption: PreemptionTerms
    max_pending: int
    budgets: _containers.RepeatedCompositeFieldContainer[Budget]
    windows: _containers.RepeatedCompositeFieldContainer[Window]
    etag: str
    closed: str
    sequence: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    fair_among: str
    per_user: PerUser
    default_time_limit: str
    max_time_limit: str
    idle_after: str
    idle: str
    def __init__(self, name: _Optional[str] = ..., group: _Optional[str] = ..., profiles: _Optional[_Iterable[_Union[PolicyProfile, _Mapping]]] = ..., beyond_limit: _Optional[_Iterable[str]] = ..., priority: _Optional[int] = ..., weight: _Optional[int] = ..., reservation: _Optional[_Mapping[str, str]] = ..., limit: _Optional[_Mapping[str, str]] = ..., per_pool: _Optional[_Mapping[str, Scope]] = ..., preemption: _Optional[_Union[PreemptionTerms, _Mapping]] = ..., max_pending: _Optional[int] = ..., budgets: _Optional[_Iterable[_Union[Budget, _Mapping]]] = ..., windows: _Optional[_Iterable[_Union[Window, _Mapping]]] = ..., etag: _Optional[str] = ..., closed: _Optional[str] = ..., sequence: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., fair_among: _Optional[str] = ..., per_user: _Optional[_Union[PerUser, _Mapping]] = ..., default_time_limit: _Optional[str] = ..., max_time_limit: _Optional[str] = ..., idle_after: _Optional[str] = ..., idle: _Optional[str] = ...) -> None: ...

class PerUser(_message.Message):
    __slots__ = ("limit", "max_pending")
    class LimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_FIELD_NUMBER: _ClassVar[int]
    limit: _containers.ScalarMap[str, str]
    max_pending: int
    def __init__(self, limit: _Optional[_Mapping[str, str]] = ..., max_pending: _Optional[int] = ...) -> None: ...

class PolicyProfile(_message.Message):
    __slots__ = ("name", "borrow", "submitters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BORROW_FIELD_NUMBER: _ClassVar[int]
    SUBMITTERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    borrow: bool
    submitters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., borrow: _Optional[bool] = ..., submitters: _Optional[_Iterable[str]] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ("reservation", "limit")
    class ReservationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    reservation: _containers.ScalarMap[str, str]
    limit: _containers.ScalarMap[str, str]
    def __init__(self, reservation: _Optional[_Mapping[str, str]] = ..., limit: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PreemptionTerms(_message.Message):
    __slots__ = ("on_preempt", "callback_grace", "term_grace", "min_runtime", "preempt_lower_priority", "max_preemptions", "on_node_lost", "suspend_max", "assume_checkpoint_every")
    ON_PREEMPT_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_GRACE_FIELD_NUMBER: _ClassVar[int]
    TERM_GRACE_FIELD_NUMBER: _ClassVar[int]
    MIN_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_LOWER_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    ON_NODE_LOST_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_MAX_FIELD_NUMBER: _ClassVar[int]
    ASSUME_CHECKPOINT_EVERY_FIELD_NUMBER: _ClassVar[int]
    on_preempt: str
    callback_grace: str
    term_grace: str
    min_runtime: str
    preempt_lower_priority: bool
    max_preemptions: int
    on_node_lost: str
    suspend_max: str
    assume_checkpoint_every: str
    def __init__(self, on_preempt: _Optional[str] = ..., callback_grace: _Optional[str] = ..., term_grace: _Optional[str] = ..., min_runtime: _Optional[str] = ..., preempt_lower_priority: _Optional[bool] = ..., max_preemptions: _Optional[int] = ..., on_node_lost: _Optional[str] = ..., suspend_max: _Optional[str] = ..., assume_checkpoint_every: _Optional[str] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("key", "hours", "per", "then", "timezone")
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    PER_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    key: str
    hours: int
    per: str
    then: str
    timezone: str
    def __init__(self, key: _Optional[str] = ..., hours: _Optional[int] = ..., per: _Optional[str] = ..., then: _Optional[str] = ..., timezone: _Optional[str] = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("days", "to", "timezone", "on_close")
    DAYS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    ON_CLOSE_FIELD_NUMBER: _ClassVar[int]
    days: _containers.RepeatedScalarFieldContainer[str]
    to: str
    timezone: str
    on_close: str
    def __init__(self, days: _Optional[_Iterable[str]] = ..., to: _Optional[str] = ..., timezone: _Optional[str] = ..., on_close: _Optional[str] = ..., **kwargs) -> None: ...

class ListPoliciesRequest(_message.Message):
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

class ListPoliciesResponse(_message.Message):
    __slots__ = ("policies", "next_page_token", "sequence")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    next_page_token: str
    sequence: str
    def __init__(self, policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("name", "min_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_sequence: str
    def __init__(self, name: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class CreatePolicyRequest(_message.Message):
    __slots__ = ("parent", "policy_id", "policy", "validate_only", "reason")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    POLICY_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    parent: str
    policy_id: str
    policy: Policy
    validate_only: bool
    reason: str
    def __init__(self, parent: _Optional[str] = ..., policy_id: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class UpdatePolicyRequest(_message.Message):
    __slots__ = ("policy", "update_mask", "allow_missing", "validate_only", "reason")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    update_mask: _field_mask_pb2.FieldMask
    allow_missing: bool
    validate_only: bool
    reason: str
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., allow_missing: _Optional[bool] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class DeletePolicyRequest(_message.Message):
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
