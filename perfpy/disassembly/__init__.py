"""Code -> instructions in words, by programs and libraries that can read them: objdump, else capstone."""
