"""Functions on tensors. `reference` is the specification; faster ones are proved equal to it."""
