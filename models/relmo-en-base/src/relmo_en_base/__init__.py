"""The files of relmo-en-base lie in this folder: `Elmo.from_pretrained("relmo-en-base")`."""
