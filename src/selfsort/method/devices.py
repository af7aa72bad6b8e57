"""Sets the process up for training: device, precision, threads for the CPUs it may use, memory that
is kept.
"""

import ctypes
import os
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import joblib
import torch

from selfsort.errors import ConfigError, first_line

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's `mallopt`."""


def prepare_process(threads: int | None = None) -> int:
    """Use so many threads and keep freed memory; returns the threads.

    The default is OMP_NUM_THREADS if it is set, else the physical cores; where CPU affinity or a
    container's quota limit the process, as many as they allow, which are logical ones.
    """
    if threads is None and not os.environ.get("OMP_NUM_THREADS"):  # which torch has obeyed already
        threads = joblib.cpu_count(only_physical_cores=True)
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    if sys.platform == "linux":
        _keep_memory()
    return torch.get_num_threads()


def choose_device(name: str) -> torch.device:
    """The device called `name`; `auto`: a GPU if torch sees one, else the CPU.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device(
            "cuda"
            if torch.cuda.is_available()
            else "mps"
            if torch.backends.mps.is_available()
            else "cpu"
        )
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise ConfigError(f"device={name!r} should be auto, cpu, cuda, cuda:1, … or mps.")
    try:
        return torch.zeros(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"device={name!r} cannot be used here ({first_line(error)}); use auto or cpu."
        ) from error


def choose_precision(wanted: int | str, device: torch.device) -> int:
    """16 or 32 bits as wanted; `auto`: 16 where the device is faster with them.

    >>> choose_precision(16, torch.device("cpu"))
    16
    """
    if wanted == "auto":
        return 16 if has_bfloat16(device) else 32
    return int(wanted)


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 by itself; elsewhere torch emulates it, which is
    slower than 32 bits.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "mps":
        return bool(torch.backends.mps.is_macos_or_newer(14, 0))
    # a torch that does not tell is too old for us to know
    told: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(told.get("avx512_bf16") or told.get("amx_bf16"))


def mixed_precision(device: torch.device, precision: int | str) -> AbstractContextManager[None]:
    """Within, layers compute in bfloat16 if `precision` is 16; their weights stay in 32 bits."""
    if precision == 16:
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def _keep_memory() -> None:
    """Stop glibc from giving memory back after every step: tens of thousands of page faults each
    time.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library; it only costs time
        return
    mallopt(M_MMAP_THRESHOLD, 1 << 30)
    mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
