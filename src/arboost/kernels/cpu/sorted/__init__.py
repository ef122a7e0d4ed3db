"""Growing a tree on columns sorted by value: every value a candidate, or quantiles drawn anew."""
