"""Each folder is a model: `relmo.load("relmo-en-emotion")`."""
