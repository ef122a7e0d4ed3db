"""One tree: its arrays, and how it is grown from binned rows and integer gradients."""
