"""The paper's tables and figures, from run records alone; no model is ever opened.

records    run.json -> Run -> Group (runs that differ in their seed alone)
paper      what Peters et al. (2018) and others measured
blocks     what a report is made of: spans of text, tables, figures, claims
tasks, variants, efficiency, mixes, probes, others    records -> sections, one per table or figure
plots      numbers -> SVG
markdown, page    sections -> report.md, index.html
report     all of it
"""
