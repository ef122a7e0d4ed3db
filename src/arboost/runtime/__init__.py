"""What every part of the engine runs in: threads, communicator, random numbers, errors."""
