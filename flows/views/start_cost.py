"""Check that a budget can pay for the start of a campaign, made by ``check`` before anything is spent."""

from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.views.data import quantity
from fieldcraft.flows.wiring.campaign import Campaign


def warning(campaign: Campaign) -> str | None:
    """A warning if each design of the start costs more than the budget, so that none would be sent; else None.

    It is no error: imported data may take the place of the start, and people may edit the proposals.
    """
    budget, part = campaign.spec.budget, campaign.spec.algorithm.start
    if budget.cost is None:
        return None
    rng = stream(campaign.spec.seed, 0, Use.INITIAL)
    designs = campaign.space.decode(campaign.algorithm.initial.propose(campaign.space, 0, part.n, rng))
    least = min(float(campaign.problem.cost(design)) for design in designs)
    if least <= budget.cost:
        return None
    costs, limit = quantity(least, budget.unit), quantity(budget.cost, budget.unit)
    return f"warning: budget.cost is {limit} and the cheapest design of the start costs {costs}: none would be sent."
