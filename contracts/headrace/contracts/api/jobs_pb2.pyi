import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.api import resource_pb2 as _resource_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headrace.contracts.api import plan_pb2 as _plan_pb2
from headrace.contracts.api import pools_pb2 as _pools_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Job(_message.Message):
    __slots__ = ("name", "user", "display_name", "queue", "state", "reason", "message", "preemptible", "priority", "request", "mig", "replicas", "labels", "admit_time", "end_time", "preemptions", "exit_code", "checkpoint", "attempts", "sequence", "array", "elements", "idle_time", "idle_yields", "gpu_memory", "shares")
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ElementsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    MIG_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ADMIT_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIME_FIELD_NUMBER: _ClassVar[int]
    IDLE_YIELDS_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    name: str
    user: str
    display_name: str
    queue: str
    state: str
    reason: str
    message: str
    preemptible: bool
    priority: int
    request: _containers.ScalarMap[str, str]
    mig: str
    replicas: int
    labels: _containers.ScalarMap[str, str]
    admit_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    preemptions: int
    exit_code: int
    checkpoint: str
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    sequence: str
    array: str
    elements: _containers.ScalarMap[str, int]
    idle_time: _timestamp_pb2.Timestamp
    idle_yields: bool
    gpu_memory: str
    shares: _containers.RepeatedCompositeFieldContainer[ModelShare]
    def __init__(self, name: _Optional[str] = ..., user: _Optional[str] = ..., display_name: _Optional[str] = ..., queue: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., preemptible: _Optional[bool] = ..., priority: _Optional[int] = ..., request: _Optional[_Mapping[str, str]] = ..., mig: _Optional[str] = ..., replicas: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., admit_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., preemptions: _Optional[int] = ..., exit_code: _Optional[int] = ..., checkpoint: _Optional[str] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., sequence: _Optional[str] = ..., array: _Optional[str] = ..., elements: _Optional[_Mapping[str, int]] = ..., idle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., idle_yields: _Optional[bool] = ..., gpu_memory: _Optional[str] = ..., shares: _Optional[_Iterable[_Union[ModelShare, _Mapping]]] = ...) -> None: ...

