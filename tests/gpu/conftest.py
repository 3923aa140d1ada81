"""Checks that need a CUDA device: ``make gpu``. Without one nothing runs, and the exit status says so."""

import pytest
import torch


def pytest_collection_finish(session: pytest.Session) -> None:
    """End here, in one line, on a machine without a card; to collect needs none."""
    if not session.config.option.collectonly and not torch.cuda.is_available():
        reason = f"no CUDA device: torch {torch.__version__} finds none here, and nothing was checked"
        pytest.exit(reason, returncode=2)
