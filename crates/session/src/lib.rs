//! The conversation of two ends of Oncewire as a state machine without I/O: bytes and time in, bytes and deadlines out.
