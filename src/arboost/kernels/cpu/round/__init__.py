"""What a round needs besides trees: gradients, samples, leaves of other losses, metrics."""
