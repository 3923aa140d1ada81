"""Deep ensemble (Lakshminarayanan et al., 2017), each network tied to its own initial weights (Pearce et al., 2020)."""

from dataclasses import dataclass

from fieldcraft.models.networks.ensembles import ValueNetworks


@dataclass(frozen=True)
class DeepEnsemble(ValueNetworks):
    """k networks from fresh weights, each minimising sum (y - h)^2 + s^2 ||theta - theta_0||^2.

    Mean and variance are over the networks, and each network is one draw: STO-BNTS without its added tangent term, so
    the draws vary less than a posterior does (methods.md section 4).

    Args:
        networks: Number k >= 2 of networks; at least the batch size.

    Raises:
        ValueError: a number is out of its range.
    """

    networks: int = 8

    def __post_init__(self) -> None:
        if self.networks < 2:
            raise ValueError(f"networks is {self.networks}: an ensemble has at least 2; for one, use neural_greedy.")
        super().__post_init__()

    @property
    def divisor(self) -> float:
        """Divisor k - 1 of the unbiased variance."""
        return self.networks - 1
