"""Model folders in and out: one module per layout, and how a model is found by name."""
