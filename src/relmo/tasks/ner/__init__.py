"""Tags for the words of a sentence: entities, parts of speech, any labels in columns."""
