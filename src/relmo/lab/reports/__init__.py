"""The paper's tables and figures, made from run records alone; no model is ever loaded.

records    files -> RunFile, and report.toml -> Study
groups     RunFile -> Group (runs that differ only in their seeds); which count, their names
tasks, layers, efficiency, probes    records -> sections, one per table or figure of the paper
page       what sections consist of; texts.toml has their texts and published figures
plots      numbers -> SVG
render     sections -> report.md, index.html
report     all of it
"""
