"""`perfpy stat`: one options class, one request, one session, one command."""
