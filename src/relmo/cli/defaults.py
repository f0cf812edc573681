"""What commands take where a user says nothing."""

DEFAULT_MODEL = "relmo-untrained"
"""Until a trained model ships with relmo; its vectors are random, and `embed` says so."""
