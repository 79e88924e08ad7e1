"""The API's messages as Python knows them: generated from `contracts/proto`, checked in, never edited.

The question it answers: *what may be asked over gRPC and HTTP, and what is answered?*

- `*_pb2` are protobuf's own; `openapi.json` describes the same for those who speak HTTP. `make schemas` writes all of them.
- `headrace.contracts.schemas.protocol` reads from them which methods there are, and under which HTTP paths.

It needs the extra `api` of this distribution (protobuf, googleapis-common-protos); the light client needs none of it. It holds no
behaviour.
"""
