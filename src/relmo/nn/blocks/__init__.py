"""What the models of several tasks share."""
