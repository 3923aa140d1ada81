"""HTML that escapes by construction: text becomes markup through ``element`` alone, which escapes it.

Notes, comments, names and errors come from users and machines; a page shows them as text. The page's content security
policy also forbids scripts and any request.
"""

import html
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fieldcraft.flows.text import printable

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_VOID = frozenset({"img", "meta", "br", "hr"})

_STYLE = """
:root { color-scheme: light; --ink: #1d2126; --soft: #5b6570; --line: #d9dee3; --wash: #f5f7f8; --accent: #1f5fa8; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.2rem 1.6rem 4rem; max-width: 66rem; color: var(--ink); background: #fff;
  font: 15px/1.5 "Helvetica Neue", Arial, "Liberation Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .2rem; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .7rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { max-width: 46rem; margin: .5rem 0; }
.lead, .note, figcaption { color: var(--soft); }
.note, figcaption { font-size: .87rem; }
.facts { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1.3rem 0 .6rem; padding: 0; }
.facts div { flex: 1 1 9rem; padding: .6rem .8rem; background: var(--wash); border-radius: 4px; }
.facts dt { font-size: .78rem; color: var(--soft); }
.facts dd { margin: 0; font-size: 1.12rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.facts dd span { display: block; font-size: .78rem; font-weight: 400; color: var(--soft); }
figure { margin: .8rem 0 1.2rem; }
figure img { max-width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .84rem; line-height: 1.35; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .32rem 1rem .32rem 0; border-bottom: 1px solid var(--line);
  unicode-bidi: isolate; overflow-wrap: break-word; }
td:first-child { white-space: nowrap; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; overflow-wrap: normal; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.best td { background: #eef4fb; }
code { font: .86em/1.4 "DejaVu Sans Mono", "Liberation Mono", Menlo, monospace; overflow-wrap: anywhere; }
pre { margin: .5rem 0; columns: 20rem 3; column-gap: 2rem; line-height: 1.3; white-space: pre-wrap; font-size: .84rem; }
@media print { body { padding: 0; max-width: none; font-size: 10pt; } h2, h3 { break-after: avoid; }
  figure, tr, .facts div { break-inside: avoid; } thead { display: table-header-group; } .scroll { overflow: visible; }
  @page { margin: 16mm 14mm; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


@dataclass(frozen=True)
class Markup:
    """HTML that is safe to put into a page as it is."""

    text: str


Content = Markup | str | int | None
"""What an element holds; all but Markup is text and is escaped, None is nothing."""


def element(tag: str, *content: Content, **attributes: str) -> Markup:
    """An element; ``class_`` is the attribute ``class``."""
    given = "".join(f' {name.rstrip("_")}="{_escaped(value)}"' for name, value in attributes.items())
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
    """An HTML table.

    Args:
        head: Names of the columns.
        rows: Cells of each row.
        numbers: Positions of the columns that hold numbers, which are aligned to the right.
        marked: Positions of the highlighted rows.
    """

    def line(cell: str, cells: Sequence[Content]) -> list[Markup]:
        return [
            element(cell, content, class_="n") if place in numbers else element(cell, content)
            for place, content in enumerate(cells)
        ]

    body = [
        element("tr", *line("td", cells), **({"class_": "best"} if place in marked else {}))
        for place, cells in enumerate(rows)
    ]
    top = element("thead", element("tr", *line("th", head)))
    return element("div", element("table", top, element("tbody", *body)), class_="scroll")


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
    return element("figure", element("img", src=source, alt=alternative), element("figcaption", caption))


def note(text: str) -> Markup:
    """A remark in small print."""
    return element("p", text, class_="note")


def section(title: str, *content: Content) -> Markup:
    """A section of a page, with a heading."""
    return element("section", element("h2", title), *content)


def page(title: str, *body: Content) -> str:
    """A whole HTML document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY, quote=True)}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        Markup(f"<style>{_STYLE}</style>"),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *body), lang='en').text}\n"
