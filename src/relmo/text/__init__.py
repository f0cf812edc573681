"""Text -> sentences -> tokens with offsets -> character ids -> batches."""
