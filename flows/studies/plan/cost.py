"""CPU time that the cells of a study have taken, and that the others will take by those that ended."""

from collections.abc import Sequence
from statistics import mean

from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import Cell
from fieldcraft.flows.text import counted


class Cost:
    """CPU time of the cells of a study, in seconds.

    A cell is taken to cost what the ended ones of its algorithm on its problem did, on average; else what those of its
    problem did, or of its algorithm, or all. What a cell that is not finished has spent counts towards that.

    Attributes:
        over: Cells that a run leaves as they are: those that ended, and failed ones unless they go on.
    """

    def __init__(self, folder: StudyFolder, cells: Sequence[Cell], *, again: bool) -> None:
        """Read what the cells have cost; ``again`` where failed ones go on.

        Raises:
            InputError: a file of theirs is damaged, or no file of a study.
        """
        self.folder, self.cells = folder, cells
        self.spent: dict[str, float] = {}
        self.ended: dict[str, Cell] = {}
        self.over: set[str] = set()
        for cell in cells:
            if folder.result(cell) or not (again or folder.failure(cell) is None):
                self.count(cell)
            else:
                self.spent[cell.name] = self._read(cell)

    def count(self, cell: Cell) -> None:
        """Read what a cell has cost that has ended or failed."""
        self.over.add(cell.name)
        self.spent[cell.name] = self._read(cell)
        if self.folder.result(cell):
            self.ended[cell.name] = cell

    def _read(self, cell: Cell) -> float:
        return sum(line["cpu"] for line in self.folder.spent(cell))

    @property
    def left(self) -> float | None:
        """CPU time that the cells which have neither ended nor failed will take; None while none has ended."""
        if not self.ended:
            return None
        means = {key: mean(costs) for key, costs in self._known().items()}
        total = 0.0
        for cell in self.cells:
            if cell.name not in self.over:
                expected = next(means[key] for key in _keys(cell) if key in means)
                total += max(0.0, expected - self.spent[cell.name])
        return total

    def _known(self) -> dict[tuple[str | None, str | None], list[float]]:
        known: dict[tuple[str | None, str | None], list[float]] = {}
        for cell in self.ended.values():
            for key in _keys(cell):
                known.setdefault(key, []).append(self.spent[cell.name])
        return known

    def text(self) -> str:
        """The rest of the study, in words."""
        lacking, left = len(self.cells) - len(self.over), self.left
        if not lacking:
            return "nothing left"
        if left is None:
            return f"{counted(lacking, 'cell')} left, of a cost that the first to end will tell"
        return f"{counted(lacking, 'cell')} left, about {left / 3600:.2g} core-hours"


def _keys(cell: Cell) -> tuple[tuple[str | None, str | None], ...]:
    """Pairs that a cell shares with others, the nearest first: problem and algorithm, or one of them, or neither."""
    problem, algorithm = cell.problem.name, cell.algorithm.name
    return (problem, algorithm), (problem, None), (None, algorithm), (None, None)
