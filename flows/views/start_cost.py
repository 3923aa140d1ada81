"""Check that a budget can pay for the start of a campaign, made by ``check`` before anything is spent."""

from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.views.data import quantity
from fieldcraft.flows.wiring.campaign import Campaign


def warning(campaign: Campaign) -> str | None:
    """A warning if each design of the start costs more than the budget, so that none would be sent; else None.

    Where the simulator has levels, if all runs of the start together cost more.

    It is no error: imported data may take the place of the start, and people may edit the proposals. An emulator's best
    design, which takes a search to find, is taken to cost as much as another one.
    """
    from fieldcraft.models.proposer import TakesEmulators
    from fieldcraft.models.proposers.sobol import Sobol

    budget = campaign.spec.budget
    if budget.cost is None:
        return None
    rng = stream(campaign.spec.seed, 0, Use.INITIAL)
    most, initial = max(campaign.start.values()), campaign.algorithm.initial
    if isinstance(initial, TakesEmulators):
        initial = Sobol()
    designs = campaign.space.decode(initial.propose(campaign.space, 0, most, rng))
    each = [campaign.cost(design) for design in designs]
    limit = quantity(budget.cost, budget.unit)
    if campaign.levels:
        whole = sum(campaign.share(level) * sum(each[:n]) for level, n in campaign.start.items())
        runs, costs = sum(campaign.start.values()), quantity(whole, budget.unit)
        return (
            f"warning: budget.cost is {limit} and the {runs} runs of the start cost {costs}."
            if whole > budget.cost
            else None
        )
    least = min(each)
    if least <= budget.cost:
        return None
    costs = quantity(least, budget.unit)
    return f"warning: budget.cost is {limit} and the cheapest design of the start costs {costs}: none would be sent."
