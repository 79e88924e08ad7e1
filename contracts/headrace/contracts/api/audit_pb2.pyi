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

class GetVerificationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Verification(_message.Message):
    __slots__ = ("time", "sequence", "behind", "sealed_sequence", "seals", "seal_age", "key", "recomputed", "found", "findings", "stopped")
    TIME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    SEALED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEALS_FIELD_NUMBER: _ClassVar[int]
    SEAL_AGE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTED_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    sequence: str
    behind: int
    sealed_sequence: str
    seals: int
    seal_age: int
    key: str
    recomputed: int
    found: int
    findings: _containers.RepeatedCompositeFieldContainer[VerificationFinding]
    stopped: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sequence: _Optional[str] = ..., behind: _Optional[int] = ..., sealed_sequence: _Optional[str] = ..., seals: _Optional[int] = ..., seal_age: _Optional[int] = ..., key: _Optional[str] = ..., recomputed: _Optional[int] = ..., found: _Optional[int] = ..., findings: _Optional[_Iterable[_Union[VerificationFinding, _Mapping]]] = ..., stopped: _Optional[str] = ...) -> None: ...

class VerificationFinding(_message.Message):
    __slots__ = ("kind", "first", "last", "text")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    first: str
    last: str
    text: str
    def __init__(self, kind: _Optional[str] = ..., first: _Optional[str] = ..., last: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class GetTimelineRequest(_message.Message):
    __slots__ = ("since", "until", "bins")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    BINS_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    bins: int
    def __init__(self, since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., bins: _Optional[int] = ...) -> None: ...

class Timeline(_message.Message):
    __slots__ = ("since", "until", "before", "sequence", "pools", "pending", "changes", "through")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    before: str
    sequence: _containers.RepeatedScalarFieldContainer[str]
    pools: _containers.RepeatedCompositeFieldContainer[PoolTimeline]
    pending: _containers.RepeatedScalarFieldContainer[int]
    changes: _containers.RepeatedScalarFieldContainer[int]
    through: str
    def __init__(self, since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., before: _Optional[str] = ..., sequence: _Optional[_Iterable[str]] = ..., pools: _Optional[_Iterable[_Union[PoolTimeline, _Mapping]]] = ..., pending: _Optional[_Iterable[int]] = ..., changes: _Optional[_Iterable[int]] = ..., through: _Optional[str] = ...) -> None: ...

class PoolTimeline(_message.Message):
    __slots__ = ("pool", "usable", "used", "reserved", "borrowed", "kept", "preemptions", "growth")
    POOL_FIELD_NUMBER: _ClassVar[int]
    USABLE_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    BORROWED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    GROWTH_FIELD_NUMBER: _ClassVar[int]
    pool: str
    usable: _containers.RepeatedScalarFieldContainer[int]
    used: _containers.RepeatedScalarFieldContainer[int]
    reserved: _containers.RepeatedScalarFieldContainer[int]
    borrowed: _containers.RepeatedScalarFieldContainer[int]
    kept: _containers.RepeatedScalarFieldContainer[int]
    preemptions: _containers.RepeatedScalarFieldContainer[int]
    growth: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, pool: _Optional[str] = ..., usable: _Optional[_Iterable[int]] = ..., used: _Optional[_Iterable[int]] = ..., reserved: _Optional[_Iterable[int]] = ..., borrowed: _Optional[_Iterable[int]] = ..., kept: _Optional[_Iterable[int]] = ..., preemptions: _Optional[_Iterable[int]] = ..., growth: _Optional[_Iterable[int]] = ...) -> None: ...

class GetWhatIfQueueRequest(_message.Message):
    __slots__ = ("parent",)
    PARENT_FIELD_NUMBER: _ClassVar[int]
    parent: str
    def __init__(self, parent: _Optional[str] = ...) -> None: ...

class WhatIfQueue(_message.Message):
    __slots__ = ("questions",)
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedCompositeFieldContainer[WhatIfPlace]
    def __init__(self, questions: _Optional[_Iterable[_Union[WhatIfPlace, _Mapping]]] = ...) -> None: ...

