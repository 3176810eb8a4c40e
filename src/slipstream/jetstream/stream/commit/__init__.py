"""What was decided leaves the server when it is committed: the committer, and the answers it holds back."""
