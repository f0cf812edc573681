"""How well labels of pairs were predicted: the share that is right."""

from relmo.tasks.ner.metrics import accuracy

__all__ = ["accuracy"]
