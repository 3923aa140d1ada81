"""Derivatives of rows that are written out, beside which those of the networks are formed layer by layer."""


class Written:
    """A Jacobian (k, N, p) as a matrix (see ``models.networks.least_squares.Jacobian``)."""

    def __init__(self, matrix):
        self.matrix = matrix

    def gram(self):
        return self.matrix @ self.matrix.mT

    def along(self, directions):
        return (self.matrix @ directions[..., None])[..., 0]

    def combined(self, weights):
        return (weights[:, None] @ self.matrix)[:, 0]
