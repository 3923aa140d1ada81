"""Networks u(x, design) that satisfy a stated equation over its domain and the whole space of designs.

Physics-informed networks (Raissi, Perdikaris and Karniadakis, 2019), one for each field, trained together on residuals
alone. What can hold exactly does: a flux of 0 at both ends of an axis by the cosine of its coordinate, a field that
repeats by cosine and sine, and constant values at an end, with a slope of 0 or without, by a power of the distance to
it. Other conditions are rows of the loss. Each step takes its points from a pool of many, more of those where residuals
are large (Wu and others, 2023). Where the statement has a ``singular`` part, the networks learn the rest alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.emulation.hard_conditions import columns_of, constant, factor, powers_of
from fieldcraft.models.networks.perceptron import Network, derivatives
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import Report
from fieldcraft.physics.operators import Jet, LinearSystem
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Condition, ParametricEquation
from fieldcraft.physics.space import Continuous, SearchSpace

State = Mapping[str, Tensor]
Known = tuple[Jet, ...] | None
"""Singular parts of the fields with their derivatives; None where none are stated."""

# Designs whose coarse fields tell the sizes of the fields.
_PROBES = 32
# Pairs for each one of a step, among which it chooses, and pairs for each row of the loss that a soft condition gets.
_CANDIDATES, _SIDE = 8, 4
# Places and designs at which fields are computed together.
_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Pool:
    """Collocation points over a domain and a space of designs.

    Args:
        places: Places in the domain, in its units, shape (n, d).
        designs: The encoded design at each of them, shape (n, v).
    """

    places: Array
    designs: Array


@dataclass(frozen=True, eq=False)
class ParametricNetwork:
    """Training of a network for each field of a statement.

    Args:
        stated: Linear equations without mixed second derivatives.
        space: Space of real variables that encodes the designs.
        seed: Seed of the weights, and of which points a step takes.
        width: Neurons of a hidden layer.
        depth: Hidden layers.
        steps: Steps of Adam.
        batch: Pairs of a place and a design in each step.
        rate: First step size; it falls to a hundredth.
        renew: Steps that take the same pairs; after them there is a report.
        device: Device of the training.

    Raises:
        ValueError: a number that is not positive, or a variable that is not continuous.
    """

    stated: ParametricEquation
    space: SearchSpace
    seed: int = 0
    width: int = 64
    depth: int = 4
    steps: int = 4000
    batch: int = 256
    rate: float = 0.03
    renew: int = 100
    device: str = "cpu"

    def __post_init__(self) -> None:
        numbers = (self.width, self.depth, self.steps, self.batch, self.rate, self.renew)
        if min(numbers) <= 0:
            raise ValueError(
                f"A network has width, depth, steps, batch, rate and renew of {numbers}: give positive ones."
            )
        others = [each.name for each in self.space.variables if not isinstance(each, Continuous)]
        if others:
            raise ValueError(f"The variables {', '.join(others)} are not continuous: a parametric network needs that.")

    def begin(self) -> dict[str, Tensor]:
        """The state before the first step."""
        generator = torch_generator(np.random.default_rng([self.seed, 0]))
        theta = self._network.initial(len(self.stated.fields), generator)
        zero = torch.zeros_like(theta)
        return {"theta": theta, "first": zero, "second": zero, "step": torch.tensor(0), "loss": torch.tensor(math.inf)}

    def train(self, state: State, pool: Pool, report: Report) -> dict[str, Tensor]:
        """Train from a state to the last step; each report has a state from which the same weights are reached.

        Args:
            state: That of ``begin``, or of a report.
            pool: Pairs of a place and a design, from which each step takes some.
            report: Called with the number of steps and their mean loss.

        Raises:
            ValueError: the loss became non-finite.
        """
        now = {name: value.to(self.device) for name, value in state.items()}
        places, designs = (torch.tensor(each, device=self.device) for each in (pool.places, pool.designs))
        while (step := int(now["step"])) < self.steps:
            rng, losses = np.random.default_rng([self.seed, 1, step]), []
            some = torch.tensor(rng.permutation(len(places))[: self.batch * _CANDIDATES], device=self.device)
            where, X = places[some], designs[some]
            known, likely = self._known(where, X), self._weights(now["theta"], where, X)
            for number in range(step, min(step + self.renew, self.steps)):
                of = torch.tensor(rng.choice(len(some), self.batch, p=likely), device=self.device)
                now = self._stepped(now, number, where[of], X[of], _part(known, of))
                losses.append(now["loss"])
            loss = float(torch.stack(losses).mean())
            if not math.isfinite(loss):
                raise ValueError(f"The loss of a parametric network became {loss}: lower the rate ({self.rate:g}).")
            now["loss"] = torch.tensor(loss, dtype=torch.float64)
            told = {name: value.cpu() for name, value in now.items()}
            report(int(now["step"]), {"loss": loss}, lambda told=told: told)  # type: ignore[misc]
        return {name: value.cpu() for name, value in now.items()}

    def fields(self, state: State, X: Array, cells: tuple[int, ...]) -> dict[str, Array]:
        """Fields of encoded designs X (n, d) at the centres of so many cells an axis, each (n, *cells), by name."""
        where = torch.tensor(Grid(self.stated.domain, cells).points, device=self.device)
        theta, at_once, found = state["theta"].to(self.device), max(1, _ROWS // len(where)), []
        columns = torch.stack([each[1] for each in columns_of(self.stated, self._insulated, where)], dim=1)
        with torch.no_grad():
            wholes = [self._factors(field, where)[0] for field in range(len(self._sizes))]
            for some in torch.split(torch.tensor(X, device=self.device), at_once):
                rows = torch.cat([columns.repeat(len(some), 1), some.repeat_interleave(len(where), 0)], dim=1)
                values = self._network.value(theta, rows).reshape(-1, len(some), len(where))
                parts = [o + s * w * v for (o, s), w, v in zip(self._sizes, wholes, values, strict=True)]
                told = torch.stack(parts, dim=1)
                if self.stated.singular is not None:
                    told = told + self._singular(where.repeat(len(some), 1), rows[:, -X.shape[1] :]).reshape(
                        len(parts), len(some), -1
                    ).transpose(0, 1)
                found.append(told)
        whole = torch.cat(found).cpu().numpy()
        return {each.name: whole[:, i].reshape(len(X), *cells) for i, each in enumerate(self.stated.fields)}

    def jets(self, theta: Tensor, where: Tensor, X: Tensor, known: Known = None) -> tuple[Jet, ...]:
        """The fields' values and derivatives at places (n, d) for encoded designs (n, v), one design a place.

        Args:
            theta: Weights.
            where: The places.
            X: The designs.
            known: Jets of the singular parts there, if they were computed before.
        """
        value, first, second = self._streams(theta, where, X)
        own = tuple(self._jet(i, where, value[i], first[i], second[i]) for i in range(len(value)))
        known = self._known(where, X) if known is None else known
        if known is None:
            return own
        return tuple(
            Jet(a.value + b.value, a.gradient + b.gradient, a.hessian + b.hessian)
            for a, b in zip(own, known, strict=True)
        )

    def residuals(self, theta: Tensor, where: Tensor, X: Tensor, known: Known = None) -> Tensor:
        """Residuals over their scales, one row for each equation, shape (equations, n); see ``jets``."""
        equation = self.stated.of(self._physical(X))
        system = equation if isinstance(equation, LinearSystem) else LinearSystem(((equation,),), ())
        known = self._known(where, X) if known is None else known
        jets, sources = self.jets(theta, where, X, known), system.sources(where)
        images = system.operators(where, jets)
        before = system.operators(where, known) if known is not None else [torch.zeros_like(each) for each in sources]
        rows = []
        for image, source, done, line in zip(images, sources, before, system.blocks, strict=True):
            size = (source - done).square()
            for (_, size_of), block in zip(self._sizes, line, strict=True):
                if block is not None:
                    parts = [(block.zeroth, size_of)]
                    parts += [(b, size_of / s) for b, s in zip(block.first, self._sides, strict=True)]
                    parts += [(row[i], size_of / self._sides[i] ** 2) for i, row in enumerate(block.second)]
                    for coefficient, by in parts:
                        at = coefficient(where) if callable(coefficient) else torch.full_like(source, coefficient)
                        size = size + (at * by).square()
            rows.append((image - source) / size.mean().sqrt())
        return torch.stack(rows)

    def _loss(self, theta: Tensor, where: Tensor, X: Tensor, known: Known) -> Tensor:
        total = self.residuals(theta, where, X, known).square().mean(1).sum()
        some = slice(0, max(1, len(where) // _SIDE))
        for field, condition in self._soft:
            axis = self.stated.domain.names.index(condition.axis)
            side = where[some].clone()
            side[:, axis] = float(self.stated.domain.bounds[0 if condition.end == "low" else 1, axis])
            jet = self.jets(theta, side, X[some])[field]
            outward = (-1 if condition.end == "low" else 1) * jet.gradient[:, axis]
            right = condition.right(side.cpu().numpy()) if callable(condition.right) else condition.right
            given = torch.as_tensor(right, dtype=side.dtype, device=side.device)
            unit = self._sizes[field][1] * (abs(condition.value) + abs(condition.slope) / self._sides[axis])
            total = total + ((condition.value * jet.value + condition.slope * outward - given) / unit).square().mean()
        return total

    def _stepped(
        self, state: dict[str, Tensor], step: int, where: Tensor, X: Tensor, known: Known
    ) -> dict[str, Tensor]:
        """One step of Adam (Kingma and Ba, 2015)."""
        theta = state["theta"].detach().requires_grad_()
        loss = self._loss(theta, where, X, known)
        (slope,) = torch.autograd.grad(loss, theta)
        first, second = 0.9 * state["first"] + 0.1 * slope, 0.999 * state["second"] + 0.001 * slope.square()
        rate = self.rate * 0.01 ** (step / self.steps) / (1 - 0.9 ** (step + 1))
        move = rate * first / ((second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
        parts = {"theta": (theta - move).detach(), "first": first, "second": second, "loss": loss.detach()}
        return {**parts, "step": torch.tensor(step + 1)}

    def _weights(self, theta: Tensor, where: Tensor, X: Tensor) -> Array:
        """Probabilities of the pairs, each in proportion to 1 + |residual| over its mean, shape (n,)."""
        with torch.no_grad():
            size = self.residuals(theta, where, X).square().sum(0).sqrt().cpu().numpy()
        weights = np.asarray(1 + size / size.mean())
        return np.asarray(weights / weights.sum())

    def _known(self, where: Tensor, X: Tensor) -> Known:
        """Jets of the singular parts, by automatic differentiation; None where none are stated."""
        if self.stated.singular is None:
            return None
        with torch.enable_grad():
            at, found = where.detach().clone().requires_grad_(), []
            for value in self._singular(at, X):
                (gradient,) = torch.autograd.grad(value.sum(), at, create_graph=True)
                bends = [
                    torch.autograd.grad(gradient[:, i].sum(), at, retain_graph=True)[0][:, i]
                    for i in range(at.shape[1])
                ]
                found.append(Jet(value.detach(), gradient.detach(), torch.diag_embed(torch.stack(bends, dim=-1))))
        return tuple(found)

    def _singular(self, where: Tensor, X: Tensor) -> Tensor:
        """Singular part of each field at places (n, d) for designs (n, v), shape (fields, n); 0 where none is."""
        assert self.stated.singular is not None  # looked at by who calls
        told = self.stated.singular({**self._physical(X), **self.stated.values}, where)
        nothing = 0.0 * where.sum(1)
        return torch.stack([nothing + told.get(each.name, 0.0) for each in self.stated.fields])

    def _physical(self, X: Tensor) -> dict[str, Tensor]:
        factor, offset, logarithmic = self._reach
        values = X * factor + offset
        values = torch.where(logarithmic, values.exp(), values) if logarithmic.any() else values
        return {name: values[:, i] for i, name in enumerate(self.space.names)}

    @cached_property
    def _network(self) -> Network:
        return Network(self._inputs + self.space.dimension, self.width, self.depth)

    @cached_property
    def _inputs(self) -> int:
        return len(self._sides) + len(self.stated.periodic)

    @cached_property
    def _sides(self) -> tuple[float, ...]:
        return tuple(float(high - low) for low, high in self.stated.domain.bounds.T)

    @cached_property
    def _reach(self) -> tuple[Tensor, Tensor, Tensor]:
        """Factor and offset that make values of encoded ones, or logarithms of values where the third is True."""
        variables = [each for each in self.space.variables if isinstance(each, Continuous)]
        middle, half = torch.tensor([each.scale for each in variables], dtype=torch.float64, device=self.device).T
        return half, middle, torch.tensor([each.log for each in variables], device=self.device)

    @cached_property
    def _insulated(self) -> tuple[bool, ...]:
        """True for axes at both of whose ends every field has a flux of 0."""
        free = [each for each in self.stated.conditions if each.value == 0 and constant(each) == 0]
        return tuple(
            all(
                {e.end for e in free if (e.axis, e.field) == (axis, f.name)} == {"low", "high"}
                for f in self.stated.fields
            )
            for axis in self.stated.domain.names
        )

    @cached_property
    def _hard(self) -> tuple[tuple[float | None, tuple[tuple[int, int], ...]], ...]:
        """Value that each field has on its hard sides (None without any), and powers at the ends of every axis."""
        return tuple(powers_of(self.stated, field.name) for field in self.stated.fields)

    @cached_property
    def _soft(self) -> tuple[tuple[int, Condition], ...]:
        """Conditions that no input and no factor meets, with the number of their field."""
        names, axes = [field.name for field in self.stated.fields], self.stated.domain.names
        found = []
        for each in self.stated.conditions:
            field, axis = names.index(each.field), axes.index(each.axis)
            power = self._hard[field][1][axis][0 if each.end == "low" else 1]
            by_factor = (each.slope == 0 and power > 0) or (each.value == 0 and constant(each) == 0 and power > 1)
            if not (self._insulated[axis] or by_factor):
                found.append((field, each))
        return tuple(found)

    @cached_property
    def _sizes(self) -> tuple[tuple[float, float], ...]:
        """Offset and size of each field before the network, from coarse solutions of a few designs."""
        X = self.space.sample(_PROBES, np.random.default_rng([self.seed, 2]))
        designs = self.space.decode(X)
        named = {name: np.array([[float(each[name])] for each in designs]) for name in self.space.names}
        coarse, found = solved(self.stated, named, self.stated.cells), []
        told = np.stack([coarse[field.name].reshape(len(X), -1) for field in self.stated.fields])
        if self.stated.singular is not None:
            where = torch.tensor(Grid(self.stated.domain, self.stated.cells).points, device=self.device)
            rows = torch.tensor(X, device=self.device).repeat_interleave(len(where), 0)
            told = told - self._singular(where.repeat(len(X), 1), rows).cpu().numpy().reshape(told.shape)
        for values, (value, _) in zip(told, self._hard, strict=True):
            offset = float(values.mean()) if value is None else value
            found.append((offset, float(np.sqrt(np.mean((values - offset) ** 2))) or 1.0))
        return tuple(found)

    def _jet(self, field: int, where: Tensor, value: Tensor, first: Tensor, second: Tensor) -> Jet:
        """offset + size times factor times network, with its derivatives; first and second are (n, d)."""
        offset, size = self._sizes[field]
        whole, powers = self._factors(field, where)
        gradient, bends = [], []
        for i, (_, slope, bend) in enumerate(powers):
            others = [each[0] for j, each in enumerate(powers) if j != i]
            rest = torch.stack(others).prod(0) if others else torch.ones_like(value)
            gradient.append(rest * slope * value + whole * first[:, i])
            bends.append(rest * (bend * value + 2 * slope * first[:, i]) + whole * second[:, i])
        # The coarse solutions have refused an equation with mixed derivatives.
        hessian = torch.diag_embed(size * torch.stack(bends, dim=-1))
        return Jet(offset + size * whole * value, size * torch.stack(gradient, dim=-1), hessian)

    def _factors(self, field: int, where: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor, Tensor]]]:
        """Factor before a network that makes hard conditions hold, (n,), and the part of each axis with derivatives."""
        powers = [
            factor((where[:, i] - float(self.stated.domain.bounds[0, i])) / side, side, *ends)
            for i, (side, ends) in enumerate(zip(self._sides, self._hard[field][1], strict=True))
        ]
        return torch.stack([each[0] for each in powers]).prod(0), powers

    def _streams(self, theta: Tensor, where: Tensor, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Networks' values (k, n), and first and second derivatives by the places' coordinates (k, n, d)."""
        (n, d), columns = where.shape, columns_of(self.stated, self._insulated, where)
        a = where.new_zeros(1 + 2 * d, n, len(columns) + X.shape[1] + 1)
        a[0] = torch.cat([torch.stack([each[1] for each in columns], dim=1), X, torch.ones_like(X[:, :1])], dim=1)
        for place, (axis, _, slope, bend) in enumerate(columns):
            a[1 + axis, :, place] = slope
            a[1 + d + axis, :, place] = bend
        a = a.expand(len(theta), -1, -1, -1)
        *hidden, last = self._network.layers(theta)
        for matrix in hidden:
            z = (a.flatten(1, 2) @ matrix).reshape(*a.shape[:3], -1)
            value, slope, bend, _ = derivatives(z[:, 0], "tanh")
            first, second = z[:, 1 : d + 1], z[:, d + 1 :]
            bent = slope[:, None] * second + bend[:, None] * first.square()
            a = torch.cat([value[:, None], slope[:, None] * first, bent], dim=1)
        rows = (a.flatten(1, 2) @ last).reshape(a.shape[:3])
        return rows[:, 0], rows[:, 1 : d + 1].mT, rows[:, d + 1 :].mT


def _part(known: Known, of: Tensor) -> Known:
    """Jets at some of the places."""
    return known and tuple(Jet(each.value[of], each.gradient[of], each.hessian[of]) for each in known)
