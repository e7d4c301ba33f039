"""What HotSpot (OpenJDK) knows of its own frames, read from outside while it runs: interpreted methods, and inlined ones.

The tables that say where everything lies (vmStructs) are part of libjvm.so: they are there for the tools that come with a JDK.
"""
