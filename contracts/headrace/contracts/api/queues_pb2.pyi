import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.api import resource_pb2 as _resource_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Queue(_message.Message):
    __slots__ = ("name", "policy", "profile", "group", "submitters", "borrow", "pending", "running", "scopes", "closed", "shut", "opens_time", "budgets", "sequence", "fair_among", "users")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SUBMITTERS_FIELD_NUMBER: _ClassVar[int]
    BORROW_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SHUT_FIELD_NUMBER: _ClassVar[int]
    OPENS_TIME_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FAIR_AMONG_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    policy: str
    profile: str
    group: str
    submitters: _containers.RepeatedScalarFieldContainer[str]
    borrow: bool
    pending: int
    running: int
    scopes: _containers.RepeatedCompositeFieldContainer[ScopeUse]
    closed: str
    shut: bool
    opens_time: _timestamp_pb2.Timestamp
    budgets: _containers.RepeatedCompositeFieldContainer[BudgetUse]
    sequence: str
    fair_among: str
    users: _containers.RepeatedCompositeFieldContainer[UserUse]
    def __init__(self, name: _Optional[str] = ..., policy: _Optional[str] = ..., profile: _Optional[str] = ..., group: _Optional[str] = ..., submitters: _Optional[_Iterable[str]] = ..., borrow: _Optional[bool] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ..., scopes: _Optional[_Iterable[_Union[ScopeUse, _Mapping]]] = ..., closed: _Optional[str] = ..., shut: _Optional[bool] = ..., opens_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., budgets: _Optional[_Iterable[_Union[BudgetUse, _Mapping]]] = ..., sequence: _Optional[str] = ..., fair_among: _Optional[str] = ..., users: _Optional[_Iterable[_Union[UserUse, _Mapping]]] = ...) -> None: ...

class UserUse(_message.Message):
    __slots__ = ("user", "used", "limit", "pending", "max_pending")
    class UsedEntry(_message.Message):
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
    USER_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_FIELD_NUMBER: _ClassVar[int]
    user: str
    used: _containers.ScalarMap[str, str]
    limit: _containers.ScalarMap[str, str]
    pending: int
    max_pending: int
    def __init__(self, user: _Optional[str] = ..., used: _Optional[_Mapping[str, str]] = ..., limit: _Optional[_Mapping[str, str]] = ..., pending: _Optional[int] = ..., max_pending: _Optional[int] = ...) -> None: ...

class ScopeUse(_message.Message):
    __slots__ = ("key", "used", "reservation", "limit", "reserved", "borrowed")
    KEY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    BORROWED_FIELD_NUMBER: _ClassVar[int]
    key: str
    used: str
    reservation: str
    limit: str
    reserved: str
    borrowed: str
    def __init__(self, key: _Optional[str] = ..., used: _Optional[str] = ..., reservation: _Optional[str] = ..., limit: _Optional[str] = ..., reserved: _Optional[str] = ..., borrowed: _Optional[str] = ...) -> None: ...

class BudgetUse(_message.Message):
    __slots__ = ("key", "hours", "per", "then", "used", "spent", "ends_time", "warning")
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    PER_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    ENDS_TIME_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    key: str
    hours: int
    per: str
    then: str
    used: str
    spent: bool
    ends_time: _timestamp_pb2.Timestamp
    warning: str
    def __init__(self, key: _Optional[str] = ..., hours: _Optional[int] = ..., per: _Optional[str] = ..., then: _Optional[str] = ..., used: _Optional[str] = ..., spent: _Optional[bool] = ..., ends_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., warning: _Optional[str] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
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

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "next_page_token", "sequence")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    next_page_token: str
    sequence: str
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("name", "min_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_sequence: str
    def __init__(self, name: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...
