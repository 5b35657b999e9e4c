"""What is found out before the first real episode: the problem that logs lead to, and how long its search will take."""
