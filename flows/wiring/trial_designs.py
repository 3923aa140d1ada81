"""Trial runs of a few designs for ``check``, where they cost nothing: faults that would fail every trial."""

import io
import math
import threading
from contextlib import redirect_stdout

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.settings import no_secrets
from fieldcraft.flows.spec.plugin_files import line_of
from fieldcraft.flows.text import said
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.physics.outputs.checks import numbers_given
from fieldcraft.physics.problem import Infeasible, Transient
from fieldcraft.physics.space import Design

_MOST = 3  # designs, where the first ones fail
_PATIENCE_S = 20.0


def trial_warning(campaign: Campaign) -> str | None:
    """Try a design, and further ones where it fails; return a warning if some of them fail, else None.

    No design is tried where a simulation may cost something. An infeasible design is no fault.

    Raises:
        InputError: every design fails, or its cost cannot be computed; gives the reason.
    """
    rng = stream(campaign.spec.seed, 0, Use.INITIAL)
    designs = campaign.space.decode(campaign.space.sample(_MOST, rng))
    for design in designs:
        campaign.cost(design)
    if campaign.simulator is None or not campaign.simulator.formula:
        return None
    faults: list[str] = []

    def work() -> None:
        for design in designs:
            if (fault := _fault(campaign, design, rng)) is None:
                return
            faults.append(fault)

    worker = threading.Thread(target=work, daemon=True)
    with no_secrets(), redirect_stdout(io.StringIO()):
        worker.start()
        worker.join(_PATIENCE_S)
    if worker.is_alive():
        return f"warning: a design took over {_PATIENCE_S:g} s to try; nothing is known of its result."
    if len(faults) == len(designs):
        raise InputError(f"problem: {len(designs)} designs were tried, and every trial would fail: {faults[0]}.")
    return f"warning: a design that was tried fails: {faults[0]}." if faults else None


def _fault(campaign: Campaign, design: Design, rng: np.random.Generator) -> str | None:
    """Description of the error or of the output that is not finite; None for a result, or an infeasible design."""
    problem, simulator = campaign.problem, campaign.simulator
    assert simulator is not None  # asked before
    try:
        if simulator.gate(problem, design, rng) is not None:
            return None
        found = problem.evaluate(design, simulator.run(problem, design, rng))
        outputs = problem.completed(numbers_given(found, problem.measured), design)
    except (Infeasible, Transient):
        return None
    except (Exception, SystemExit) as error:  # the outermost edge of a user's code: what it raises is told
        told = (f"{type(error).__name__}: {said(str(error))}" if str(error) else type(error).__name__).rstrip(".")
        return f"{told} ({line})" if (line := line_of(error)) else told
    bad = [name for name, value in outputs.items() if not math.isfinite(value)]
    return f"the output {bad[0]!r} is {outputs[bad[0]]}" if bad else None
