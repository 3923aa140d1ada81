"""HTML that escapes by construction: text becomes markup through ``element`` alone, which escapes it.

Notes, comments, names and errors come from users and machines; a page shows them as text. The page's content security
policy also forbids any request, and every script but those of the charts and tables, which it names by their digests.
"""

import base64
import hashlib
import html
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fieldcraft.flows.charts.chart import Chart
from fieldcraft.flows.charts.page import as_json, plotly_js, static
from fieldcraft.flows.text import printable

_POLICY = "default-src 'none'; {scripts}img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_VOID = frozenset({"img", "meta", "br", "hr"})


@dataclass(frozen=True)
class Markup:
    """HTML that is safe to put into a page as it is."""

    text: str


Content = Markup | str | int | None
"""What an element holds; all but Markup is text and is escaped, None is nothing."""


def element(tag: str, *content: Content, **attributes: str) -> Markup:
    """An element; ``class_`` is the attribute ``class``, and ``aria_label`` is ``aria-label``."""
    names = (name.rstrip("_").replace("_", "-") for name in attributes)
    given = "".join(f' {name}="{_escaped(value)}"' for name, value in zip(names, attributes.values(), strict=True))
    opened = f"<{tag}{given}>"
    return Markup(opened if tag in _VOID else f"{opened}{joined(content).text}</{tag}>")


def joined(content: Iterable[Content]) -> Markup:
    """Several pieces, one after the other."""
    return Markup("".join(_text(piece) for piece in content))


def _text(piece: Content) -> str:
    if piece is None:
        return ""
    return piece.text if isinstance(piece, Markup) else _escaped(str(piece))


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)


def table(
    head: Sequence[str], rows: Iterable[Sequence[Content]], numbers: Collection[int] = (), marked: Collection[int] = ()
) -> Markup:
    """An HTML table, whose columns a script can sort.

    Args:
        head: Names of the columns.
        rows: Cells of each row.
        numbers: Positions of the columns that hold numbers, which are aligned to the right.
        marked: Positions of the highlighted rows.
    """

    def line(cell: str, cells: Sequence[Content]) -> list[Markup]:
        return [
            element(cell if content else "td", content, **({"class_": "n"} if place in numbers else {}))
            for place, content in enumerate(cells)
        ]

    body = [
        element("tr", *line("td", cells), **({"class_": "best"} if place in marked else {}))
        for place, cells in enumerate(rows)
    ]
    top = element("thead", element("tr", *line("th", head)))
    made = element("table", top, element("tbody", *body), class_="sortable")
    return element("div", made, class_="scroll", tabindex="0", role="group", aria_label=f"table by {head[0] or 'row'}")


def pairs(rows: Iterable[tuple[str, Content]]) -> Markup:
    """A table of names and values."""
    body = [element("tr", element("th", name), element("td", value)) for name, value in rows]
    return element("table", element("tbody", *body))


def facts(cards: Iterable[tuple[str, str, str]]) -> Markup:
    """Key figures: name, value and a remark under it."""
    shown = [
        element("div", element("dt", name), element("dd", value, element("span", remark) if remark else None))
        for name, value, remark in cards
    ]
    return element("dl", *shown, class_="facts")


def picture(source: str, alternative: str, caption: str) -> Markup:
    """A figure of a ``data:`` URI, with its alternative text and caption."""
    shown = element("img", src=source, alt=alternative)
    rolled = element("div", shown, class_="scroll", tabindex="0", role="group", aria_label=alternative)
    return element("figure", rolled, element("figcaption", caption))


def chart(shown: Chart, caption: str = "") -> Markup:
    """A chart with its caption, which a script draws, and the data behind it."""
    wait = note("The pictures need JavaScript; the tables of this page hold the numbers.")  # until they are drawn
    return element(
        "figure",
        element("h3", shown.title),
        element("div", wait, class_="plot", role="img", aria_label=f"{shown.title}. {caption}".strip()),
        element("figcaption", caption) if caption else None,
        element(
            "details",
            element("summary", f"Data of {shown.title[0].lower()}{shown.title[1:]}"),
            Markup('<button type="button" class="data" hidden>Save as CSV</button>'),
            Markup('<div class="scroll table" tabindex="0" role="group" aria-label="data of the picture"></div>'),
        ),
        Markup(f'<script type="application/json">{as_json(shown.payload())}</script>'),
        class_="chart map" if any(trace["type"] == "heatmap" for trace in shown.data) else "chart",
    )


def row(*charts: Content) -> Markup:
    """Charts beside each other where the page is wide enough."""
    return element("div", *charts, class_="row")


def fold(title: str, *content: Content) -> Markup:
    """Content that is shown once its title is opened."""
    return element("details", element("summary", title), *content, class_="fold")


def note(text: str) -> Markup:
    """A remark in small print."""
    return element("p", text, class_="note")


def section(title: str, *content: Content) -> Markup:
    """A section of a page, with a heading."""
    return element("section", element("h2", title), *content)


def page(title: str, *body: Content) -> str:
    """A whole HTML document, which holds its scripts: those of the charts where there are charts."""
    content = element("body", *body).text
    scripts = [static("tables.js")] if 'class="sortable"' in content else []
    if 'class="chart' in content:
        scripts += [plotly_js().read_text(encoding="utf-8"), static("charts.js")]
    digests = " ".join(f"'sha256-{_digest(text)}'" for text in scripts)
    policy = _POLICY.format(scripts=f"script-src {digests}; " if digests else "")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy, quote=True)}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        Markup(f"<style>{static('report.css')}</style>"),
    ).text
    ends = "".join(f"<script>{text}</script>" for text in scripts)
    main = content.replace("<body>", "<body><main>", 1).removesuffix("</body>")
    return f'<!doctype html>\n<html lang="en">{head}{main}</main>{ends}</body></html>\n'


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
