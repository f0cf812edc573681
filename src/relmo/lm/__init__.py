"""The two language models with their softmax: scores, surprisal, substitutes, perplexity."""
