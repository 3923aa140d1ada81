"""What ``fieldcraft run`` says at its end: the best design, the regret where the truth is known, where things lie."""

from pathlib import Path
from typing import Any

from flows.regret import regret_of
from flows.running import Ran
from flows.settings import Settings, without_password
from flows.views import best_trial, design_text, outputs_text, quantity
from flows.wiring import rewire
from storage.ledger import open_ledger


def summary_data(ran: Ran, settings: Settings) -> dict[str, Any]:
    """The end of a run as data."""
    ledger = open_ledger(settings.ledger)
    campaign, trials = ledger.campaign(ran.name), ledger.trials(ran.name)
    best = best_trial(campaign, trials)
    wired = rewire(campaign.spec, settings, algorithm=False)
    return {
        "campaign": ran.name,
        "reason": ran.reason,
        "anew": ran.anew,
        "seconds": round(ran.seconds, 1),
        "trials": len(trials),
        "best": best
        and {
            "trial": best.id,
            "design": dict(best.actual),
            "outputs": dict(best.outputs or {}),
            "text": f"{outputs_text(campaign, best.outputs)} in {best.id}",
            "at": design_text(campaign, best.actual),
        },
        "regret": best and regret_of(wired, best),
        "unit": wired.problem.outputs[0].unit,
        "ledger": str(settings.ledger),
        "fields": str(settings.fields),
        "mlflow": without_password(settings.mlflow),
        "prefect": str(settings.home / "prefect"),
        "home": str(settings.home),
    }


def summary_text(data: dict[str, Any], file: Path) -> str:
    """The same as text, ending with the three commands a user wants next."""
    state = "ended" if data["anew"] else "had ended before; nothing was changed. It ended"
    lines = ["", f"Campaign {data['campaign']!r} {state} by {data['reason']}; {data['seconds']:.0f} s."]
    if best := data["best"]:
        lines += [f"  best      {best['text']}", f"            at {best['at']}"]
    if regret := data["regret"]:
        unit = data["unit"]
        how = "without noise " if regret["noise_free"] else ""
        lines.append(
            f"  regret    {quantity(regret['value'], unit)}: {quantity(regret['true'], unit)} {how}there, "
            f"the true optimum is {quantity(regret['optimum'], unit)}"
        )
    lines += [
        f"  ledger    {data['ledger']}",
        f"  fields    {data['fields']}",
        f"  MLflow    {data['mlflow']}",
        "Next:",
        f"  fieldcraft plot {data['campaign']} {data['campaign']}.png",
        f"  fieldcraft trace {best['trial'] if best else '...'}",
        f"  mlflow ui --backend-store-uri {data['mlflow']}"
        if data["mlflow"].startswith("sqlite:")
        else "  fieldcraft doctor",
    ]
    return "\n".join(lines)
