"""What makes runtimes tell the names of the code that they generate: Python, Node, Java and others."""
