"""`perfpy kmem`: memory that the kernel allocates for itself and for programs."""
