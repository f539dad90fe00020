"""What layers and training steps are made of: attention, recurrence, normalisation, losses, optimizer steps."""
