"""Make what a machine's first run would make: the empty databases of Prefect and MLflow, in 20 s.

``python -m fieldcraft.flows.machinery.prepare``
"""

import os
import tempfile
from pathlib import Path

from fieldcraft.flows.machinery import prefect_server
from fieldcraft.storage.empty_databases import kept_of, provide
from fieldcraft.storage.trackers import runs


def _prepare() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not kept_of("prefect").exists():
            os.environ |= {**prefect_server.QUIET, **prefect_server.LOCAL, "PREFECT_HOME": folder}
            provide("prefect", Path(folder, "prefect.db"), prefect_server.migrated)
        if not kept_of("mlflow").exists():
            runs.require_mlflow()
            provide("mlflow", Path(folder, "mlflow.db"), runs.migrated)


if __name__ == "__main__":
    _prepare()
