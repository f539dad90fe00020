"""Recurrent layers, connectionist temporal classification, audio."""
