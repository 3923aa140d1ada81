"""Choice, by evidence, of the scale on which an unknown constraint is learnt: its own, or a logarithm beyond a size."""

from functools import lru_cache

import numpy as np

from fieldcraft.models.feasibility.bilog import Bilog
from fieldcraft.models.gaussian.fit import Question
from fieldcraft.models.numerics.milestones import ByDigest, milestone, thinned
from fieldcraft.models.observations import Observations
from fieldcraft.models.selection.contest import MARGIN

# Results whose largest magnitude is less than so many medians are not bent: a logarithm would hardly differ.
_SPREAD = 10.0
# Trials that the evidence is of at most.
_MOST = 512


def chosen(data: Observations) -> Bilog | None:
    """The transform under which a constraint's results are likelier, as those of an exact process; None for none.

    The results of two scales are compared by log p(t) - n log sd + sum_i log b'(c_i), with t the standardised targets
    of b(c), sd their scale and p(t) the density at the hyper-parameters that maximise it times their priors (the change
    of variables: Snelson, Rasmussen and Ghahramani, 2003). The transform must be likelier by ``MARGIN``. Results whose
    largest magnitude is below ten medians are left as they are, and so are those that an emulator, stored fields, an
    earlier campaign or a coarser level predict in their unit. The choice is that of the last milestone (see
    ``milestone``), so that it depends on the trials alone.

    Args:
        data: Observations of one constraint (``Observations.constraint``).
    """
    if data.emulators or data.earlier or data.lower or data.snapshots is not None or data.readings is not None:
        return None
    return _chosen(ByDigest.of(data.first(milestone(len(data)))))


def bent(data: Observations, bilog: Bilog | None) -> Observations:
    """Observations of one constraint with its results transformed.

    The standard deviation of a result becomes b'(c) times as large, to first order in it (the delta method).
    """
    if bilog is None:
        return data
    return data.reading(bilog.bent(data.y), data.sds * bilog.slope(data.y)[:, None] if data.sds.size else None)


def gain(data: Observations, bilog: Bilog) -> float:
    """Log density of a constraint's results under the transform less that on their own scale, in nats."""
    return _log_density(bent(data, bilog)) + float(np.log(bilog.slope(data.y)).sum()) - _log_density(data)


@lru_cache(maxsize=64)
def _chosen(trials: ByDigest) -> Bilog | None:
    data = trials.data
    sizes = np.abs(data.y)
    if data.constant or sizes.max() < _SPREAD * np.median(sizes):
        return None
    bilog = Bilog.of(data.y)
    return bilog if gain(data.among(thinned(len(data), _MOST)), bilog) > MARGIN else None


def _log_density(data: Observations) -> float:
    """log p of the results, in their unit, by an exact process at its likeliest hyper-parameters, times their priors.

    -inf if none can be fitted.
    """
    try:
        found = Question("matern52", False, 2, _MOST, ByDigest.of(data)).answer()
    except ValueError:
        return -np.inf
    return found.log_posterior - len(data) * float(np.log(data.scaling.sd))
