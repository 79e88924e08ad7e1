import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.api import resource_pb2 as _resource_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headrace.contracts.api import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Pool(_message.Message):
    __slots__ = ("name", "selector", "capacity", "profile_order", "backfill_for", "keep_for", "nomination_timeout", "allow_overcommit", "access", "dedicated_to", "dedicated", "topology", "maintenance", "price", "reserved_price", "burst", "keys", "nodes", "etag", "closed", "sequence", "warnings", "running", "pending")
    class SelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CapacityEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PriceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ReservedPriceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PROFILE_ORDER_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_FOR_FIELD_NUMBER: _ClassVar[int]
    KEEP_FOR_FIELD_NUMBER: _ClassVar[int]
    NOMINATION_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ALLOW_OVERCOMMIT_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    DEDICATED_TO_FIELD_NUMBER: _ClassVar[int]
    DEDICATED_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    RESERVED_PRICE_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    name: str
    selector: _containers.ScalarMap[str, str]
    capacity: _containers.ScalarMap[str, str]
    profile_order: _containers.RepeatedScalarFieldContainer[str]
    backfill_for: str
    keep_for: str
    nomination_timeout: str
    allow_overcommit: bool
    access: Access
    dedicated_to: Owner
    dedicated: _containers.RepeatedCompositeFieldContainer[Dedication]
    topology: _containers.RepeatedScalarFieldContainer[str]
    maintenance: _containers.RepeatedCompositeFieldContainer[MaintenanceWindow]
    price: _containers.ScalarMap[str, str]
    reserved_price: _containers.ScalarMap[str, str]
    burst: Burst
    keys: _containers.RepeatedCompositeFieldContainer[PoolKey]
    nodes: int
    etag: str
    closed: str
    sequence: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    running: int
    pending: int
    def __init__(self, name: _Optional[str] = ..., selector: _Optional[_Mapping[str, str]] = ..., capacity: _Optional[_Mapping[str, str]] = ..., profile_order: _Optional[_Iterable[str]] = ..., backfill_for: _Optional[str] = ..., keep_for: _Optional[str] = ..., nomination_timeout: _Optional[str] = ..., allow_overcommit: _Optional[bool] = ..., access: _Optional[_Union[Access, _Mapping]] = ..., dedicated_to: _Optional[_Union[Owner, _Mapping]] = ..., dedicated: _Optional[_Iterable[_Union[Dedication, _Mapping]]] = ..., topology: _Optional[_Iterable[str]] = ..., maintenance: _Optional[_Iterable[_Union[MaintenanceWindow, _Mapping]]] = ..., price: _Optional[_Mapping[str, str]] = ..., reserved_price: _Optional[_Mapping[str, str]] = ..., burst: _Optional[_Union[Burst, _Mapping]] = ..., keys: _Optional[_Iterable[_Union[PoolKey, _Mapping]]] = ..., nodes: _Optional[int] = ..., etag: _Optional[str] = ..., closed: _Optional[str] = ..., sequence: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., running: _Optional[int] = ..., pending: _Optional[int] = ...) -> None: ...

class Access(_message.Message):
    __slots__ = ("allow", "deny")
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    allow: _containers.RepeatedScalarFieldContainer[str]
    deny: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, allow: _Optional[_Iterable[str]] = ..., deny: _Optional[_Iterable[str]] = ...) -> None: ...

