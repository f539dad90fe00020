"""What steps have in common: streams, columns, decoders, snapshots."""
