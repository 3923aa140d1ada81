"""What acquisitions share: analytic scores, incumbent, separable sums."""
