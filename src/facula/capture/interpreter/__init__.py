"""The interpreter of bytecode: instructions, frames, and what they mean for symbolic and for real values."""
