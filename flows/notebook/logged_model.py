"""A surrogate that MLflow shows as a logged model, rebuilt by ``mlflow.pyfunc.load_model`` from its home.

Nothing is unpickled: the model's file names a campaign and an iteration, and the ledger of the home that
FIELDCRAFT_HOME names has its training data.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.notebook.tables import designs_of, predictions_table
from fieldcraft.flows.predictions.model import LatestModel, model_of, predicted
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.wiring.context import Site, site_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LoggedModel:
    """A surrogate of a campaign.

    Args:
        site: The campaign.
        model: The surrogate.
    """

    site: Site
    model: LatestModel

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> "pd.DataFrame":
        """Mean and standard deviation of the objective, in its unit, at designs (a table or mappings)."""
        record = self.site.ledger.campaign(self.site.name)
        rows, index = designs_of(record, model_input)
        mean, sd = predicted(self.model.posterior, self.site.campaign.space.encode(rows))
        return predictions_table(record, index, mean.tolist(), sd.tolist())


def _load_pyfunc(path: str) -> LoggedModel:
    """The surrogate that the model at ``path`` stands for; called by MLflow.

    Raises:
        InputError: the home has no such model.
    """
    about = json.loads((Path(path) / "MLmodel").read_text())["metadata"]["fieldcraft"]
    settings = settings_from()
    site = site_of(str(settings.home), about["campaign"], None)
    product = site.ledger.product(site.name, about["iteration"], "train")
    model = None if product is None or product.digest != about["digest"] else model_of(site, product)
    if model is None:
        raise InputError(
            f"The home {settings.home} has no model of iteration {about['iteration']} of {about['campaign']} with the "
            "digest of this one. Set FIELDCRAFT_HOME to the home that it was trained in."
        )
    return LoggedModel(site, model)
