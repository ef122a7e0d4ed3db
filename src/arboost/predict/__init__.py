"""From raw rows to margins: the packed forest and the loop over chunks."""
