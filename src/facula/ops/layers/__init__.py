"""What layers and training steps are made of: attention, recurrence, normalisation, losses, optimizer steps."""

#: modules that are imported by who asks for their names
ON_DEMAND = ("norm_second",)
