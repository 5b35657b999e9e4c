"""The child of `check_in_child`."""

from lifesafe.data.check.guarded import serve

serve()
