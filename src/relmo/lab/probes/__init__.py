"""What the layers know, asked with as little learning as possible: `relmo probe`."""
