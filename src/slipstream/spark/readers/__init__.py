"""What Spark calls for a read: a batch read, and one that goes on."""
