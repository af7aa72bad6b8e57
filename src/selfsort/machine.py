"""Sets the process up for training: threads for the CPUs it may use, memory that is kept from step to step."""

import ctypes
import os
import sys

import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's `mallopt`."""


def prepare_process(threads: int | None = None) -> int:
    """Use so many threads and keep freed memory; returns the threads.

    The default is OMP_NUM_THREADS if it is set, else the CPUs that this process may run on.
    """
    if threads is None and not os.environ.get("OMP_NUM_THREADS"):  # which torch has obeyed already
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    if sys.platform == "linux":
        _keep_memory()
    return torch.get_num_threads()


def _keep_memory() -> None:
    """Stop glibc from giving memory back after every step: tens of thousands of page faults each time."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library; it only costs time
        return
    mallopt(M_MMAP_THRESHOLD, 1 << 30)
    mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
