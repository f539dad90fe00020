"""Names that PyTorch has and that facula passes on: `facula.cuda`, `facula._dynamo`, the alias of torch.

A room: each module in here is a module of facula itself (`facula.x`, not `facula.torch_api.x`), since the root
package has this folder on its path.  Inside the room imports are relative, which is right under both names;
what stands outside imports `facula.torch_api.x` and gets the same module (`torch_api/second_names.py`).
"""
