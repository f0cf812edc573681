"""One label for two sentences: does the second follow from the first?"""
