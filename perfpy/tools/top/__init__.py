"""`perfpy top`: what runs now, updated every two seconds."""
