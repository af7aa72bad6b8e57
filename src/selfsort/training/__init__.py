"""Training a network, with checkpoints to resume from."""

from selfsort.training.hooks import Hooks, StageHook
from selfsort.training.loop import EpochRecord, Hook, Progress, Task, run_loop
from selfsort.training.pretrain import train

__all__ = ["EpochRecord", "Hook", "Hooks", "Progress", "StageHook", "Task", "run_loop", "train"]
