"""What relmo trains. Each folder: settings, data, model, task."""
