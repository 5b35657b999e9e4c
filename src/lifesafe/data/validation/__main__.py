"""The child of `check_in_child`."""

from lifesafe.data.validation.guarded import serve

serve()
