"""Networks and their least-squares training, without tangent features."""