class ModelShare(_message.Message):
    __slots__ = ("gpu_model", "gpu", "mig")
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    MIG_FIELD_NUMBER: _ClassVar[int]
    gpu_model: str
    gpu: str
    mig: str
    def __init__(self, gpu_model: _Optional[str] = ..., gpu: _Optional[str] = ..., mig: _Optional[str] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt", "pool", "nodes", "devices", "grant_time", "start_time", "end_time", "exit_code", "cause", "resume_from")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    GRANT_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    pool: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    devices: _containers.RepeatedScalarFieldContainer[str]
    grant_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    exit_code: int
    cause: str
    resume_from: str
    def __init__(self, attempt: _Optional[int] = ..., pool: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., devices: _Optional[_Iterable[str]] = ..., grant_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., exit_code: _Optional[int] = ..., cause: _Optional[str] = ..., resume_from: _Optional[str] = ...) -> None: ...

class SubmitJobsRequest(_message.Message):
    __slots__ = ("parent", "queue", "jobs", "user", "wait", "validate_only")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    parent: str
    queue: str
    jobs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    user: str
    wait: bool
    validate_only: bool
    def __init__(self, parent: _Optional[str] = ..., queue: _Optional[str] = ..., jobs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ..., user: _Optional[str] = ..., wait: _Optional[bool] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("id", "command", "name", "env", "secret_env", "image", "workdir", "preemptible", "priority", "on_abort", "retries", "time_limit", "after", "request", "labels", "trace", "array")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    SECRET_ENV_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    WORKDIR_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ON_ABORT_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    id: str
    command: _containers.RepeatedScalarFieldContainer[str]
    name: str
    env: _containers.ScalarMap[str, str]
    secret_env: _containers.RepeatedScalarFieldContainer[str]
    image: str
    workdir: str
    preemptible: bool
    priority: int
    on_abort: _containers.RepeatedScalarFieldContainer[str]
    retries: int
    time_limit: str
    after: _containers.RepeatedCompositeFieldContainer[After]
    request: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    trace: str
    array: str
    def __init__(self, id: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., secret_env: _Optional[_Iterable[str]] = ..., image: _Optional[str] = ..., workdir: _Optional[str] = ..., preemptible: _Optional[bool] = ..., priority: _Optional[int] = ..., on_abort: _Optional[_Iterable[str]] = ..., retries: _Optional[int] = ..., time_limit: _Optional[str] = ..., after: _Optional[_Iterable[_Union[After, _Mapping]]] = ..., request: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., trace: _Optional[str] = ..., array: _Optional[str] = ...) -> None: ...

class After(_message.Message):
    __slots__ = ("job", "when")
    JOB_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    job: str
    when: str
    def __init__(self, job: _Optional[str] = ..., when: _Optional[str] = ...) -> None: ...

class SubmitJobsResponse(_message.Message):
    __slots__ = ("jobs", "sequence", "costs")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COSTS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    sequence: str
    costs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., sequence: _Optional[str] = ..., costs: _Optional[_Iterable[str]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "filter", "min_sequence", "name_pattern", "labels", "array")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NAME_PATTERN_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    filter: str
    min_sequence: str
    name_pattern: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    array: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ..., min_sequence: _Optional[str] = ..., name_pattern: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., array: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token", "sequence")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    sequence: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("name", "min_sequence", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_sequence: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., min_sequence: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("name", "reason", "validate_only", "elements")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    validate_only: bool
    elements: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., validate_only: _Optional[bool] = ..., elements: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job", "sequence")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    job: Job
    sequence: str
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., sequence: _Optional[str] = ...) -> None: ...

class CancelJobsRequest(_message.Message):
    __slots__ = ("parent", "jobs", "reason", "validate_only")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    parent: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    validate_only: bool
    def __init__(self, parent: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class CancelJobsResponse(_message.Message):
    __slots__ = ("jobs", "sequence")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    sequence: str
    def __init__(self, jobs: _Optional[_Iterable[str]] = ..., sequence: _Optional[str] = ...) -> None: ...

class ListJobFactsRequest(_message.Message):
    __slots__ = ("parent", "min_sequence")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    parent: str
    min_sequence: str
    def __init__(self, parent: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class ListJobFactsResponse(_message.Message):
    __slots__ = ("facts", "sequence")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[JobFact]
    sequence: str
    def __init__(self, facts: _Optional[_Iterable[_Union[JobFact, _Mapping]]] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetJobLogsRequest(_message.Message):
    __slots__ = ("name", "attempt", "rank", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    rank: int
    offset: int
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ..., rank: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class JobLogs(_message.Message):
    __slots__ = ("text", "next_offset", "ended", "sequence")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    text: str
    next_offset: int
    ended: bool
    sequence: str
    def __init__(self, text: _Optional[str] = ..., next_offset: _Optional[int] = ..., ended: _Optional[bool] = ..., sequence: _Optional[str] = ...) -> None: ...

class RequeueJobRequest(_message.Message):
    __slots__ = ("name", "reason", "validate_only", "elements")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    validate_only: bool
    elements: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., validate_only: _Optional[bool] = ..., elements: _Optional[str] = ...) -> None: ...

class RequeueJobResponse(_message.Message):
    __slots__ = ("job", "sequence")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    job: Job
    sequence: str
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., sequence: _Optional[str] = ...) -> None: ...

class JobFact(_message.Message):
    __slots__ = ("record", "time", "by", "type", "text", "rule")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    record: str
    time: _timestamp_pb2.Timestamp
    by: str
    type: str
    text: str
    rule: str
    def __init__(self, record: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., type: _Optional[str] = ..., text: _Optional[str] = ..., rule: _Optional[str] = ...) -> None: ...

class PreemptJobRequest(_message.Message):
    __slots__ = ("name", "force", "reason", "validate_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    force: bool
    reason: str
    validate_only: bool
    def __init__(self, name: _Optional[str] = ..., force: _Optional[bool] = ..., reason: _Optional[str] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class WatchJobsRequest(_message.Message):
    __slots__ = ("parent", "job", "user", "min_sequence")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    parent: str
    job: str
    user: str
    min_sequence: str
    def __init__(self, parent: _Optional[str] = ..., job: _Optional[str] = ..., user: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("type", "sequence", "number", "time", "job", "fact", "snapshot")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    type: str
    sequence: str
    number: int
    time: _timestamp_pb2.Timestamp
    job: str
    fact: _struct_pb2.Struct
    snapshot: Job
    def __init__(self, type: _Optional[str] = ..., sequence: _Optional[str] = ..., number: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., job: _Optional[str] = ..., fact: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., snapshot: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ExplainJobRequest(_message.Message):
    __slots__ = ("name", "at_sequence", "at_time", "min_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AT_TIME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    at_sequence: str
    at_time: _timestamp_pb2.Timestamp
    min_sequence: str
    def __init__(self, name: _Optional[str] = ..., at_sequence: _Optional[str] = ..., at_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("name", "state", "reason", "message", "blockers", "position", "expected_start_time", "assumption", "pools", "behind", "behind_more", "holders", "holders_more", "reclaim", "cheapest", "sequence", "time", "could_reclaim", "notes", "user")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BLOCKERS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_START_TIME_FIELD_NUMBER: _ClassVar[int]
    ASSUMPTION_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    BEHIND_MORE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_MORE_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_FIELD_NUMBER: _ClassVar[int]
    CHEAPEST_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    COULD_RECLAIM_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    reason: str
    message: str
    blockers: _containers.RepeatedScalarFieldContainer[str]
    position: int
    expected_start_time: _timestamp_pb2.Timestamp
    assumption: str
    pools: _containers.RepeatedCompositeFieldContainer[PoolNeed]
    behind: _containers.RepeatedCompositeFieldContainer[Waiter]
    behind_more: int
    holders: _containers.RepeatedCompositeFieldContainer[Holder]
    holders_more: int
    reclaim: Reclaim
    cheapest: Advice
    sequence: str
    time: _timestamp_pb2.Timestamp
    could_reclaim: bool
    notes: _containers.RepeatedScalarFieldContainer[str]
    user: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., blockers: _Optional[_Iterable[str]] = ..., position: _Optional[int] = ..., expected_start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., assumption: _Optional[str] = ..., pools: _Optional[_Iterable[_Union[PoolNeed, _Mapping]]] = ..., behind: _Optional[_Iterable[_Union[Waiter, _Mapping]]] = ..., behind_more: _Optional[int] = ..., holders: _Optional[_Iterable[_Union[Holder, _Mapping]]] = ..., holders_more: _Optional[int] = ..., reclaim: _Optional[_Union[Reclaim, _Mapping]] = ..., cheapest: _Optional[_Union[Advice, _Mapping]] = ..., sequence: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., could_reclaim: _Optional[bool] = ..., notes: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ...) -> None: ...

class PoolNeed(_message.Message):
    __slots__ = ("pool", "reason", "message", "fit", "keys", "scope", "unusable")
    POOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    UNUSABLE_FIELD_NUMBER: _ClassVar[int]
    pool: str
    reason: str
    message: str
    fit: str
    keys: _containers.RepeatedCompositeFieldContainer[KeyNeed]
    scope: str
    unusable: _containers.RepeatedCompositeFieldContainer[_pools_pb2.Unusable]
    def __init__(self, pool: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., fit: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[KeyNeed, _Mapping]]] = ..., scope: _Optional[str] = ..., unusable: _Optional[_Iterable[_Union[_pools_pb2.Unusable, _Mapping]]] = ...) -> None: ...

class KeyNeed(_message.Message):
    __slots__ = ("key", "asked", "free", "missing", "used", "kept", "unusable", "capacity")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    UNUSABLE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    key: str
    asked: str
    free: str
    missing: str
    used: str
    kept: str
    unusable: str
    capacity: str
    def __init__(self, key: _Optional[str] = ..., asked: _Optional[str] = ..., free: _Optional[str] = ..., missing: _Optional[str] = ..., used: _Optional[str] = ..., kept: _Optional[str] = ..., unusable: _Optional[str] = ..., capacity: _Optional[str] = ...) -> None: ...

class Waiter(_message.Message):
    __slots__ = ("job", "request", "user")
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    job: str
    request: _containers.ScalarMap[str, str]
    user: str
    def __init__(self, job: _Optional[str] = ..., request: _Optional[_Mapping[str, str]] = ..., user: _Optional[str] = ...) -> None: ...

class Holder(_message.Message):
    __slots__ = ("job", "request", "pool", "nodes", "preemptible", "until_time", "user")
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    job: str
    request: _containers.ScalarMap[str, str]
    pool: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    preemptible: bool
    until_time: _timestamp_pb2.Timestamp
    user: str
    def __init__(self, job: _Optional[str] = ..., request: _Optional[_Mapping[str, str]] = ..., pool: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., preemptible: _Optional[bool] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class Reclaim(_message.Message):
    __slots__ = ("could", "why", "cause", "from_time", "victims")
    COULD_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    FROM_TIME_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    could: bool
    why: str
    cause: str
    from_time: _timestamp_pb2.Timestamp
    victims: _containers.RepeatedCompositeFieldContainer[Holder]
    def __init__(self, could: _Optional[bool] = ..., why: _Optional[str] = ..., cause: _Optional[str] = ..., from_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., victims: _Optional[_Iterable[_Union[Holder, _Mapping]]] = ...) -> None: ...

class Advice(_message.Message):
    __slots__ = ("kind", "text", "start_time", "pool", "job", "queue", "request", "user")
    class RequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    text: str
    start_time: _timestamp_pb2.Timestamp
    pool: str
    job: str
    queue: str
    request: _containers.ScalarMap[str, str]
    user: str
    def __init__(self, kind: _Optional[str] = ..., text: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pool: _Optional[str] = ..., job: _Optional[str] = ..., queue: _Optional[str] = ..., request: _Optional[_Mapping[str, str]] = ..., user: _Optional[str] = ...) -> None: ...
