"""Growing a tree level by level on binned rows."""
