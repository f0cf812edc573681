"""Each folder is a model: `relmo.load("relmo-en-base-emotion")`."""
