"""Installations that tests of the simulation share."""

from __future__ import annotations

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS

HALL = d.Documents(
    pools=(d.Pool(name="hall", selector={"site": "hall"}),),
    profiles=(d.Profile(name="one", request={GPU: GPU_UNITS}, pools=("hall",)),),
    policies=(
        d.Policy(name="ml", tenant="default", profiles=(d.PolicyProfile(name="one"),), limit={GPU: 2 * GPU_UNITS}),
        d.Policy(name="none", tenant="default", profiles=(d.PolicyProfile(name="one"),), limit={GPU: 0}),
    ),
)
