"""Question answering: a paragraph and a question in, the words of the paragraph that answer out."""
