"""Where tensors are computed: the one place that knows whether there is a CUDA device and whether it may be used.

States, checkpoints and everything that leaves a fit stand on the CPU, wherever the fit was computed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

import torch

Choice = Literal["auto", "cpu", "cuda"]


@dataclass
class Computing:
    """A stretch of work under one choice of device.

    Args:
        choice: ``auto``: CUDA where torch finds it; ``cpu``: nothing else; ``cuda``: nothing less.
        used: Types of the devices that the work asked for.
    """

    choice: Choice
    used: set[str] = field(default_factory=set)

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """Type of the device on which networks are trained."""
        return device_type(self.choice)

    @property
    def device(self) -> str:
        """``cpu``, or ``cuda`` with the card's name where any part of the work was done there."""
        return f"cuda ({torch.cuda.get_device_name()})" if "cuda" in self.used else "cpu"


_computing: ContextVar[Computing | None] = ContextVar("computing", default=None)


@contextmanager
def computing_on(choice: Choice) -> Iterator[Computing]:
    """Compute what is inside the block on the device of this choice, and note which ones were asked for.

    Raises:
        ValueError: the choice is ``cuda`` and torch finds none.
    """
    device_type(choice)
    computing = Computing(choice)
    token = _computing.set(computing)
    try:
        yield computing
    finally:
        _computing.reset(token)


def device_type(choice: Choice) -> Literal["cpu", "cuda"]:
    """Type of the device that a choice comes to on this machine.

    Raises:
        ValueError: it is ``cuda`` and torch finds none.
    """
    if choice == "cuda":
        require_cuda()
    return "cuda" if choice != "cpu" and torch.cuda.is_available() else "cpu"


def require_cuda() -> None:
    """Accept that ``cuda`` is asked for.

    Raises:
        ValueError: torch finds none.
    """
    if not torch.cuda.is_available():
        raise ValueError("device is 'cuda' and torch finds none: use 'cpu'.")


def device() -> torch.device:
    """Where networks are trained, all of a batch stacked: on the GPU where there is one that may be used."""
    computing = _computing.get()
    return _noted("auto" if computing is None else computing.choice)


def named_device(name: Literal["cpu", "cuda"]) -> torch.device:
    """The device that a component names.

    Raises:
        ValueError: it is ``cuda``, and torch finds none or whoever computes here allows the CPU alone.
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
