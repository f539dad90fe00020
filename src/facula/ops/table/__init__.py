"""The operator table: the decorators that fill it, the fields of definitions, schemas, and the names of overloads."""
