"""Rules for callables that are not followed as bytecode."""
