"""What a finished model is asked: margins, leaves, explanations."""
