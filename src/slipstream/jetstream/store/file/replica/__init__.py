"""The same log as one of several copies: Raft's view of it, and whole segments for those who lack many."""
