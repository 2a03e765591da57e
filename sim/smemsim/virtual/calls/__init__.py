"""The calls that doors which answer CUDA's own interfaces translate into methods of the device: handles are numbers,
errors are codes.
"""
