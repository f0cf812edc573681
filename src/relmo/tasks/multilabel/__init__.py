"""Any number of labels for a text: topics, tags, emotions."""
