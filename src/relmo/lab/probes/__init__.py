"""What each layer encodes, measured with as little training as possible: `relmo probe`."""
