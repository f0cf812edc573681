"""How a trained model is read: word memo, engines, streams, threads and precision."""