class WhatIfPlace(_message.Message):
    __slots__ = ("tenant", "caller", "position", "since_time")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    caller: str
    position: int
    since_time: _timestamp_pb2.Timestamp
    def __init__(self, tenant: _Optional[str] = ..., caller: _Optional[str] = ..., position: _Optional[int] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WhatIfRequest(_message.Message):
    __slots__ = ("parent", "changes", "since", "until", "span")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    changes: _struct_pb2.Struct
    since: str
    until: str
    span: str
    def __init__(self, parent: _Optional[str] = ..., changes: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., span: _Optional[str] = ...) -> None: ...

class WhatIfReport(_message.Message):
    __slots__ = ("sequence", "time", "span", "assumptions", "total", "recorded", "groups", "policies", "pools", "moved", "moved_in_all")
    class GroupsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: WhatIfSides
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[WhatIfSides, _Mapping]] = ...) -> None: ...
    class PoliciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: WhatIfSides
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[WhatIfSides, _Mapping]] = ...) -> None: ...
    class PoolsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: WhatIfPoolSides
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[WhatIfPoolSides, _Mapping]] = ...) -> None: ...
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    ASSUMPTIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    MOVED_IN_ALL_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    time: _timestamp_pb2.Timestamp
    span: str
    assumptions: _containers.RepeatedScalarFieldContainer[str]
    total: WhatIfSides
    recorded: WhatIfNumbers
    groups: _containers.MessageMap[str, WhatIfSides]
    policies: _containers.MessageMap[str, WhatIfSides]
    pools: _containers.MessageMap[str, WhatIfPoolSides]
    moved: _containers.RepeatedCompositeFieldContainer[WhatIfMove]
    moved_in_all: int
    def __init__(self, sequence: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., span: _Optional[str] = ..., assumptions: _Optional[_Iterable[str]] = ..., total: _Optional[_Union[WhatIfSides, _Mapping]] = ..., recorded: _Optional[_Union[WhatIfNumbers, _Mapping]] = ..., groups: _Optional[_Mapping[str, WhatIfSides]] = ..., policies: _Optional[_Mapping[str, WhatIfSides]] = ..., pools: _Optional[_Mapping[str, WhatIfPoolSides]] = ..., moved: _Optional[_Iterable[_Union[WhatIfMove, _Mapping]]] = ..., moved_in_all: _Optional[int] = ...) -> None: ...

