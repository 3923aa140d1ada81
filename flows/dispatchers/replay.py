"""Recorded results in the place of new experiments: only designs that were tried before have an answer, at once.

The records are a campaign of the same ledger, whose fields are then reused, or a table as ``fieldcraft export`` writes
it in the folder that the operator's setting ``FIELDCRAFT_RECORDS`` names; its column ``field`` names files of fields
beside it. A process reads the records once. Nothing runs and nothing is kept on the disk: a handle holds the design,
and each call looks it up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fieldcraft.flows.dispatchers._known_results import KnownResult, campaign_records, nearest, same, table_records
from fieldcraft.flows.errors import InputError, at
from fieldcraft.flows.files.field_files import read_field
from fieldcraft.flows.files.field_outputs import outputs_of_file
from fieldcraft.flows.files.tables import finite, level
from fieldcraft.flows.jobs.dispatcher import Failed, Finished, Handle, Job, Outcome, Place
from fieldcraft.flows.text import quoted
from fieldcraft.physics.space import Categorical
from fieldcraft.storage.fields import FieldDamaged, fields_at

if TYPE_CHECKING:
    import xarray as xr

    from fieldcraft.physics.problem import Problem


@dataclass(frozen=True)
class Replay:
    """Answers each job with the recorded result of the same design.

    Numbers are the same within 1e-9 of their size. Of several results of one design the first counts.

    Args:
        place: The campaign; its wall time is not needed.
        campaign: Name of a campaign in the same ledger.
        file: Name of a CSV file in the folder of records. Its column ``field`` may name files of fields beside it.
        noisy: True if the recorded results are noisy, so that the best one may be a lucky one. Each recorded result is
            then used without its field: outputs that a problem evaluates from a field have none of the measurement's
            noise.

    Raises:
        ValueError: not exactly one of ``campaign`` and ``file``.
    """

    place: Place
    campaign: str | None = None
    file: str | None = None
    noisy: bool = False
    by_people: ClassVar[bool] = False
    within_pass: ClassVar[bool] = True
    answers: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if (self.campaign is None) == (self.file is None):
            raise ValueError("give exactly one of campaign (of this ledger) and file (in FIELDCRAFT_RECORDS)")

    def require(self, problem: "Problem") -> None:
        """Accept records that have the problem's variables and outputs, as numbers in the problem's units.

        Every field file is read, one at a time. It must be one of the problem's, and agree with the outputs beside it.

        Raises:
            InputError: they lack one, or cannot be read; says which.
        """
        self._check(problem.space.units, {output.name: output.unit for output in problem.measured})
        for record in self._records:
            with at(f"dispatcher: {record.name} of {self._source}"):
                told = {v.name: str(record.design[v.name]) for v in problem.space.variables}
                for v in problem.space.variables:
                    if told[v.name] and not isinstance(v, Categorical):
                        finite(told[v.name], v.name)
                if (file := self._file(record)) is not None:
                    design = {v.name: level(v, told[v.name], v.name) for v in problem.space.variables}
                    outputs_of_file(problem, design, file, record.outputs)

    def _file(self, record: KnownResult) -> Path | None:
        """The file of a record's fields, unless its noisy outputs count instead."""
        return None if self.noisy else record.file

    def _check(self, variables: Mapping[str, str], outputs: Mapping[str, str]) -> None:
        """Accept records that have all variables and outputs, each given with its unit, in these units."""
        if not self._records:
            raise InputError(f"dispatcher: {self._source} holds no result. Name another, or wait for its first.")
        for record in self._records:
            if missing := [name for name in variables if name not in record.design]:
                raise InputError(f"dispatcher: {self._source} has no variable {missing[0]!r}, which the problem has.")
            answered = record.infeasible or self._file(record) is not None
            if not answered and (missing := [name for name in outputs if name not in record.outputs]):
                raise InputError(
                    f"dispatcher: {record.name} of {self._source} has no output {missing[0]!r}, which the problem has."
                )
            for name, unit in {**variables, **outputs}.items():
                if record.units.get(name, unit) != unit:
                    raise InputError(
                        f"dispatcher: {self._source} has {name!r} in {record.units[name]!r}, and the problem has it in "
                        f"{unit!r}. Let both agree."
                    )

    @property
    def _source(self) -> str:
        return f"campaign {quoted(self.campaign)}" if self.campaign is not None else quoted(self.file)

    @cached_property
    def _records(self) -> tuple[KnownResult, ...]:
        settings = self.place.settings
        if self.campaign is not None:
            return campaign_records(settings, self.campaign)
        assert self.file is not None  # exactly one of the two is given
        return table_records(settings, self.file)

    def submit(self, job: Job) -> Handle:
        """Start nothing: the result is already recorded."""
        return {"key": job.key, "design": dict(job.request["design"]), "outputs": dict(job.request["outputs"])}

    def find(self, key: str) -> Handle | None:
        """None: a job that was not recorded as running may be submitted again without harm."""
        return None

    def look(self, handle: Handle) -> Outcome:
        """Return the recorded result's outcome, or a failure where the design was not recorded."""
        record = self._record(handle)
        if record is None:
            return Failed("unknown", self._unknown(handle["design"]), cost=0.0, seconds=0.0)
        if record.infeasible:
            return Failed("infeasible", f"{record.name} of {self._source} was infeasible", seconds=0.0)
        return Finished(0.0)

    def _record(self, handle: Handle) -> KnownResult | None:
        return next((record for record in self._records if same(record.design, handle["design"])), None)

    def _unknown(self, design: dict[str, Any]) -> str:
        near = nearest(self._records, design)
        known = f"the nearest is {near.name}, {near.said}" if near else "it holds no result at all"
        return (
            f"{self._source} holds no result of this design; {known}. Only recorded designs can be replayed: abandon "
            "the trial"
        )

    def poll(self, handle: Handle) -> Outcome:
        """Return the state as ``look`` does: no job begins later."""
        return self.look(handle)

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The recorded fields, or the recorded outputs where there are none or these are noisy.

        Raises:
            FieldDamaged: nothing was recorded.
            InputError: the fields are gone, or have changed since they were recorded: another attempt would be no use.
        """
        import xarray as xr

        record = self._record(handle)
        if record is None or record.infeasible:
            raise FieldDamaged(f"{handle['key']} has no fields: {self._source} holds no result of its design.")
        if (file := self._file(record)) is not None:
            return read_field(file)
        if record.stored is not None and not self.noisy:
            try:
                return fields_at(self.place.settings.fields).read(record.stored)
            except FieldDamaged as error:
                trial = handle["key"].rpartition("-")[0]
                raise InputError(
                    f"{trial}: what {record.name} of {self._source} recorded cannot be read. {error} Have it again and "
                    f"go on, or give the trial up: 'fieldcraft cancel {trial} --reason ...'."
                ) from None
        units = handle["outputs"]
        return xr.Dataset({name: ((), record.outputs[name], {"units": unit}) for name, unit in units.items()})

    def cancel(self, handle: Handle) -> None:
        """Do nothing: no job runs."""

    def forget(self, key: str) -> None:
        """Do nothing: no files are kept."""

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return at once: a submitted job has already ended."""
