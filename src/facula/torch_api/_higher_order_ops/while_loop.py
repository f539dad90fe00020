"""`while_loop` under the name of PyTorch's module."""

from facula.fx.higher_order import while_loop, while_loop_op, while_loop_stack_output

while_loop_stack_output_op = while_loop_stack_output

__all__ = ["while_loop", "while_loop_op", "while_loop_stack_output", "while_loop_stack_output_op"]
