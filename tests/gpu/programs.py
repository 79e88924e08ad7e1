"""Programs that the checks run on a GPU, with libcuda alone."""

BEGIN = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, at, free, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
    if answer:
        print("none", answer, flush=True)
        sys.exit(3)
"""

TAKE = (
    BEGIN
    + """
answers = [cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(size) << 20)) for size in sys.argv[1:]]
cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
print(*answers, total.value >> 20, flush=True)
time.sleep(600)
"""
)
"""Takes what its arguments say (MiB), prints the answers and how much there is, and stays."""

FILL = (
    BEGIN
    + """
taken = 0
while cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(64 << 20)) == 0:
    taken += 64
print(taken, flush=True)
time.sleep(600)
"""
)
"""Takes all that it gets, prints how many MiB that was, and stays."""

TORCH = """
import sys, torch
torch.cuda.init()
free, total = torch.cuda.mem_get_info()
blocks = []
try:
    while True:
        blocks.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError:
    print(total >> 20, len(blocks) * 256, flush=True)
"""
"""The same in PyTorch, as the framework does it by default; prints what it was shown and what it got."""

COUNT = (
    BEGIN
    + """
import os
mib, seen = int(sys.argv[1]), ctypes.c_uint()
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mib << 20)) == 0
places = [at.value + part * ((mib << 20) // 64) for part in range(64)]
for number, place in enumerate(places):
    assert cuda.cuMemsetD32_v2(ctypes.c_uint64(place), number, ctypes.c_size_t(1024)) == 0
step = 0
while True:
    for number, place in enumerate(places):
        cuda.cuMemcpyDtoH_v2(ctypes.byref(seen), ctypes.c_uint64(place), ctypes.c_size_t(4))
        if seen.value != number:
            open("broken", "w").close()
    step += 1
    with open("step.new", "w") as file:
        file.write(str(step))
    os.replace("step.new", "step")
    time.sleep(0.01)
"""
)
"""Takes this number of MiB, marks them in 64 places, and counts its steps; in each it looks whether the marks are still there."""

FAULT = (
    BEGIN
    + r"""
PTX = b'''.version 7.0
.target sm_70
.address_size 64
.visible .entry fault() {
  .reg .u64 %at;
  mov.u64 %at, 8;
  st.global.u64 [%at], %at;
  ret;
}
\0'''
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"fault") == 0
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
print(cuda.cuCtxSynchronize(), flush=True)
"""
)
"""Writes where nothing is, and prints what the driver says to that."""
