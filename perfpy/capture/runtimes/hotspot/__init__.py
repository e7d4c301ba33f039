"""Frames of HotSpot (OpenJDK), read from its memory while it runs: interpreted and inlined methods.

libjvm.so contains the tables of its data structures (vmStructs) for the tools of a JDK.

Modules:

java_frames         methods in callchains that are unwound while recording
java_process        one JVM: addresses -> addresses of bytecodes
compiled_code       machine code and its inlined methods
methods             pointers -> names and bytecodes of methods
frame_rules         unwind rules of HotSpot's code
vm_structs          the tables of data structures
process_memory      the memory of another process
"""
