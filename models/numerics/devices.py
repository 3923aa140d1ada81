"""Devices for tensors, and threads: this module alone knows whether there is a CUDA device and whether it may be used.

States, checkpoints and all results of a fit are on the CPU, wherever the fit was computed.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import torch
from threadpoolctl import ThreadpoolController

Choice = Literal["auto", "cpu", "cuda"]
FEW = 1000
"""Trials up to which one thread computes: a second gains little on an idle machine and costs much on a busy one."""


@dataclass
class Computing:
    """Context of computations under one choice of device.

    Args:
        choice: ``auto``: CUDA if torch finds it; ``cpu``: the CPU only; ``cuda``: CUDA is required.
        threads: Number of threads.
        used: Types of the devices that were requested.
    """

    choice: Choice
    threads: int
    used: set[str] = field(default_factory=set)

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """Type of the device on which networks are trained."""
        return device_type(self.choice)

    @property
    def device(self) -> str:
        """``cpu``, or ``cuda`` with the card's name if any part of the work was done there."""
        return f"cuda ({torch.cuda.get_device_name()})" if "cuda" in self.used else "cpu"


_computing: ContextVar[Computing | None] = ContextVar("computing", default=None)


@contextmanager
def computing_on(choice: Choice, trials: int | None = None) -> Iterator[Computing]:
    """Run the block on the device of this choice, and note which devices were requested.

    Args:
        choice: Choice of device.
        trials: Number of trials, up to ``FEW`` of which take one thread; None for the threads that the process has.

    Raises:
        ValueError: the choice is ``cuda`` and torch finds none.
    """
    device_type(choice)
    threads = torch.get_num_threads()
    one = trials is not None and trials <= FEW
    computing = Computing(choice, 1 if one else threads)
    token = _computing.set(computing)
    try:
        with _pools(len(sys.modules)).limit(limits=1) if one else nullcontext():
            torch.set_num_threads(computing.threads)
            yield computing
    finally:
        torch.set_num_threads(threads)
        _computing.reset(token)


@lru_cache(maxsize=1)
def _pools(modules: int) -> ThreadpoolController:
    """The thread pools of this process with so many imported modules: more may have brought another library's."""
    return ThreadpoolController()


def device_type(choice: Choice) -> Literal["cpu", "cuda"]:
    """Type of the device that a choice selects on this machine.

    Raises:
        ValueError: it is ``cuda`` and torch finds none.
    """
    if choice == "cuda":
        require_cuda()
    return "cuda" if choice != "cpu" and torch.cuda.is_available() else "cpu"


def require_cuda() -> None:
    """Check that CUDA is available.

    Raises:
        ValueError: torch finds none.
    """
    if not torch.cuda.is_available():
        raise ValueError("device is 'cuda' and torch finds none: use 'cpu'.")


def device() -> torch.device:
    """Device for the training of networks, all of a batch stacked: the GPU if there is one that may be used."""
    computing = _computing.get()
    return _noted("auto" if computing is None else computing.choice)


def named_device(name: Literal["cpu", "cuda"]) -> torch.device:
    """Device that a component names.

    Raises:
        ValueError: it is ``cuda``, and torch finds none or this computation may use the CPU only.
    """
    computing = _computing.get()
    if name == "cuda" and computing is not None and computing.choice == "cpu":
        raise ValueError("device is 'cuda' and FIELDCRAFT_DEVICE allows the CPU alone: use 'cpu', or unset it.")
    return _noted(name)


def _noted(choice: Choice) -> torch.device:
    kind, computing = device_type(choice), _computing.get()
    if computing is not None:
        computing.used.add(kind)
    return torch.device(kind)
