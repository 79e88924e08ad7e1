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
