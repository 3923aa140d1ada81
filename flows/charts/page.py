"""Scripts and the style sheet by which a page draws charts, and charts as text for such a page.

plotly.js comes from plotly's own package, so that nothing is loaded from a network. No figure needs ``eval``.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

STATIC = Path(str(files(__package__))) / "static"


@cache
def plotly_js() -> Path:
    """File of plotly.js; plotly itself is not imported."""
    found = find_spec("plotly")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


def static(name: str) -> str:
    """Text of a file of ``static``: ``charts.js``, ``tables.js`` or ``report.css``."""
    return (STATIC / name).read_text(encoding="utf-8")


def as_json(payload: Mapping[str, Any]) -> str:
    """JSON that may stand within an element ``script``: no text in it can end the element."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
