"""Summary at the end of ``fieldcraft run``: the best designs, the regret where the truth is known, and the stores."""

from pathlib import Path
from typing import Any

from fieldcraft.flows.analysis.best import best_data, best_of, objective_of
from fieldcraft.flows.analysis.feasibility import campaign_feasibility
from fieldcraft.flows.analysis.front import front_data
from fieldcraft.flows.analysis.picks import picked_data
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.all_failed import fruitless, mending
from fieldcraft.flows.views.data import design_text, outputs_text, quantity
from fieldcraft.flows.views.outcome import Ran
from fieldcraft.flows.views.regret import most_hypervolume, regret_of
from fieldcraft.flows.views.text import standing_lines
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.text import without_password


def summary_data(ran: Ran, settings: Settings) -> dict[str, Any]:
    """The end of a run as data."""
    ledger = open_ledger(settings.ledger)
    campaign, trials = ledger.campaign(ran.name), ledger.summaries(ran.name)
    best = best_of(ledger, campaign, trials)
    standing = {**best_data(best), "feasibility": campaign_feasibility(objective_of(campaign), trials)}
    wired, standing["front"] = rewire(campaign.spec, settings, algorithm=False), front_data(campaign, trials)
    standing["picked"] = picked_data(ledger.picked(campaign.name), campaign, trials)
    return {
        "campaign": ran.name,
        "reason": ran.reason,
        "anew": ran.anew,
        "seconds": round(ran.seconds, 1),
        "trials": sum(trial.level is None for trial in trials),
        "fruitless": (why := fruitless(ledger, ran.name, trials)),
        "mending": why and mending(ran.name, trials, campaign.finished),
        **standing,
        "best": (measured := best.measured)
        and {
            **standing["best"],
            "text": f"{outputs_text(campaign, measured.outputs)} in {measured.id}",
            "at": design_text(campaign, measured.actual),
        },
        "lines": standing_lines(campaign, standing, 9, most_hypervolume(wired)),
        "regret": best.trial and regret_of(wired, best.trial),
        "unit": wired.problem.outputs[0].unit,
        "ledger": settings.ledger_shown,
        "fields": str(settings.fields),
        "mlflow": without_password(settings.mlflow),
        "prefect": str(settings.home / "prefect"),
        "home": str(settings.home),
    }


def _then(data: dict[str, Any]) -> str:
    """Command after a look at the plot: of a front, the choice that is left to a person."""
    if data["best_design"]:
        return f"  fieldcraft trace {data['best_design']}"
    if data["front"] and data["front"]["trials"] and not data["picked"]:
        trial = data["front"]["trials"][0]["trial"]
        return f"  fieldcraft pick {data['campaign']} {trial} --why '...'    # or another of the front, or --knee"
    return f"  fieldcraft status {data['campaign']}"


def summary_text(data: dict[str, Any], file: Path) -> str:
    """The summary as text, ending with the next three commands."""
    state = "ended" if data["anew"] else "had ended before; nothing was changed. It ended"
    lines = ["", f"Campaign {data['campaign']!r} {state} by {data['reason']}; {data['seconds']:.0f} s."]
    lines += [f"  no result {data['fruitless']}"] if data["fruitless"] else []
    lines += [f"  {line}" for line in data["lines"]]
    if regret := data["regret"]:
        unit = data["unit"]
        how = "without noise " if regret["noise_free"] else ""
        where = f"in {data['best_design']}" if data["best_by_model"] else "there"
        lines.append(
            f"  regret    {quantity(regret['value'], unit)}: {quantity(regret['true'], unit)} {how}{where}, "
            f"the true optimum is {quantity(regret['optimum'], unit)}"
        )
    lines += [
        f"  ledger    {data['ledger']}",
        f"  fields    {data['fields']}",
        f"  MLflow    {data['mlflow']}",
        "Next:",
        *(
            [f"  {data['mending']}"]
            if data["fruitless"]
            else [
                f"  fieldcraft plot {data['campaign']} {data['campaign']}.png",
                _then(data),
            ]
        ),
        "  fieldcraft mlflow" if data["mlflow"].startswith("sqlite:") else "  fieldcraft doctor",
    ]
    return "\n".join(lines)
