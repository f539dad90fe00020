"""Public modules over the operator table: `facula.linalg`, `facula.storage`, and what the root and Tensor have.

A room: each module in here is a module of facula itself (`facula.x`, not `facula.namespaces.x`), since the root
package has this folder on its path.  Inside the room imports are relative, which is right under both names;
what stands outside imports `facula.namespaces.x` and gets the same module (`torch_api/second_names.py`).
"""
