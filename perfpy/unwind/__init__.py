"""User stacks -> callchains: call frame information, and the stepper that unwinds all samples together."""