class Owner(_message.Message):
    __slots__ = ("policy", "tenant")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    policy: str
    tenant: str
    def __init__(self, policy: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class Dedication(_message.Message):
    __slots__ = ("selector", "to")
    class SelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    selector: _containers.ScalarMap[str, str]
    to: Owner
    def __init__(self, selector: _Optional[_Mapping[str, str]] = ..., to: _Optional[_Union[Owner, _Mapping]] = ...) -> None: ...

class MaintenanceWindow(_message.Message):
    __slots__ = ("begins", "ends", "days", "to", "timezone", "notice", "reason")
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    begins: str
    ends: str
    days: _containers.RepeatedScalarFieldContainer[str]
    to: str
    timezone: str
    notice: str
    reason: str
    def __init__(self, begins: _Optional[str] = ..., ends: _Optional[str] = ..., days: _Optional[_Iterable[str]] = ..., to: _Optional[str] = ..., timezone: _Optional[str] = ..., notice: _Optional[str] = ..., reason: _Optional[str] = ..., **kwargs) -> None: ...

class Burst(_message.Message):
    __slots__ = ("provider", "node", "min_nodes", "max_nodes", "boot", "idle", "spot", "offers", "order", "min_life", "max_life", "orphan_after", "cap", "image", "template", "network", "firewalls", "disk")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    SPOT_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    MIN_LIFE_FIELD_NUMBER: _ClassVar[int]
    MAX_LIFE_FIELD_NUMBER: _ClassVar[int]
    ORPHAN_AFTER_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    FIREWALLS_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    provider: str
    node: BurstNode
    min_nodes: int
    max_nodes: int
    boot: str
    idle: str
    spot: bool
    offers: _containers.RepeatedCompositeFieldContainer[Offer]
    order: str
    min_life: str
    max_life: str
    orphan_after: str
    cap: str
    image: str
    template: str
    network: str
    firewalls: _containers.RepeatedScalarFieldContainer[str]
    disk: str
    def __init__(self, provider: _Optional[str] = ..., node: _Optional[_Union[BurstNode, _Mapping]] = ..., min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., boot: _Optional[str] = ..., idle: _Optional[str] = ..., spot: _Optional[bool] = ..., offers: _Optional[_Iterable[_Union[Offer, _Mapping]]] = ..., order: _Optional[str] = ..., min_life: _Optional[str] = ..., max_life: _Optional[str] = ..., orphan_after: _Optional[str] = ..., cap: _Optional[str] = ..., image: _Optional[str] = ..., template: _Optional[str] = ..., network: _Optional[str] = ..., firewalls: _Optional[_Iterable[str]] = ..., disk: _Optional[str] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("name", "type", "region", "zone", "market", "price", "max_price", "image", "template", "network")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    MARKET_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    MAX_PRICE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    region: str
    zone: str
    market: str
    price: str
    max_price: str
    image: str
    template: str
    network: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., market: _Optional[str] = ..., price: _Optional[str] = ..., max_price: _Optional[str] = ..., image: _Optional[str] = ..., template: _Optional[str] = ..., network: _Optional[str] = ...) -> None: ...

class BurstNode(_message.Message):
    __slots__ = ("gpus", "gpu_model", "cpus", "memory", "mig", "isolation", "containers")
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MIG_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    gpus: int
    gpu_model: str
    cpus: int
    memory: str
    mig: bool
    isolation: str
    containers: bool
    def __init__(self, gpus: _Optional[int] = ..., gpu_model: _Optional[str] = ..., cpus: _Optional[int] = ..., memory: _Optional[str] = ..., mig: _Optional[bool] = ..., isolation: _Optional[str] = ..., containers: _Optional[bool] = ...) -> None: ...

class PoolKey(_message.Message):
    __slots__ = ("key", "capacity", "usable", "used", "free", "kept", "unusable", "causes")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USABLE_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    UNUSABLE_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    key: str
    capacity: str
    usable: str
    used: str
    free: str
    kept: str
    unusable: str
    causes: _containers.RepeatedCompositeFieldContainer[Unusable]
    def __init__(self, key: _Optional[str] = ..., capacity: _Optional[str] = ..., usable: _Optional[str] = ..., used: _Optional[str] = ..., free: _Optional[str] = ..., kept: _Optional[str] = ..., unusable: _Optional[str] = ..., causes: _Optional[_Iterable[_Union[Unusable, _Mapping]]] = ...) -> None: ...

class Unusable(_message.Message):
    __slots__ = ("key", "node", "cause", "amount", "by", "since_time", "detail")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    key: str
    node: str
    cause: str
    amount: str
    by: str
    since_time: _timestamp_pb2.Timestamp
    detail: str
    def __init__(self, key: _Optional[str] = ..., node: _Optional[str] = ..., cause: _Optional[str] = ..., amount: _Optional[str] = ..., by: _Optional[str] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., detail: _Optional[str] = ...) -> None: ...

class ListPoolsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "filter", "min_sequence")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    filter: str
    min_sequence: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class ListPoolsResponse(_message.Message):
    __slots__ = ("pools", "next_page_token", "sequence")
    POOLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    pools: _containers.RepeatedCompositeFieldContainer[Pool]
    next_page_token: str
    sequence: str
    def __init__(self, pools: _Optional[_Iterable[_Union[Pool, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class GetPoolRequest(_message.Message):
    __slots__ = ("name", "min_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_sequence: str
    def __init__(self, name: _Optional[str] = ..., min_sequence: _Optional[str] = ...) -> None: ...

class CreatePoolRequest(_message.Message):
    __slots__ = ("pool_id", "pool", "validate_only", "reason")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    pool: Pool
    validate_only: bool
    reason: str
    def __init__(self, pool_id: _Optional[str] = ..., pool: _Optional[_Union[Pool, _Mapping]] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class UpdatePoolRequest(_message.Message):
    __slots__ = ("pool", "update_mask", "allow_missing", "validate_only", "reason")
    POOL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    pool: Pool
    update_mask: _field_mask_pb2.FieldMask
    allow_missing: bool
    validate_only: bool
    reason: str
    def __init__(self, pool: _Optional[_Union[Pool, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., allow_missing: _Optional[bool] = ..., validate_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class DeletePoolRequest(_message.Message):
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
