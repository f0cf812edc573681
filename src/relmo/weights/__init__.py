"""How a model enters and leaves disk. Formats hold names and numeric rules; they do not compute."""
