"""PyTorch, or how to install it: imported before all that needs it."""

from lifesafe._optional import require

for _module, _name in (("torch", "PyTorch"), ("safetensors", "safetensors")):
    require(_module, name=_name, extra="train", user="Training or running a policy")