class WhatIfSides(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: WhatIfNumbers
    after: WhatIfNumbers
    def __init__(self, before: _Optional[_Union[WhatIfNumbers, _Mapping]] = ..., after: _Optional[_Union[WhatIfNumbers, _Mapping]] = ...) -> None: ...

class WhatIfNumbers(_message.Message):
    __slots__ = ("starts", "waiting", "refused", "wait_mean", "wait_p95", "wait_max", "preemptions", "lost", "used", "reserved", "borrowed", "cost")
    STARTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    WAIT_MEAN_FIELD_NUMBER: _ClassVar[int]
    WAIT_P95_FIELD_NUMBER: _ClassVar[int]
    WAIT_MAX_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    BORROWED_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    starts: int
    waiting: int
    refused: int
    wait_mean: str
    wait_p95: str
    wait_max: str
    preemptions: int
    lost: str
    used: str
    reserved: str
    borrowed: str
    cost: str
    def __init__(self, starts: _Optional[int] = ..., waiting: _Optional[int] = ..., refused: _Optional[int] = ..., wait_mean: _Optional[str] = ..., wait_p95: _Optional[str] = ..., wait_max: _Optional[str] = ..., preemptions: _Optional[int] = ..., lost: _Optional[str] = ..., used: _Optional[str] = ..., reserved: _Optional[str] = ..., borrowed: _Optional[str] = ..., cost: _Optional[str] = ...) -> None: ...

class WhatIfPoolSides(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: WhatIfPoolNumbers
    after: WhatIfPoolNumbers
    def __init__(self, before: _Optional[_Union[WhatIfPoolNumbers, _Mapping]] = ..., after: _Optional[_Union[WhatIfPoolNumbers, _Mapping]] = ...) -> None: ...

class WhatIfPoolNumbers(_message.Message):
    __slots__ = ("had", "used", "percent", "cost")
    HAD_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    had: str
    used: str
    percent: str
    cost: str
    def __init__(self, had: _Optional[str] = ..., used: _Optional[str] = ..., percent: _Optional[str] = ..., cost: _Optional[str] = ...) -> None: ...

class WhatIfMove(_message.Message):
    __slots__ = ("job", "queue", "before", "after", "before_is", "after_is")
    JOB_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_IS_FIELD_NUMBER: _ClassVar[int]
    AFTER_IS_FIELD_NUMBER: _ClassVar[int]
    job: str
    queue: str
    before: str
    after: str
    before_is: str
    after_is: str
    def __init__(self, job: _Optional[str] = ..., queue: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., before_is: _Optional[str] = ..., after_is: _Optional[str] = ...) -> None: ...

class ListRecordsRequest(_message.Message):
    __slots__ = ("after", "page_size", "page_token", "exact")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    after: str
    page_size: int
    page_token: str
    exact: bool
    def __init__(self, after: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., exact: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("sequence", "subject", "store_time", "digest", "record", "payload")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    STORE_TIME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    subject: str
    store_time: _timestamp_pb2.Timestamp
    digest: str
    record: _struct_pb2.Struct
    payload: bytes
    def __init__(self, sequence: _Optional[str] = ..., subject: _Optional[str] = ..., store_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., digest: _Optional[str] = ..., record: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class ListAuditLinesRequest(_message.Message):
    __slots__ = ("parent", "since", "until", "job", "user", "node", "kinds", "causes", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    job: str
    user: str
    node: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    causes: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., job: _Optional[str] = ..., user: _Optional[str] = ..., node: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., causes: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAuditLinesResponse(_message.Message):
    __slots__ = ("lines", "next_page_token", "sequence")
    LINES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[AuditLine]
    next_page_token: str
    sequence: str
    def __init__(self, lines: _Optional[_Iterable[_Union[AuditLine, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class AuditLine(_message.Message):
    __slots__ = ("sequence", "place", "time", "by", "type", "about", "text", "rule", "as_of", "engine", "cause", "fact", "because")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    place: int
    time: _timestamp_pb2.Timestamp
    by: str
    type: str
    about: str
    text: str
    rule: str
    as_of: str
    engine: str
    cause: str
    fact: _struct_pb2.Struct
    because: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sequence: _Optional[str] = ..., place: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., type: _Optional[str] = ..., about: _Optional[str] = ..., text: _Optional[str] = ..., rule: _Optional[str] = ..., as_of: _Optional[str] = ..., engine: _Optional[str] = ..., cause: _Optional[str] = ..., fact: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., because: _Optional[_Iterable[str]] = ...) -> None: ...

class GetStateRequest(_message.Message):
    __slots__ = ("at", "page_size", "page_token", "parent")
    AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    at: str
    page_size: int
    page_token: str
    parent: str
    def __init__(self, at: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...

class PastState(_message.Message):
    __slots__ = ("sequence", "time", "pools", "nodes", "queues", "jobs", "documents", "active", "next_page_token", "tip")
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
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIP_FIELD_NUMBER: _ClassVar[int]
    sequence: str
    time: _timestamp_pb2.Timestamp
    pools: _containers.RepeatedCompositeFieldContainer[_pools_pb2.Pool]
    nodes: _containers.RepeatedCompositeFieldContainer[_nodes_pb2.Node]
    queues: _containers.RepeatedCompositeFieldContainer[_queues_pb2.Queue]
    jobs: _containers.ScalarMap[str, int]
    documents: _containers.RepeatedCompositeFieldContainer[PastDocument]
    active: _containers.RepeatedCompositeFieldContainer[PastJob]
    next_page_token: str
    tip: str
    def __init__(self, sequence: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pools: _Optional[_Iterable[_Union[_pools_pb2.Pool, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[_nodes_pb2.Node, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[_queues_pb2.Queue, _Mapping]]] = ..., jobs: _Optional[_Mapping[str, int]] = ..., documents: _Optional[_Iterable[_Union[PastDocument, _Mapping]]] = ..., active: _Optional[_Iterable[_Union[PastJob, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., tip: _Optional[str] = ...) -> None: ...

class PastDocument(_message.Message):
    __slots__ = ("kind", "name", "revision", "closed", "document")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    revision: str
    closed: str
    document: _struct_pb2.Struct
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., revision: _Optional[str] = ..., closed: _Optional[str] = ..., document: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class PastJob(_message.Message):
    __slots__ = ("job", "display_name", "queue", "state", "since_time", "attempt", "request", "replicas", "leases", "reason", "message", "kept_in", "yields_to")
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    KEPT_IN_FIELD_NUMBER: _ClassVar[int]
    YIELDS_TO_FIELD_NUMBER: _ClassVar[int]
    job: str
    display_name: str
    queue: str
    state: str
    since_time: _timestamp_pb2.Timestamp
    attempt: int
    request: _containers.ScalarMap[str, str]
    replicas: int
    leases: _containers.RepeatedCompositeFieldContainer[HeldLease]
    reason: str
    message: str
    kept_in: str
    yields_to: str
    def __init__(self, job: _Optional[str] = ..., display_name: _Optional[str] = ..., queue: _Optional[str] = ..., state: _Optional[str] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., request: _Optional[_Mapping[str, str]] = ..., replicas: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[HeldLease, _Mapping]]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., kept_in: _Optional[str] = ..., yields_to: _Optional[str] = ...) -> None: ...

class HeldLease(_message.Message):
    __slots__ = ("rank", "node", "pool", "devices", "amounts", "granted_time", "started_time", "overdue", "suspended")
    class AmountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_TIME_FIELD_NUMBER: _ClassVar[int]
    STARTED_TIME_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    rank: int
    node: str
    pool: str
    devices: _containers.RepeatedScalarFieldContainer[str]
    amounts: _containers.ScalarMap[str, str]
    granted_time: _timestamp_pb2.Timestamp
    started_time: _timestamp_pb2.Timestamp
    overdue: bool
    suspended: bool
    def __init__(self, rank: _Optional[int] = ..., node: _Optional[str] = ..., pool: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ..., amounts: _Optional[_Mapping[str, str]] = ..., granted_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., overdue: _Optional[bool] = ..., suspended: _Optional[bool] = ...) -> None: ...

class DiffStatesRequest(_message.Message):
    __slots__ = ("before", "after", "parent")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    before: str
    after: str
    parent: str
    def __init__(self, before: _Optional[str] = ..., after: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...

class StateDifference(_message.Message):
    __slots__ = ("before", "before_time", "after", "after_time", "changes", "more")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_TIME_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_TIME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    before: str
    before_time: _timestamp_pb2.Timestamp
    after: str
    after_time: _timestamp_pb2.Timestamp
    changes: _containers.RepeatedCompositeFieldContainer[StateChange]
    more: int
    def __init__(self, before: _Optional[str] = ..., before_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., after: _Optional[str] = ..., after_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[StateChange, _Mapping]]] = ..., more: _Optional[int] = ...) -> None: ...

class StateChange(_message.Message):
    __slots__ = ("kind", "name", "change", "fields")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    change: str
    fields: _containers.RepeatedCompositeFieldContainer[FieldChange]
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., change: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...) -> None: ...

class FieldChange(_message.Message):
    __slots__ = ("field", "before", "after")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    field: str
    before: str
    after: str
    def __init__(self, field: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...
