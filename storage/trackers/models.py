"""A trained surrogate in MLflow: its training data as inputs of its run, and itself as a logged model.

The model's folder holds its checkpoint (tensors alone) and an ``MLmodel`` file that names what loads it: nothing is
pickled. ``mlflow.pyfunc.load_model`` rebuilds it from the home that FIELDCRAFT_HOME names, whose ledger has its data.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.records import FieldRef, Product
from fieldcraft.storage.trackers.mlflow_names import flatten, parameters, tags

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput
    from mlflow.tracking import MlflowClient

LOADER = "fieldcraft.flows.notebook.logged_model"
"""Module by which MLflow loads a model."""
DIGEST_LENGTH = 36  # most characters of a data set's digest in MLflow


def log_data(client: MlflowClient, run: str, product: Product, points: FieldRef | None) -> None:
    """Log the results, and the collocation points if there are any, that a surrogate was trained on."""
    inputs, told = [], product.payload
    seen = told.get("seen") or {"count": len(told.get("trials", ()))}
    if (digest := told.get("data_digest")) is not None:
        about = {"campaign": product.campaign, "digest": digest, **seen}
        inputs.append(_input(f"results of {product.campaign}", digest, about, "training", seen["count"]))
    if points is not None:
        about = {"campaign": product.campaign, "iteration": product.iteration, "digest": points.digest}
        inputs.append(_input(f"collocation points of {product.campaign}", points.digest, about, "collocation"))
    if inputs:
        client.log_inputs(run, inputs)


def _input(name: str, digest: str, about: dict[str, Any], context: str, count: int | None = None) -> DatasetInput:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = json.dumps({"tags": {"mlflow.source.name": "fieldcraft", **about}})
    profile = None if count is None else json.dumps({"num_rows": count})
    data = Dataset(name, digest[:DIGEST_LENGTH], "code", source, profile=profile)
    return DatasetInput(data, [InputTag("mlflow.data.context", context)])


def log_model(client: MlflowClient, experiment: str, run: str, product: Product, folder: Path, *, anew: bool) -> None:
    """Log a surrogate as a model that its run made, unless it is logged already.

    Args:
        client: The store.
        experiment: The campaign's experiment.
        run: The surrogate's run.
        product: The surrogate.
        folder: Folder with its checkpoint, ``checkpoint.npz``.
        anew: True if the run was made just now, so that it has no model.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    found = [] if anew else client.search_logged_models([experiment], f"source_run_id = '{run}'")
    if any(each.status == LoggedModelStatus.READY for each in found):
        return
    told, seen = product.payload, product.payload.get("seen") or {}
    surrogate = told.get("surrogate") or {"kind": "none"}
    about = {
        "fieldcraft.model": product.digest,
        "fieldcraft.data": told.get("data_digest"),
        "fieldcraft.campaign": product.campaign,
        "fieldcraft.iteration": product.iteration,
        "fieldcraft.trials": seen.get("count", len(told.get("trials", ()))),
        "fieldcraft.results": seen.get("digest"),
    }
    name = f"{product.campaign}-{product.iteration:04d}".replace(".", "_")
    made = found[0] if found else None  # left by a killed exporter
    if made is None:
        params, kind = parameters(flatten(surrogate)), surrogate["kind"]
        made = client.create_logged_model(experiment, name, run, tags(about), params, kind)
        commit_point("tracking.model.after")
    with tempfile.TemporaryDirectory() as files:
        if (checkpoint := folder / "checkpoint.npz").exists():
            shutil.copy(checkpoint, files)
        Path(files, "MLmodel").write_text(_described(made.model_id, run, product))
        client.log_model_artifacts(made.model_id, files)
    outputs = client.get_run(run).outputs if found else None
    if outputs is None or made.model_id not in [each.model_id for each in outputs.model_outputs]:
        client.log_outputs(run, [LoggedModelOutput(made.model_id, product.iteration)])
    client.finalize_logged_model(made.model_id, "READY")


def _described(model: str, run: str, product: Product) -> str:
    """The ``MLmodel`` file: JSON, which is YAML."""
    about = {"campaign": product.campaign, "iteration": product.iteration, "digest": product.digest}
    return json.dumps(
        {
            "flavors": {"python_function": {"loader_module": LOADER}},
            "metadata": {"fieldcraft": about},
            "model_id": model,
            "run_id": run,
        },
        indent=1,
    )
