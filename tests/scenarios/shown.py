"""What the docs show of commands: where it stands, how a run becomes its sample, and `make shown`.

``make shown`` runs the three heat campaigns in a fresh home and writes what they print into docs/.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HEATS = ("heat", "heat-basis", "heat-gp")
GAP = "           ..."


def text_of(name: str) -> str:
    """A file of the repository, as text."""
    return (ROOT / name).read_text(encoding="utf-8")


def shown(name: str, mark: str) -> str:
    """The fenced block of a file after the comment ``<!-- shown: MARK -->``."""
    (block,) = re.findall(rf"<!-- shown: {mark} -->\n```\n(.*?)```", text_of(name), re.DOTALL)
    return block


def table(name: str, first: str) -> list[dict[str, str]]:
    """Rows, by column, of the table of a file whose header begins with these cells."""
    lines = text_of(name).splitlines()
    (start,) = [place for place, line in enumerate(lines) if line.startswith(f"| {first} |")]
    header, rows = _cells(lines[start]), []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(header, _cells(line), strict=True)))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def results(name: str) -> dict[str, Any]:
    """A file of stored results, by its name without the ending."""
    return json.loads(text_of(f"{name}.json"))


def agrees(said: str, value: float) -> bool:
    """Whether a number is said to the digits that it is said with; trailing zeros of a whole number are none."""
    plain = said.replace(",", "").removesuffix("%").strip()
    mantissa, _, power = plain.partition("e")
    whole, _, decimals = mantissa.partition(".")
    unit = 10.0 ** -len(decimals) if decimals else 10.0 ** (len(whole) - len(whole.rstrip("0") or "0"))
    return abs(float(plain) - value) <= 0.5001 * unit * 10.0 ** int(power or 0)


def fieldcraft(home: Path, *words: str, **environment: str) -> str:
    """What the command prints, run in the repository's root."""
    done = subprocess.run(
        [sys.executable, "-m", "fieldcraft.flows.cli", *words, "--home", str(home)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def sample(printed: str, home: Path) -> str:
    """Of a run's lines those of the first trial, of the first model, of the last one and of the end."""
    lines = printed.replace(str(home), ".../fieldcraft/runs").splitlines()
    end = lines.index("")
    last = max(int(found[1]) for line in lines[:end] if (found := re.search(r"iteration +(\d+)", line)))
    first = r"iteration   0  (acquire    \S+-0001 |dispatch   \S+-000[12] |harvest    \S+-0001 )"
    wanted = re.compile(rf"reading|{first}|iteration +(1|{last - 1}|{last})  ")
    kept = [place for place, line in enumerate(lines[:end]) if wanted.search(line)]
    chosen: list[str] = []
    for before, place in zip([-1, *kept], kept, strict=False):
        chosen += [GAP] * (place > before + 1) + [lines[place]]
    return "\n".join([*chosen, *lines[end:]]) + "\n"


def figures(end: str) -> tuple[str, str]:
    """Best result and regret that the end of a run tells, as the table of docs/heat.md shows them."""
    best = re.search(r"best result +temperature (\S+) K", end) or re.search(r"best +temperature (\S+) K", end)
    regret = re.search(r"regret +(\S+) K", end)
    assert best and regret, end
    return f"{float(best[1]):.1f} K", f"{float(regret[1]):.2f} K"


def _put(name: str, mark: str, block: str) -> None:
    opening = f"<!-- shown: {mark} -->\n```\n"
    before, _, rest = text_of(name).partition(opening)
    after = rest.partition("```")[2]
    (ROOT / name).write_text(f"{before}{opening}{block}```{after}", encoding="utf-8")


def _write(home: Path) -> None:
    printed = {name: fieldcraft(home, "run", f"campaigns/{name}.yaml") for name in HEATS}
    _put("docs/heat.md", "heat", sample(printed["heat"], home))
    for name, text in printed.items():
        row = re.compile(rf"(?m)^(\| `{name}.yaml` \|.*\|.*\|) .* \| .* \|$")
        page = row.sub("\\1 {} | {} |".format(*figures(text)), text_of("docs/heat.md"))
        (ROOT / "docs" / "heat.md").write_text(page, encoding="utf-8")
    _put("docs/mlflow.md", "compare-runs", fieldcraft(home, "compare-runs", "heat", "heat-gp"))
    fieldcraft(home, "plot", "heat", "docs/heat.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder) / "home")
