"""A constrained posterior, conditioned on its means at pending points and earlier places, once for each batch."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fieldcraft.models.feasibility.constrained import ConstrainedPosterior


@dataclass(frozen=True, eq=False)
class Believing:
    """Beliefs about feasibility while a batch is chosen.

    Args:
        posterior: Beliefs from the data.
        pending: Encoded points without a result, shape (k, d).
    """

    posterior: ConstrainedPosterior
    pending: Tensor
    _believed: dict[bytes, ConstrainedPosterior] = field(default_factory=dict, repr=False)

    def given(self, chosen: Tensor) -> ConstrainedPosterior:
        """The posterior with pending points and those ``chosen`` (j, d) read at their mean."""
        key = chosen.detach().numpy().tobytes()
        if key not in self._believed:
            points = torch.cat([self.pending, chosen.detach()])
            self._believed[key] = self.posterior.fantasize(points) if len(points) else self.posterior
        return self._believed[key]
