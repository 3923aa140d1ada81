"""Pages from their templates; every text is escaped, and control characters are made visible."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from fieldcraft.flows.analysis.existing import existing
from fieldcraft.flows.desk.entering import LIVE, Visit
from fieldcraft.flows.identity import RIGHTS
from fieldcraft.flows.report.history import event_text
from fieldcraft.flows.text import clock, counted, since
from fieldcraft.flows.views.data import design_text, outputs_text, quantity, quantity_pm, setting
from fieldcraft.flows.views.text import judged
from fieldcraft.storage.text import printable

HERE = Path(__file__).parent
_PLAIN = 1e6  # numbers beyond are written with an exponent


def _shown(value: Any) -> Any:
    """A text of somebody's with its control characters made visible; other values, and markup, as they are."""
    return printable(value) if type(value) is str else value


def pm(value: float, sd: float, unit: str) -> str:
    """A value with its standard deviation and unit, both to two digits of the deviation: ``50.2 ± 0.8 MPa``."""
    if not (sd > 0 and math.isfinite(sd) and abs(value) < _PLAIN and sd > 1 / _PLAIN):
        return quantity_pm(value, sd, unit).replace(" +- ", " ± ")
    digits = max(0, 1 - math.floor(math.log10(sd)))
    return f"{value:.{digits}f} ± {sd:.{digits}f}{' ' * bool(unit)}{unit}"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"clock": clock, "since": lambda at: since(at, time.time()), "counted": counted}
    made.globals |= {
        "design_text": design_text,
        "outputs_text": outputs_text,
        "quantity": quantity,
        "setting": setting,
        "existing": existing,
        "event_text": event_text,
        "judged": judged,
        "pm": pm,
    }
    return made


_PAGES = _environment()


def page(
    request: Request, name: str, visit: Visit | None, values: Mapping[str, Any] | None = None, status: int = 200
) -> HTMLResponse:
    """A page.

    Args:
        request: The request that it answers.
        name: Name of its template.
        visit: Who sees it; None for somebody unknown.
        values: Values of the template.
        status: HTTP status.
    """
    said: list[tuple[str, str]] = []
    if visit is not None and visit.session.said and LIVE not in request.headers:
        said, visit.session.said = visit.session.said, []
    shared = {
        "path": request.url.path,
        "person": visit and visit.person,
        "rights": RIGHTS[visit.person.role] if visit else frozenset(),
        "csrf": visit.session.csrf if visit else "",
        "said": said,
        "people_fault": request.app.state.entrance.known.fault if visit and visit.person.role == "operator" else "",
    }
    return HTMLResponse(_PAGES.get_template(name).render({**shared, **(values or {})}), status)
