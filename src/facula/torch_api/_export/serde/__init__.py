"""`facula._export.serde`: what export writes besides programs, under PyTorch's name.

Takes and gives nothing itself. Keeps true: files of programs are `facula.export.save`'s.
"""
