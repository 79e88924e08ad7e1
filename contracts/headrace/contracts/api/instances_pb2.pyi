import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.api import resource_pb2 as _resource_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headrace.contracts.api import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Instance(_message.Message):
    __slots__ = ("name", "pool", "stage", "cause", "message", "provider", "provider_id", "offer", "market", "price", "cost", "order_time", "join_time", "end_time", "jobs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    MARKET_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    ORDER_TIME_FIELD_NUMBER: _ClassVar[int]
    JOIN_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    name: str
    pool: str
    stage: str
    cause: str
    message: str
    provider: str
    provider_id: str
    offer: str
    market: str
    price: str
    cost: str
    order_time: _timestamp_pb2.Timestamp
    join_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    jobs: int
    def __init__(self, name: _Optional[str] = ..., pool: _Optional[str] = ..., stage: _Optional[str] = ..., cause: _Optional[str] = ..., message: _Optional[str] = ..., provider: _Optional[str] = ..., provider_id: _Optional[str] = ..., offer: _Optional[str] = ..., market: _Optional[str] = ..., price: _Optional[str] = ..., cost: _Optional[str] = ..., order_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., join_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., jobs: _Optional[int] = ...) -> None: ...

class ListInstancesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListInstancesResponse(_message.Message):
    __slots__ = ("instances", "sequence")
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    instances: _containers.RepeatedCompositeFieldContainer[Instance]
    sequence: str
    def __init__(self, instances: _Optional[_Iterable[_Union[Instance, _Mapping]]] = ..., sequence: _Optional[str] = ...) -> None: ...

class OfferState(_message.Message):
    __slots__ = ("pool", "offer", "provider", "type", "region", "zone", "market", "price", "max_price", "closed", "closed_until_time")
    POOL_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    MARKET_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    MAX_PRICE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    pool: str
    offer: str
    provider: str
    type: str
    region: str
    zone: str
    market: str
    price: str
    max_price: str
    closed: str
    closed_until_time: _timestamp_pb2.Timestamp
    def __init__(self, pool: _Optional[str] = ..., offer: _Optional[str] = ..., provider: _Optional[str] = ..., type: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., market: _Optional[str] = ..., price: _Optional[str] = ..., max_price: _Optional[str] = ..., closed: _Optional[str] = ..., closed_until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListOffersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListOffersResponse(_message.Message):
    __slots__ = ("offers", "sequence")
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    offers: _containers.RepeatedCompositeFieldContainer[OfferState]
    sequence: str
    def __init__(self, offers: _Optional[_Iterable[_Union[OfferState, _Mapping]]] = ..., sequence: _Optional[str] = ...) -> None: ...

class PlanGrowthRequest(_message.Message):
    __slots__ = ("name", "nodes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    name: str
    nodes: int
    def __init__(self, name: _Optional[str] = ..., nodes: _Optional[int] = ...) -> None: ...

class PlannedInstance(_message.Message):
    __slots__ = ("offer", "market", "price", "estimate")
    OFFER_FIELD_NUMBER: _ClassVar[int]
    MARKET_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    offer: str
    market: str
    price: str
    estimate: str
    def __init__(self, offer: _Optional[str] = ..., market: _Optional[str] = ..., price: _Optional[str] = ..., estimate: _Optional[str] = ...) -> None: ...

class GrowthPlan(_message.Message):
    __slots__ = ("pool", "provider", "instances", "estimate", "notes", "sequence")
    POOL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    pool: str
    provider: str
    instances: _containers.RepeatedCompositeFieldContainer[PlannedInstance]
    estimate: str
    notes: _containers.RepeatedScalarFieldContainer[str]
    sequence: str
    def __init__(self, pool: _Optional[str] = ..., provider: _Optional[str] = ..., instances: _Optional[_Iterable[_Union[PlannedInstance, _Mapping]]] = ..., estimate: _Optional[str] = ..., notes: _Optional[_Iterable[str]] = ..., sequence: _Optional[str] = ...) -> None: ...

class CheckOffersRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class OfferCheck(_message.Message):
    __slots__ = ("offer", "problem")
    OFFER_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    offer: str
    problem: str
    def __init__(self, offer: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class OfferChecks(_message.Message):
    __slots__ = ("pool", "provider", "offers")
    POOL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    provider: str
    offers: _containers.RepeatedCompositeFieldContainer[OfferCheck]
    def __init__(self, pool: _Optional[str] = ..., provider: _Optional[str] = ..., offers: _Optional[_Iterable[_Union[OfferCheck, _Mapping]]] = ...) -> None: ...

class EndInstanceRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
