"""Commands: parse, call one library function, print what a person or a pipe can read."""
