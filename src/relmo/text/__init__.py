"""Text in: tokens and sentences, with the place of each in the text it came from."""
